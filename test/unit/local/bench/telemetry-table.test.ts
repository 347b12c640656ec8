import { describe, expect, test } from "vitest";
import {
  brokenBounds,
  type Cost,
  type Costs,
  costTable,
  KINDS,
  type Kind,
  typical,
} from "../../../../src/local/bench/telemetry-table.ts";

const BASE: Cost = { overheadMs: 10, latencyMs: 20, cpuMs: 5 };

const costs = (changes: Partial<Record<Kind, Partial<Cost>>> = {}): Costs =>
  Object.fromEntries(KINDS.map((kind) => [kind, { ...BASE, ...changes[kind] }])) as Record<Kind, Cost>;

describe("The table of what telemetry costs", () => {
  test("has a line for each kind, with its ratios to the first", () => {
    const lines = costTable(costs({ "healthy collector": { cpuMs: 7.5, latencyMs: 22 } })).split("\n");
    expect(lines).toHaveLength(1 + KINDS.length);
    expect(lines[0]).toBe("turn                     own ms  ratio  client ms  ratio  CPU ms  ratio");
    expect(lines[1]).toBe("unconfigured               10.0  x1.00       20.0  x1.00     5.0  x1.00");
    expect(lines[4]).toBe("healthy collector          10.0  x1.00       22.0  x1.10     7.5  x1.50");
  });

  test("nothing is broken where nothing differs, and what is over its bound is named", () => {
    expect(brokenBounds(costs())).toEqual([]);
    expect(brokenBounds(costs({ "collector never answers": { latencyMs: 10_020 } }))).toEqual([
      "collector never answers, latency: ratio 501.00, allowed is 1.3",
    ]);
    expect(brokenBounds(costs({ "collector answers 500": { overheadMs: 20, cpuMs: 50 } }))).toEqual([
      "collector answers 500, overhead: ratio 2.00, allowed is 1.3",
      "collector answers 500, cpu: ratio 10.00, allowed is 1.6",
    ]);
  });

  test("a build without telemetry may be slower than one that does not use it, not faster", () => {
    expect(brokenBounds(costs({ "without telemetry": { cpuMs: 9 } }))).toEqual([]);
    expect(brokenBounds(costs({ "without telemetry": { cpuMs: 2.5 } }))).toEqual([
      "without telemetry, cpu: ratio 2.00, allowed is 1.25",
    ]);
  });

  test("a figure that was not measured breaks its bound", () => {
    expect(brokenBounds(costs({ "without telemetry": { cpuMs: 0 } }))).not.toEqual([]);
    expect(brokenBounds(costs({ "healthy collector": { cpuMs: Number.NaN } }))).not.toEqual([]);
  });
});

test("typical is the mean of the middle half", () => {
  expect(typical([1, 100, 4, 5, 6, 5, 0, 90])).toBe(5);
});
