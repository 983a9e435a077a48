// An audit as a waterfall: from the payload of the calls down to the interface's own counter, each difference by name.

import { get } from "./api.js";
import { make } from "./dom.js";
import { Question, refusal } from "./parts.js";
import { clean, grouped, plural, time } from "./text.js";

const names = {
  payload: "payload of calls", others_payload: "moved by others on shared sockets",
  pending: "in calls that have not returned", waiting: "waiting in sockets",
  abandoned: "still in sockets when they closed", again: "again: retransmitted, out of order",
  again_after_drop: "again: dropped by this host", dropped: "dropped before the interface",
  framing: "framing (kernel TLS, sockmap)", datagrams: "datagrams held back, unread, dropped",
  earlier: "on their way when counting began", handshake_payload: "in handshakes", urgent: "urgent, unread",
  estimated: "estimated from counters", in_use: "in use while this was read", unexplained: "unexplained",
  unexplained_at_interface: "unexplained", headers: "TCP, UDP and IP headers",
  acknowledgements: "packets without payload", handshake: "SYN, FIN and RST packets",
  others_wire: "others' part of shared sockets", folded: "sockets closed without a record",
  no_socket: "packets of no socket (kernel)", fragments: "headers of fragments", queues: "dropped in queues",
  offload: "headers that offload adds later", other_protocols: "other protocols (ARP)", link_headers: "link headers",
  on_its_way: "on their way while this was read", wire_payload: "payload in packets", wire: "wire bytes of sockets",
  interface_wire: "IP packets at interfaces", interface_counter: "the interface's own counter",
};
const sums = new Set(["wire_payload", "wire", "interface_wire", "interface_counter"]);
const kinds = { host: "Sockets of host", process: "Process", socket: "Socket", interface: "Interface" };

/// Both directions in one order. A direction leaves out lines without bytes.
function merged(sent, received) {
  [sent, received] = [[...sent], [...received]];
  const lines = [];
  while (sent.length || received.length) {
    const next = (sent[0] ?? received[0]).line;
    const isShared = received.some(({ line }) => line === next);
    const takesReceived = !sent.length || (isShared && received[0].line !== next);
    const { line } = takesReceived ? received.shift() : sent.shift();
    if (received[0]?.line === line) received.shift();
    lines.push(line);
  }
  return lines;
}

function signed(bytes, line) {
  if (bytes === undefined) return "";
  const isNegative = Number(bytes) < 0;
  const sign = isNegative ? "−" : sums.has(line) || line === "payload" ? "" : "+";
  return sign + grouped(isNegative ? String(bytes).slice(1) : bytes);
}

/// The bars of one direction: a sum stands on 0, a difference hangs between the sum before and after it.
class Waterfall {
  constructor(lines, most) {
    this.at = 0;
    this.most = most;
    this.bytes = new Map(lines.map(({ line, bytes }) => [line, Number(bytes)]));
  }

  bar(line, direction) {
    const bytes = this.bytes.get(line);
    const bar = make("span", { class: `bar ${direction}` });
    if (bytes === undefined) bar.style.width = "0";
    if (bytes === undefined) return bar;
    const isSum = sums.has(line);
    const from = isSum ? 0 : Math.min(this.at, this.at + bytes);
    const width = Math.abs(bytes);
    this.at = isSum ? bytes : this.at + bytes;
    if (isSum || line === "payload") bar.classList.add("whole");
    else if (bytes < 0) bar.classList.add("less");
    bar.style.marginLeft = `${Math.min(99.4, (100 * from) / this.most)}%`;
    bar.style.width = bytes === 0 ? "0" : `max(2px, ${(100 * width) / this.most}%)`;
    return bar;
  }
}

