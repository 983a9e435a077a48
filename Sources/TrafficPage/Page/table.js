// Tables whose rows are kept: an update changes the texts that differ and moves the rows that changed places.

import { make, setText, setTitle, show } from "./dom.js";
import { settings } from "./settings.js";

/// Rows beyond this are in the document only on request.
const mostRows = 200;

/// A column is `{ key, title, text(row) }` and may have:
/// - value(row): what to sort by; without it the column has no order. `isText` sorts A to Z first.
/// - hint(row): more, on hover. label: the title in full.
/// - draw(cell, row): fills a cell that has more than text. isLazy: only where it can be seen.
/// - width: in rem; the column without one takes what is left.
/// - rank: 1 hides below a desktop's width, 2 below a tablet's; 0 stays on a phone.
export class Table {
  /// - link(row): the address that Enter and a click open, if the row has one.
  constructor({ name, caption, columns, key, link, sort, isQuiet }) {
    Object.assign(this, { name, columns, key, link });
    this.sort = settings.sort(name) ?? sort;
    if (!columns.some((column) => column.key === this.sort?.key)) this.sort = sort;
    this.rows = new Map();
    this.data = [];
    this.isAll = false;
    this.headers = new Map();
    const groups = make("colgroup");
    const head = make("tr");
    for (const column of columns) {
      const rank = `rank-${column.rank ?? 0}`;
      const col = make("col", { class: rank });
      if (column.width) col.style.setProperty("--width", `${column.width}rem`);
      groups.append(col);
      const title = column.value
        ? make("button", { type: "button", class: "sort", onclick: () => this.sortBy(column) }, column.title)
        : column.title;
      const header = make("th", {
        scope: "col", class: `${rank} ${column.isText ? "text" : "number"}`, data: { column: column.key },
        title: column.label,
      }, title);
      this.headers.set(column.key, header);
      head.append(header);
    }
    this.body = make("tbody");
    this.more = make("button", { type: "button", class: "quiet more", hidden: true, onclick: () => this.showAll() });
    this.note = make("p", { class: "empty", hidden: true });
    this.table = make("table", { data: { table: name } },
      make("caption", { class: isQuiet ? "hidden" : "" }, caption), groups, make("thead", {}, head), this.body);
    this.element = make("div", { class: "table" }, this.table, this.note, this.more);
    this.body.addEventListener("click", (event) => this.#click(event));
    this.body.addEventListener("focusin", (event) => this.#focus(event.target.closest("tr")));
    this.seen = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
      const { row } = target;
      row.isSeen = isIntersecting;
      if (isIntersecting) this.#fill(row, row.item);
    }), { rootMargin: "200px" });
    this.#showOrder();
  }

  /// - empty: what to say where there are no rows: a text or an element.
  update(data, empty = "Nothing to show.") {
    this.data = data;
    const sorted = this.#sorted(data);
    const shown = this.isAll ? sorted : sorted.slice(0, mostRows);
    const kept = new Set(shown.map(this.key));
    for (const [key, row] of this.rows) {
      if (kept.has(key)) continue;
      this.seen.unobserve(row.element);
      row.element.remove();
      this.rows.delete(key);
    }
    let place = this.body.firstChild;
    for (const item of shown) {
      const row = this.#row(item);
      // The row that the keyboard is on keeps the focus: the others are moved around it.
      if (row.element === place) place = place.nextSibling;
      else if (row.element.contains(document.activeElement)) {
        while (place && place !== row.element) {
          const next = place.nextSibling;
          this.body.append(place);
          place = next;
        }
        place = row.element.nextSibling;
      } else if (place && row.element === place.nextSibling) {
        // A row that fell far: moving it alone is less than moving all rows that it fell past.
        this.body.append(place);
        place = row.element.nextSibling;
      } else this.body.insertBefore(row.element, place);
      this.#fill(row, item);
    }
    show(this.more, sorted.length > shown.length);
    setText(this.more, `Show all ${sorted.length} rows`);
    show(this.note, data.length === 0);
    if (data.length === 0 && this.empty !== empty) {
      this.empty = empty;
      this.note.replaceChildren(empty);
    }
    this.#tabStop();
  }

  redraw() { this.update(this.data, this.empty); }

  showAll() {
    this.isAll = true;
    this.redraw();
  }

  sortBy(column) {
    const isSame = this.sort?.key === column.key;
    this.sort = { key: column.key, descending: isSame ? !this.sort.descending : !column.isText };
    settings.setSort(this.name, this.sort);
    this.#showOrder();
    this.redraw();
  }

  reverse() {
    const column = this.columns.find(({ key }) => key === this.sort?.key);
    if (column) this.sortBy(column);
  }

  /// Moves the keyboard by so many rows, from no row to the first.
  move(step) {
    const rows = [...this.body.rows];
    const now = rows.indexOf(document.activeElement?.closest?.("tr"));
    const next = rows[Math.max(0, Math.min(rows.length - 1, now < 0 ? 0 : now + step))];
    next?.querySelector("a, [tabindex]")?.focus();
    next?.scrollIntoView({ block: "nearest" });
    return next !== undefined;
  }

  #sorted(data) {
    const column = this.columns.find(({ key }) => key === this.sort?.key);
    if (!column?.value) return data;
    const sign = this.sort.descending ? -1 : 1;
    const rows = data.map((row) => ({ row, value: column.value(row), key: this.key(row) }));
    rows.sort((left, right) => {
      // What is unknown comes last, either way.
      if ((left.value === undefined) !== (right.value === undefined)) return left.value === undefined ? 1 : -1;
      if (left.value < right.value) return -sign;
      if (left.value > right.value) return sign;
      // Of equal rows, those that still run come first.
      if (left.row.isGone !== right.row.isGone) return left.row.isGone ? 1 : -1;
      return left.key < right.key ? -1 : 1;
    });
    return rows.map(({ row }) => row);
  }

  #row(item) {
    const key = this.key(item);
    let row = this.rows.get(key);
    if (row) return row;
    const element = make("tr");
    const cells = this.columns.map((column, index) => {
      const kind = `rank-${column.rank ?? 0} ${column.isText ? "text" : "number"} ${column.class ?? ""}`;
      const cell = index === 0 ? make("th", { scope: "row", class: kind }) : make("td", { class: kind });
      cell.dataset.column = column.key;
      if (index === 0) cell.tabIndex = -1;
      element.append(cell);
      return cell;
    });
    row = element.row = { element, cells };
    this.rows.set(key, row);
    if (this.columns.some(({ isLazy }) => isLazy)) this.seen.observe(element);
    return row;
  }

  #fill(row, item) {
    row.item = item;
    this.#setLink(row, this.link?.(item));
    this.columns.forEach((column, index) => {
      const cell = row.cells[index];
      if (column.draw) (!column.isLazy || row.isSeen) && column.draw(cell, item);
      else setText(cell, column.text(item));
      if (column.isRate) cell.classList.toggle("zero", !(column.value(item) > 0));
      const hint = column.hint?.(item);
      if (hint !== undefined) setTitle(cell, hint);
    });
    row.element.classList.toggle("gone", item.isGone === true);
  }

  /// The address changes with the filter, and comes and goes with what it opens.
  #setLink(row, href) {
    if (row.href === href) return;
    const [old] = row.cells;
    if (row.href && href) old.href = href;
    else {
      // A new cell: what was drawn into the old one is remembered there.
      const cell = row.element.cells[0].cloneNode();
      cell.removeAttribute("title");
      cell.removeAttribute("tabindex");
      const target = href ? cell.appendChild(make("a", { href })) : cell;
      target.tabIndex = -1;
      const hasFocus = old === document.activeElement;
      row.element.cells[0].replaceWith(cell);
      row.cells[0] = target;
      row.element.classList.toggle("opens", href !== undefined);
      if (hasFocus) target.focus();
    }
    row.href = href;
  }

  #showOrder() {
    for (const column of this.columns) {
      if (!column.value) continue;
      const isSorted = this.sort?.key === column.key;
      const order = !isSorted ? "none" : this.sort.descending ? "descending" : "ascending";
      this.headers.get(column.key).setAttribute("aria-sort", order);
    }
  }

  /// One row of the table is a stop of the Tab key; arrows, j and k reach the others.
  #tabStop() {
    const first = this.body.rows[0]?.querySelector("a, [tabindex]");
    if (this.stop?.isConnected || !first) return;
    this.stop = first;
    first.tabIndex = 0;
  }

  #focus(row) {
    const target = row?.querySelector("a, [tabindex]");
    if (!target || target === this.stop) return;
    if (this.stop) this.stop.tabIndex = -1;
    this.stop = target;
    target.tabIndex = 0;
  }

  #click(event) {
    const row = event.target.closest("tr");
    const hasSelection = String(getSelection()).length > 0;
    if (!row || event.target.closest("a, button") || hasSelection) return;
    row.querySelector("th a")?.click();
  }
}
