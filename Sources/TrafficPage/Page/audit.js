// The audit of the host, an interface, a process or a socket.

import { AuditPanel } from "./auditpanel.js";
import { make } from "./dom.js";
import { live } from "./live.js";
import { change } from "./route.js";
import { clean } from "./text.js";

export class AuditView {
  title = "Audit";

  constructor() {
    this.of = make("select", { id: "choose-audit", onchange: () => this.choose() });
    this.pid = make("input", { id: "choose-audit-pid", inputMode: "numeric", size: 9, placeholder: "pid",
      onchange: () => change({ interface: "", socket: "", process: this.pid.value.trim() }) });
    this.panel = new AuditPanel();
    this.element = make("div", { class: "stack" },
      make("div", { class: "controls" }, make("label", { class: "field" }, make("span", {}, "Of"), this.of),
        make("label", { class: "field" }, make("span", {}, "or of process"), this.pid)),
      make("div", { class: "card pad" }, this.panel.element,
        make("p", { class: "note" },
          "Four witnesses that know nothing of each other: the calls, TCP's counters, the packets, and the interfaces."
          + " Each line is a difference between two of them that has one reason. What has no reason is unexplained, and"
          + " must be 0.")));
  }

  open({ params }) {
    this.params = params;
    const subject = {};
    for (const kind of ["interface", "process", "socket"]) if (params.get(kind)) subject[kind] = params.get(kind);
    this.pid.value = params.get("process") ?? "";
    this.key = undefined;
    if (live.snapshot) this.update(live.snapshot);
    this.panel.load(subject);
  }

  update(snapshot) {
    const names = (snapshot.interfaces ?? []).map(({ name }) => name);
    const now = this.params.get("interface") ?? "";
    const key = [...names, now].join("\u0000");
    if (this.key === key) return;
    this.key = key;
    const options = names.map((name) => make("option", { value: `i${name}` }, `interface ${clean(name, 40)}`));
    this.of.replaceChildren(make("option", { value: "" }, "the whole host"), ...options);
    this.of.value = now ? `i${now}` : "";
  }

  choose() { change({ process: "", socket: "", interface: this.of.value.slice(1) }); }

  close() { this.panel.close(); }
}
