/**
 * The late worker (M2): one Worker is stuck in a summary, its lease expires, another takes the session over, and then the first one comes
 * back with its summary. Nothing of it may appear.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { expectSound, snapshot } from "./invariants.ts";
import { type Lane, startLane } from "./lane.ts";
import { nextAnswered, takeOver } from "./recover.ts";
import { openScenario, type Scenario, TOOL_ANSWERS } from "./scenario.ts";

let lane: Lane;

beforeAll(async () => {
  lane = await startLane({ answers: TOOL_ANSWERS });
});
afterAll(() => lane.close());

const headOf = async ({ id }: Scenario) => {
  const [head] = await lane.database.sql(
    `select h.lease_holder is not null as held, h.lease_epoch::int as epoch, h.cooldown_reason,
       (select count(*)::int from compactions c where c.session_id = h.session_id) as generations
     from session_heads h where h.session_id = $1`,
    [id],
  );
  return head;
};

/** Step 1: the first Worker waits for its summary. Steps 2 and 3 are `takeOver`: its lease expires, and the second has the session. */
const stuck = async () => {
  const scenario = await openScenario(lane, "second");
  const point = { kind: "provider", label: "summary", occurrence: 1 } as const;
  lane.faults.arm("a", { point, mode: "late", kill: () => Promise.resolve() });
  const first = scenario.turn("a");
  await lane.faults.happened();
  return { scenario, first };
};

/** Steps 4 and 5: the first one's summary comes, is too late, and changes nothing while the second holds the session. */
const comesBack = async (scenario: Scenario, first: Promise<unknown>) => {
  await lane.simulator.reached("second");
  const before = await snapshot(lane, scenario);
  lane.faults.release();
  await first;
  expect(await snapshot(lane, scenario)).toEqual(before);
};

it("a late summary commits no generation over that of the Worker that took over, and frees no lease of it (M2)", async () => {
  const { scenario, first } = await stuck();
  await takeOver(lane);
  await comesBack(scenario, first);
  expect(await headOf(scenario)).toEqual({ held: true, epoch: 2, cooldown_reason: null, generations: 1 });
  lane.simulator.release("second");
  await nextAnswered(scenario);
  expect(await expectSound(lane, scenario)).toMatchObject({ status: "completed", attempts: 2 });
});

it("a late summary clears no cooldown that the Worker that took over has set (G1, M2)", async () => {
  const { scenario, first } = await stuck();
  lane.simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: " \n" } });
  await takeOver(lane);
  await comesBack(scenario, first);
  expect(await headOf(scenario)).toEqual({ held: true, epoch: 2, cooldown_reason: "empty", generations: 0 });
  lane.simulator.release("second");
  await nextAnswered(scenario);
  expect(await expectSound(lane, scenario)).toMatchObject({ status: "completed", attempts: 2 });
});
