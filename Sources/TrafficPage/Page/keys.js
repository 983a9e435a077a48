// The keyboard. One list decides what the keys do and what the help says.

import { make } from "./dom.js";

/// - actions: What the page can do, by name.
export function listenToKeys(actions, views) {
  const bindings = [
    [["1–8"], "a view"], [["/"], "filter", actions.filter], [["\\"], "no filter", actions.clearFilter],
    [["j", "ArrowDown"], "a row down", () => actions.move(1)], [["k", "ArrowUp"], "a row up", () => actions.move(-1)],
    [["Enter"], "open the row"], [["Escape"], "back, or close"], [["r"], "reverse the order", actions.reverse],
    [["b"], "bytes or bits", actions.units], [["Space"], "pause; counting goes on", actions.pause],
    [["c"], "how bytes are counted, and losses", actions.capture], [["t"], "light, dark or system", actions.theme],
    [["?"], "this help", actions.help],
  ];
  const names = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };
  document.querySelector("#keys").append(...bindings.map(([keys, text]) => make("div", {},
    make("dt", {}, ...keys.map((key) => make("kbd", {}, names[key] ?? key))), make("dd", {}, text))));
  const byKey = new Map(bindings.flatMap(([keys, , action]) => (action
    ? keys.map((key) => [key === "Space" ? " " : key, action]) : [])));

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing
      || document.querySelector("dialog[open]")) return;
    const { target } = event;
    const isTyping = target.matches("input, select, textarea");
    if (event.key === "Escape") {
      if (isTyping) return void target.blur();
      return void actions.back();
    }
    if (isTyping) return;
    // A button takes Space itself.
    if (event.key === " " && target.matches("button, summary")) return;
    const view = /^[1-9]$/.test(event.key) ? views[Number(event.key) - 1] : undefined;
    const action = view ? () => actions.view(view) : byKey.get(event.key);
    if (action && action() !== false) event.preventDefault();
  });
}
