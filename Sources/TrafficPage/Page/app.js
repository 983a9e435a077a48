// The page: which view is shown, the filter, the connection, and the display settings.

import { AlertsView } from "./alerts.js";
import { onTokenWanted, token } from "./api.js";
import { ApisView, ApiView } from "./apis.js";
import { AuditView } from "./audit.js";
import { RateChart } from "./chart.js";
import { make, setText, setTitle, show } from "./dom.js";
import { setUpDisplay } from "./display.js";
import { Health } from "./health.js";
import { HistoryView } from "./history.js";
import { HostsView } from "./hosts.js";
import { listenToKeys } from "./keys.js";
import { live } from "./live.js";
import { ProcessView } from "./process.js";
import { ProcessesView } from "./processes.js";
import { refusal } from "./parts.js";
import { change, current, go, href } from "./route.js";
import { ScopesView } from "./scopes.js";
import { SocketsView, SocketView } from "./sockets.js";
import { amount, clean, duration, exact, plus, rate, time } from "./text.js";

const lists = {
  processes: ProcessesView, apis: ApisView, sockets: SocketsView, hosts: HostsView, scopes: ScopesView,
  history: HistoryView, audit: AuditView, alerts: AlertsView,
};
const details = { processes: ProcessView, apis: ApiView, sockets: SocketView };
const names = Object.keys(lists);
const made = new Map();
const $ = (id) => document.getElementById(id);
const titleOf = (name) => (name === "apis" ? "APIs" : name[0].toUpperCase() + name.slice(1));
let view;

// MARK: Views

const links = names.map((name, index) => make("a", { data: { view: name }, title: `Key ${index + 1}` },
  make("span", {}, titleOf(name)),
  make("kbd", { "aria-hidden": "true" }, String(index + 1))));
$("views").append(...links);

function route() {
  const place = current();
  const name = Object.hasOwn(lists, place.view) ? place.view : "processes";
  const kind = place.id && details[name] ? `${name}/` : name;
  if (!made.has(kind)) made.set(kind, new (kind === name ? lists : details)[name]());
  const next = made.get(kind);
  if (next !== view) view?.close?.();
  const isOther = next !== view;
  view = next;
  for (const link of links) {
    link.href = href(link.dataset.view);
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  sayTitle();
  show($("back"), view.parent !== undefined);
  if (view.parent) {
    $("back").href = href(view.parent);
    setText($("back"), `‹ ${titleOf(view.parent)}`);
  }
  const filter = view.usesFilter ? place.params.get("filter") ?? "" : "";
  show($("filter-form"), view.usesFilter === true);
  show($("now"), view.hasChart === true);
  if ($("filter") !== document.activeElement) $("filter").value = place.params.get("filter") ?? "";
  show($("clear-filter"), $("filter").value !== "");
  sayFilterProblem();
  if (isOther) $("view").replaceChildren(view.element);
  // History knows other terms than the live views, so it alone decides whether its filter is right.
  live.ask({ filter: view.filterIsOfHistory ? "" : filter, ...view.demand?.(place) });
  view.open(place);
  if (live.snapshot) update();
  if (isOther) {
    scrollTo(0, 0);
    announce(view.title);
  }
}

function sayTitle() {
  const title = view.subject ?? view.title;
  setText($("title"), title);
  if (document.title !== `${title} · trafficd`) document.title = `${title} · trafficd`;
}

function update() {
  const { snapshot } = live;
  health.update(snapshot);
  const { totals } = snapshot;
  setText($("now-sent"), rate(totals.rates.payload_sent_bytes_per_second));
  setText($("now-received"), rate(totals.rates.payload_received_bytes_per_second));
  for (const [id, bytes] of [["all-sent", plus(totals.payload_sent_bytes, totals.pending_sent_bytes)],
    ["all-received", totals.payload_received_bytes]]) {
    setText($(id), `${amount(bytes)} in all`);
    setTitle($(id), exact(bytes));
  }
  if (view.hasChart) chart.update(...live.rates.series("total"));
  view.update(snapshot);
  sayTitle();
}

// MARK: Filter

function sayFilterProblem(problem) {
  const isAbout = problem !== undefined && problem.status !== 401;
  show($("filter-problem"), isAbout);
  setText($("filter-problem"), isAbout ? clean(problem.message, 500) : "");
  $("filter").setAttribute("aria-invalid", String(isAbout));
}

function applyFilter() {
  const filter = $("filter").value.trim();
  if (filter !== (current().params.get("filter") ?? "")) change({ filter }, { replace: true });
}

let typing;
$("filter").addEventListener("input", () => {
  show($("clear-filter"), $("filter").value !== "");
  clearTimeout(typing);
  typing = setTimeout(applyFilter, 350);
});
$("filter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  applyFilter();
  $("filter").blur();
});
const clearFilter = () => {
  $("filter").value = "";
  applyFilter();
};
$("clear-filter").addEventListener("click", clearFilter);
addEventListener("filterproblem",
  ({ detail }) => sayFilterProblem(detail?.parameter === "filter" ? detail : undefined));

