// The requests of programs that report: by route, host or type, and one API in full.

import { get } from "./api.js";
import { Facts, make, opaque, setText, setTitle, show } from "./dom.js";
import { live } from "./live.js";
import { choice, nameColumn, Question, refusal } from "./parts.js";
import { href } from "./route.js";
import { Table } from "./table.js";
import { amount, both, clean, exact, grouped, micros, plus, share, time, UNKNOWN } from "./text.js";

/// Bytes of HTTP messages, which are not the payload of sockets.
export const messageColumns = (sent, received) => [
  {
    key: "sent-messages", title: "Sent", label: "Bytes of HTTP messages sent", rank: 2, width: 6.6,
    value: (row) => Number(sent(row)),
    text: (row) => amount(sent(row)), hint: (row) => exact(sent(row)),
  },
  {
    key: "received-messages", title: "Received", label: "Bytes of HTTP messages received", width: 7.2,
    value: (row) => Number(received(row)), text: (row) => amount(received(row)), hint: (row) => exact(received(row)),
  },
];

const harmless = new Set(["ok", "cancelled", "unknown"]);
const failures = ({ outcomes }) => Object.entries(outcomes)
  .reduce((sum, [outcome, count]) => (harmless.has(outcome) ? sum : sum + Number(count)), 0);
const wasted = ({ wasted }) => plus(plus(wasted.failed_bytes, wasted.throttled_bytes), wasted.redirected_bytes);

const keyOf = ({ process, role, host, route, content_class }) => JSON.stringify([process.name, process.executable,
  process.systemd_unit, process.container_id, process.uid, role, host, route, content_class]);
/// Hosts and routes are the programs' own words, so the link has a number made from them.
const idOf = (endpoint) => opaque(keyOf(endpoint));
export const apiLink = (endpoint) => href(`apis/${idOf(endpoint)}`);

/// Whether a unit is that of a group, which has a * in place of what differs for each login or run.
export function isOfUnit(group, unit) {
  if (!group?.includes("*")) return unit === group;
  // What differs has no slash, so each unit of a path has its own.
  const units = [group.split("/"), unit?.split("/") ?? []];
  return units[0].length === units[1].length && units[0].every((name, index) => {
    const [start, end] = name.split("*");
    const own = units[1][index];
    return end === undefined ? own === start : own.startsWith(start) && own.endsWith(end);
  });
}

/// Whether a process belongs to a group.
export function isOf(group, process) {
  return ["name", "executable", "container_id", "uid"].every((part) => process?.[part] === group[part])
    && isOfUnit(group.systemd_unit, process.systemd_unit);
}

const latency = (key, title, read) => ({
  key, title, label: `${title.slice(1)} % of the exchanges took at most this time`, rank: key === "p90" ? 2 : 1,
  width: 6.2,
  value: (row) => (row.duration ? Number(read(row.duration)) : undefined),
  text: (row) => micros(row.duration && read(row.duration)),
});
const columns = (by) => [
  by === "type" ? nameColumn("type", "Type", (row) => row.content_class)
    : by === "host" ? nameColumn("host", "Host", (row) => row.host) : nameColumn("route", "Route", (row) => row.route),
  by === "route" && nameColumn("host", "Host", (row) => row.host, { rank: 1, width: 9 }),
  nameColumn("process", "Process", (row) => row.process.name, { rank: 1, width: 9 }),
  { key: "role", title: "Role", isText: true, rank: 2, width: 4.6, value: (row) => row.role,
    text: (row) => clean(row.role, 20) },
  { key: "requests", title: "Requests", width: 6.6, value: (row) => Number(row.requests),
    text: (row) => grouped(row.requests) },
  {
    key: "failed", title: "Failed", label: "Every outcome except ok, cancelled and unknown", rank: 2, width: 5.4,
    value: failures, text: (row) => grouped(failures(row)),
  },
  latency("p50", "P50", (duration) => duration.p50_us), latency("p90", "P90", (duration) => duration.p90_us),
  latency("p99", "P99", (duration) => duration.p99_us),
  {
    key: "wasted", title: "Wasted", label: "Bytes of exchanges that failed, were throttled or redirected", rank: 1,
    width: 6.4,
    value: (row) => Number(wasted(row)), text: (row) => amount(wasted(row)), hint: (row) => exact(wasted(row)),
  },
  ...messageColumns((row) => row.sent.message_bytes, (row) => row.received.message_bytes),
].filter(Boolean);

const nothing = "No program reports its requests. A program that links TrafficKit, or sends the same reports itself, "
  + "shows its hosts and routes here; docs/traffickit.md says how. Bytes of all other programs are in Processes.";

