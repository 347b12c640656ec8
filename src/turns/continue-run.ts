/** The queue's `run_turn`: a stored run is taken up and run, whatever it waits for (issue "Turns that survive"). */
import type { RunId } from "../protocol/ids.ts";
import { LeaseLost } from "../store/errors.ts";
import { failGivenUp } from "../store/give-up.ts";
import { takeRun } from "../store/take.ts";
import type { Deps } from "./deps.ts";
import { loadLimits } from "./load-limits.ts";
import { sendForNext } from "./next-run.ts";
import type { RunTurn } from "./queue.ts";
import { executeRun, MAX_ATTEMPTS } from "./run.ts";

/**
 * Takes a run up, and runs it. A message that comes twice, or too early, does nothing: whoever is at work, or ends before, sends for what comes
 * next, and the sweeper for what was lost.
 * @throws StoreUnavailable, and what the queue fails with: the message is then to be delivered again
 */
export const continueRun = async (deps: Deps, message: RunTurn): Promise<void> => {
  const startedMs = deps.now();
  const { tenantId, runId } = message;
  const token = deps.newId("run");
  const outcome = await takeRun(deps.db, {
    tenantId,
    runId,
    token,
    startedAt: new Date(startedMs).toISOString(),
    limits: loadLimits(deps.config),
  });
  switch (outcome.kind) {
    case "taken":
      // One start too many is for recording the failure with what the run used; if even that cannot be done, the run ends without.
      if (outcome.session.run.attempts > MAX_ATTEMPTS + 1) return giveUp(deps, message, token);
      try {
        await executeRun(deps, { session: outcome.session, startedMs, sink: () => undefined });
      } catch (error) {
        // Another Worker goes on with the run; this one has nothing left to do.
        if (!(error instanceof LeaseLost)) throw error;
      }
      return;
    case "not_next":
      return sendForNext(deps, message, otherThan(runId, outcome.next));
    case "over":
    case "held":
    case "waiting":
      return;
    default:
      return outcome satisfies never;
  }
};

/** The first of the queue, whose own message may be lost; a run that is at work is only sent for once it is over. */
const otherThan = (runId: RunId, next: RunId | null): RunId | null => (next === runId ? null : next);

const giveUp = async (deps: Deps, { tenantId, runId }: RunTurn, token: string | null): Promise<void> => {
  const next = await failGivenUp(deps.db, tenantId, runId, token);
  if (next !== null) await sendForNext(deps, next, next.runId);
};

/** What the message stood for can be seen: the run is failed, unless a Worker is at work on it. @throws StoreUnavailable */
export const giveUpRun = (deps: Deps, message: RunTurn): Promise<void> => giveUp(deps, message, null);
