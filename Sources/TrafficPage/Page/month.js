// The report of a month: totals, projection, 95th percentile, and what the budgets allow.

import { get } from "./api.js";
import { BarChart } from "./chart.js";
import { make, setText, show } from "./dom.js";
import { live } from "./live.js";
import { Question, refusal } from "./parts.js";
import { change } from "./route.js";
import { slots } from "./historypanel.js";
import { amount, bitRate, clean, duration, exact, grouped, plural, plus, share, UNKNOWN } from "./text.js";
import { dayOf, dayStart, hostTime } from "./zone.js";

const monthName = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
const scopes = ["internet", "lan", "same_host", "loopback"];
const factors = { k: 1e3, M: 1e6, G: 1e9, T: 1e12 };

/// `100M` in bits per second, as trafficctl takes it.
function bitsPerSecond(text) {
  const match = /^(\d+(?:\.\d+)?)([kMGT]?)$/.exec(text ?? "");
  return match ? Math.round(Number(match[1]) * (factors[match[2]] ?? 1)) : undefined;
}

function row(label, payload, wire, write = amount, hint = exact) {
  const cell = (value, kind) => make("td",
    { class: "number", title: value === undefined ? "" : hint(value), data: { value: kind } }, write(value));
  return make("tr", { data: { line: label } }, make("th", { scope: "row" }, label),
    ...payload.map((value, index) => cell(value, ["sent", "received", "both"][index])),
    ...wire.map((value, index) => cell(value, ["wire-sent", "wire-received"][index])));
}

const bytesRow = (label, bytes) => bytes && row(label,
  [bytes.payload_sent_bytes, bytes.payload_received_bytes,
    plus(bytes.payload_sent_bytes, bytes.payload_received_bytes)],
  [bytes.wire_sent_bytes, bytes.wire_received_bytes]);

/// `2026-11`, of the host's clock.
const presentMonth = () => dayOf(Date.now()).slice(0, 2).map((part) => String(part).padStart(2, "0")).join("-");

export class MonthPanel {
  constructor() {
    this.name = make("strong", { class: "period", data: { fact: "month" } });
    const step = (text, label, by, action) => make("button",
      { type: "button", title: label, "aria-label": label, data: { action }, onclick: () => this.move(by) }, text);
    this.part = make("select", { id: "choose-part", onchange: () => this.choosePart() });
    this.limit = make("input", { id: "choose-exceeding", placeholder: "100M", size: 6,
      onchange: () => change({ exceeding: this.limit.value.trim() }) });
    this.controls = make("div", { class: "controls" },
      make("div", { class: "buttons tight" }, step("‹", "Previous month", -1, "previous-month"), this.name,
        step("›", "Next month", 1, "next-month")),
      make("label", { class: "field" }, make("span", {}, "Of"), this.part),
      make("label", { class: "field" }, make("span", {}, "Above, in bit/s"), this.limit));
    this.chart = new BarChart("month", "Bytes of each day; the table has the sums",
      (from, until) => change({ show: "", month: "", since: String(Math.round(from * 1000)),
      until: String(Math.round(until * 1000)) }), 190);
    this.body = make("tbody");
    this.table = make("table", { class: "sums", data: { table: "month" } },
      make("caption", { class: "hidden" }, "Sums of the month"),
      make("thead", {}, make("tr", {}, make("td"),
        ...["Sent", "Received", "Both", "Wire sent", "Wire received"]
          .map((title) => make("th", { scope: "col", class: "number" }, title)))), this.body);
    this.budgets = make("div", { class: "stack" });
    this.notes = make("ul", { class: "notes" });
    this.content = make("div", { class: "card pad stack" }, this.budgets, this.chart.element,
      make("div", { class: "scrolls" }, this.table), this.notes);
    this.message = make("div");
    this.element = make("div", { class: "stack" }, this.controls, this.message, this.content);
    this.question = new Question();
  }

  open(params) {
    this.params = params;
    const parts = [["", "all bytes"], ...scopes.map((scope) => [`scope:${scope}`, `scope ${scope.replace("_", " ")}`]),
      ...Object.keys(live.snapshot?.totals.by_class ?? {})
        .map((name) => [`class:${name}`, `class ${clean(name, 40)}`])];
    // A month of which nothing is kept has a name too, and one before and one after it.
    this.#say(params.get("month") ?? presentMonth());
    this.part.replaceChildren(...parts.map(([value, text]) => make("option", { value }, text)));
    const [kind, of] = params.get("scope") ? ["scope", params.get("scope")] : params.get("class")
      ? ["class", params.get("class")] : [];
    this.part.value = kind ? `${kind}:${of}` : "";
    this.limit.value = params.get("exceeding") ?? "";
    const query = { month: params.get("month") ?? undefined, exceeding: bitsPerSecond(params.get("exceeding")),
      ...(kind && { [kind]: of }) };
    this.question.ask(async (signal) => {
      const report = await get("/v1/history/month", query, signal);
      const isOwn = (row) => !kind || row[kind] === of;
      const days = await get("/v1/history",
        { since: report.since, until: report.until, bucket: "day", by: kind ?? "total" },
        signal).catch(() => undefined);
      const alerts = await get("/v1/alerts", {}, signal).catch(() => undefined);
      return { report, days: days && { ...days, rows: days.rows.filter(isOwn) }, alerts };
    }, (answer) => this.show(answer), (problem) => {
      show(this.content, false);
      this.message.replaceChildren(refusal(problem, () => this.open(params)));
    });
  }