function sectionTable(section) {
  const [sent, received] = [section.sent,
    section.received].map((lines) => new Map(lines.map(({ line, bytes }) => [line, bytes])));
  const most = Math.max(1, ...[...section.sent,
    ...section.received].map(({ bytes }) => Math.abs(Number(bytes)))) * 1.02;
  const falls = [new Waterfall(section.sent, most), new Waterfall(section.received, most)];
  const rows = merged(section.sent, section.received).map((line) => {
    const isWrong = line.startsWith("unexplained")
      && [sent, received].some((lines) => Number(lines.get(line) ?? 0) !== 0);
    const kind = [sums.has(line) && "sum", isWrong && "wrong",
      line.startsWith("unexplained") && "rest"].filter(Boolean).join(" ");
    const text = (sums.has(line) ? "= " : "") + (names[line] ?? clean(line, 60))
      + (line === "wire" && section.kind === "interface" ? " here" : "");
    return make("tr", { class: kind, data: { line } },
      make("th", { scope: "row" }, text),
      make("td", { class: "bars", "aria-hidden": "true" }, falls[0].bar(line, "sent"), falls[1].bar(line, "received")),
      make("td", { class: "number", data: { direction: "sent" } }, signed(sent.get(line), line)),
      make("td", { class: "number", data: { direction: "received" } }, signed(received.get(line), line)));
  });
  return make("table", { class: "waterfall", data: { section: section.kind } },
    make("caption", {}, `${kinds[section.kind] ?? ""} ${clean(section.name, 100)}`),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Line"),
      make("td", { class: "bars" }), make("th", { scope: "col", class: "number" }, "Sent"),
      make("th", { scope: "col", class: "number" }, "Received"))),
    make("tbody", {}, ...rows));
}

function disputeBox(dispute) {
  const who = dispute.processes.map(({ pid }) => pid).join(" ");
  const say = (bytes) => (bytes === undefined ? "unknown" : grouped(bytes));
  return make("div", { class: "verdict wrong" },
    make("strong", {}, `${clean(dispute.name)}, ${clean(dispute.direction, 20)}${who ? `, pid ${who}` : ""}`),
    make("p", {}, `Counted from calls ${say(dispute.payload_bytes)}, counted by TCP ${say(dispute.tcp_bytes)}, `
      + `carried by packets ${say(dispute.wire_payload_bytes)}.`));
}

export class AuditPanel {
  constructor() {
    this.verdict = make("div", { class: "verdict", role: "status", data: { verdict: "" } });
    this.body = make("div", { class: "stack" });
    this.again = make("button", { type: "button", class: "quiet", data: { action: "audit-again" },
      onclick: () => this.load(this.subject) }, "Audit again");
    this.element = make("div", { class: "stack audit" }, make("div", { class: "row" }, this.verdict, this.again),
      this.body);
    this.question = new Question();
  }

  /// - subject: `{}` for the host, or one of `process`, `socket` and `interface`.
  load(subject) {
    this.subject = subject;
    this.question.ask((signal) => get("/v1/audit", subject, signal), (report) => this.show(report), (problem) => {
      this.verdict.hidden = true;
      this.body.replaceChildren(refusal(problem, () => this.load(subject)));
    });
  }

  show(report) {
    const isRight = Number(report.unexplained_bytes) === 0;
    this.verdict.hidden = false;
    this.verdict.className = `verdict ${isRight ? "right" : "wrong"}`;
    this.verdict.dataset.verdict = isRight ? "right" : "wrong";
    this.verdict.replaceChildren(make("strong", {},
      isRight ? "Every byte is accounted for." : "Some bytes are not accounted for."),
      make("span", {}, ` Unexplained: ${plural(report.unexplained_bytes, "byte")}. `
        + `At ${time.clock(report.taken_at)}, counting since `
        + `${time.full(report.counting_since)}, method ${clean(report.method, 20)}.`));
    const hidden = Number(report.dispute_count) - new Set(report.disputes.map(({ cookie }) => cookie)).size;
    const parts = [...report.disputes.map(disputeBox), ...report.sections.map(sectionTable)];
    if (hidden > 0) parts.push(make("p", { class: "note" }, `And ${plural(hidden, "more socket")}.`));
    if (!report.counts_interfaces && report.sections.some(({ kind }) => kind === "host")) {
      parts.push(make("p", { class: "note" },
        "Ends at the sockets. To compare the interfaces too: trafficd run --wire audited"));
    }
    this.body.replaceChildren(...parts);
  }

  close() { this.question.cancel(); }
}
