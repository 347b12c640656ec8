import { expect, test } from "vitest";
import { amount, clockTime, counted, duration, unitName } from "../../../../src/local/collector/readable.ts";

test.each([
  [0, "0 ms"],
  [0.4213, "0.4213 ms"],
  [7.25, "7.25 ms"],
  [61.23, "61.2 ms"],
  [534.4, "534 ms"],
  [1_240, "1.24 s"],
  [59_960, "60 s"],
  [125_000, "2 min 5 s"],
  [4_000_000, "66 min 40 s"],
])("%d ms are written %s", (ms, words) => {
  expect(duration(ms)).toBe(words);
});

test.each([
  [0.512, "s", "512 ms"],
  [12, "ms", "12 ms"],
  [24_421, "{token}", "24,421 tokens"],
  [1, "{compaction}", "1 compaction"],
  [5, "{round_trip}", "5 round trips"],
  [0.0223751, "{USD}", "$0.022375"],
  [12.5, "{USD}", "$12.50"],
  [0.98231, "1", "0.9823"],
  [3, "", "3"],
  [2, "By", "2 By"],
])("%d of the unit %j is written %s", (value, unit, words) => {
  expect(amount(value, unit)).toBe(words);
});

test("units have names, counts have plurals, times are of the zone", () => {
  expect(["s", "1", "{round_trip}", "By"].map(unitName)).toEqual(["duration", "ratio", "round trip", "By"]);
  expect([counted(1, "span"), counted(2_000, "span"), counted(0, "series", "series")]).toEqual([
    "1 span",
    "2,000 spans",
    "0 series",
  ]);
  expect(clockTime(Date.UTC(2026, 11, 31, 23, 30, 5), "Asia/Tokyo")).toBe("2027-01-01 08:30:05");
});
