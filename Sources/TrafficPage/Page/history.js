// The past: a range that can be dragged, a day, or the report of a month.

import { make, show } from "./dom.js";
import { bucketFor, dimensions, has5Minutes, HistoryPanel } from "./historypanel.js";
import { live } from "./live.js";
import { MonthPanel } from "./month.js";
import { choice } from "./parts.js";
import { change, current } from "./route.js";
import { dayAfter, dayOf, dayStart, hostTime } from "./zone.js";

const ranges = { hour: 1, day: 24, week: 7 * 24, month: 31 * 24 };
const shortest = 10 * 60e3;

function picker(label, name, options) {
  const select = make("select", { id: `choose-${name}`, onchange: () => change({ [name]: select.value }) },
    ...options.map(([value, text]) => make("option", { value }, text)));
  return { element: make("label", { class: "field" }, make("span", {}, label), select), select };
}

const button = (text, label, onclick, action) => make("button",
  { type: "button", title: label, "aria-label": label, onclick, data: { action } }, text);
const two = (part) => String(part).padStart(2, "0");

export class HistoryView {
  title = "History";
  usesFilter = true;
  filterIsOfHistory = true;

  constructor() {
    this.modes = choice("What of the past", "show", [["range", "Range"], ["day", "Day"], ["month", "Month"]], "range");
    this.presets = choice("Time", "range",
      [["hour", "Hour"], ["day", "24 hours"], ["week", "Week"], ["month", "31 days"]], "day");
    this.by = picker("By", "by",
      [["", "total"], ...dimensions.filter((by) => by !== "total").map((by) => [by, by])]);
    this.bucket = picker("A bar for each", "bucket",
      [["", "suitable time"], ["minute", "minute"], ["5minute", "5 minutes"], ["hour", "hour"], ["day", "day"],
      ["month", "month"]]);
    this.moves = make("div", { class: "buttons tight" },
      button("‹", "Earlier", () => this.move(-0.5), "earlier"), button("›", "Later", () => this.move(0.5), "later"),
      button("+", "Zoom in", () => this.scale(0.5), "zoom-in"),
      button("−", "Zoom out", () => this.scale(2), "zoom-out"));
    this.dayName = make("strong", { class: "period", data: { fact: "day" } });
    this.days = make("div", { class: "buttons tight" },
      button("‹", "Previous day", () => this.moveDay(-1), "previous-day"), this.dayName,
      button("›", "Next day", () => this.moveDay(1), "next-day"));
    this.panel = new HistoryPanel("history", {
      onZoom: (from, until) => this.zoom(from * 1000, until * 1000),
      onReport: (_, problem) => dispatchEvent(new CustomEvent("filterproblem", { detail: problem })),
    });
    this.hint = make("p", { class: "note" },
      "Drag over the bars to look at a part of the time. "
      + "All times here are those of the host's clock.");
    this.month = new MonthPanel();
    this.controls = make("div", { class: "controls" }, this.presets.element, this.moves, this.days, this.by.element,
      this.bucket.element);
    this.rangeCard = make("div", { class: "card pad" }, this.panel.element, this.hint);
    this.element = make("div", { class: "stack" }, this.modes.element, this.controls, this.rangeCard,
      this.month.element);
  }

  get table() { return this.mode === "month" ? undefined : this.panel.table; }

  open({ params }) {
    // The first snapshot has the zone in which days and months begin.
    this.awaitsZone = !live.snapshot;
    if (this.awaitsZone) return;
    this.mode = this.modes.update();
    this.presets.update();
    const isMonth = this.mode === "month";
    show(this.controls, !isMonth);
    show(this.rangeCard, !isMonth);
    show(this.month.element, isMonth);
    show(this.presets.element, this.mode === "range");
    show(this.moves, this.mode === "range");
    show(this.days, this.mode === "day");
    if (isMonth) return this.month.open(params);
    this.by.select.value = params.get("by") ?? "";
    this.bucket.select.value = params.get("bucket") ?? "";
    const [since, until] = this.mode === "day" ? this.dayRange(params.get("day")) : this.rangeOf(params);
    [this.since, this.until] = [since, until];
    this.isNow = until >= Date.now() - 1000;
    this.loadedAt = Date.now();
    const [by, filter] = [params.get("by") ?? "total", params.get("filter") ?? ""];
    this.panel.load({ since, until: until > Date.now() ? undefined : until, by, filter,
      bucket: this.bucketOf(params, by, filter, until - since) });
  }

  /// The bars that were chosen, or suitable ones: sums of 5 minutes are not kept for each choice of `by` and `filter`.
  bucketOf(params, by, filter, span) {
    const bucket = params.get("bucket");
    const isKept = bucket && (bucket !== "5minute" || has5Minutes(by, filter));
    return isKept ? bucket : bucketFor(span / 1000, by, filter);
  }

  rangeOf(params) {
    const [since, until] = [Number(params.get("since")), Number(params.get("until"))];
    if (since > 0 && until > since) return [since, until];
    const range = params.get("range");
    const hours = Object.hasOwn(ranges, range) ? ranges[range] : ranges.day;
    return [Date.now() - hours * 3600e3, Date.now()];
  }

  dayRange(text) {
    this.day = /^\d{4}-\d\d-\d\d$/.test(text ?? "") ? text.split("-").map(Number) : dayOf(Date.now());
    const [year, month, day] = this.day;
    const since = dayStart(year, month, day);
    this.dayName.textContent = hostTime.day(since);
    return [since, dayStart(year, month, day + 1)];
  }

  moveDay(step) {
    change({ day: dayAfter(this.day, step).map(two).join("-"), since: "", until: "" });
  }

  zoom(since, until) {
    if (until - since < shortest) {
      const middle = (since + until) / 2;
      [since, until] = [middle - shortest / 2, middle + shortest / 2];
    }
    change({ show: "", day: "", range: "", bucket: "", since: String(Math.round(since)),
      until: String(Math.round(Math.min(until, Date.now()))) });
  }

  move(part) {
    const step = Math.min((this.until - this.since) * part, Date.now() - this.until);
    if (step !== 0) this.zoom(this.since + step, this.until + step);
  }

  scale(factor) {
    const [middle, half] = [(this.since + this.until) / 2, ((this.until - this.since) / 2) * factor];
    this.zoom(middle - half, middle + half);
  }

  /// A minute of history is over each minute.
  update() {
    if (this.awaitsZone) return this.open(current());
    if (this.mode !== "month" && this.isNow && Date.now() - this.loadedAt > 60e3) this.open(current());
  }

  close() {
    this.panel.close();
    this.month.close();
  }
}
