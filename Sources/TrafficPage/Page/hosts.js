// Remote hosts, from two sources that don't know each other: the addresses of open sockets, and the names that programs
// report.

import { get } from "./api.js";
import { messageColumns } from "./apis.js";
import { make, show } from "./dom.js";
import { live } from "./live.js";
import { choice, nameColumn, Question, rateColumns, refusal, totalColumns, WithheldSockets } from "./parts.js";
import { Table } from "./table.js";
import { clean, grouped, micros, plus } from "./text.js";

const addressColumns = [
  { key: "address", title: "Remote address", isText: true, class: "name", value: (row) => row.address,
    text: (row) => row.address },
  { key: "scope", title: "Scope", isText: true, rank: 2, width: 6, value: (row) => row.scope,
    text: (row) => row.scope?.replace("_", " ") ?? "–" },
  nameColumn("class", "Class", (row) => row.class, { rank: 1, width: 6 }),
  nameColumn("processes", "Processes", (row) => [...row.processes].join(", ") || undefined, { rank: 1, width: 12 }),
  { key: "sockets", title: "Sockets", rank: 2, width: 5.8, value: (row) => row.sockets,
    text: (row) => grouped(row.sockets) },
  ...rateColumns,
  { key: "rtt", title: "RTT", label: "The shortest smoothed round-trip time", rank: 1, width: 6.2,
    value: (row) => row.rtt, text: (row) => micros(row.rtt) },
  ...totalColumns,
];

const nameColumns = [
  nameColumn("host", "Host", (row) => row.host),
  { key: "role", title: "Role", isText: true, rank: 2, width: 5, value: (row) => row.role,
    text: (row) => clean(row.role, 20) },
  { key: "requests", title: "Requests", width: 6, value: (row) => Number(row.requests),
    text: (row) => grouped(row.requests) },
  { key: "failed", title: "Failed", rank: 2, width: 5, value: (row) => Number(row.failures),
    text: (row) => grouped(row.failures) },
  ...messageColumns((row) => row.sent_message_bytes, (row) => row.received_message_bytes),
];

function byAddress(snapshot) {
  const names = new Map((snapshot.processes ?? []).map(({ process_id, name }) => [process_id, name]));
  const rows = new Map();
  for (const socket of snapshot.sockets ?? []) {
    const { address, port } = socket.remote;
    if (port === 0 && ["0.0.0.0", "::"].includes(address)) continue;
    let row = rows.get(address);
    if (!row) {
      row = {
        address, scope: socket.scope, class: socket.class, processes: new Set(), sockets: 0, pending_sent_bytes: 0,
        payload_sent_bytes: 0, payload_received_bytes: 0,
        rates: { payload_sent_bytes_per_second: 0, payload_received_bytes_per_second: 0 },
      };
      rows.set(address, row);
    }
    row.sockets += 1;
    for (const { process_id } of socket.owners) row.processes.add(names.get(process_id) ?? "?");
    for (const field of ["payload_sent_bytes", "payload_received_bytes",
      "pending_sent_bytes"]) row[field] = plus(row[field], socket[field]);
    for (const field of Object.keys(row.rates)) row.rates[field] += socket.rates[field];
    if (socket.smoothed_rtt_us > 0) row.rtt = Math.min(row.rtt ?? Infinity, Number(socket.smoothed_rtt_us));
  }
  return [...rows.values()];
}

export class HostsView {
  title = "Hosts";
  usesFilter = true;

  constructor() {
    this.source = choice("Hosts from", "from", [["sockets", "Addresses of sockets"], ["reports", "Names in reports"]],
      "sockets");
    this.addresses = new Table({
      name: "hosts", caption: "Remote addresses of sockets", isQuiet: true, columns: addressColumns,
      key: (row) => row.address,
      sort: { key: "received", descending: true },
    });
    this.names = new Table({
      name: "host-names", caption: "Hosts that programs report, in the last 24 hours", isQuiet: true,
      columns: nameColumns,
      key: (row) => `${row.role}\u0000${row.host}`, sort: { key: "received-messages", descending: true },
    });
    this.note = make("p", { class: "note" });
    this.refused = make("div");
    this.withheld = new WithheldSockets();
    this.question = new Question();
    this.element = make("div", { class: "stack" }, this.source.element, this.refused, this.withheld.element,
      (this.card = make("div", { class: "card" }, this.addresses.element, this.names.element)), this.note);
  }

  demand({ params }) { return params.get("from") === "reports" ? {} : { sockets: "all" }; }
  get table() { return this.isReports ? this.names : this.addresses; }

  open() {
    this.isReports = this.source.update() === "reports";
    show(this.names.element, this.isReports);
    show(this.addresses.element, !this.isReports);
    this.refused.replaceChildren();
    this.note.textContent = this.isReports
      ? "From history: hosts of HTTP messages that programs reported in the last 24 hours; not the bytes of sockets."
      : "From sockets that are open, or closed a moment ago. trafficd does not resolve addresses to names.";
    if (this.isReports) this.load();
  }

  load() {
    const since = new Date(Date.now() - 86400e3).toISOString();
    const { filter } = live;
    this.question.ask((signal) => get("/v1/history", { since, by: "host", limit: 1000, filter }, signal), (report) => {
      this.refused.replaceChildren();
      this.names.update(report.rows,
        "No program reported a host in the last 24 hours. Programs that link TrafficKit do.");
    }, (problem) => {
      this.names.update([], "");
      this.refused.replaceChildren(refusal(problem, () => this.load()));
    });
  }

  update(snapshot) {
    const isWithheld = !this.isReports && !snapshot.sockets;
    this.withheld.update(isWithheld);
    show(this.card, !isWithheld && !this.refused.firstChild);
    if (this.isReports || isWithheld) return;
    this.addresses.update(byAddress(snapshot),
      live.filter ? "No socket passes the filter." : "No socket has a remote address now.");
  }

  close() { this.question.cancel(); }
}
