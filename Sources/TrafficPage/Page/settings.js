// What the page remembers in this browser.

const key = "trafficd-page";

function stored() {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? {};
  } catch {
    return {};
  }
}

const values = { theme: "system", units: "bytes", sorts: {}, ...stored() };

export const settings = {
  get theme() { return values.theme; },
  get units() { return values.units; },

  set(name, value) {
    values[name] = value;
    this.save();
  },

  /// How a table is sorted: `{ key, descending }`, or undefined.
  sort(table) { return values.sorts[table]; },

  setSort(table, sort) {
    values.sorts = { ...values.sorts, [table]: sort };
    this.save();
  },

  save() {
    try {
      localStorage.setItem(key, JSON.stringify(values));
    } catch {
      // A browser that stores nothing forgets the choices at the next load.
    }
  },
};

/// Without a choice the page follows the system, so the attribute is absent then.
export function applyTheme() {
  const root = document.documentElement;
  if (values.theme === "system") delete root.dataset.theme;
  else root.dataset.theme = values.theme;
}
