// Making elements. Text goes in as text only: nothing here reads markup.

/// `make("button", { class: "quiet", onclick }, "Text", child)`. A property is set on the element, an attribute if its
/// name has a hyphen or is one that elements have no property for.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.includes("-") || ["role", "scope", "for", "list"].includes(name)) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

const svgSpace = "http://www.w3.org/2000/svg";

export function makeSVG(tag, attributes = {}, ...children) {
  const element = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/// Writes text only where it changed, so that the browser has nothing to lay out otherwise.
export function setText(element, text) {
  if (element.lastText === text) return;
  element.lastText = text;
  element.textContent = text;
}

export function setTitle(element, text) {
  if (element.title !== text) element.title = text;
}

export function show(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

/// A list of facts: pairs of a label and a text or an element. Labels are keys: a fact without a value is left out.
export class Facts {
  constructor(name) {
    this.element = make("dl", { class: "facts", data: { facts: name } });
    this.values = new Map();
  }

  update(pairs) {
    const known = pairs.filter(([, value]) => value !== undefined);
    const wanted = new Set(known.map(([label]) => label));
    for (const [label, entry] of this.values) {
      if (wanted.has(label)) continue;
      entry.remove();
      this.values.delete(label);
    }
    known.forEach(([label, value, key], index) => {
      let entry = this.values.get(label);
      if (!entry) {
        entry = make("div", {}, make("dt", {}, label), make("dd", key ? { data: { fact: key } } : {}));
        this.values.set(label, entry);
      }
      if (this.element.children[index] !== entry) this.element.insertBefore(entry,
        this.element.children[index] ?? null);
      if (value instanceof Node) {
        if (entry.lastChild.firstChild !== value) entry.lastChild.replaceChildren(value);
      } else setText(entry.lastChild, value);
    });
  }
}

/// An opaque name for what a local user named: routes and hosts never become part of a link. Whoever chooses names can
/// give two of them the same one.
export function opaque(text) {
  let low = 0x811c9dc5, high = 0x1b873593;
  for (const character of text) {
    const code = character.codePointAt(0);
    low = Math.imul(low ^ code, 0x01000193) >>> 0;
    high = Math.imul((high ^ code) + low, 0x85ebca6b) >>> 0;
  }
  return low.toString(16).padStart(8, "0") + high.toString(16).padStart(8, "0");
}
