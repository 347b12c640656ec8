/** What the cron door does: work that is due by the clock, and work that got lost on its way through the queue. */
import { unfinishedCopies } from "../store/copies.ts";
import { unfinishedErasures } from "../store/erasures.ts";
import { expireIdempotencyKeys } from "../store/expiry.ts";
import { endDeadMaintenance, strandedRuns } from "../store/take.ts";
import type { Deps } from "./deps.ts";
import { refreshProfiles } from "./refresh-profiles.ts";

/** Erasures, and copies, that one tick sends on; the next tick takes the rest. A queue takes 100 messages a batch. */
const SENT_PER_TICK = 100;

/**
 * Forgets old idempotency keys, sends unfinished copies and erasures to the queue again, and keeps the models' profiles fresh.
 * @throws StoreUnavailable, or what the queue fails with; the next tick does it all again
 */
export const maintain = async (deps: Deps): Promise<void> => {
  await expireIdempotencyKeys(deps.db);
  await sendForStranded(deps);
  await resendCopies(deps);
  await resendErasures(deps);
  await refreshProfiles(deps);
};

/** Runs that one tick sends for; the next tick takes the rest. */
const RUNS_PER_TICK = 100;

/** Finds the runs that no Worker is at work on, and has the queue go on with them. */
export const sendForStranded = async (deps: Deps): Promise<void> => {
  await endDeadMaintenance(deps.db);
  const runs = await strandedRuns(deps.db, RUNS_PER_TICK);
  if (runs.length === 0) return;
  await deps.queue.sendBatch(runs.map((run) => ({ body: { v: 1, type: "run_turn", ...run } })));
  deps.log.info("sent for stranded runs", { runs: runs.length });
};

const resendCopies = async (deps: Deps): Promise<void> => {
  const copies = await unfinishedCopies(deps.db, SENT_PER_TICK);
  if (copies.length === 0) return;
  await deps.queue.sendBatch(copies.map((copy) => ({ body: { v: 1, type: "copy_files", ...copy } })));
  deps.log.info("sent unfinished copies to the queue again", { copies: copies.length });
};

const resendErasures = async (deps: Deps): Promise<void> => {
  const erasures = await unfinishedErasures(deps.db, SENT_PER_TICK);
  if (erasures.length === 0) return;
  await deps.queue.sendBatch(erasures.map((erasure) => ({ body: { v: 1, type: "erase_objects", ...erasure } })));
  deps.log.info("sent unfinished erasures to the queue again", { erasures: erasures.length });
};
