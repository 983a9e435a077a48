// Rules that a page must keep for people who don't see it, or don't use a mouse. Returns what breaks them.
const broken = [];
const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
const say = (rule, element, more = "") =>
  broken.push(`${rule}: <${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ""}> ${more}`.trim());

function nameOf(element) {
  const label = element.getAttribute("aria-label");
  if (label) return label;
  const by = element.getAttribute("aria-labelledby");
  if (by) return document.getElementById(by)?.textContent ?? "";
  if (element.labels?.length) return element.labels[0].textContent;
  return element.innerText?.trim() || element.alt || element.title || "";
}

for (const element of document.querySelectorAll("a, button, input, select, textarea, summary")) {
  if (isShown(element) && !nameOf(element).trim()) say("a control has no name", element);
}
for (const element of document.querySelectorAll("img")) if (!element.hasAttribute("alt")) say("an image has no alt",
  element);
for (const element of document.querySelectorAll("[role=img]:not([aria-label])")) say("a drawing has no name", element);

for (const landmark of ["header", "nav", "main"]) {
  if (document.querySelectorAll(landmark).length < 1) broken.push(`there is no ${landmark}`);
}
if (document.querySelectorAll("main").length !== 1) broken.push("there must be one main");
const headings = [...document.querySelectorAll("h1")].filter(isShown);
if (headings.length !== 1) broken.push(`there are ${headings.length} h1`);
let level = 0;
for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
  if (!isShown(heading)) continue;
  const now = Number(heading.tagName[1]);
  if (now > level + 1) say("a heading skips a level", heading, heading.textContent);
  level = now;
}
if (!document.documentElement.lang) broken.push("the page has no language");
if (!document.title) broken.push("the page has no title");

for (const table of document.querySelectorAll("table")) {
  if (!isShown(table)) continue;
  if (!table.caption?.textContent) say("a table has no caption", table);
  for (const header of table.querySelectorAll("th")) if (!header.getAttribute("scope")) say("a header has no scope",
    header, header.textContent);
  const sorted = table.querySelectorAll("thead th[aria-sort]:not([aria-sort=none])");
  if (table.querySelector(".sort") && sorted.length !== 1) say(`${sorted.length} columns say that they are sorted`,
    table);
}

const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
for (const id of new Set(ids.filter((id,
  index) => ids.indexOf(id) !== index))) broken.push(`the id ${id} is there twice`);
for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) say("a tabindex is above 0",
  element);

// Contrast (WCAG 2.2, 1.4.3): a canvas works out every way of writing a colour.
const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d",
  { willReadFrequently: true });
const known = new Map();
function parsed(color) {
  if (!known.has(color)) {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
    known.set(color, [red, green, blue, alpha / 255]);
  }
  return known.get(color);
}
const over = (top, below) => [0, 1, 2].map((index) => top[index] * top[3] + below[index] * (1 - top[3])).concat(1);
function background(element) {
  const layers = [];
  for (let part = element; part; part = part.parentElement) {
    const color = parsed(getComputedStyle(part).backgroundColor);
    if (color[3] > 0) layers.push(color);
    if (color[3] === 1) break;
  }
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || matchMedia("(prefers-color-scheme: dark)").matches;
  return layers.reduceRight((below, top) => over(top, below), isDark ? [0, 0, 0, 1] : [255, 255, 255, 1]);
}
const luminance = (color) => color.slice(0, 3).map((value) => value / 255)
  .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
  .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
function contrast(first, second) {
  const [low, high] = [luminance(first), luminance(second)].sort((left, right) => left - right);
  return (high + 0.05) / (low + 0.05);
}

let least = 21;
const seen = new Set();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || !isShown(element) || element.closest(".hidden, option, noscript")) continue;
  const style = getComputedStyle(element);
  const back = background(element);
  const ratio = contrast(over(parsed(style.color), back), back);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  least = Math.min(least, ratio);
  const key = `${style.color} on ${back.map(Math.round)}`;
  if (ratio < (isLarge ? 3 : 4.5) && !seen.has(key)) {
    seen.add(key);
    say(`contrast ${ratio.toFixed(2)}`, element, `${key}: ${node.data.trim().slice(0, 40)}`);
  }
}

// Lines and bars of charts (1.4.11), and the letters on their axes.
const probe = document.body.appendChild(document.createElement("span"));
const card = parsed((probe.style.color = "var(--card)", getComputedStyle(probe).color));
for (const [name, needed] of [["muted", 4.5], ["sent-mark", 3], ["received-mark", 3], ["accent", 3],
  ...[1, 2, 3, 4, 5, 6, 7].map((index) => [`series-${index}`, 3])]) {
  probe.style.color = `var(--${name})`;
  const ratio = contrast(parsed(getComputedStyle(probe).color), card);
  if (ratio < needed) broken.push(`contrast ${ratio.toFixed(2)} of --${name} on a card`);
}
probe.remove();

return { broken, least_contrast: Math.round(least * 100) / 100 };
