/** A share of the shapes, as a test file. */
import { describe, expect, test } from "vitest";
import { inWords, runShapes } from "./run-shapes.ts";

/** Shapes of a whole run, and what happens to each. */
const SHAPES = Number(process.env.HANGO_HARNESS_SHAPES ?? 500);
const PASSES = Number(process.env.HANGO_HARNESS_PASSES ?? 25);

/** On a machine that does other things besides: alone it takes a few minutes. */
const TIMEOUT_MS = 2_400_000;

/** Databases that a file works on at once: while one waits, another works. */
const LANES = Number(process.env.HANGO_HARNESS_LANES ?? 3);

const seed = Number(process.env.HANGO_HARNESS_SEED ?? 20_261_201);
const only = process.env.HANGO_HARNESS_SHAPE;

/** @param part of how many parts */
export const harnessSuite = (part: number, parts: number): void => {
  const all = Array.from({ length: SHAPES }, (_, index) => index).filter((index) => index % parts === part);
  const shapes = only === undefined ? all : only.split(",").map(Number);
  describe("sessions through a long life", () => {
    test(
      `${shapes.length} random sessions of ${PASSES} passes keep every invariant`,
      async () => {
        const run = await runShapes({ seed, shapes, passes: PASSES, lanes: Math.min(LANES, shapes.length) });
        console.log(inWords(run));
        expect(run.violations).toEqual([]);
      },
      TIMEOUT_MS,
    );
  });
};
