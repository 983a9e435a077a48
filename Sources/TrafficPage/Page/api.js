// The daemon's HTTP API.

/// What the daemon refused, in its own words (RFC 9457). `status` is 0 where no answer came.
export class Problem extends Error {
  constructor(status, detail, parameter) {
    super(detail);
    this.status = status;
    this.parameter = parameter;
  }
}

const tokenKey = "trafficd-token";
let askForToken = () => {};

/// - ask: Called when the daemon wants a token that it did not get.
export function onTokenWanted(ask) { askForToken = ask; }
export const token = {
  get value() { return sessionStorage.getItem(tokenKey); },
  set(value) {
    if (value) sessionStorage.setItem(tokenKey, value);
    else sessionStorage.removeItem(tokenKey);
  },
};

/// Whether this browser hands the digits of a number to a reviver. Older ones round beyond 2^53.
export const isExact = (() => {
  let source;
  JSON.parse("9007199254740993", (key, value, context) => {
    source = context?.source;
    return value;
  });
  return source === "9007199254740993";
})();

const longNumber = /[[:,]\s*-?\d{16}/;

function withBigIntegers(key, value, context) {
  return typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source)
    ? BigInt(context.source) : value;
}

/// Integers beyond 2^53 become BigInts. Most answers have none, and a reviver is called for each value.
export function parse(text) {
  return isExact && longNumber.test(text) ? JSON.parse(text, withBigIntegers) : JSON.parse(text);
}

function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function request(path, parameters, signal) {
  const headers = token.value ? { Authorization: `Bearer ${token.value}` } : {};
  let response;
  try {
    response = await fetch(address(path, parameters), { headers, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The daemon does not answer.");
  }
  if (response.ok) return response;
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // A proxy in between answers in its own words.
  }
  if (response.status === 401) askForToken(token.value !== null);
  throw new Problem(response.status, problem.detail ?? `The answer has status ${response.status}.`, problem.parameter);
}

export async function get(path, parameters, signal) {
  const response = await request(path, parameters, signal);
  return parse(await response.text());
}

/// Calls `onLine` with each line of NDJSON, until the connection ends. Of lines that came at once, `newestOnly` keeps
/// the last: a browser that was busy has no use for the snapshots in between.
export async function stream(path, parameters, signal, onLine, newestOnly = false) {
  const response = await request(path, parameters, signal);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let parts = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const text = decoder.decode(value, { stream: true });
    if (!text.includes("\n")) {
      parts.push(text);
      continue;
    }
    const lines = (parts.join("") + text).split("\n");
    parts = [lines.pop()];
    for (const line of newestOnly ? lines.slice(-1) : lines) if (line) onLine(parse(line));
  }
}
