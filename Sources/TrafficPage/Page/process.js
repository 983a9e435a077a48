// One process: what it moves, for which APIs, over which sockets, its past and its audit.

import { AuditPanel } from "./auditpanel.js";
import { RateChart } from "./chart.js";
import { Facts, make, setText, show } from "./dom.js";
import { apiLink, isOf, messageColumns } from "./apis.js";
import { HistoryPanel } from "./historypanel.js";
import { live } from "./live.js";
import { nameColumn, WithheldSockets } from "./parts.js";
import { changed, href } from "./route.js";
import { named, socketColumns, socketTable } from "./sockets.js";
import { Table } from "./table.js";
import { both, clean, duration, exact, grouped, plus, rate, share, time } from "./text.js";

const lasted = (start, end) => duration((Date.parse(end) - Date.parse(start)) / 1000);
const pidOf = (id) => Number.parseInt(id, 10) || 0;
const tabs = [["apis", "APIs"], ["sockets", "Sockets"], ["history", "History"], ["audit", "Audit"],
  ["details", "Details"]];

const apiColumns = [
  // The route is what tells the rows apart, so it comes first.
  nameColumn("route", "Route", (row) => row.route),
  nameColumn("host", "Host", (row) => row.host, { width: 12, rank: 2 }),
  { key: "role", title: "Role", isText: true, rank: 1, width: 5, value: (row) => row.role,
    text: (row) => clean(row.role, 20) },
  { key: "requests", title: "Requests", width: 6.4, value: (row) => Number(row.requests),
    text: (row) => grouped(row.requests) },
  { key: "failures", title: "Failed", rank: 2, width: 5.2, value: (row) => Number(row.failures),
    text: (row) => grouped(row.failures) },
  ...messageColumns((row) => row.sent_message_bytes, (row) => row.received_message_bytes),
  { key: "quality", title: "Quality", isText: true, rank: 1, width: 6, value: (row) => row.quality,
    text: (row) => clean(row.quality, 20) },
];

export class ProcessView {
  title = "Process";
  parent = "processes";

  constructor() {
    this.state = make("span", { class: "badge start", hidden: true });
    this.note = make("p", { class: "refusal", hidden: true, role: "status" });
    this.chart = new RateChart("process-rate", "Rates of this process in the last 5 minutes; a summary follows", 200);
    this.facts = new Facts("process");
    this.more = new Facts("process-details");
    this.tabs = make("nav", { class: "tabs", "aria-label": "Parts of the process" },
      ...tabs.map(([tab, text]) => make("a", { data: { tab } }, text)));
    this.apis = new Table({
      name: "process-apis", caption: "APIs of the process", isQuiet: true, columns: apiColumns, link: (row) => row.link,
      key: (row) => `${row.role}\u0000${row.host}\u0000${row.route}`,
      sort: { key: "received-messages", descending: true },
    });
    this.sockets = socketTable("process-sockets", socketColumns.filter(({ key }) => key !== "process"));
    this.withheld = new WithheldSockets();
    this.audit = new AuditPanel();
    this.history = new HistoryPanel("process-history");
    this.historyNote = make("p", { class: "note" },
      "History knows no pids: this is what all processes of this name, user, unit and container moved.");
    this.panels = {
      apis: this.apis.element, sockets: make("div", { class: "stack" }, this.withheld.element, this.sockets.element),
      audit: this.audit.element,
      history: make("div", { class: "stack" }, this.history.element, this.historyNote), details: this.more.element,
    };
    this.element = make("div", { class: "stack" },
      this.state, this.note,
      make("div", { class: "split" }, make("div", { class: "card pad" }, this.chart.element),
        make("div", { class: "card pad" }, this.facts.element)),
      make("section", { class: "card" }, this.tabs, make("div", { class: "pad-x" }, ...Object.values(this.panels))));
  }

  demand({ id }) { return { sockets: [pidOf(id)], endpoints: true }; }
  get table() { return this.tab === "apis" ? this.apis : this.tab === "sockets" ? this.sockets : undefined; }

