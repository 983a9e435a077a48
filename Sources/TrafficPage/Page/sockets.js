// The list of sockets, and one socket with its audit.

import { AuditPanel } from "./auditpanel.js";
import { Facts, make, setText, show } from "./dom.js";
import { live } from "./live.js";
import { endpoints, nameColumn, rateColumns, totalColumns, WithheldSockets } from "./parts.js";
import { href } from "./route.js";
import { Table } from "./table.js";
import { both, clean, duration, grouped, micros, rate, time, UNKNOWN } from "./text.js";

const stateNames = {
  established: "established", syn_sent: "SYN sent", syn_received: "SYN received", fin_wait_1: "FIN wait 1",
  fin_wait_2: "FIN wait 2", time_wait: "TIME wait", close_wait: "close wait", last_ack: "last ACK", listen: "listening",
};
const title = (row) => `${row.protocol} ${endpoints(row)}`;
const stateName = (state) => stateNames[state] ?? clean(state, 20);

export const socketColumns = [
  {
    key: "socket", title: "Socket", isText: true, class: "name long", value: title, text: title, hint: title,
  },
  nameColumn("process", "Process", (row) => row.ownerNames, { rank: 1, width: 10 }),
  { key: "state", title: "State", isText: true, rank: 1, width: 8, value: (row) => row.state,
    text: (row) => stateName(row.state) },
  {
    key: "scope", title: "Scope", isText: true, rank: 2, width: 6.6, value: (row) => row.scope,
    text: (row) => row.scope?.replace("_", " ") ?? UNKNOWN,
  },
  ...rateColumns,
  {
    key: "rtt", title: "RTT", label: "TCP's smoothed round-trip time, and r for segments sent again", rank: 1, width: 8,
    value: (row) => (row.smoothed_rtt_us > 0 ? Number(row.smoothed_rtt_us) : undefined),
    text: (row) => (row.smoothed_rtt_us > 0 ? micros(row.smoothed_rtt_us) : UNKNOWN)
      + (row.retransmitted_segments > 0 ? ` ${grouped(row.retransmitted_segments)}r` : ""),
  },
  ...totalColumns,
];

/// Adds to each socket the names of its processes.
export function named(snapshot) {
  const names = new Map((snapshot.processes ?? []).map(({ process_id, name }) => [process_id, name]));
  for (const socket of snapshot.sockets ?? []) {
    // Who holds the socket comes first.
    socket.owners.sort((left, right) => (left.former ? 1 : 0) - (right.former ? 1 : 0));
    socket.ownerLabels = socket.owners.map(({ process_id, pid, former }) =>
      `${names.get(process_id) ?? "?"} ${pid}${former ? " (no longer)" : ""}`);
    socket.ownerNames = socket.ownerLabels.join(", ") || undefined;
    socket.isGone = socket.closed_at !== undefined;
  }
  return snapshot.sockets ?? [];
}

export const socketTable = (name, columns = socketColumns) => new Table({
  name, caption: "Sockets", isQuiet: true, columns, key: (row) => String(row.serial),
  link: (row) => href(`sockets/${row.serial}`), sort: { key: "received", descending: true },
});

export class SocketsView {
  title = "Sockets";
  usesFilter = true;

  constructor() {
    this.table = socketTable("sockets");
    this.note = make("p", { class: "note" }, "Sockets that are open now, or closed a moment ago.");
    this.list = make("div", { class: "stack" }, make("div", { class: "card" }, this.table.element), this.note);
    this.withheld = new WithheldSockets();
    this.element = make("div", { class: "stack" }, this.withheld.element, this.list);
  }

  demand() { return { sockets: "all" }; }

  open() {}

  update(snapshot) {
    this.withheld.update(!snapshot.sockets);
    show(this.list, snapshot.sockets !== undefined);
    if (!snapshot.sockets) return;
    this.table.update(named(snapshot), live.filter
      ? "No socket passes the filter." : "No socket is open. Start a program that uses the network.");
    const unlisted = snapshot.sockets_unlisted
      ? ` ${grouped(snapshot.sockets_unlisted)} more are not listed, because a user has too many.` : "";
    setText(this.note, `Sockets that are open now, or closed a moment ago.${unlisted}`);
  }
}

