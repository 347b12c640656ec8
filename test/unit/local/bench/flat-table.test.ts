import { describe, expect, test } from "vitest";
import { brokenBounds, costTable, type TurnCost } from "../../../../src/local/bench/flat-table.ts";

const MIB = 1024 * 1024;

const cost = (changes: Partial<TurnCost>): TurnCost => ({
  kind: "plain",
  messages: 1_000,
  rows: 100,
  bytes: 102_400,
  roundTrips: 2,
  cpuMs: 10,
  overheadMs: 20,
  databaseMs: 8.25,
  peakHeapBytes: 30 * MIB,
  ...changes,
});

describe("The table of what a turn costs", () => {
  test("has a line for each length, and the ratios of each kind", () => {
    const costs = [cost({}), cost({ messages: 100_000, rows: 110, cpuMs: 12 }), cost({ kind: "after import" })];
    expect(costTable(costs).split("\n")).toEqual([
      "turn          messages   rows  KiB read  round trips  CPU ms  own ms  in database  heap MiB",
      "plain            1,000    100     100.0            2    10.0      20          8.3      30.0",
      "plain          100,000    110     100.0            2    12.0      20          8.3      30.0",
      "plain            ratio  x1.10     x1.00                x1.20",
      "after import     1,000    100     100.0            2    10.0      20          8.3      30.0",
      "after import     ratio  x1.00     x1.00                x1.00",
    ]);
  });
});

describe("The bounds of a flat cost", () => {
  test("hold for costs that are as large as they may be", () => {
    const costs = [
      cost({}),
      cost({ messages: 5_000, rows: 110, bytes: 112_640, cpuMs: 13, overheadMs: 30, peakHeapBytes: 96 * MIB }),
    ];
    expect(brokenBounds(costs)).toEqual([]);
  });

  test("are broken by more rows, bytes or CPU at another length of the same kind", () => {
    const costs = [cost({}), cost({ messages: 10_000, rows: 112, bytes: 204_800, cpuMs: 14 })];
    expect(brokenBounds(costs)).toEqual([
      "plain, rows, largest over smallest: 1.12, allowed are 1.1",
      "plain, bytes, largest over smallest: 2.00, allowed are 1.1",
      "plain, CPU, largest over smallest: 1.40, allowed are 1.3",
    ]);
  });

  test("compare no kind with another", () => {
    expect(brokenBounds([cost({}), cost({ kind: "compacting", rows: 900, bytes: 1, cpuMs: 200 })])).toEqual([]);
  });

  test("hold one plain turn of 5,000 messages to 30 ms and 20 ms of CPU, and every heap to 96 MiB", () => {
    const costs = [
      cost({ messages: 5_000, cpuMs: 21, overheadMs: 31 }),
      cost({ kind: "compacting", cpuMs: 200, overheadMs: 300, peakHeapBytes: 97 * MIB }),
    ];
    expect(brokenBounds(costs)).toEqual([
      "compacting, 1000 messages, heap in MiB: 97.00, allowed are 96",
      "plain, 5000 messages, own time in ms: 31.00, allowed are 30",
      "plain, 5000 messages, CPU in ms: 21.00, allowed are 20",
    ]);
  });

  test("are broken where nothing was measured", () => {
    expect(brokenBounds([cost({ rows: Number.NaN })])).toEqual([
      "plain, rows, largest over smallest: NaN, allowed are 1.1",
    ]);
  });
});