  open({ id, params }) {
    if (this.id !== id) {
      this.id = id;
      this.process = undefined;
      this.auditFor = this.historyFor = undefined;
      this.subject = `Process ${clean(id.split("-")[0], 20)}`;
      this.note.hidden = true;
    }
    this.pid = pidOf(id);
    const wanted = params.get("tab");
    this.tab = tabs.some(([tab]) => tab === wanted) ? wanted : "apis";
    for (const link of this.tabs.children) {
      link.href = changed({ tab: link.dataset.tab });
      if (link.dataset.tab === this.tab) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    for (const [tab, panel] of Object.entries(this.panels)) show(panel, tab === this.tab);
    this.load();
  }

  /// What is asked for once, and not with each snapshot.
  load() {
    if (this.tab === "audit" && this.auditFor !== this.id) {
      this.auditFor = this.id;
      this.audit.load({ process: String(this.pid) });
    }
    if (this.tab === "history" && this.process && this.historyFor !== this.id) {
      this.historyFor = this.id;
      this.history.load({ hours: 24, process: this.process });
    }
  }

  update(snapshot) {
    const process = snapshot.processes?.find(({ process_id }) => process_id === this.id);
    show(this.note, !process);
    if (!process) {
      setText(this.note, "This process is no longer listed: it ended, and its bytes are in the row of its group. "
        + "History has it by name.");
      return;
    }
    this.process = process;
    this.load();
    this.chart.update(...live.rates.series(this.id));
    this.subject = `${clean(process.name, 80)} ${process.pid}`;
    show(this.state, process.state !== "running");
    setText(this.state, clean(process.state, 20));
    this.showFacts(process, snapshot);
    const shared = (snapshot.endpoints ?? []).filter((endpoint) => isOf(endpoint.process, process));
    for (const row of process.endpoints ?? []) {
      const match = shared.find(({ role, host, route }) => role === row.role && host === row.host
        && route === row.route);
      row.link = match && apiLink(match);
    }
    this.apis.update(process.endpoints ?? [], process.state === "exited"
      ? "The APIs of an ended process are in the rows of its service: see the view APIs."
      : "This program reports no requests. Its bytes are counted all the same. "
        + "Link TrafficKit to see hosts and routes here.");
    this.withheld.update(!snapshot.sockets);
    show(this.sockets.element, snapshot.sockets !== undefined);
    if (snapshot.sockets) {
      const own = named(snapshot).filter(({ owners }) => owners.some(({ process_id }) => process_id === this.id));
      this.sockets.update(own, "No socket of this process is open.");
    }
  }

  showFacts(process, snapshot) {
    const { rates } = process;
    const payload = plus(process.explained_bytes, process.unattributed_bytes);
    this.facts.update([
      ["Sent/s", rate(rates.payload_sent_bytes_per_second)],
      ["Received/s", rate(rates.payload_received_bytes_per_second)],
      ["Payload sent", both(process.payload_sent_bytes), "sent"],
      ["Payload received", both(process.payload_received_bytes), "received"],
      ["Pending", process.pending_sent_bytes > 0 ? both(process.pending_sent_bytes) : undefined],
      ["Wire sent", both(process.wire_sent_bytes), "wire-sent"],
      ["Wire received", both(process.wire_received_bytes), "wire-received"],
      ["Wire, estimated", process.wire_estimated_bytes > 0 ? both(process.wire_estimated_bytes) : undefined],
      ["Retransmitted", process.retransmitted_bytes === undefined ? undefined : both(process.retransmitted_bytes)],
      ["Explained by reports", process.explained_bytes > 0
        ? `${share(process.explained_bytes, payload)}; ${exact(process.unattributed_bytes)} not` : undefined],
      ["Sockets open", grouped(process.sockets_open)],
    ]);
    const end = process.exited_at ?? snapshot.taken_at;
    this.more.update([
      ["Command line", process.command_line?.length ? clean(process.command_line.join(" "), 2000)
        : "unknown, or not shown to this reader"],
      ["Executable", process.executable && clean(process.executable, 1000)],
      ["User", `${clean(process.user ?? "unknown")}, uid ${process.uid}`],
      ["Unit", process.systemd_unit && clean(process.systemd_unit, 300)],
      ["Container", process.container_id && clean(process.container_id, 100)],
      ["Cgroup", process.cgroup && clean(process.cgroup, 600)],
      ["Started", process.started_at
        && `${time.full(process.started_at)}, ran ${lasted(process.started_at, end)}`],
      ["Exited", process.exited_at && time.full(process.exited_at)],
      ["Network namespace", process.network_namespace && String(process.network_namespace)],
      ["Process id", process.process_id],
    ]);
  }

  close() {
    this.audit.close();
    this.history.close();
    this.id = undefined;
  }
}
