// Parts that several views have: columns of bytes, choices, refusals.

import { get, Problem, token } from "./api.js";
import { make } from "./dom.js";
import { changed, current } from "./route.js";
import { amount, clean, exact, plus, rate } from "./text.js";

const pendingHint = (row) => (row.pending_sent_bytes > 0
  ? `, and ${exact(row.pending_sent_bytes)} in calls that have not returned` : "");

export const rateColumns = [
  {
    key: "sent-rate", title: "Sent/s", label: "Payload sent per second, in the last interval", width: 7.2,
    class: "sent", isRate: true,
    value: (row) => row.rates?.payload_sent_bytes_per_second,
    text: (row) => rate(row.rates?.payload_sent_bytes_per_second),
  },
  {
    key: "received-rate", title: "Received/s", label: "Payload received per second, in the last interval", width: 7.4,
    class: "received", isRate: true, value: (row) => row.rates?.payload_received_bytes_per_second,
    text: (row) => rate(row.rates?.payload_received_bytes_per_second),
  },
];

export const totalColumns = [
  {
    key: "sent", title: "Sent", label: "Payload sent since counting began", rank: 2, width: 6.6,
    value: (row) => Number(plus(row.payload_sent_bytes, row.pending_sent_bytes ?? 0)),
    text: (row) => amount(plus(row.payload_sent_bytes, row.pending_sent_bytes ?? 0)),
    hint: (row) => exact(row.payload_sent_bytes) + pendingHint(row),
  },
  {
    key: "received", title: "Received", label: "Payload received since counting began", rank: 2, width: 6.8,
    value: (row) => Number(row.payload_received_bytes), text: (row) => amount(row.payload_received_bytes),
    hint: (row) => exact(row.payload_received_bytes),
  },
];

/// A column with a name that somebody else chose.
export function nameColumn(key, title, read, more = {}) {
  return {
    key, title, isText: true, class: "name", value: (row) => read(row)?.toLowerCase(),
    text: (row) => clean(read(row)), hint: (row) => (read(row) === undefined ? "" : clean(read(row), 1000)), ...more,
  };
}

/// `:443 → 10.0.0.9:51234`, with the arrow from the one that called.
export function endpoints({ local, remote, role }) {
  const write = ({ address, port }) => `${address.includes(":") ? `[${address}]` : address}:${port}`;
  const hasRemote = remote.port !== 0 || !["0.0.0.0", "::"].includes(remote.address);
  const arrow = role === "client" ? "→" : role === "server" ? "←" : "↔";
  return hasRemote ? `${write(local)} ${arrow} ${write(remote)}` : write(local);
}

/// A choice of one of several, as links: the choice is part of the address.
export function choice(label, name, options, standard) {
  const element = make("nav", { class: "choice", "aria-label": label, data: { choice: name } });
  const links = options.map(([value, text]) => make("a", { data: { value } }, text));
  element.append(...links);
  return {
    element,
    update() {
      const chosen = current().params.get(name) ?? standard;
      links.forEach((link, index) => {
        const value = options[index][0];
        link.href = changed({ [name]: value === standard ? "" : value });
        if (value === chosen) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      });
      return chosen;
    },
  };
}

/// Says what the daemon refused in its own words, and what can be done about it.
export function refusal(problem, retry) {
  const isAboutRights = problem.status === 401 || problem.status === 403;
  const buttons = [];
  if (isAboutRights) {
    buttons.push(make("button", {
      type: "button", class: "primary", data: { action: "token" },
      onclick: () => dispatchEvent(new Event("tokenwanted")),
    }, token.value ? "Enter another token" : "Enter a token"));
  }
  if (retry) buttons.push(make("button", { type: "button", onclick: retry }, "Try again"));
  return make("div", { class: "refusal", role: "status", data: { status: problem.status } },
    make("p", {}, clean(problem.message, 600)), buttons.length > 0 && make("div", { class: "buttons" }, ...buttons));
}

/// Reads something each time it is asked, and drops the answers of earlier questions.
export class Question {
  #stop = null;

  /// Calls `answer` with what `read(signal)` returns, or `refuse` with a ``Problem``.
  async ask(read, answer, refuse) {
    this.cancel();
    const stop = (this.#stop = new AbortController());
    let result;
    try {
      result = await read(stop.signal);
    } catch (error) {
      if (stop.signal.aborted) return;
      refuse(error instanceof Problem ? error : new Problem(0, `The page can't show this: ${error.message}`));
      return;
    } finally {
      if (this.#stop === stop) this.#stop = null;
    }
    if (!stop.signal.aborted) answer(result);
  }

  get isOpen() { return this.#stop !== null; }

  cancel() {
    this.#stop?.abort();
    this.#stop = null;
  }
}

/// Stands in for sockets where a snapshot has none: the stream leaves them out without a word, so the list is asked
/// why.
export class WithheldSockets {
  element = make("div");
  #question = new Question();
  #isAsked = false;

  /// - isWithheld: Whether the snapshot lacks the sockets that were asked for.
  update(isWithheld) {
    if (!isWithheld) {
      this.#isAsked = false;
      if (this.element.firstChild) this.element.replaceChildren();
    } else if (!this.#isAsked) {
      this.#isAsked = true;
      this.#question.ask((signal) => get("/v1/sockets", { sockets_of: "0" }, signal), () => {},
        (problem) => this.element.replaceChildren(refusal(problem)));
    }
  }
}
