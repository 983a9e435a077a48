// The line at the top: who counts, how, since when, and what is missing. The dialog behind it has it in full.

import { Facts, make, setText, show } from "./dom.js";
import { href } from "./route.js";
import { clean, duration, grouped, plural, plus, time } from "./text.js";

const losses = [
  ["ring full", ({ ring_full }) => ring_full, "records came late, none lost", true],
  ["in rows", ({ sockets_folded, calls_folded }) => plus(sockets_folded, calls_folded),
    "sockets and calls count for their process alone", true],
  ["map full", ({ map_full }) => map_full, "reads or packets found no room"],
  ["malformed", ({ records_malformed }) => records_malformed, "records could not be read"],
  ["reports", ({ reports_dropped, reports_rejected }) => plus(reports_dropped, reports_rejected),
    "reports dropped or rejected"],
  ["backwards", ({ counters_backwards }) => counters_backwards, "times a counter fell"],
  ["missed", ({ missed_runs }) => missed_runs, "calls were not seen: a program was preempted"],
  ["failed", ({ reads_failed }) => reads_failed ?? 0, "times something could not be read, and was later", true],
  ["uncounted", ({ uncounted_ns }) => Math.ceil(Number(uncounted_ns ?? 0) / 1e6),
    "ms until other counting programs took over"],
];

/// As the notice of `top`: nothing where nothing was missed, lost or late. Polling has no counts of calls with which it
/// could join reports, and loses nothing by that.
function lossText({ method, loss }) {
  const unjoined = method === "poll" ? 0 : loss.reports_rejected;
  const lost = [loss.map_full, loss.records_malformed, loss.reports_dropped, unjoined].reduce(plus);
  const parts = [];
  if (loss.missed_runs > 0) parts.push(`missed ${plural(loss.missed_runs, "call")}`);
  if (lost > 0) parts.push(`lost ${plural(lost, "record")}`);
  if (loss.uncounted_ns > 0) parts.push(`uncounted ${duration(Number(loss.uncounted_ns) / 1e9)}`);
  const isBad = parts.length > 0;
  if (loss.ring_full > 0) parts.push(`late ${grouped(loss.ring_full)}`);
  return { text: parts.join(", ") || "no losses", level: isBad ? "bad" : parts.length ? "warn" : "good" };
}

function chip(id, onclick) {
  const text = make("span");
  const content = onclick ? make("button", { type: "button", onclick }, text) : make("span", { class: "plain" }, text);
  const element = make("li", { id: `health-${id}`, hidden: true }, content);
  return {
    element,
    set(value, level, title) {
      show(element, value !== undefined);
      if (value === undefined) return;
      setText(text, value);
      if (element.dataset.level !== (level ?? "")) element.dataset.level = level ?? "";
      if (title && content.title !== title) content.title = title;
    },
  };
}

export class Health {
  constructor(list, dialog) {
    this.dialog = dialog;
    this.facts = new Facts("capture");
    dialog.querySelector("#capture-facts").append(this.facts.element);
    const open = () => this.open();
    this.chips = {
      host: chip("host"), method: chip("method", open), since: chip("since", open), loss: chip("losses", open),
      blind: chip("blind-spots", open),
    };
    this.alerts = make("a", {});
    this.alertsItem = make("li", { id: "health-alerts", hidden: true }, this.alerts);
    list.append(...Object.values(this.chips).map(({ element }) => element), this.alertsItem);
  }

  update(snapshot) {
    this.snapshot = snapshot;
    const { host, capture, counting_since, taken_at, alerts_active } = snapshot;
    const isDegraded = capture.method === "poll" || capture.reason !== undefined;
    const isFallback = capture.method === "poll" && capture.reason !== undefined;
    this.chips.host.set(clean(host.name, 64));
    this.chips.method.set(isFallback ? "NOT EXACT: poll" : clean(capture.method, 20),
      isFallback ? "bad" : isDegraded ? "warn" : "good",
      isDegraded ? `How bytes are counted. Not the best way: ${clean(capture.reason ?? "poll", 300)}`
      : "How bytes are counted");
    this.chips.since.set(`counting ${duration((Date.parse(taken_at) - Date.parse(counting_since)) / 1000)}`, undefined,
      `Counting since ${time.full(counting_since)}`);
    const loss = lossText(capture);
    this.chips.loss.set(loss.text, loss.level, "What is missing from the numbers");
    const blind = capture.blind_spots.length;
    this.chips.blind.set(blind ? plural(blind, "blind spot") : "no blind spots", undefined,
      "What the daemon can't see on this machine");
    show(this.alertsItem, alerts_active !== undefined);
    if (alerts_active !== undefined) {
      setText(this.alerts, alerts_active ? plural(alerts_active, "alert") : "no alerts");
      this.alertsItem.dataset.level = alerts_active > 0 ? "bad" : "good";
      const target = href("alerts");
      if (this.alerts.getAttribute("href") !== target) this.alerts.setAttribute("href", target);
    }
    if (this.dialog.open) this.fill();
  }

  open() {
    if (!this.snapshot) return;
    this.fill();
    this.dialog.showModal();
  }

  fill() {
    const { host, daemon, capture, counting_since } = this.snapshot;
    const key = JSON.stringify([capture, daemon, counting_since]);
    if (this.key === key) return;
    this.key = key;
    const list = (texts) => make("ul", {}, ...texts.map((text) => make("li", {}, clean(text, 500))));
    this.facts.update([
      ["Method", clean(capture.method, 20)], ["Why", capture.reason && clean(capture.reason, 600)],
      ["Counting since", `${time.full(counting_since)} (${counting_since})`],
      ["Blind spots", capture.blind_spots.length ? list(capture.blind_spots) : "none known"],
      ["Missing from the numbers", list(losses.map(([name, read, meaning, isHarmless]) =>
        `${name}: ${grouped(read(capture.loss))} ${meaning}${isHarmless ? "; no byte is missing" : ""}`))],
      ["Datagrams of reports", `${grouped(capture.reports.missing_datagrams)} never came`],
      ["Hooks", clean(capture.hooks.join(", ") || "none", 1000)],
      ["Daemon", `trafficd ${clean(daemon.version, 40)}, pid ${daemon.pid}, started ${time.full(daemon.started_at)}`],
      ["Kernel", clean(host.kernel, 100)],
    ]);
  }
}
