/** Numbers as the pages write them, with their units. */

const grouped = (value: number, digits: number): string =>
  value.toLocaleString("en-US", { maximumFractionDigits: digits });

/** Three digits that count, without an exponent. */
const short = (value: number): string => {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return grouped(value, 0);
  return size >= 1 ? grouped(value, size >= 10 ? 1 : 2) : grouped(value, 4);
};

/** `0.42 ms`, `61.2 ms`, `1.24 s`, `2 min 5 s`. */
export const duration = (ms: number): string => {
  if (ms < 1_000) return `${short(ms)} ms`;
  if (ms < 60_000) return `${short(ms / 1_000)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${grouped(Math.floor(seconds / 60), 0)} min ${seconds % 60} s`;
};

/** `1 span`, `2,000 spans`. */
export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${grouped(count, 0)} ${count === 1 ? one : many}`;

/** A unit's name in a heading: `{round_trip}` is `round trip`. */
export const unitName = (unit: string): string => {
  if (unit === "1") return "ratio";
  return unit === "s" ? "duration" : unit.replaceAll(/[{}]/g, "").replaceAll("_", " ");
};

/** A value with its unit, as UCUM writes it. */
export const amount = (value: number, unit: string): string => {
  if (unit === "s") return duration(value * 1_000);
  if (unit === "ms") return duration(value);
  if (unit === "{USD}")
    return `$${value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: value < 1 ? 6 : 2 })}`;
  if (unit === "1" || unit === "") return short(value);
  const name = unitName(unit);
  return unit.startsWith("{") && value !== 1 ? `${short(value)} ${name}s` : `${short(value)} ${name}`;
};

/** Date and time of day, to the second. @param timeZone an IANA name */
export const clockTime = (ms: number, timeZone: string): string =>
  // The Swedish way of writing it is ISO 8601's.
  new Date(ms).toLocaleString("sv-SE", { timeZone });