export class SocketView {
  title = "Socket";
  parent = "sockets";

  constructor() {
    this.facts = new Facts("socket");
    this.audit = new AuditPanel();
    this.note = make("p", { class: "note", hidden: true, role: "status" });
    this.withheld = new WithheldSockets();
    this.element = make("div", { class: "stack" }, this.note, this.withheld.element,
      this.content = make("div", { class: "stack" }, make("div", { class: "card pad" }, this.facts.element),
        make("section", { class: "card pad" }, make("h2", {}, "Audit"), this.audit.element)));
  }

  demand() { return { sockets: "all" }; }

  open({ id }) {
    if (this.id === id) return;
    this.id = id;
    this.cookie = undefined;
    this.subject = undefined;
  }

  update(snapshot) {
    this.withheld.update(!snapshot.sockets);
    const socket = named(snapshot).find(({ serial }) => String(serial) === this.id);
    this.note.hidden = socket !== undefined || !snapshot.sockets;
    // What was last known of a socket that closed meanwhile stays.
    show(this.content, socket !== undefined || this.cookie !== undefined);
    if (!socket) {
      this.note.textContent = "This socket is no longer listed: it closed. What it moved is in the row of its process.";
      return;
    }
    if (this.cookie !== String(socket.cookie)) {
      this.cookie = String(socket.cookie);
      this.audit.load({ socket: this.cookie });
      // The list needs all sockets to find this one; from here on those of its processes are enough.
      live.ask({ sockets: socket.owners.length ? socket.owners.map(({ pid }) => pid) : "all" });
    }
    this.subject = title(socket);
    const { rates } = socket, taken = Date.parse(snapshot.taken_at);
    this.facts.update([
      ["Sent/s", rate(rates.payload_sent_bytes_per_second)],
      ["Received/s", rate(rates.payload_received_bytes_per_second)],
      ["Payload sent", both(socket.payload_sent_bytes), "sent"],
      ["Payload received", both(socket.payload_received_bytes), "received"],
      ["Pending", socket.pending_sent_bytes > 0 ? both(socket.pending_sent_bytes) : undefined],
      ["Wire sent", both(socket.wire_sent_bytes)], ["Wire received", both(socket.wire_received_bytes)],
      ["Wire quality", socket.wire_quality],
      ["Wire, estimated", socket.wire_estimated_bytes > 0 ? both(socket.wire_estimated_bytes) : undefined],
      ["Retransmitted", socket.retransmitted_bytes === undefined ? undefined : both(socket.retransmitted_bytes)],
      ["Process", this.#owners(socket), "owners"],
      ["State", `${stateName(socket.state)}, ${clean(socket.role, 20)}`],
      ["Scope", socket.scope?.replace("_", " ") ?? "none"],
      ["Class", socket.class && clean(socket.class)],
      ["Round trip", socket.smoothed_rtt_us > 0 ? micros(socket.smoothed_rtt_us) : undefined],
      ["Connected in", socket.connect_us === undefined ? undefined : micros(socket.connect_us)],
      ["Segments", socket.segments_sent === undefined ? undefined
        : `${grouped(socket.segments_sent)} sent, ${grouped(socket.segments_received)} received, `
          + `${grouped(socket.retransmitted_segments)} sent again`],
      ["Opened", socket.opened_at
        ? `${time.full(socket.opened_at)}, ${duration((taken - Date.parse(socket.opened_at)) / 1000)} ago`
        : "before trafficd; counted from then on"],
      ["Closed", socket.closed_at && time.full(socket.closed_at)],
      ["Cookie", String(socket.cookie)],
      ["Network namespace", socket.network_namespace && String(socket.network_namespace)],
    ]);
  }

  /// Links to the processes; the same element while they are the same, so that it keeps the focus.
  #owners({ owners, ownerLabels, ownerNames }) {
    if (this.ownerNames !== ownerNames || !this.owners) {
      this.ownerNames = ownerNames;
      this.owners = make("span", {}, ...owners.flatMap(({ process_id }, index) => [index > 0 && ", ",
        make("a", { href: href(`processes/${process_id}`) }, clean(ownerLabels[index], 80))]));
    }
    return this.owners;
  }

  close() { this.id = undefined; }
}