  show({ report, days, alerts }) {
    this.message.replaceChildren();
    show(this.content, true);
    const [year, month] = this.#say(report.month);
    const rates = report.percentile_95, excess = report.exceeding;
    this.body.replaceChildren(...[
      bytesRow("total", report.totals), bytesRow("daily average", report.daily_average),
      report.top_day && bytesRow(`most, on ${hostTime.day(report.top_day.time)}`, report.top_day),
      bytesRow("projection", report.projection),
      rates && row("95th percentile", [rates.payload_sent_bits_per_second, rates.payload_received_bits_per_second,
        undefined],
        [rates.wire_sent_bits_per_second, rates.wire_received_bits_per_second], bitRate,
        (value) => `${grouped(value)} bit/s`),
      excess && row(`above ${bitRate(excess.rate_bits_per_second)}`,
        [excess.payload_sent_count, excess.payload_received_count, undefined],
        [excess.wire_sent_count, excess.wire_received_count],
        (value) => (value === undefined ? UNKNOWN : grouped(value)), (value) => plural(value, "interval")),
    ].filter(Boolean));
    this.showDays(report, days, year, month);
    this.showBudgets(alerts);
    const { counted_count, count } = report.intervals;
    const left = Number(count) - Number(counted_count);
    this.notes.replaceChildren(...[
      `${duration(Number(report.counted_seconds))} were counted, ${duration(Number(report.missing_seconds))} were not. `
        + "What was missing stays missing.",
      Number(counted_count) === 0
        ? "No interval of 5 minutes is over in which something was counted, so there is no percentile."
        : `95th percentile: of ${plural(counted_count, "interval")} of 5 minutes, a twentieth, rounded down, `
          + "has a higher rate."
          + (left > 0 ? ` ${plural(left, "interval")} that were not counted, or are removed, are left out.` : ""),
      excess && "above: how many of these intervals had a higher rate.",
      report.projection ? "projection: the total, and for the rest of the month the average of the counted time."
        : "A projection needs an hour of counted time, and a month that is not over.",
    ].filter(Boolean).map((text) => make("li", {}, text)));
  }

  #say(text) {
    this.month = /^\d{4}-\d\d$/.test(text) ? text : presentMonth();
    const [year, month] = this.month.split("-").map(Number);
    setText(this.name, monthName.format(Date.UTC(year, month - 1)));
    return [year, month];
  }

  showDays(report, days, year, month) {
    show(this.chart.element, days !== undefined);
    if (!days) return;
    const { times, of } = slots(report, "day", dayStart(year, month + 1, 1));
    const layer = (name) => ({ name, color: `${name}-mark`, values: times.map(() => 0) });
    const layers = [layer("received"), layer("sent")];
    for (const row of days.rows) {
      layers[0].values[of(row)] = plus(layers[0].values[of(row)], row.payload_received_bytes);
      layers[1].values[of(row)] = plus(layers[1].values[of(row)], row.payload_sent_bytes);
    }
    this.chart.update(times, layers, [times[0][0], times.at(-1)[1]]);
    setText(this.chart.summary,
      layers.map(({ name, values }) =>
      `${name}: ${values.filter((value) => value > 0).length} days with bytes`).join("; "));
  }

  showBudgets(alerts) {
    const budgets = (alerts?.alerts ?? []).filter(({ kind, limit_bytes }) => kind === "bytes"
      && limit_bytes !== undefined);
    this.budgets.replaceChildren(...budgets.map((alert) => {
      const meter = make("span");
      meter.classList.toggle("full", Number(alert.bytes) >= Number(alert.limit_bytes));
      meter.style.width = `${Math.min(100, (100 * Number(alert.bytes)) / Number(alert.limit_bytes))}%`;
      return make("div", { class: "budget", title: exact(alert.bytes) },
        make("div", {}, make("strong", {}, `Budget ${clean(alert.rule, 60)}`),
          make("span", {}, ` ${amount(alert.bytes)} of ${amount(alert.limit_bytes)} `
            + `(${share(alert.bytes, alert.limit_bytes)})`
            + (alert.projected_bytes === undefined ? ""
            : `, ${amount(alert.projected_bytes)} at the end if it goes on like this`))),
        make("span", { class: "meter wide" }, meter));
    }));
    show(this.budgets, budgets.length > 0);
  }

  choosePart() {
    const [kind, of] = this.part.value.split(":");
    change({ scope: kind === "scope" ? of : "", class: kind === "class" ? of : "" });
  }

  move(step) {
    const [year, month] = this.month.split("-").map(Number);
    change({ month: new Date(Date.UTC(year, month - 1 + step)).toISOString().slice(0, 7) });
  }

  close() { this.question.cancel(); }
}
