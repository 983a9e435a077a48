// The time zone of the host: the hours, days and months of history are the host's, wherever its page is read.

import { live } from "./live.js";

const names = new Map();

/// The host's zone. `undefined`, the zone of the browser, if the host has none that the browser knows.
export function zone(name = live.snapshot?.host.time_zone) {
  if (!names.has(name)) {
    try {
      names.set(name, name && new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone);
    } catch {
      names.set(name, undefined);
    }
  }
  return names.get(name);
}

const readers = new Map();

/// Year, month from 1, day, hour, minute and second of a time in milliseconds, as the zone's clock showed them.
function parts(time, name) {
  if (!readers.has(name)) {
    const number = "numeric";
    readers.set(name, new Intl.DateTimeFormat("en-US", { timeZone: name, hourCycle: "h23", year: number, month: number,
      day: number, hour: number, minute: number, second: number }));
  }
  return Object.fromEntries(readers.get(name).formatToParts(new Date(time))
    .map(({ type, value }) => [type, Number(value)]));
}

/// How far the zone's clock was before UTC, in milliseconds.
function offset(time, name) {
  const { year, month, day, hour, minute, second } = parts(time, name);
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(time / 1000) * 1000;
}

/// When a day began, in milliseconds. Days and months run over: the 0th of March is the last of February.
///
/// - month: From 1.
export function dayStart(year, month, day, name = zone()) {
  const asUTC = Date.UTC(year, month - 1, day);
  // The offset at midnight may be another one than at this time of UTC.
  const start = asUTC - offset(asUTC - offset(asUTC, name), name);
  // Where the clock is put forward at midnight, that falls into the day before: the day begins at 1:00.
  const isThere = Date.UTC(...shifted(dayOf(start, name))) >= asUTC;
  return isThere ? start : asUTC - offset(asUTC - 86400e3, name);
}

/// For `Date.UTC`, whose months begin with 0.
const shifted = ([year, month, day]) => [year, month - 1, day];

/// The day so many days after another one.
export function dayAfter([year, month, day], days) {
  const date = new Date(Date.UTC(year, month - 1, day + days));
  return [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate()];
}

/// The day in which a time in milliseconds lies: `[2026, 11, 25]`.
export function dayOf(time, name = zone()) {
  const { year, month, day } = parts(time, name);
  return [year, month, day];
}

const steps = { minute: 60e3, "5minute": 300e3, hour: 3600e3 };

/// When the next minute, hour, day or month begins after one that begins at `start`; both in milliseconds.
export function next(level, start, name = zone()) {
  if (steps[level]) return start + steps[level];
  const [year, month, day] = dayOf(start, name);
  return level === "day" ? dayStart(year, month, day + 1, name) : dayStart(year, month + 1, 1, name);
}

const formats = {
  minute: { dateStyle: "medium", timeStyle: "short" },
  day: { weekday: "short", day: "numeric", month: "short", year: "numeric" },
};
const writers = new Map();

function write(style, value) {
  if (value === undefined) return "–";
  const key = `${style} ${zone()}`;
  if (!writers.has(key)) writers.set(key, new Intl.DateTimeFormat("en-GB", { ...formats[style], timeZone: zone() }));
  return writers.get(key).format(new Date(value));
}

/// Times of the host's clock, from RFC 3339, a Date or milliseconds.
export const hostTime = {
  minute: (value) => write("minute", value),
  day: (value) => write("day", value),
};
