/** What goes on beside a run's work: its lease is kept, and it is looked for whether it was cancelled or lost. */
import { LeaseLost } from "../store/errors.ts";
import { RENEWAL_SECONDS } from "../store/lease.ts";
import type { PreparedRun } from "./prepare-run.ts";

/** How often a run looks for a hard cancel between its writes, in ms: it is to be heeded within 2 s. */
const CANCEL_CHECK_MS = 1_500;

/**
 * Keeps the lease of a run, since a provider may be silent for longer than one lives, and ends the run where it was cancelled or its session
 * was lost.
 * @returns what stops the watch
 */
export const watchRun = ({ journal, ending }: Pick<PreparedRun, "journal" | "ending">): (() => void) => {
  const keeping = setInterval(() => journal.heartbeat(), RENEWAL_SECONDS * 1000);
  let looking = false;
  const watching = setInterval(() => {
    if (looking) return;
    looking = true;
    journal
      .check()
      .catch((error: unknown) => {
        if (error instanceof LeaseLost) ending.abort(error);
      })
      .finally(() => {
        looking = false;
      });
  }, CANCEL_CHECK_MS);
  return () => {
    clearInterval(keeping);
    clearInterval(watching);
  };
};