// MARK: Connection

const announce = (text) => setText($("announcer"), text);
let lastState, restartText = "", restartedUntil = 0;

function sayState() {
  const { state, problem } = live;
  const isFilter = state === "refused" && (problem.parameter === "filter" || (problem.status === 403 && live.filter));
  if (view?.usesFilter && !view.filterIsOfHistory && live.filter) sayFilterProblem(isFilter ? problem : undefined);
  const why = problem?.status ? `: ${clean(problem.message, 200)}` : ".";
  const seconds = (Date.now() - live.lostAt) / 1000;
  const ago = seconds < 2 ? "" : ` Last seen ${duration(seconds)} ago.`;
  const lost = () => `trafficd does not answer${why}${ago} Trying again.`;
  const text = state === "lost" ? lost() : state === "paused" ? "Paused. Counting goes on in the daemon."
    : Date.now() < restartedUntil ? restartText : "";
  $("banner").dataset.state = Date.now() < restartedUntil && state === "live" ? "restarted" : state;
  if (state === "refused" && !isFilter) {
    if (lastState !== state) $("banner").replaceChildren(refusal(problem, () => live.restart()));
    $("banner").lastText = undefined;
    show($("banner"), true);
  } else {
    setText($("banner"), text);
    show($("banner"), text !== "");
  }
  document.body.classList.toggle("stale", state === "lost" || state === "refused");
  // The banner counts seconds, which nobody wants to hear; what it begins with is said once.
  if (state !== lastState && state === "lost") announce("trafficd does not answer.");
  if (state !== lastState && state === "paused") announce("Paused.");
  if (state !== lastState && lastState === "lost" && state === "live") announce("trafficd answers again.");
  lastState = state;
}

live.addEventListener("snapshot", update);
live.addEventListener("state", sayState);
live.addEventListener("restarted", ({ detail: { before } }) => {
  const { snapshot } = live;
  restartedUntil = Date.now() + 20000;
  const goesOn = before.counting_since === snapshot.counting_since;
  restartText = `trafficd was started anew at ${time.clock(snapshot.daemon.started_at)}. `
    + (goesOn ? "The numbers go on: the kernel counted meanwhile."
      : `The numbers begin again: counting since ${time.clock(snapshot.counting_since)}.`);
  sayState();
});
setInterval(() => {
  if (live.state === "lost" || restartedUntil > 0) sayState();
  if (restartedUntil > 0 && Date.now() > restartedUntil) restartedUntil = 0;
}, 1000);

// MARK: Token

onTokenWanted((wasWrong) => openToken(wasWrong ? "The daemon does not know the token that you entered." : undefined));
addEventListener("tokenwanted", () => openToken());
function openToken(text) {
  if ($("token-dialog").open) return;
  const ask = "Enter the token that its administrator gave you. This tab keeps it until you close the tab.";
  setText($("token-text"), text ? `${text} ${ask}` : ask);
  $("token").value = "";
  $("token-dialog").showModal();
}
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set($("token").value.trim());
  $("token-dialog").close();
  lastState = undefined;
  live.restart();
  view.close?.();
  route();
});
for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click",
  () => button.closest("dialog").close());

// MARK: Start

const health = new Health($("health"), $("capture"));
const chart = new RateChart("rate", "Payload sent and received per second in the last 5 minutes; a summary follows",
  132);
$("now-chart").append(chart.element);
const display = setUpDisplay(() => {
  if (live.snapshot) update();
  if (view?.filterIsOfHistory) view.open(current());
});
listenToKeys({
  ...display, clearFilter,
  filter: () => (view.usesFilter ? ($("filter").focus(), $("filter").select()) : false),
  capture: () => health.open(), view: (name) => go(name), reverse: () => view.table?.reverse(),
  move: (step) => view.table?.move(step) ?? false,
  back: () => (view.parent ? go(view.parent) : document.activeElement.blur()),
}, names);
addEventListener("hashchange", route);
route();
