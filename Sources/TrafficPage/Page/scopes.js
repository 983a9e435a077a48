// How far the bytes go, what they cost, and what the interfaces count themselves.

import { sparkline } from "./chart.js";
import { make } from "./dom.js";
import { live } from "./live.js";
import { nameColumn } from "./parts.js";
import { Table } from "./table.js";
import { amount, exact, grouped, minus, plus, rate, share } from "./text.js";

const bytes = (key, title, read, rank = 0) => ({
  key, title, width: 7.2, rank, value: (row) => (read(row) === undefined ? undefined : Number(read(row))),
  text: (row) => amount(read(row)), hint: (row) => exact(read(row)),
});

function drawPart(cell, { part }) {
  if (!cell.firstChild) cell.append(make("span", { class: "meter" }, make("span")));
  const width = `${(100 * part).toFixed(2)}%`;
  if (cell.firstChild.firstChild.style.width !== width) cell.firstChild.firstChild.style.width = width;
}

const sumColumns = (key, title) => [
  nameColumn(key, title, (row) => row.name),
  bytes("sent", "Sent", (row) => row.payload_sent_bytes),
  bytes("received", "Received", (row) => row.payload_received_bytes),
  {
    key: "part", title: "Part of all", rank: 2, width: 20, value: (row) => row.part, class: "part", text: () => "",
    draw: drawPart,
    hint: (row) => share(row.part, 1),
  },
  bytes("wire-sent", "Wire sent", (row) => row.wire_sent_bytes, 2),
  bytes("wire-received", "Wire received", (row) => row.wire_received_bytes, 2),
  bytes("retransmitted", "Retransmitted", (row) => row.retransmitted_bytes, 1),
].map((column) => (["wire-received", "retransmitted"].includes(column.key) ? { ...column, width: 8.8 } : column));

const interfaceColumns = [
  nameColumn("interface", "Interface", (row) => row.name),
  { ...bytes("sent-rate", "Sent/s", (row) => row.sent_bytes_per_second),
    text: (row) => rate(row.sent_bytes_per_second), hint: undefined, class: "sent", isRate: true },
  { ...bytes("received-rate", "Received/s", (row) => row.received_bytes_per_second),
    text: (row) => rate(row.received_bytes_per_second), hint: undefined, class: "received", isRate: true },
  {
    key: "traffic", title: "Traffic", rank: 2, width: 10, class: "traffic",
    draw(cell, row) {
      const [, sent, received] = live.rates.series(`interface ${row.name}`);
      sparkline(cell, sent.map((value, index) => (value ?? 0) + (received[index] ?? 0)).slice(-60));
    },
  },
  bytes("sent", "Sent", (row) => row.sent_bytes, 2), bytes("received", "Received", (row) => row.received_bytes, 2),
  ...["sent", "received"].map((way) => ({
    key: `${way}-packets`, title: `Packets ${way}`, rank: 1, width: 9.4,
    value: (row) => Number(row[`${way}_packets`] ?? 0), text: (row) => grouped(row[`${way}_packets`]),
  })),
];

const section = (title, note, ...parts) => make("section", { class: "card" },
  make("div", { class: "pad-x" }, make("h2", {}, title), make("p", { class: "note" }, note)), ...parts);
const sumOf = (row) => plus(row.payload_sent_bytes, row.payload_received_bytes);

export class ScopesView {
  title = "Scopes";

  constructor() {
    const table = (name, caption, columns) => new Table({ name, caption, isQuiet: true, columns,
      key: (row) => `${row.isRest ? "rest" : "of"} ${row.name}`, sort: { key: "received", descending: true } });
    this.table = table("scopes", "Bytes by scope", sumColumns("scope", "Scope"));
    this.classes = table("classes", "Bytes by class", sumColumns("class", "Class"));
    this.interfaces = table("interfaces", "Interfaces", interfaceColumns);
    const classes = section("Classes",
      "Names that the daemon was given for remote addresses, for example for those whose traffic is paid for.",
      this.classes.element);
    this.element = make("div", { class: "stack" },
      section("Scopes", "How far the other end is. A connection inside this machine counts at both ends.",
        this.table.element), classes,
      section("Interfaces", "As the interfaces count themselves since they came up, with link headers.",
        this.interfaces.element));
  }

  open() {}

  update({ totals, interfaces }) {
    const all = sumOf(totals);
    const rows = (sums, restName, write = (name) => name) => {
      const list = Object.entries(sums).map(([name, counts]) => ({ ...counts, name: write(name) }));
      const restOf = (field) => list.reduce((sum, row) => minus(sum, row[field]), totals[field]);
      const rest = { name: restName, isRest: true, payload_sent_bytes: restOf("payload_sent_bytes"),
        payload_received_bytes: restOf("payload_received_bytes") };
      if (sumOf(rest) > 0) list.push(rest);
      for (const row of list) row.part = all > 0 ? Number(sumOf(row)) / Number(all) : 0;
      return list;
    };
    this.table.update(rows(totals.by_scope, "in no scope", (name) => name.replace("_", " ")), "Nothing was moved yet.");
    this.classes.update(totals.by_class ? rows(totals.by_class, "in no class") : [],
      "The daemon has no classes. To add one: trafficd run --class paid=0.0.0.0/0,::/0");
    this.interfaces.update(interfaces ?? [], "No interface is known.");
  }
}
