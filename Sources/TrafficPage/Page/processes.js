// The list of processes, as in `trafficctl top`.

import { sparkline } from "./chart.js";
import { make, show } from "./dom.js";
import { live } from "./live.js";
import { nameColumn, rateColumns, totalColumns } from "./parts.js";
import { href } from "./route.js";
import { Table } from "./table.js";
import { clean, duration, plural, share, plus } from "./text.js";

const trafficColumn = {
  key: "traffic", title: "Traffic", label: "Sent and received, in the last minute", rank: 1, width: 8,
  class: "traffic", isLazy: true,
  value: (row) => row.rates.payload_sent_bytes_per_second + row.rates.payload_received_bytes_per_second,
  draw(cell, row) {
    const [, sent, received] = live.rates.series(row.process_id);
    sparkline(cell, sent.slice(-60).map((value, index) => (value ?? 0)
      + (received.at(-Math.min(60, sent.length) + index) ?? 0)));
  },
};

const explainedColumn = {
  key: "explained", title: "Explained", rank: 1, width: 7.2,
  label: "Share of the payload that the program's own reports explain. A program that does not report has none.",
  value: (row) => {
    const all = Number(plus(row.explained_bytes, row.unattributed_bytes));
    return all > 0 ? Number(row.explained_bytes) / all : undefined;
  },
  text: (row) => share(row.explained_bytes, plus(row.explained_bytes, row.unattributed_bytes)),
};

function ended(row) {
  if (row.state !== "exited") return "";
  const seconds = row.exited_at ? (Date.parse(live.snapshot.taken_at) - Date.parse(row.exited_at)) / 1000 : undefined;
  return seconds === undefined ? "exited" : `exited ${duration(seconds)} ago`;
}

const columns = [
  nameColumn("process", "Process", (row) => row.name, {
    draw(target, row) {
      if (!target.parts) {
        target.parts = [make("span"), make("small")];
        target.append(...target.parts);
      }
      const [name, state] = target.parts;
      if (name.textContent !== row.shownName) name.textContent = row.shownName;
      const text = ended(row);
      if (state.textContent !== text) state.textContent = text;
    },
    hint: (row) => clean(row.command_line?.join(" ") || row.executable || row.name, 1000),
  }),
  { key: "pid", title: "PID", width: 5.6, rank: 1, value: (row) => row.pid, text: (row) => String(row.pid) },
  nameColumn("user", "User", (row) => row.user ?? String(row.uid), { rank: 1, width: 7 }),
  nameColumn("unit", "Unit", (row) => row.systemd_unit, { rank: 1, width: 10 }),
  {
    key: "sockets", title: "Sockets", label: "Sockets that are open now", rank: 2, width: 5.6,
    value: (row) => row.sockets_open, text: (row) => String(row.sockets_open),
  },
  ...rateColumns, trafficColumn, ...totalColumns, explainedColumn,
];

const groupColumns = [
  nameColumn("process", "Process", (row) => row.name),
  nameColumn("unit", "Unit", (row) => row.systemd_unit, { rank: 1, width: 12 }),
  { key: "uid", title: "User id", rank: 2, width: 6, value: (row) => row.uid, text: (row) => String(row.uid ?? "–") },
  { key: "ended", title: "Ended", width: 5, value: (row) => row.processes, text: (row) => String(row.processes) },
  ...totalColumns.map((column) => ({ ...column, rank: 0 })),
];

export class ProcessesView {
  title = "Processes";
  usesFilter = true;
  hasChart = true;

  constructor() {
    this.table = new Table({
      name: "processes", caption: "Processes", isQuiet: true, columns, key: (row) => row.process_id,
      link: (row) => href(`processes/${row.process_id}`), sort: { key: "traffic", descending: true },
    });
    this.groups = new Table({
      name: "exited", caption: "Processes that are no longer listed, by group", isQuiet: true, columns: groupColumns,
      key: (row) => [row.name, row.executable, row.systemd_unit, row.container_id, row.uid].join("\u0000"),
      sort: { key: "received", descending: true },
    });
    this.summary = make("summary");
    this.exited = make("details", { class: "card", hidden: true, ontoggle: () => this.showGroups() }, this.summary,
      this.groups.element);
    this.element = make("div", { class: "stack" }, make("div", { class: "card" }, this.table.element), this.exited);
  }

  open() {}

  update(snapshot) {
    for (const row of snapshot.processes) {
      row.shownName = clean(row.name, 64);
      row.isGone = row.state === "exited";
    }
    this.table.update(snapshot.processes, live.filter
      ? "No process passes the filter. Change it, or clear it with the button beside it."
      : "Nothing has moved a byte yet. Processes appear here as soon as they use a socket.");
    this.snapshot = snapshot;
    const count = snapshot.exited?.length ?? 0;
    show(this.exited, count > 0);
    const all = (snapshot.exited ?? []).reduce((sum, row) => sum + Number(row.processes), 0);
    const text = `${plural(all, "process", "processes")} ended and no longer listed, in ${plural(count, "group")}`;
    if (this.summary.textContent !== text) this.summary.textContent = text;
    this.showGroups();
  }

  showGroups() {
    if (this.exited.open) this.groups.update(this.snapshot?.exited ?? []);
  }
}
