/** Outages that last, and Workers that keep dying. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Mode, nameOf, type Point } from "./faults.ts";
import { expectSound, runsOf } from "./invariants.ts";
import { type Lane, startLane } from "./lane.ts";
import { nextAnswered, PAST_THE_LEASE_SECONDS, recover, takeOver } from "./recover.ts";
import { openScenario, TOOL_ANSWERS } from "./scenario.ts";

let lane: Lane;

beforeAll(async () => {
  lane = await startLane({ answers: TOOL_ANSWERS });
});
afterAll(() => lane.close());
beforeEach(() => lane.faults.outage(null));

const arm = (point: Point, mode: Mode) => lane.faults.arm("a", { point, mode, kill: () => lane.kill("a") });

const OUTAGE_MS = 5_000;

describe("an outage", () => {
  it.each<Point>([
    { kind: "tool", label: "charge", occurrence: 1 },
    { kind: "provider", label: "summary", occurrence: 2 },
    { kind: "provider", label: "turn", occurrence: 3 },
  ])(
    "of Postgres for 5 s that begins during $kind $label #$occurrence: the run is gone on with, and the session answers",
    async (point) => {
      const scenario = await openScenario(lane);
      arm(point, "late");
      const turn = scenario.turn("a");
      await lane.faults.happened();
      lane.faults.outage(({ kind }) => kind === "sql");
      lane.faults.release();
      const down = await scenario.post("b", { input: "Hello?" });
      expect([down.status, down.body.error.code]).toEqual([503, "unavailable"]);
      await sleep(OUTAGE_MS);
      lane.faults.outage(null);
      const { status, body } = await turn;
      expect([status, body.error?.code ?? body.status]).toEqual([503, "unavailable"]);
      await recover(lane, scenario);
      expect(await expectSound(lane, scenario)).toMatchObject({ status: "completed", attempts: 2 });
    },
  );

  it("of R2 at every third call: the turn is completed all the same", async () => {
    const scenario = await openScenario(lane);
    lane.faults.arm("a", null);
    let calls = 0;
    lane.faults.outage(({ kind }) => kind === "r2" && ++calls % 3 === 0);
    const { body } = await scenario.turn("a");
    expect(body).toMatchObject({ status: "completed" });
    expect(calls).toBeGreaterThanOrEqual(9);
    lane.faults.outage(null);
    await recover(lane, scenario);
    expect(await expectSound(lane, scenario)).toMatchObject({ status: "completed", attempts: 1 });
  });

  it("of R2 for the whole turn: the run fails in words, and the session answers once R2 does", async () => {
    const scenario = await openScenario(lane);
    lane.faults.arm("a", null);
    lane.faults.outage(({ kind }) => kind === "r2");
    const { status, body } = await scenario.turn("a");
    expect([status, body.error.code]).toEqual([503, "unavailable"]);
    lane.faults.outage(null);
    await recover(lane, scenario);
    expect(await expectSound(lane, scenario)).toMatchObject({ status: "failed", code: "unavailable" });
  });

  it("of the provider for the whole turn: the run fails in words, and the session answers once the provider does", async () => {
    const scenario = await openScenario(lane);
    lane.faults.arm("a", null);
    lane.faults.outage(({ kind }) => kind === "provider");
    const { status, body } = await scenario.turn("a");
    expect([status, body.error.code]).toEqual([502, "provider_error"]);
    lane.faults.outage(null);
    await recover(lane, scenario);
    expect(await expectSound(lane, scenario)).toMatchObject({ status: "failed", code: "provider_error" });
  });
});

describe("a run", () => {
  it("that its Worker does not survive is tried three times, then failed with a reason, and the session answers", async () => {
    const scenario = await openScenario(lane);
    const point = { kind: "provider", label: "turn", occurrence: 1 } as const;
    arm(point, "killed before it");
    expect(await scenario.turn("a").catch(() => "cut")).toBe("cut");
    await lane.faults.happened();
    for (const attempt of [2, 3]) {
      arm(point, "killed before it");
      await lane.database.advanceClock(PAST_THE_LEASE_SECONDS);
      // It may be killed before it has said that the tick is done.
      await (await lane.worker("a")).tick().catch(() => undefined);
      await lane.faults.happened();
      expect(await runsOf(lane, scenario)).toMatchObject([{ status: "running", attempts: attempt }]);
    }
    await recover(lane, scenario);
    expect(await expectSound(lane, scenario)).toMatchObject({ status: "failed", code: "run_interrupted" });
  });

  const background: readonly (readonly [Point, Mode])[] = [
    [{ kind: "sql", label: "begin", occurrence: 1 }, "killed after it"],
    [{ kind: "queue", label: "send", occurrence: 1 }, "killed before it"],
    [{ kind: "queue", label: "send", occurrence: 1 }, "killed after it"],
    [{ kind: "queue", label: "send", occurrence: 1 }, "refused"],
    [{ kind: "queue", label: "send", occurrence: 1 }, "answer cut"],
    [{ kind: "sql", label: "take run", occurrence: 1 }, "killed before it"],
    [{ kind: "sql", label: "take run", occurrence: 1 }, "killed after it"],
    [{ kind: "sql", label: "take run", occurrence: 1 }, "answer cut"],
    [{ kind: "sql", label: "take run", occurrence: 1 }, "late"],
    [{ kind: "tool", label: "charge", occurrence: 1 }, "killed after it"],
    [{ kind: "sql", label: "finish", occurrence: 1 }, "killed before it"],
    // The last: its message is delivered after all, to whoever is armed by then.
    [{ kind: "queue", label: "send", occurrence: 1 }, "late"],
  ];
  it.each(background.map(([point, mode]) => [nameOf(point), mode, point] as const))(
    "in the background, %s, %s: it is run to its end",
    async (_name, mode, point) => {
      const scenario = await openScenario(lane);
      arm(point, mode);
      const turn = scenario.turn("a", { background: true }).catch(() => undefined);
      await lane.faults.happened();
      await takeOver(lane);
      await nextAnswered(scenario);
      lane.faults.release();
      await turn;
      expect(await expectSound(lane, scenario)).toMatchObject({ status: "completed" });
    },
  );
});
