// The one stream of snapshots that all views share, and the rates of the last minutes.

import { Problem, stream } from "./api.js";

const shortestPause = 500, longestPause = 8000;
/// A standing connection without a snapshot for so long is taken for broken.
const longestSilence = 15000;

/// What was moved per second, snapshot by snapshot. All rows share one list of times.
class RateLog {
  static length = 300;

  constructor() { this.clear(); }

  clear() {
    this.times = [];
    this.rows = new Map();
    this.added = 0;
  }

  /// With another filter the total is that of other processes. What each process moved stays true.
  forgetTotal() { this.rows.delete("total"); }

  add(snapshot) {
    this.#tick(Date.parse(snapshot.taken_at) / 1000);
    const { rates } = snapshot.totals;
    this.#note("total", rates.payload_sent_bytes_per_second, rates.payload_received_bytes_per_second);
    for (const { process_id, rates } of snapshot.processes ?? []) {
      this.#note(process_id, rates.payload_sent_bytes_per_second, rates.payload_received_bytes_per_second);
    }
    for (const { name, sent_bytes_per_second, received_bytes_per_second } of snapshot.interfaces ?? []) {
      if (sent_bytes_per_second !== undefined) {
        this.#note(`interface ${name}`, sent_bytes_per_second, received_bytes_per_second);
      }
    }
    this.added += 1;
    if (this.added % 60 === 0) this.#forget();
  }

  /// Nothing is known of the time until the next snapshot, so no line may cross it.
  gap() {
    if (this.times.length && this.rows.get("total")?.sent.at(-1) !== null) this.#tick(this.times.at(-1) + 0.001);
  }

  #tick(time) {
    // A clock that was set back would fold the chart over itself.
    if (this.times.length && time <= this.times.at(-1)) this.clear();
    this.times.push(time);
    for (const row of this.rows.values()) {
      row.sent.push(null);
      row.received.push(null);
    }
    if (this.times.length <= RateLog.length) return;
    this.times.shift();
    for (const row of this.rows.values()) {
      row.sent.shift();
      row.received.shift();
    }
  }

  #note(key, sent, received) {
    let row = this.rows.get(key);
    if (!row) {
      // Most processes are idle: they need no row until they move something.
      if (key !== "total" && sent + received === 0) return;
      row = { sent: this.times.map(() => null), received: this.times.map(() => null) };
      this.rows.set(key, row);
    }
    row.sent[row.sent.length - 1] = sent;
    row.received[row.received.length - 1] = received;
  }

  #forget() {
    for (const [key, row] of this.rows) {
      if (key !== "total" && !row.sent.some((sent, index) => sent + row.received[index] > 0)) this.rows.delete(key);
    }
  }

  /// - key: `total`, the id of a process, or `interface` and its name.
  series(key) {
    const row = this.rows.get(key);
    const none = () => this.times.map(() => null);
    return [this.times, row?.sent ?? none(), row?.received ?? none()];
  }
}

class Live extends EventTarget {
  snapshot = null;
  rates = new RateLog();
  /// `connecting`, `live`, `lost`, `refused`, `paused` or `hidden`.
  state = "connecting";
  problem = null;
  lostAt = null;
  #demand = {};
  #isPaused = false;
  #stop = null;

  get isPaused() { return this.#isPaused; }
  get filter() { return this.#demand.filter ?? ""; }

  /// - demand: `filter`, and which lists are wanted. `sockets` is `none`, `all`, or a list of pids: a host may have
  ///   thousands of sockets, and listing them is the main cost of a snapshot.
  ask({ filter = "", sockets = "none", endpoints = false }) {
    const needsAll = endpoints || sockets !== "none";
    const demand = {
      filter,
      view: needsAll ? "snapshot" : "processes",
      // No process has the pid 0: this asks for no sockets.
      sockets_of: !needsAll || sockets === "all" ? undefined : sockets === "none" ? "0" : sockets.join(","),
    };
    if (JSON.stringify(demand) === JSON.stringify(this.#demand) && this.state !== "refused") return;
    if (demand.filter !== this.filter) {
      this.rates.forgetTotal();
      this.snapshot = null;
    }
    this.#demand = demand;
    this.restart();
  }

  set isPaused(isPaused) {
    this.#isPaused = isPaused;
    this.restart();
  }

  restart() {
    this.#stop?.abort();
    if (this.#isPaused || document.hidden) {
      this.rates.gap();
      this.#tell(this.#isPaused ? "paused" : "hidden");
      return;
    }
    this.#stop = new AbortController();
    this.#read(this.#stop.signal);
  }

  async #read(signal) {
    let pause = shortestPause;
    if (this.state !== "lost") this.#tell("connecting");
    while (!signal.aborted) {
      const connection = new AbortController();
      const onAbort = () => connection.abort();
      signal.addEventListener("abort", onAbort);
      let timer = setTimeout(onAbort, longestSilence);
      try {
        await stream("/v1/stream", { interval: 1, ...this.#demand }, connection.signal, (snapshot) => {
          if (signal.aborted) return;
          clearTimeout(timer);
          timer = setTimeout(onAbort, longestSilence);
          pause = shortestPause;
          this.#take(snapshot);
        }, true);
        this.problem = new Problem(0, "The daemon closed the connection.");
      } catch (error) {
        if (signal.aborted) return;
        this.problem = error instanceof Problem ? error : new Problem(0, "The connection to the daemon broke.");
      } finally {
        clearTimeout(timer);
        signal.removeEventListener("abort", onAbort);
      }
      if (signal.aborted) return;
      this.rates.gap();
      // What was asked is wrong or not allowed: asking again would not change that.
      if ([400, 401, 403].includes(this.problem.status)) return this.#tell("refused");
      this.lostAt ??= Date.now();
      this.#tell("lost");
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, longestPause);
    }
  }

  #take(snapshot) {
    const before = this.snapshot;
    // A daemon that was started anew has its first rates of a short time: the line begins again after it.
    const isOther = before && before.daemon.started_at !== snapshot.daemon.started_at;
    if (isOther) this.rates.gap();
    else this.rates.add(snapshot);
    this.snapshot = snapshot;
    this.problem = null;
    if (this.state !== "live") {
      this.lostAt = null;
      this.#tell("live");
    }
    if (isOther) this.dispatchEvent(new CustomEvent("restarted", { detail: { before } }));
    this.dispatchEvent(new Event("snapshot"));
  }

  #tell(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}

export const live = new Live();
document.addEventListener("visibilitychange", () => live.restart());