export class ApisView {
  title = "APIs";
  usesFilter = true;

  constructor() {
    this.by = choice("APIs by", "by", [["route", "By route"], ["host", "By host"], ["type", "By type"]], "route");
    this.tables = Object.fromEntries(["route", "host", "type"].map((by) => [by, new Table({
      name: `apis-${by}`, caption: `APIs by ${by}`, isQuiet: true, columns: columns(by), key: keyOf,
      link: by === "route" ? apiLink : undefined, sort: { key: "received-messages", descending: true },
    })]));
    this.body = make("div", { class: "card" });
    this.question = new Question();
    this.element = make("div", { class: "stack" }, this.by.element, this.body,
      make("p", { class: "note" },
        "Bytes are those of HTTP messages, as programs report them; they are not the payload of sockets."));
  }

  demand() { return { endpoints: true }; }
  get table() { return this.tables[this.chosen]; }

  open() {
    this.chosen = this.by.update();
    if (!Object.hasOwn(this.tables, this.chosen)) this.chosen = "route";
    this.body.replaceChildren(this.table.element);
    this.question.cancel();
  }

  update(snapshot) {
    const showRows = (rows) => this.table.update(rows, live.filter ? "No API passes the filter." : nothing);
    if (this.chosen === "route") return showRows(snapshot.endpoints ?? []);
    // The stream has the rows by route alone.
    if (this.question.isOpen) return;
    this.question.ask((signal) => get("/v1/endpoints", { by: this.chosen, filter: live.filter }, signal),
      ({ endpoints }) => showRows(endpoints ?? []),
      (problem) => this.body.replaceChildren(refusal(problem, () => this.open())));
  }

  close() { this.question.cancel(); }
}

const socketLink = ({ serial }) => (serial === undefined ? undefined : href(`sockets/${serial}`));
const exchangeColumns = [
  { key: "started", title: "Started", isText: true, width: 5.6, value: (row) => row.started_at,
    text: (row) => time.clock(row.started_at), hint: (row) => row.started_at },
  { key: "method", title: "Method", isText: true, rank: 2, width: 5, value: (row) => row.method,
    text: (row) => clean(row.method, 20) },
  { key: "status", title: "Status", width: 5, value: (row) => row.status,
    text: (row) => String(row.status ?? UNKNOWN) },
  { key: "outcome", title: "Outcome", isText: true, rank: 2, width: 6, value: (row) => row.outcome,
    text: (row) => clean(row.outcome ?? "goes on", 20) },
  { key: "time", title: "Time", width: 6.2, value: (row) => row.duration_us && Number(row.duration_us),
    text: (row) => micros(row.duration_us) },
  ...messageColumns((row) => (row.role === "client" ? row.request : row.response)?.message_bytes,
    (row) => (row.role === "client" ? row.response : row.request)?.message_bytes).map((column) =>
      ({ ...column, rank: 1 })),
  {
    key: "socket", title: "Socket", isText: true, width: 7,
    draw(cell, row) {
      const target = socketLink(row);
      if (cell.firstChild && cell.target === target) return;
      cell.target = target;
      cell.replaceChildren(target === undefined ? make("span", { title: "The socket closed" }, "closed")
        : make("a", { href: target, tabIndex: -1, data: { action: "socket" } }, "Open socket"));
    },
  },
];

const sizes = [
  ["line_bytes", "Line"], ["header_bytes", "Header"], ["cookie_bytes", "of it cookies"], ["body_bytes", "Body"],
  ["framing_bytes", "Framing"], ["message_bytes", "Message"],
];

export class ApiView {
  title = "API";
  parent = "apis";

  constructor() {
    this.facts = new Facts("api");
    this.sizes = ["sent", "received"].map((way) =>
      [way, sizes.map(([part]) => [part, make("td", { class: "number" })])]);
    this.sizeTable = make("table", { class: "sums" }, make("caption", {}, "What the messages consist of"),
      make("thead", {}, make("tr", {}, make("td"), ...sizes.map(([, title]) =>
        make("th", { scope: "col", class: "number" }, title)))),
      make("tbody", {}, ...this.sizes.map(([way, cells]) =>
        make("tr", {}, make("th", { scope: "row" }, way), ...cells.map(([, cell]) => cell)))));
    this.note = make("p", { class: "refusal", hidden: true, role: "status" });
    this.table = new Table({
      name: "exchanges", caption: "Last exchanges of this API", isQuiet: true, columns: exchangeColumns,
      key: (row) => `${row.process_id}/${row.exchange}`, sort: { key: "started", descending: true },
      link: socketLink,
    });
    this.refused = make("div");
    this.question = new Question();
    this.content = make("div", { class: "stack" },
      make("div", { class: "card pad stack" }, this.facts.element,
        make("div", { class: "scrolls" }, this.sizeTable)),
      make("section", { class: "card" },
        make("div", { class: "pad-x" }, make("h2", {}, "Last exchanges"), this.refused), this.table.element));
    this.element = make("div", { class: "stack" }, this.note, this.content);
  }

