/**
 * No guard blocks for ever (G1, G4): whatever happened to a session, once the summariser is good again and the longest waits are over, a compaction is
 * tried as soon as one is needed.
 */
import { askFor } from "./session.ts";
import type { Shape } from "./under-test.ts";

/** G1: the longest cooldown, and a little more, in s. */
const LONGEST_COOLDOWN_SECONDS = 901;
/** G4: from the first evaluation that is blocked to the probe. */
const PROBATION_SECONDS = 301;

/** Turns over the trigger in which nothing need be tried: the one that arms the probation, and one that waits for a reading (G7). */
const EXCUSED = 2;
/** Turns until a session of a window as large as these needs a compaction, at the latest. */
const MOST_TURNS = 12;

export const checkRecovery = async (shape: Shape): Promise<void> => {
  const { lane, session, tally, plan } = shape;
  shape.setSummariser(["good"]);
  shape.setModel([]);
  shape.setBucket(false);
  await shape.settle();
  await lane.advance(LONGEST_COOLDOWN_SECONDS);
  let excused = 0;
  for (let turn = 1; turn <= MOST_TURNS; turn++) {
    const from = shape.provider.calls.length;
    shape.script([], 60);
    const ask = shape.ask({ chars: Math.floor(plan.windowTokens * 0.5), image: false }, "reject");
    const { worker, result } = await shape.on((deps) => askFor(deps, session, ask));
    await shape.drain();
    const calls = shape.provider.calls.slice(from);
    const refusals = worker.facts.filter(({ msg }) => msg === "the context was not compacted");
    if (calls.some(({ purpose }) => purpose === "summarize")) {
      tally.add("recovery", `compacted after ${turn <= 6 ? turn : "more than 6"} turns, ${excused} blocked`);
      const made = worker.facts.some(
        ({ msg, generation }) => msg === "the context was compacted" && generation !== null,
      );
      if (!made) tally.add("recovery", `not taken: ${refusals.map(({ failure, why }) => failure ?? why).join()}`);
      return;
    }
    const blocked = refusals.filter(({ why }) => why === "guard");
    if (blocked.length > 0) {
      excused += 1;
      if (excused > EXCUSED)
        return shape.violate(
          "no guard for ever",
          `${blocked.map(({ guard }) => guard).join()} blocks a compaction ${excused} times, and nothing is tried`,
        );
    }
    // A guard that blocks may be hidden behind a truncation.
    await lane.advance(PROBATION_SECONDS);
    if (result.kind === "done" && result.value.kind === "ran" && result.value.run.status !== "completed")
      return shape.violate(
        "progress",
        `the turn after all is well failed: ${result.value.run.error?.code} ${result.value.run.error?.message}`,
      );
  }
  shape.violate("no guard for ever", `nothing was compacted in ${MOST_TURNS} turns`);
};
