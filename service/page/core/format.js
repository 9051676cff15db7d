// Numbers, times and durations, as people read them.

const numbers = new Intl.NumberFormat(undefined);
const shortNumbers = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const count = (value) => (value === null || value === undefined ? "–" : numbers.format(value));
export const shortCount = (value) => (value === null || value === undefined ? "–" : shortNumbers.format(value));

/** `1 turn`, `2 turns`. */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** A time, as short as it can be told apart. */
export function time(milliseconds) {
  if (!milliseconds) return "";
  const at = new Date(milliseconds);
  const now = new Date();
  if (at.toDateString() === now.toDateString()) return clock.format(at);
  return (at.getFullYear() === now.getFullYear() ? day : dayOfYear).format(at);
}

/** The same, with the clock always. */
export function timeAndDay(milliseconds) {
  if (!milliseconds) return "";
  const at = new Date(milliseconds);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? clock.format(at) : `${time(milliseconds)}, ${clock.format(at)}`;
}

export const fullTime = (milliseconds) => (milliseconds ? full.format(new Date(milliseconds)) : "");

const UNITS = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]];

/** A duration in its largest unit: `3 d`, `45 min`. */
export function duration(milliseconds) {
  for (const [size, name] of UNITS) {
    if (milliseconds >= size) return `${Math.floor(milliseconds / size)} ${name}`;
  }
  return "less than 1 s";
}

/** A short duration with its unit, of seconds: `112 µs`, `1.4 ms`. */
export function shortDuration(seconds) {
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(2)} ms`;
  return `${seconds.toPrecision(2)} s`;
}

export const percent = (share) => `${Math.round(share * 100)} %`;

/** The first line of a text, cut. */
export function firstLine(text, length = 160) {
  const line = text.trimStart().split("\n", 1)[0];
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** The text of a message: a string, or the texts among its parts. */
export function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === null || content === undefined ? "" : JSON.stringify(content);
  const texts = content.map((part) => {
    if (typeof part === "string") return part;
    if (typeof part?.text === "string") return part.text;
    return `[${part?.type ?? "part"}]`;
  });
  return texts.join("\n");
}

/** JSON as people read it; any other text as it stands. */
export function prettyJson(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  try {
    const read = JSON.parse(value);
    return typeof read === "string" ? read : JSON.stringify(read, null, 2);
  } catch {
    return value;
  }
}
