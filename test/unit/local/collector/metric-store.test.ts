import { describe, expect, test } from "vitest";
import { createMetricStore, type HistogramSeries, quantileOf } from "../../../../src/local/collector/metric-store.ts";
import type { HistogramPoint, SumPoint } from "../../../../src/local/collector/otlp.ts";

const sum = (value: number, given: Partial<SumPoint> = {}): SumPoint => ({
  ...{ kind: "counter", name: "c", unit: "{x}", description: "", attributes: {}, atMs: 0, value },
  ...given,
});

const histogram = (bucketCounts: readonly number[], given: Partial<HistogramPoint> = {}): HistogramPoint => ({
  ...{ kind: "histogram", name: "h", unit: "s", description: "", attributes: {}, atMs: 0 },
  ...{ count: bucketCounts.reduce((total, each) => total + each, 0), sum: 1, min: undefined, max: undefined },
  ...{ bounds: [1, 10, 100], bucketCounts },
  ...given,
});

describe("the store of metrics", () => {
  test("adds deltas up by name and attributes, whatever their order, over instances", () => {
    const store = createMetricStore(10);
    store.add([sum(1, { attributes: { a: "x", b: 1 } }), sum(5, { attributes: { a: "y" } })]);
    store.add([sum(2, { attributes: { b: 1, a: "x" } }), sum(7, { name: "d" })]);
    expect(store.series()).toMatchObject([
      { name: "c", attributes: { a: "x", b: 1 }, total: 3 },
      { name: "c", attributes: { a: "y" }, total: 5 },
      { name: "d", attributes: {}, total: 7 },
    ]);
  });

  test("adds histograms up: counts, sums, buckets, and the least and greatest value", () => {
    const store = createMetricStore(10);
    store.add([histogram([1, 0, 2, 0], { sum: 60, min: 0.5, max: 40 })]);
    store.add([histogram([0, 1, 0, 1], { sum: 205, min: 5, max: 200 })]);
    expect(store.series()).toMatchObject([{ count: 5, sum: 265, min: 0.5, max: 200, bucketCounts: [1, 1, 2, 1] }]);
  });

  test("does not mix buckets of other bounds, nor a counter with a histogram", () => {
    const store = createMetricStore(10);
    store.add([histogram([1, 0, 0, 0]), histogram([1, 0], { bounds: [1] }), sum(1, { name: "h", unit: "s" })]);
    expect(store.series().map((series) => [series.kind, series.name])).toEqual([
      ["counter", "h"],
      ["histogram", "h"],
      ["histogram", "h"],
    ]);
  });

  test("over its bound forgets the series that has not changed for longest, and says how many", () => {
    const store = createMetricStore(2);
    store.add([sum(1, { name: "a" }), sum(1, { name: "b" }), sum(1, { name: "a" }), sum(1, { name: "c" })]);
    expect([store.series().map(({ name }) => name), store.forgotten()]).toEqual([["a", "c"], 1]);
  });
});

describe("a share of a histogram's values", () => {
  const series = (bucketCounts: readonly number[], given: Partial<HistogramPoint> = {}): HistogramSeries => {
    const { atMs: _, ...rest } = histogram(bucketCounts, given);
    return rest;
  };

  test.each<[string, number, HistogramSeries, number | undefined]>([
    ["half of those in one bucket is its middle", 0.5, series([0, 4, 0, 0]), 5.5],
    ["it goes on in the next bucket with values", 0.75, series([2, 0, 2, 0]), 55],
    ["in the first bucket it begins at 0", 0.5, series([2, 0, 0, 0]), 0.5],
    ["no value is less than the least, or greater than the greatest", 0.5, series([0, 1, 0, 0], { min: 7, max: 7 }), 7],
    ["in the last bucket it ends at the greatest", 1, series([0, 0, 0, 3], { min: 150, max: 400 }), 400],
    ["without a greatest, the last bucket is at its bound", 0.95, series([0, 0, 0, 3]), 100],
    ["without values there is none", 0.5, series([0, 0, 0, 0]), undefined],
    ["without buckets it lies between the least and the greatest", 0.5, series([4], { bounds: [], min: 2, max: 6 }), 4],
  ])("%s", (_, share, given, expected) => {
    const found = quantileOf(given, share);
    if (expected === undefined) expect(found).toBe(undefined);
    else expect(found).toBeCloseTo(expected, 9);
  });
});
