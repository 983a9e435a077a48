// The rules that something breaks now, and each change as it happens.

import { get, stream } from "./api.js";
import { make, setText, show } from "./dom.js";
import { nameColumn, Question, refusal } from "./parts.js";
import { Table } from "./table.js";
import { amount, clean, duration, exact, grouped, plural, rate, time, UNKNOWN } from "./text.js";

const mostChanges = 200;
const words = { began: "began", next_step: "reached its next step", ended: "ended" };
const percent = (part) => `${(100 * Math.min(1, Math.max(0, part))).toFixed(0)} %`;
const who = ({ process, match }) => process?.name ?? match;
const target = ({ host, route, destination }) => (host !== undefined ? `${host} ${route ?? ""}` : destination);

/// What only some kinds have.
function remark(alert) {
  if (alert.failed_ratio !== undefined) return `${percent(alert.failed_ratio)} failed`;
  if (alert.repeated_ratio !== undefined) return `${percent(alert.repeated_ratio)} repeated`;
  if (alert.past_requests_per_second !== undefined) {
    return `at most ${(60 * alert.past_requests_per_second).toFixed(1)} requests a minute before`;
  }
  if (alert.limit_bytes === undefined) return undefined;
  const end = alert.projected_bytes === undefined ? "" : `, ${amount(alert.projected_bytes)} at the end`;
  return `${Math.round(100 * alert.step_ratio)} % of ${amount(alert.limit_bytes)}${end}`;
}

const columns = [
  nameColumn("rule", "Rule", (row) => row.rule, { width: 8 }),
  nameColumn("process", "Process", who, { rank: 2 }),
  nameColumn("endpoint", "API or destination", target, { rank: 1 }),
  { key: "since", title: "Since", isText: true, width: 11.5, rank: 2, value: (row) => row.since,
    text: (row) => time.minute(row.since), hint: (row) => row.since },
  { key: "rate", title: "Rate/s", width: 7.4, value: (row) => row.bytes_per_second,
    text: (row) => rate(row.bytes_per_second) },
  {
    key: "requests", title: "Requests/min", rank: 1, width: 8, value: (row) => row.requests_per_second,
    text: (row) => (row.requests_per_second === undefined ? UNKNOWN : (60 * row.requests_per_second).toFixed(1)),
  },
  { key: "bytes", title: "So far", width: 6.6, value: (row) => Number(row.bytes), text: (row) => amount(row.bytes),
    hint: (row) => exact(row.bytes) },
  { key: "month", title: "30 days", label: "What 30 days at this rate would be", rank: 2, width: 6.6,
    value: (row) => Number(row.bytes_per_30_days), text: (row) => amount(row.bytes_per_30_days) },
  nameColumn("remark", "Remark", remark, { rank: 1, width: 15 }),
];

export class AlertsView {
  title = "Alerts";

  constructor() {
    this.table = new Table({
      name: "alerts", caption: "Alerts in force", isQuiet: true, columns, sort: { key: "since", descending: false },
      key: (row) => [row.rule, row.process?.name, row.process?.executable, row.process?.uid, row.process?.systemd_unit,
        row.role, target(row)].join("\u0000"),
    });
    this.count = make("p", { class: "note" });
    this.list = make("ol", { class: "changes" });
    this.none = make("p", { class: "empty" },
      "No change since the page was opened. New changes appear here as they happen.");
    this.refused = make("div");
    this.cards = make("div", { class: "stack" },
      make("section", { class: "card" }, make("div", { class: "pad-x" }, make("h2", {}, "In force"), this.count),
        this.table.element),
      make("section", { class: "card pad" }, make("h2", {}, "Changes"), this.none, this.list));
    this.element = make("div", { class: "stack" }, this.refused, this.cards);
    this.question = new Question();
    // A hidden tab asks for nothing. The changes of that time come when it is shown again.
    document.addEventListener("visibilitychange", () => {
      if (this.isOpen) document.hidden ? this.rest() : this.work();
    });
  }

  open() {
    this.isOpen = true;
    if (!document.hidden) this.work();
  }

  work() {
    this.load();
    this.follow();
  }

  rest() {
    clearTimeout(this.timer);
    clearTimeout(this.soon);
    this.soon = undefined;
    this.stop?.abort();
    this.question.cancel();
  }

  load() {
    clearTimeout(this.timer);
    this.question.ask((signal) => get("/v1/alerts", {}, signal), (report) => {
      this.refused.replaceChildren();
      show(this.cards, true);
      const rules = Number(report.rule_count);
      const count = plural(report.alerts.length, "alert");
      setText(this.count, `${plural(rules, "rule")}, ${count} in force at ${time.clock(report.taken_at)}.`);
      this.table.update(report.alerts, rules === 0
        ? "The daemon has no rules, so nothing is judged. To add rules: the section alerts of /etc/trafficd.yaml."
          : "No rule is broken.");
      if (this.isOpen && !document.hidden) this.timer = setTimeout(() => this.load(), 5000);
    }, (problem) => {
      show(this.cards, false);
      this.refused.replaceChildren(refusal(problem, () => this.load()));
      // A daemon that restarts answers again soon.
      const isPassing = problem.status === 0 || problem.status >= 500;
      if (isPassing && this.isOpen && !document.hidden) this.timer = setTimeout(() => this.load(), 5000);
    });
  }

  /// Many changes at once ask for the list once, and changes that come meanwhile once more.
  loadSoon() {
    this.soon ??= setTimeout(() => {
      this.soon = undefined;
      if (this.question.isOpen) this.loadSoon();
      else this.load();
    }, 500);
  }

  /// Goes on after the last change that the page has, also after the connection broke.
  async follow() {
    this.stop?.abort();
    const { signal } = (this.stop = new AbortController());
    while (!signal.aborted) {
      try {
        await stream("/v1/alerts/changes", { after: this.after }, signal, (change) => this.note(change));
      } catch (problem) {
        if ([400, 401, 403].includes(problem.status)) return;
      }
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, 3000));
    }
  }

  note(change) {
    this.after = change.id;
    const missing = Number(change.dropped_before) > 0
      ? `${grouped(change.dropped_before)} changes before are missing. ` : "";
    if (!change.alert) return;
    const { alert } = change;
    this.none.hidden = true;
    const lasted = duration((Date.parse(change.at) - Date.parse(alert.since)) / 1000);
    const text = [
      who(alert) && clean(who(alert), 80), target(alert) && clean(target(alert), 200),
      `${rate(alert.bytes_per_second)}, ${amount(alert.bytes)} in ${lasted}`, remark(alert),
    ].filter(Boolean).join(" · ");
    this.list.prepend(make("li", { class: change.change === "ended" ? "ended" : "began" },
      make("time", {}, time.clock(change.at)),
      make("strong", {}, `${clean(alert.rule, 60)} ${words[change.change] ?? clean(change.change, 20)}`),
      make("span", {}, missing + text)));
    while (this.list.children.length > mostChanges) this.list.lastChild.remove();
    this.loadSoon();
  }

  update() {}

  close() {
    this.isOpen = false;
    this.rest();
  }
}
