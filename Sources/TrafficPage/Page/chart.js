// Charts: uPlot with the page's colours, a live chart, and bars over time.

import { make, makeSVG, setText } from "./dom.js";
import { rate, amount, time } from "./text.js";
import { hostTime, zone } from "./zone.js";

/// A canvas needs colours that are worked out, so an element that is not shown wears each of them.
const probe = make("span", { hidden: true });
document.body.append(probe);
export function color(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

const translucent = (name, opacity) => color(name).replace(/^rgb\((.*)\)$/, (_, parts) => `rgba(${parts}, ${opacity})`);

const font = "11px system-ui, sans-serif";
export const seriesColors = ["series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7"];

function axes(format, lines) {
  const common = { stroke: () => color("muted"), font, ticks: { show: false } };
  return [
    { ...common, grid: { show: false }, space: 70, size: lines * 15 + 14 },
    {
      ...common, size: 74, space: 34, gap: 6, values: (_, ticks) => ticks.map(format),
      grid: { stroke: () => color("line"), width: 1 },
    },
  ];
}

const hour24 = [
  [3600 * 24 * 28, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [3600 * 24, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [3600, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
];

/// What all charts share: the size follows the element, the colours follow the theme, and a tip follows the pointer.
class Chart {
  constructor({ name, label, height, format }) {
    this.format = format;
    this.height = height;
    this.tip = make("div", { class: "tip", hidden: true });
    this.summary = make("p", { class: "hidden", data: { summary: name } });
    this.box = make("div", { class: "canvas" });
    this.box.style.height = `${height}px`;
    this.element = make("figure", { class: "chart", data: { chart: name } },
      make("div", { class: "canvas-frame", role: "img", "aria-label": label }, this.box), this.tip, this.summary);
    new ResizeObserver(() => this.fit()).observe(this.box);
    addEventListener("themechange", () => this.plot?.redraw(false, true));
  }

  build(series, options = {}) {
    this.plot?.destroy();
    const listeners = { setCursor: [(plot) => this.point(plot)], ...options.hooks };
    this.plot = new uPlot({
      width: Math.max(200, this.box.clientWidth), height: this.height,
      padding: [8, 24, 0, 0], legend: { show: false },
      cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false }, ...options.cursor },
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: axes(this.format, options.lines
        ?? 1).map((axis, index) => (index === 0 ? { ...axis, values: hour24 } : axis)),
      ...(options.zone && { tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), options.zone) }),
      series: [{}, ...series], hooks: listeners,
    }, this.data ?? [[]], this.box);
  }

  fit() {
    const width = this.box.clientWidth;
    if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  point(plot) {
    const { idx, left } = plot.cursor;
    this.tip.hidden = idx === null || idx === undefined || left < 0;
    if (this.tip.hidden) return;
    this.tip.replaceChildren(...this.lines(idx));
    const x = left + plot.bbox.left / devicePixelRatio;
    const isRight = x > plot.width / 2;
    this.tip.style.left = isRight ? "" : `${x + 14}px`;
    this.tip.style.right = isRight ? `${plot.width - x + 14}px` : "";
  }

  line(key, text, name) {
    const mark = make("i", { class: "mark" });
    mark.style.background = `var(--${name})`;
    return make("div", {}, mark, make("span", {}, key), make("b", {}, text));
  }
}

/// Sent and received per second, of the last minutes.
export class RateChart extends Chart {
  constructor(name, label, height = 150) {
    super({ name, label, height, format: rate });
  }

  update(times, sent, received) {
    this.data = [times, sent, received];
    if (!this.plot) {
      const line = (name) => ({
        stroke: () => color(name), fill: () => translucent(name, 0.13), width: 1.75, points: { show: false },
      });
      this.build([line("sent-mark"), line("received-mark")]);
    }
    this.plot.setData(this.data, false);
    const end = times.at(-1) ?? Date.now() / 1000;
    // A page that was just opened shows its first minute, and not four empty ones before it.
    this.plot.setScale("x", { min: Math.min(end - 60, Math.max(end - 300, times[0] ?? end)), max: end });
    const last = (values) => values.findLast((value) => value !== null);
    const most = (values) => Math.max(0, ...values);
    setText(this.summary, `Of the last 5 minutes: sent ${rate(last(sent))} now, ${rate(most(sent))} at most; `
      + `received ${rate(last(received))} now, ${rate(most(received))} at most.`);
  }

  lines(index) {
    const [times, sent, received] = this.data;
    return [make("time", {}, time.clock(times[index] * 1000)), this.line("sent", rate(sent[index]), "sent-mark"),
      this.line("received", rate(received[index]), "received-mark")];
  }
}

/// Bars over time, one on another. Dragging over them chooses a time.
export class BarChart extends Chart {
  constructor(name, label, onZoom, height = 240) {
    super({ name, label, height, format: amount });
    this.onZoom = onZoom;
  }

  /// - times: When the bar of each began and ended, in seconds: a day may have 23 hours, and a month 28 days.
  /// - layers: `{ name, color, values }`, from the bottom to the top.
  update(times, layers, range) {
    this.layers = layers;
    let below = times.map(() => 0);
    const stacked = layers.map(({ values }) => (below = below.map((value, index) => value + Number(values[index]))));
    // uPlot draws in order: the whole bar first, and the lower parts over it.
    this.data = [times.map(([start, end]) => (start + end) / 2), ...stacked.toReversed()];
    const bars = uPlot.paths.bars({ size: [0.82, 60], radius: 0.12 });
    const series = layers.toReversed().map((layer) => ({
      stroke: () => color(layer.color), fill: () => color(layer.color), width: 0, paths: bars, points: { show: false },
    }));
    this.starts = times.map(([start]) => start);
    this.build(series, {
      lines: 2, zone: zone(),
      cursor: { points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 6 } },
      hooks: {
        setSelect: [(plot) => {
          if (plot.select.width < 6) return;
          const [from, to] = [plot.select.left, plot.select.left + plot.select.width].map((x) => plot.posToVal(x, "x"));
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          this.onZoom?.(from, to);
        }],
      },
    });
    this.plot.setScale("x", { min: range[0], max: range[1] });
  }

  lines(index) {
    return [make("time", {}, hostTime.minute(this.starts[index] * 1000)), ...this.layers.toReversed()
      .filter(({ values }) => Number(values[index]) > 0)
      .map(({ name, color, values }) => this.line(name, amount(values[index]), color))];
  }
}

/// The rates of the last minute as a small line. An idle row stays as it is.
export function sparkline(cell, values) {
  if (!cell.firstChild) {
    cell.append(makeSVG("svg", { viewBox: "0 0 60 16", preserveAspectRatio: "none", class: "spark",
      "aria-hidden": "true" },
      makeSVG("path", { class: "area" }), makeSVG("path", { class: "line" })));
  }
  const most = Math.max(1, ...values);
  const points = values.map((value,
    index) => `${60 - values.length + index + 1},${(15 - 14 * value / most).toFixed(1)}`);
  const isIdle = !values.some((value) => value > 0);
  const line = isIdle ? "M0,15L60,15" : `M${points.join("L")}`;
  if (cell.lastLine === line) return;
  cell.lastLine = line;
  cell.firstChild.classList.toggle("idle", isIdle);
  const [area, stroke] = cell.firstChild.children;
  stroke.setAttribute("d", line);
  area.setAttribute("d", isIdle ? "" : `${line}L60,16L${60 - values.length + 1},16Z`);
}