  demand() { return { endpoints: true, sockets: "all" }; }

  open({ id }) {
    this.id = id;
    this.asked = 0;
    this.subject = undefined;
  }

  update(snapshot) {
    const rows = (snapshot.endpoints ?? []).filter((endpoint) => idOf(endpoint) === this.id);
    if (rows.length > 1) this.subject = undefined;
    show(this.note, rows.length !== 1);
    // What was last known of an API that is no longer reported stays.
    show(this.content, rows.length === 1 || this.subject !== undefined);
    if (rows.length !== 1) {
      setText(this.note, rows.length > 1
        ? "Several APIs have this address, so none is shown. The list of APIs has a row for each."
        : "This API is not listed: no program reports it any more, or the address is of another host.");
      return;
    }
    const [row] = rows;
    this.subject = `${clean(row.host, 200)} ${clean(row.route, 300)}`;
    const outcomes = Object.entries(row.outcomes).filter(([, count]) => count > 0).map(([outcome, count]) =>
      `${grouped(count)} ${clean(outcome, 20)}`);
    this.#showSizes(row);
    const average = ({ count, sum_us }) => micros(Math.round(Number(sum_us) / Math.max(1, Number(count))));
    const phases = ["dns", "connect", "tls", "send", "wait", "receive"].filter((phase) => row.phases[phase])
      .map((phase) => `${phase} ${average(row.phases[phase])}`);
    this.facts.update([
      ["Process", clean(row.process.name, 80)], ["Role", clean(row.role, 20)],
      ["Requests", grouped(row.requests)], ["Responses", grouped(row.responses)],
      ["Outcomes", outcomes.join(", ") || "none yet"],
      ["Repeated responses", `${grouped(row.repeated_responses)} (${share(row.repeated_responses, row.responses)})`],
      ["Sent", both(row.sent.message_bytes), "sent"], ["Received", both(row.received.message_bytes), "received"],
      ["Time", row.duration && ["p50", "p90", "p99", "max"]
        .map((name) => `${name.replace("p", "P")} ${micros(row.duration[`${name}_us`])}`).join(", ")],
      ["Phases, on average", phases.join(", ") || undefined], ["Wasted", both(wasted(row))],
      ["Wire, estimated", both(row.wire_bytes_estimated)], ["Quality", clean(row.quality, 20)],
    ]);
    this.loadExchanges(row, snapshot);
  }

  #showSizes(row) {
    for (const [way, cells] of this.sizes) {
      for (const [part, cell] of cells) {
        setText(cell, amount(row[way][part]));
        setTitle(cell, exact(row[way][part]));
      }
    }
  }

  /// The last exchanges, every few seconds.
  loadExchanges(row, snapshot) {
    if (this.question.isOpen || Date.now() - this.asked < 3000) return;
    this.asked = Date.now();
    const serials = new Map((snapshot.sockets ?? []).map(({ cookie, serial }) => [String(cookie), String(serial)]));
    this.question.ask((signal) => get("/v1/exchanges", {}, signal), ({ exchanges }) => {
      const processes = new Map((snapshot.processes ?? []).map((process) => [process.process_id, process]));
      // Of a process that is no longer listed, only the name is known.
      const isOwn = ({ process_id, process_name }) => (processes.has(process_id)
        ? isOf(row.process, processes.get(process_id)) : process_name === row.process.name);
      const own = exchanges.filter((exchange) => exchange.host === row.host && exchange.route === row.route
        && exchange.role === row.role && isOwn(exchange));
      for (const exchange of own) exchange.serial = serials.get(String(exchange.socket_cookie));
      this.table.update(own.slice(-50), "No exchange of this API is among the last that the daemon keeps.");
    }, (problem) => {
      this.asked = Infinity;
      this.table.element.hidden = true;
      this.refused.replaceChildren(refusal(problem, () => {
        this.asked = 0;
        this.table.element.hidden = false;
        this.refused.replaceChildren();
      }));
    });
  }

  close() { this.question.cancel(); }
}
