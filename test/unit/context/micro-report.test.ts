import { describe, expect, it } from "vitest";
import {
  avoidedCompactions,
  type GenerationStep,
  microReport,
  occupancyOf,
} from "../../../src/context/micro-report.ts";

const micro = (before: number, after: number): GenerationStep => ({ isMicro: true, before, after });
const full = (before: number, after: number): GenerationStep => ({ isMicro: false, before, after });

describe("compactions avoided", () => {
  it("are none while the request would not have reached its trigger without the passes either", () => {
    expect(avoidedCompactions([micro(4_000, 3_000), micro(5_000, 4_000)], 6_000, 10_000)).toBe(0);
  });

  it("are counted where what the passes saved would have filled the window", () => {
    // Grows by 2,000 a turn, and 1,500 of them go: without passes it is at 10,000 after the fifth.
    const steps = Array.from({ length: 5 }, (_, at) => micro(500 * at + 2_000, 500 * at + 500));
    expect(avoidedCompactions(steps, 2_500, 10_000)).toBe(1);
    expect(avoidedCompactions(steps.slice(0, 4), 2_000, 10_000)).toBe(0);
    expect(avoidedCompactions(steps.slice(0, 4), 4_000, 10_000)).toBe(1);
  });

  it("are counted again and again in a session that goes on", () => {
    const steps = Array.from({ length: 50 }, () => micro(5_000, 3_000));
    // 2,000 a turn: from 3,000 to 10,000 it takes four turns.
    expect(avoidedCompactions(steps, 3_000, 10_000)).toBe(12);
  });

  it("are none that there were: a real one makes both the same", () => {
    expect(avoidedCompactions([micro(4_000, 3_000), full(10_000, 2_000), micro(4_000, 3_000)], 5_000, 10_000)).toBe(0);
    expect(avoidedCompactions([full(12_000, 2_000)], 3_000, 10_000)).toBe(0);
  });
});

describe("the report", () => {
  it("leads with the room that is left, and says null where the window is not known", () => {
    const steps = [micro(5_000, 4_500), full(10_000, 2_000), micro(3_000, 2_500)];
    expect(Object.entries(microReport(steps, 4_250, 17_000))).toEqual([
      ["occupancy", 0.25],
      ["batchCompactionsAvoided", 0],
      ["batchCompactions", 1],
      ["passes", 2],
      ["tokensSaved", 1_000],
    ]);
    expect(microReport(steps, 4_250, null)).toMatchObject({ occupancy: null, batchCompactionsAvoided: null });
    expect(occupancyOf(1, 3)).toBe(0.333);
  });
});
