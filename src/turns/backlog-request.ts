/** Asking for the compaction of what a turn could not load (V7). */
import type { LoadedSession } from "../store/loaded-session.ts";
import type { Deps } from "./deps.ts";

/** Sends for it where there is a backlog; asking again does no harm. Rejects with what the queue fails with. */
export const requestBacklog = async (deps: Pick<Deps, "queue">, session: LoadedSession): Promise<void> => {
  if (session.unloaded.length === 0) return;
  await deps.queue.send({ v: 1, type: "compact_backlog", tenantId: session.tenantId, sessionId: session.sessionId });
};
