// What is shown is written behind the #, so that links, back and forward work: #/processes/1-2?filter=user:root

export function current() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, id] = path.split("/");
  return { view: view || "processes", id, params: new URLSearchParams(query ?? "") };
}

/// - path: Words and numbers of ours alone. The filter stays; other parameters are those that are given.
export function href(path, parameters = {}) {
  const query = new URLSearchParams();
  const filter = current().params.get("filter");
  for (const [name, value] of Object.entries({ filter, ...parameters })) if (value) query.set(name, value);
  const text = query.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

export function go(path, parameters, { replace = false } = {}) {
  const target = href(path, parameters);
  if (replace) location.replace(target);
  else location.hash = target;
}

/// Changes some parameters and leaves the others.
export function change(parameters, options) {
  const { view, id, params } = current();
  go(id ? `${view}/${id}` : view, { ...Object.fromEntries(params), ...parameters }, options);
}

/// The address with some parameters changed.
export function changed(parameters) {
  const { view, id, params } = current();
  return href(id ? `${view}/${id}` : view, { ...Object.fromEntries(params), ...parameters });
}
