// What was moved in a time: bars over the time, and a row for each name.

import { get } from "./api.js";
import { isOfUnit } from "./apis.js";
import { BarChart, seriesColors } from "./chart.js";
import { make, setText, show } from "./dom.js";
import { nameColumn, Question, refusal } from "./parts.js";
import { Table } from "./table.js";
import { amount, clean, duration, exact, grouped, plus } from "./text.js";
import { hostTime, next } from "./zone.js";

const mostLayers = 6;

/// Sums of 5 minutes are not divided by process, so a filter can't choose among them.
export const has5Minutes = (by, filter) => !filter && ["total", "scope", "class", "interface"].includes(by);

/// The sums that give some dozens to some hundred bars.
export function bucketFor(seconds, by, filter) {
  if (seconds <= 3 * 3600 + 60) return "minute";
  if (seconds <= 25 * 3600 && has5Minutes(by, filter)) return "5minute";
  if (seconds <= 8 * 86400) return "hour";
  return seconds <= 100 * 86400 ? "day" : "month";
}

/// Bytes of sockets, of messages, or of interfaces: a report has one kind of them.
const sentOf = (row) => row.payload_sent_bytes ?? row.sent_message_bytes ?? row.sent_bytes;
const receivedOf = (row) => row.payload_received_bytes ?? row.received_message_bytes ?? row.received_bytes;
const totalOf = (row) => plus(sentOf(row), receivedOf(row));

const readers = {
  process: (row) => row.process_name, user: (row) => row.user ?? (row.uid === undefined ? undefined : String(row.uid)), unit: (row) => row.systemd_unit,
  container: (row) => row.container_id, host: (row) => row.host,
  route: (row) => (row.route && `${row.host} ${row.route}`),
  scope: (row) => row.scope?.replace("_", " "), class: (row) => row.class, interface: (row) => row.interface,
  total: () => "all processes",
};
export const dimensions = Object.keys(readers);
const titleOf = (by) => (by === "total" ? "All" : by[0].toUpperCase() + by.slice(1));
const nothingOf = { unit: "no unit", container: "no container", user: "unknown", scope: "no scope", class: "no class" };
const nameOf = (by, row) => readers[by](row) ?? nothingOf[by] ?? "–";

function tableFor(name, by, kind) {
  const bytes = (key, title, read, rank = 0) => ({
    key, title, rank, width: 7.2, value: (row) => (read(row) === undefined ? undefined : Number(read(row))),
    text: (row) => amount(read(row)), hint: (row) => exact(read(row)),
  });
  const count = (key, title, rank) => ({ key, title, rank, width: 6.6, value: (row) => Number(row[key]),
    text: (row) => grouped(row[key]) });
  const columns = [
    nameColumn("name", titleOf(by), (row) => nameOf(by, row)),
    ...(kind === "messages" ? [
      { key: "role", title: "Role", isText: true, rank: 2, width: 5, value: (row) => row.role,
        text: (row) => clean(row.role, 20) },
      count("requests", "Requests", 0), count("failures", "Failed", 2),
      bytes("headers", "Headers", (row) => plus(row.sent_header_bytes, row.received_header_bytes), 1),
      bytes("bodies", "Bodies", (row) => plus(row.sent_body_bytes, row.received_body_bytes), 1),
    ] : []),
    bytes("sent", "Sent", sentOf), bytes("received", "Received", receivedOf), bytes("total", "Total", totalOf, 2),
    ...(kind === "bytes" ? [bytes("wire", "Wire", (row) => plus(row.wire_sent_bytes, row.wire_received_bytes), 1)]
      : []),
    ...(kind === "packets" ? [{ key: "packets", title: "Packets", rank: 1, width: 7,
      value: (row) => Number(plus(row.sent_packets, row.received_packets)),
      text: (row) => grouped(plus(row.sent_packets, row.received_packets)) }] : []),
  ];
  return new Table({
    name: `${name}-${kind}`, caption: `What was moved, by ${by}`, isQuiet: true, columns,
    key: (row) => [row.role, row.process_name, row.uid, row.systemd_unit, row.container_id, row.scope, row.class,
      row.host, row.route, row.interface].join("\u0000"),
    sort: { key: "total", descending: true },
  });
}

/// Puts rows into the bars of a time. Each bar has its own length: days may have 23 or 25 hours, and months 28 days. A sum
/// that began in another time zone is in the bar in which it began.
export function slots(report, level, until = Date.parse(report.until)) {
  const times = [];
  for (let start = Date.parse(report.since); times.length < 2000 && (start < until || times.length === 0);) {
    const end = next(level, start);
    times.push([start / 1000, end / 1000]);
    start = end;
  }
  // Many rows have the same time.
  const known = new Map();
  const find = (time) => {
    const seconds = Date.parse(time) / 1000;
    let [low, high] = [0, times.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (times[middle][0] <= seconds) low = middle;
      else high = middle;
    }
    known.set(time, low);
    return low;
  };
  return { times, of: ({ time }) => known.get(time) ?? find(time) };
}

export class HistoryPanel {
  constructor(name, { onZoom, onReport } = {}) {
    this.name = name;
    this.onReport = onReport;
    this.chart = new BarChart(name, "Bytes over time; the table below has the sums", onZoom);
    this.legend = make("ul", { class: "legend" });
    this.summary = make("p", { class: "note", role: "status", data: { fact: "history-summary" } });
    this.tableBox = make("div");
    this.message = make("div");
    this.content = make("div", { class: "stack" }, this.legend, this.chart.element, this.summary, this.tableBox);
    this.element = make("div", { class: "stack" }, this.message, this.content);
    this.question = new Question();
  }

