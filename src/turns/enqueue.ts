/** Turns that do not run in the request that brings them: stored, then run by the queue consumer in their session's order. */
import type { RunId, SessionId } from "../protocol/ids.ts";
import { storeQueuedTurn } from "../store/begin.ts";
import type { EnqueueTurn } from "../store/begin-request.ts";
import type { Deps } from "./deps.ts";
import { sendForNext } from "./next-run.ts";

/** `input` has the origin `user`, or `event` for a payload (R7). */
export type QueuedTurn = EnqueueTurn;

export type EnqueueOutcome =
  | { readonly kind: "queued"; readonly runId: RunId; readonly sessionId: SessionId }
  /** The input goes into the log with the next step of this run. */
  | { readonly kind: "joined"; readonly runId: RunId; readonly sessionId: SessionId }
  | { readonly kind: "busy"; readonly runId: RunId; readonly retryAfterSeconds: number }
  | { readonly kind: "session_not_found" }
  | { readonly kind: "replay"; readonly runId: RunId; readonly sameRequest: boolean };

/**
 * Stores a turn and sends for it. One round trip.
 * @throws StoreUnavailable. A queue that does not take the message is no failure: the sweeper sends for the run
 */
export const enqueueTurn = async (
  deps: Pick<Deps, "db" | "queue" | "log">,
  turn: QueuedTurn,
): Promise<EnqueueOutcome> => {
  const outcome = await storeQueuedTurn(deps.db, turn);
  switch (outcome.kind) {
    case "queued":
      await sendForNext(deps, outcome, outcome.runId).catch(() =>
        deps.log.warn("a queued run is left to the sweeper", { run_id: outcome.runId }),
      );
      return outcome;
    case "joined":
    case "busy":
    case "session_not_found":
    case "replay":
      return outcome;
    case "started":
    case "subagent":
    case "unauthenticated":
    case "forbidden":
      // The tenant is suspended or gone; a background run is never started by its begin.
      return { kind: "session_not_found" };
    default:
      return outcome satisfies never;
  }
};
