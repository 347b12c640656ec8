/** What happens after a fault: the lease of a dead run expires, the cron trigger fires, and the caller comes back. */
import { expect, vi } from "vitest";
import type { Answer } from "../support/platform.ts";
import { isHeld } from "./invariants.ts";
import type { Lane } from "./lane.ts";
import type { Scenario } from "./scenario.ts";

/** Longer than a lease lives without a write, in s. */
export const PAST_THE_LEASE_SECONDS = 181;

/** The lease of whoever holds the session expires, and the other Worker goes on. */
export const takeOver = async (lane: Lane): Promise<void> => {
  await lane.database.advanceClock(PAST_THE_LEASE_SECONDS);
  await (await lane.worker("b")).tick();
};

/** Posts the next turn to the other Worker: it must be answered, once whatever runs is over. */
export const nextAnswered = (scenario: Scenario): Promise<Answer> =>
  vi.waitFor(
    async () => {
      const answer = await scenario.after("b");
      expect([answer.status, answer.body.status, answer.body.error]).toEqual([200, "completed", null]);
      return answer;
    },
    { timeout: 20_000, interval: 50 },
  );

/** Lets the other Worker take over where a run still holds the session, and posts the next turn there. */
export const recover = async (lane: Lane, scenario: Scenario): Promise<Answer> => {
  if (await isHeld(lane, scenario)) await takeOver(lane);
  await scenario.goOn("b");
  return nextAnswered(scenario);
};
