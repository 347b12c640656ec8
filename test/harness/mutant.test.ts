/** Run once for each mutation, whose project gives it another text of the file: the harness notices it. */
import { describe, expect, test } from "vitest";
import { MUTATIONS } from "./mutations.ts";
import { inWords, runShapes } from "./run-shapes.ts";

const mutation = MUTATIONS[Number(process.env.HANGO_HARNESS_MUTATION)];

/** Most sessions until it is noticed. */
const SHAPES = 60;
/** The first of them: others than those of the whole run, so that both say something. */
const FIRST = 10_000 + (mutation?.first ?? 0);

describe.skipIf(mutation === undefined)("the harness can fail", () => {
  test(`it notices that ${mutation?.name}`, async () => {
    const shapes = Array.from({ length: SHAPES }, (_, index) => FIRST + index);
    const run = await runShapes({ seed: 5, shapes, passes: 25, lanes: 3, untilViolated: true });
    const noticed = run.violations.map(({ invariant }) => invariant);
    console.log(`${mutation?.name}: after ${run.tally.total("shapes")} sessions\n${inWords(run)}`);
    expect(noticed.length).toBeGreaterThan(0);
    for (const invariant of noticed) expect(mutation?.caughtBy).toContain(invariant);
  });
});
