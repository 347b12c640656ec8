import { describe, expect, test } from "vitest";
import { SECTION_SHARE } from "../../../src/context/section-budgets.ts";
import { chartSvg } from "../../../src/local/bench/curve.ts";
import { RECALL_GOAL, runRecall } from "../../../src/local/bench/recall.ts";
import { dataFolder, sampleFolder } from "../../../src/local/bench/recorded.ts";

describe("recall without a model (S2)", () => {
  const sample = runRecall(sampleFolder);

  test("S2: every identifier planted in the sample is shown, or found by one search for a term that is shown", () => {
    expect(sample.planted.map(({ session, planted, missed }) => ({ session, planted, missed }))).toEqual([
      { session: "swesmith-pydantic-_8316", planted: 24, missed: [] },
      { session: "tau-airline-t2-r1", planted: 24, missed: [] },
    ]);
  });

  test("S2: in the sample, what was needed after the cut is kept far better than by the last messages", () => {
    const [lastMessages] = sample.baselines;
    expect(lastMessages?.name).toBe("last 10 messages");
    expect(sample.atDefault?.share).toBe(SECTION_SHARE);
    expect(sample.atDefault?.recall).toBeGreaterThan(0.92);
    expect(sample.atDefault?.size).toBeLessThan(lastMessages?.size ?? 0);
    expect(sample.atDefault?.recall).toBeGreaterThan((lastMessages?.recall ?? 1) + 0.1);
  });

  test("S2: more room never means much less recall, and always the same numbers", () => {
    const sizes = sample.curve.map(({ size }) => size);
    expect([...sizes].sort((a, b) => a - b)).toEqual(sizes);
    expect(sample.curve.at(-1)?.recall).toBeGreaterThan(sample.curve[0]?.recall ?? 1);
    expect(runRecall(sampleFolder).table).toBe(sample.table);
  });

  test.runIf(dataFolder() !== sampleFolder)(
    "S2: in the collection, 92 % of what was needed at no more than 25 % of the characters, and everything planted is found",
    () => {
      const { atDefault, planted } = runRecall();
      expect(atDefault?.recall).toBeGreaterThanOrEqual(RECALL_GOAL.recall);
      expect(atDefault?.heldOut.recall).toBeGreaterThanOrEqual(RECALL_GOAL.recall);
      expect(atDefault?.size).toBeLessThanOrEqual(RECALL_GOAL.size);
      expect(planted.length).toBeGreaterThan(20);
      expect(planted.flatMap(({ missed }) => missed)).toEqual([]);
    },
    60_000,
  );

  test("a chart is one SVG document with its words escaped", () => {
    const svg = chartSvg({
      title: "a < b & c",
      xLabel: "x",
      yLabel: "y",
      xMax: 0.5,
      curve: [
        { x: 0, y: 0 },
        { x: 0.5, y: 1 },
      ],
      points: [{ x: 0.25, y: 0.5, name: "half" }],
      goal: { x: 0.25, y: 0.92 },
    });
    expect(svg).toContain("<title>a &lt; b &amp; c</title>");
    expect(svg).toContain('<polyline points="64,384 696,48"');
    expect(svg.trim().endsWith("</svg>")).toBe(true);
  });
});