  /// - since, until: Milliseconds; or hours up to now.
  /// - process: Only what processes of this one's name, user, unit and container moved.
  load({ since, until, hours, bucket, by = "total", filter = "", process }) {
    this.asked = { since, until, hours, bucket, by, filter, process };
    const end = until ?? Date.now();
    const start = since ?? end - hours * 3600e3;
    const isNow = until === undefined || end > Date.now() - 1000;
    const level = bucket || bucketFor((end - start) / 1000, process ? "process" : by, filter);
    const times = { since: new Date(start).toISOString(), until: isNow ? undefined : new Date(end).toISOString() };
    const grouping = process ? "process,user,unit,container" : by;
    // In quotes nothing of a name has a meaning but these two characters.
    if (process) filter = `process:"${process.name.replace(/["\\]/g, "\\$&")}"`;
    const ask = (more) => (signal) => get("/v1/history", { ...times, filter, ...more }, signal);
    const hasRest = !process && !["total", "host", "route", "interface"].includes(by);
    this.question.ask((signal) => Promise.all([
      ask({ by: grouping, bucket: level, limit: process ? 1000 : by === "total" ? undefined : mostLayers })(signal),
      hasRest && ask({ by: "total", bucket: level })(signal).catch(() => undefined),
      !process && by !== "total" && ask({ by, limit: 500 })(signal),
    ]), (answers) => this.show(answers, { by: process ? "total" : by, level, process, end }), (problem) => {
      show(this.content, false);
      this.message.replaceChildren(refusal(problem, () => this.load(this.asked)));
      this.onReport?.(undefined, problem);
    });
  }

  show([report, totals, sums], { by, level, process, end }) {
    this.message.replaceChildren();
    show(this.content, true);
    const isOwn = (row) => row.process_name === process.name && row.uid === process.uid
      && row.container_id === process.container_id && isOfUnit(row.systemd_unit, process.systemd_unit);
    const rows = process ? report.rows.filter(isOwn) : report.rows;
    const { times, of } = slots(report, level);
    const layers = new Map();
    const add = (key, color, row, bytes) => {
      let layer = layers.get(key);
      // Names that begin alike are told apart, though not all of a name is shown.
      if (!layer) layers.set(key, (layer = { name: clean(key, 60), color, values: times.map(() => 0), sum: 0 }));
      layer.values[of(row)] = plus(layer.values[of(row)], bytes);
      layer.sum = plus(layer.sum, bytes);
    };
    for (const row of rows) {
      if (by === "total") {
        add("received", "received-mark", row, receivedOf(row));
        add("sent", "sent-mark", row, sentOf(row));
      } else add(nameOf(by, row), undefined, row, totalOf(row));
    }
    const list = [...layers.values()];
    if (by !== "total") {
      list.sort((left, right) => Number(right.sum) - Number(left.sum));
      list.forEach((layer, index) => (layer.color = seriesColors[index % mostLayers]));
      const rest = totals && this.#rest(totals, of, times, list);
      if (rest) list.push(rest);
    }
    const first = times[0][0], last = Math.max(times.at(-1)[1], Math.min(end, Date.now()) / 1000);
    this.chart.update(times, list, [first, last]);
    this.range = [first, last];
    this.chart.element.dataset.from = String(first);
    this.chart.element.dataset.until = String(last);
    this.legend.replaceChildren(...list.map((layer) => this.#legend(layer)));
    const counted = Number(report.counted_seconds);
    const span = (Date.parse(report.until) - Date.parse(report.since)) / 1000;
    const missing = span - counted > 90 ? ` In ${duration(span - counted)} of it no daemon counted.` : "";
    const bar = level.replace("5minute", "5 minutes");
    const text = `${hostTime.minute(report.since)} to ${hostTime.minute(report.until)}, a bar for each ${bar}.${missing}`;
    setText(this.summary, text);
    setText(this.chart.summary, `${text} ${list.map(({ name, sum }) => `${name}: ${exact(sum)}`).join("; ")}.`);
    this.#table(sums || { rows: this.#sum(rows) }, by, rows.length === 0);
    this.onReport?.(report);
  }

  #rest(totals, of, times, list) {
    const values = times.map(() => 0);
    for (const row of totals.rows) values[of(row)] += Number(totalOf(row));
    for (const { values: part } of list) part.forEach((value,
      index) => (values[index] = Math.max(0, values[index] - Number(value))));
    const sum = values.reduce((all, value) => all + value, 0);
    return sum > 0 ? { name: "others", color: seriesColors[mostLayers], values, sum } : undefined;
  }

  #sum(rows) {
    if (rows.length === 0) return [];
    const sum = {};
    for (const [name, value] of rows.flatMap(Object.entries)) {
      if (/_bytes$|_packets$|^requests$|^failures$/.test(name)) sum[name] = plus(sum[name] ?? 0, value);
    }
    return [sum];
  }

  #legend({ name, color, sum }) {
    const mark = make("i", { class: "mark" });
    mark.style.background = `var(--${color})`;
    return make("li", {}, mark, make("span", {}, name), make("b", { title: exact(sum) }, amount(sum)));
  }

  #table({ rows }, by, isEmpty) {
    const kind = rows[0]?.requests !== undefined ? "messages" : rows[0]?.sent_packets !== undefined ? "packets"
      : "bytes";
    if (this.shown !== `${by} ${kind}`) {
      this.shown = `${by} ${kind}`;
      this.table = tableFor(this.name, by, kind);
      this.tableBox.replaceChildren(this.table.element);
    }
    this.table.update(rows, isEmpty
      ? "Nothing was counted in this time, for these terms. A byte is in history at the end of its minute."
      : undefined);
  }

  close() { this.question.cancel(); }
}

