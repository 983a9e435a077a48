// Theme, units, pause and help: how the page shows what it has.

import { isExact } from "./api.js";
import { setText } from "./dom.js";
import { live } from "./live.js";
import { applyTheme, settings } from "./settings.js";

const $ = (id) => document.getElementById(id);
const themes = ["system", "light", "dark"];

/// - redraw: Called when the numbers are to be written in other units.
/// - Returns: What the keyboard can do.
export function setUpDisplay(redraw) {
  function showSettings() {
    applyTheme();
    setText($("theme"), { system: "System", light: "Light", dark: "Dark" }[settings.theme]);
    $("theme").setAttribute("aria-label", `Theme: ${settings.theme}`);
    setText($("units"), settings.units === "bits" ? "Bits" : "Bytes");
    $("units").setAttribute("aria-label", `Units: ${settings.units}`);
    dispatchEvent(new Event("themechange"));
  }
  const actions = {
    theme() {
      settings.set("theme", themes[(themes.indexOf(settings.theme) + 1) % themes.length]);
      showSettings();
    },
    units() {
      settings.set("units", settings.units === "bits" ? "bytes" : "bits");
      showSettings();
      redraw();
    },
    pause() {
      live.isPaused = !live.isPaused;
      $("pause").setAttribute("aria-pressed", String(live.isPaused));
      setText($("pause").querySelector(".word"), live.isPaused ? "Go on" : "Pause");
      setText($("pause").querySelector(".glyph"), live.isPaused ? "▶" : "❚❚");
    },
    help() { $("help").showModal(); },
  };
  for (const name of ["theme", "units", "pause"]) $(name).addEventListener("click", actions[name]);
  $("help-button").addEventListener("click", actions.help);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showSettings);
  setText($("exactness"), "Hover over a number to see every digit. "
    + (isExact ? "Numbers are exact, also beyond 2^53." : "This browser rounds numbers beyond 2^53."));
  // A link to #main would be taken for a view.
  $("skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("main").focus();
  });
  showSettings();
  return actions;
}
