/** Every call of one turn that leaves its Worker, each gone wrong in every way, one at a time. */
import { afterAll, describe, expect, it } from "vitest";
import type { Answer } from "../support/platform.ts";
import { type Mode, nameOf, type Point } from "./faults.ts";
import { expectSound, isHeld, runsOf, snapshot } from "./invariants.ts";
import { READ } from "./labels.ts";
import { startLane } from "./lane.ts";
import { recover } from "./recover.ts";
import { type OpenScenario, type Scenario, TOOL_ANSWERS } from "./scenario.ts";
import { tableOf } from "./table.ts";

/** Whoever waits for a run looks at it now and then: how often depends on the machine. The looks that are always there are the first two. */
const isPoll = ({ label, occurrence }: Point): boolean => label === READ && occurrence > 2;

/** A cancel is heeded within 2 s (issue), and a busy machine is given as much again. */
const CANCEL_WITHIN_MS = 4_000;

export interface PointsOptions {
  /** What the turn is, for the title. */
  readonly title: string;
  readonly open: OpenScenario;
  /** Of the points, every `of`-th from `first` on. */
  readonly first: number;
  readonly of: number;
  readonly modes: readonly Mode[];
}

/** Declares the tests of a turn's points, which are counted in a run without a fault before that. */
export const declarePoints = async (options: PointsOptions): Promise<void> => {
  const { first, of, modes } = options;
  const lane = await startLane({ answers: TOOL_ANSWERS });

  const dryRun = async (): Promise<readonly Point[]> => {
    const scenario = await options.open(lane);
    lane.faults.arm("a", null);
    const answer = await scenario.turn("a");
    expect(answer.body).toMatchObject({ status: "completed" });
    const points = lane.faults.points().filter((point) => !isPoll(point));
    await recover(lane, scenario);
    await expectSound(lane, scenario);
    return points;
  };

  const points = await dryRun();
  const outcomes = new Map<string, string>();

  /** The call is held up until the other Worker has gone on in its place: what comes of it then changes nothing (M2). */
  const beLate = async (scenario: Scenario, turn: Promise<Answer | null>): Promise<void> => {
    await Promise.race([lane.faults.happened(), turn]);
    await recover(lane, scenario);
    const before = await snapshot(lane, scenario);
    lane.faults.release();
    expect(await turn, "whoever is late still answers its caller").not.toBe(null);
    expect(await snapshot(lane, scenario)).toEqual(before);
  };

  /** The run is cancelled through the other Worker: it ends soon, though a model call or a tool of its never answers. */
  const beCancelled = async (scenario: Scenario, point: Point, turn: Promise<Answer | null>): Promise<void> => {
    await Promise.race([lane.faults.happened(), turn]);
    const [run] = await runsOf(lane, scenario);
    const { status, body } = await scenario.cancel("b", run?.id ?? "");
    expect([status, body.status]).toEqual([202, "running"]);
    if (point.kind === "sql" || point.kind === "r2") lane.faults.release();
    const cancelledMs = performance.now();
    // What ends the run anyhow is not called back.
    expect((await turn)?.body.status).toBe(point.label === "finish" ? "completed" : "cancelled");
    expect(performance.now() - cancelledMs).toBeLessThan(CANCEL_WITHIN_MS);
    lane.faults.release();
    expect(await isHeld(lane, scenario), "a cancelled run frees its session").toBe(false);
    await recover(lane, scenario);
  };

  const play = async (point: Point, mode: Mode): Promise<string> => {
    const scenario = await options.open(lane);
    lane.faults.arm("a", { point, mode, kill: () => lane.kill("a") });
    const turn = scenario.turn("a").catch(() => null);
    if (mode === "late") await beLate(scenario, turn);
    else if (mode === "cancelled") await beCancelled(scenario, point, turn);
    else {
      // Who was killed answers nobody.
      expect((await turn) === null).toBe(mode.startsWith("killed"));
      // A killed Worker is dead before its caller is told of more than a broken connection; then its successor is there.
      if (lane.faults.hasHappened()) await lane.faults.happened();
      lane.faults.release();
      await recover(lane, scenario);
    }
    expect(lane.faults.hasHappened(), "the turn came to the point").toBe(true);
    const run = await expectSound(lane, scenario);
    if (run === undefined) return "not begun";
    return `${run.status}${run.code === null ? "" : ` ${run.code}`}${run.attempts > 1 ? ` (${run.attempts})` : ""}`;
  };

  describe(`one call of ${options.title} goes wrong`, () => {
    afterAll(async () => {
      console.log(tableOf(points, modes, outcomes));
      await lane.close();
    });
    for (const [index, point] of points.entries()) {
      if (index % of !== first) continue;
      for (const mode of modes) {
        // Until it has begun there is nothing to be late for, and nothing to cancel.
        if ((mode === "late" || mode === "cancelled") && index === 0) continue;
        it(`${nameOf(point)}, ${mode}: the session answers, and everything is there once`, async () => {
          outcomes.set(`${nameOf(point)}|${mode}`, "BROKEN");
          outcomes.set(`${nameOf(point)}|${mode}`, await play(point, mode));
        });
      }
    }
  });
};
