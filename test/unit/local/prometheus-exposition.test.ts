/** Deltas become the series that Prometheus sees, and PromQL is read for what it asks. */
import { describe, expect, it } from "vitest";
import type { CollectedPoint } from "../../support/collector.ts";
import { exportedSeries, exposition, labelValues } from "../../support/prometheus.ts";
import { selectionsOf, substituted } from "../../support/promql.ts";

const point = (fields: Partial<CollectedPoint>): CollectedPoint => ({
  name: "hango.guard.blocked",
  kind: "sum",
  unit: "{block}",
  description: "",
  temporality: 1,
  isMonotonic: true,
  value: 2,
  count: 1,
  bounds: [],
  bucketCounts: [],
  attributes: { guard: "cooldown" },
  resource: { "service.name": "hango", "service.instance.id": "i" },
  ...fields,
});

const overhead = point({
  name: "hango.turn.overhead",
  kind: "histogram",
  unit: "s",
  value: 1.5,
  count: 3,
  bounds: [0.5, 1],
  bucketCounts: [2, 0, 1],
  attributes: {},
});

describe("exportedSeries", () => {
  it("adds deltas up, each instance and each set of attributes by itself", () => {
    const other = { "service.name": "hango", "service.instance.id": "j" };
    const series = exportedSeries([
      point({}),
      point({ value: 3 }),
      point({ resource: other }),
      point({ attributes: { guard: "budget" } }),
    ]);
    expect(series.map(({ name, labels, value }) => [name, labels["guard"], labels["instance"], value])).toEqual([
      ["hango_guard_blocked_total", "cooldown", "i", 5],
      ["hango_guard_blocked_total", "cooldown", "j", 2],
      ["hango_guard_blocked_total", "budget", "i", 2],
    ]);
  });

  it("gives a histogram buckets that hold all below them, a sum and a count", () => {
    expect(exposition(exportedSeries([overhead, overhead]))).toBe(
      [
        "# TYPE hango_turn_overhead_seconds histogram",
        'hango_turn_overhead_seconds_bucket{instance="i",job="hango",le="0.5"} 4',
        'hango_turn_overhead_seconds_bucket{instance="i",job="hango",le="1"} 4',
        'hango_turn_overhead_seconds_bucket{instance="i",job="hango",le="+Inf"} 6',
        'hango_turn_overhead_seconds_sum{instance="i",job="hango"} 3',
        'hango_turn_overhead_seconds_count{instance="i",job="hango"} 6',
        "",
      ].join("\n"),
    );
  });

  it("refuses what is cumulative already", () => {
    expect(() => exportedSeries([point({ temporality: 2 })])).toThrow(
      "hango.guard.blocked was sent with temporality 2",
    );
  });

  it("is known by its labels and their values", () => {
    const known = labelValues(exportedSeries([point({}), point({ attributes: { guard: "budget" } })]));
    expect(known.get("hango_guard_blocked_total")?.get("guard")).toEqual(new Set(["cooldown", "budget"]));
  });
});

describe("selectionsOf", () => {
  it("finds each metric with its matchers and what it is grouped by, through functions, offsets and both sides", () => {
    expect(
      selectionsOf(
        'sum by (a) (rate(x{b=~"c|d",e!=""}[5m] offset 1h)) / on (f) group_left (g) avg without (h) (y unless z offset 1m)',
      ),
    ).toEqual([
      {
        metric: "x",
        matchers: [
          { label: "b", op: "=~", value: "c|d" },
          { label: "e", op: "!=", value: "" },
        ],
        groupedBy: ["f", "g", "a"],
      },
      { metric: "y", matchers: [], groupedBy: ["f", "g", "h"] },
      { metric: "z", matchers: [], groupedBy: ["f", "g", "h"] },
    ]);
  });

  it.each(["sum(rate(x[5m])", "rate(x[5 m])", "sum by a (x)", 'x{a="b"', 'x{a~"b"}', ""])("refuses %j", (text) => {
    expect(() => selectionsOf(text)).toThrow(/breaks off|cannot read/);
  });

  it('refuses a selector without a name: {job="x"}', () => {
    expect(() => selectionsOf('{job="x"}')).toThrow("names no metric");
  });
});

it("substituted: Grafana's variables get their values, an unknown one is an error", () => {
  expect(substituted('rate(x{job=~"$job"}[$__rate_interval])')).toBe('rate(x{job=~"hango"}[5m])');
  expect(() => substituted("rate(x[$window])")).toThrow("$window is no variable");
});
