/** Asking for a pass of micro-compaction, after a turn that ended normally and left time (section 11). */
import type { Deps } from "./deps.ts";
import type { RunJournal } from "./journal.ts";
import type { RunOf } from "./next-run.ts";

/**
 * Sends for a pass where one is due and no other run waits for the session. Never throws and is not waited for: what gets lost is asked for
 * again after the next turn.
 */
export const requestMicro = (
  { queue, log, waitUntil }: Pick<Deps, "queue" | "log" | "waitUntil">,
  { tenantId, sessionId }: RunOf,
  journal: Pick<RunJournal, "microDue" | "next">,
): void => {
  if (!journal.microDue() || journal.next() !== null) return;
  waitUntil(
    queue.send({ v: 1, type: "micro_compact", tenantId, sessionId }).catch(() => {
      log.warn("a micro-compaction pass was not sent for", { session_id: sessionId });
    }),
  );
};
