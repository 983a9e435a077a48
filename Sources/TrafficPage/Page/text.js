// Numbers and names for people, as trafficctl writes them.

import { settings } from "./settings.js";

export const UNKNOWN = "–";

const prefixes = ["", "k", "M", "G", "T", "P", "E", "Z"];

/// Three significant digits with a decimal prefix: 1 kB is 1,000 bytes, as in link speeds and bills.
function scaled(value) {
  value = Number.isFinite(value) ? Math.max(0, value) : 0;
  let step = 0;
  // 999.5 would print as "1000", which is one digit too wide.
  while (value >= 999.5 && step < prefixes.length - 1) {
    value /= 1000;
    step += 1;
  }
  const decimals = step === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return [value.toFixed(decimals), prefixes[step]];
}

function inUnits(bytes, ending) {
  if (bytes === undefined || bytes === null) return UNKNOWN;
  const isBits = settings.units === "bits";
  const [number, prefix] = scaled(Number(bytes) * (isBits ? 8 : 1));
  return `${number} ${prefix}${isBits ? "bit" : "B"}${ending}`;
}

/// `1.23 MB`, or `9.84 Mbit`. Takes a number or a BigInt; what is absent is unknown.
export const amount = (bytes) => inUnits(bytes, "");
/// `1.23 MB/s`.
export const rate = (bytesPerSecond) => inUnits(bytesPerSecond, "/s");
/// Links and bills are in bits, whatever the units are.
export function bitRate(bitsPerSecond) {
  if (bitsPerSecond === undefined) return UNKNOWN;
  const [number, prefix] = scaled(Number(bitsPerSecond));
  return `${number} ${prefix}bit/s`;
}

/// `1,234,567`: every digit, also beyond 2^53 if the number is a BigInt.
export function grouped(value) {
  if (value === undefined || value === null) return UNKNOWN;
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export const exact = (bytes) => (bytes === undefined ? "unknown" : `${grouped(bytes)} bytes`);

/// `1.23 MB (1,234,567 bytes)`: the first number is easy to read, the second is exact.
export function both(bytes) {
  if (bytes === undefined) return "unknown";
  return Number(bytes) < 1000 && settings.units === "bytes" ? `${bytes} B` : `${amount(bytes)} (${exact(bytes)})`;
}

/// Adds numbers and BigInts exactly. Absent is unknown, and a sum with an unknown part is unknown.
export function plus(left, right) {
  if (left === undefined || right === undefined) return undefined;
  const sum = Number(left) + Number(right);
  return Number.isSafeInteger(sum) || !Number.isInteger(sum) ? sum : BigInt(left) + BigInt(right);
}

/// Subtracts whole numbers and BigInts exactly. Absent is unknown.
export function minus(left, right) {
  if (left === undefined || right === undefined) return undefined;
  // The operands decide: the difference of two numbers that were rounded may be small, and wrong.
  const isSafe = Number.isSafeInteger(left) && Number.isSafeInteger(right);
  return isSafe ? left - right : BigInt(left) - BigInt(right);
}

export function share(part, whole) {
  return whole > 0 ? `${((100 * Number(part)) / Number(whole)).toFixed(1)} %` : UNKNOWN;
}

/// The two largest units: `12s`, `3m 12s`, `2h 05m`, `4d 3h`.
export function duration(seconds) {
  seconds = Number.isFinite(seconds) ? Math.max(0, Math.floor(seconds)) : 0;
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
  const two = (value) => String(value).padStart(2, "0");
  if (minutes === 0) return `${seconds}s`;
  if (hours === 0) return `${minutes}m ${two(seconds % 60)}s`;
  if (days === 0) return `${hours}h ${two(minutes % 60)}m`;
  return days < 100 ? `${days}d ${hours % 24}h` : `${days}d`;
}

/// `85 µs`, `1.20 ms`, `12.0 s`.
export function micros(value) {
  if (value === undefined) return UNKNOWN;
  const us = Number(value);
  if (us < 999.5) return `${us} µs`;
  if (us < 999500) return `${(us / 1e3).toFixed(us < 9995 ? 2 : us < 99950 ? 1 : 0)} ms`;
  return `${(us / 1e6).toFixed(us < 99950000 ? 1 : 0)} s`;
}

export const plural = (count, one, many) => `${grouped(count)} ${Number(count) === 1 ? one : many ?? `${one}s`}`;

const dateTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const minute = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/// Local times of this browser, from RFC 3339, a Date or milliseconds.
export const time = {
  full: (value) => (value === undefined ? UNKNOWN : dateTime.format(new Date(value))),
  minute: (value) => (value === undefined ? UNKNOWN : minute.format(new Date(value))),
  clock: (value) => (value === undefined ? UNKNOWN : clock.format(new Date(value))),
};

/// Controls; letters that can't be seen, or that turn the line around; what is no character at all.
const harmful = new RegExp(`[${[
  "\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f",
  "\\u200b-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb",
  "\\p{Cs}\\p{Co}\\p{Cn}\\u{e0000}-\\u{e0fff}",
].join("")}]`, "gu");
const manyMarks = /(\p{M}{2})\p{M}+/gu;

/// The same names come with each snapshot.
const cleaned = new Map();

/// A name that a local user chose, made harmless: what is invisible or reorders the line becomes U+FFFD, and no letter
/// carries so many marks that these are drawn over other rows.
export function clean(text, limit = 200) {
  if (text === undefined || text === null) return UNKNOWN;
  const key = `${limit} ${text}`;
  let result = cleaned.get(key);
  if (result !== undefined) return result;
  result = String(text).slice(0, 4 * limit).replace(harmful, "\ufffd").replace(manyMarks, "$1\ufffd");
  const letters = Array.from(result);
  if (letters.length > limit) result = `${letters.slice(0, limit - 1).join("")}…`;
  if (cleaned.size > 5000) cleaned.clear();
  cleaned.set(key, result);
  return result;
}
