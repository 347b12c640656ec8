/** Turns that do not run in the request that brings them: stored, then run by the queue consumer in their session's order. */
import type { KeyId, RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import type { SessionRef } from "../store/begin.ts";

/** What becomes of a turn whose session is busy (api.md). `join` puts the input into the turn that is on (M5). */
export type OnBusy = "reject" | "queue" | "interrupt" | "join";

/** What a request asks of its run alone; stored as `runs.options`. */
export interface RunOptions {
  /** Most model calls. */
  readonly maxSteps?: number;
  /** Most that the turn may cost, in USD at list price. */
  readonly maxUsd?: number;
}

export interface QueuedTurn {
  readonly tenantId: TenantId;
  readonly keyId: KeyId | null;
  readonly session: SessionRef;
  readonly runId: RunId;
  readonly trigger: "api" | "trigger";
  /** Origin `user`, or `event` for a payload (R7). */
  readonly input: NewRow;
  readonly onBusy: OnBusy;
  readonly idempotencyKey: string | null;
  readonly requestHash: string | null;
  readonly options: RunOptions;
  readonly callbackUrl: string | null;
  readonly triggerId: string | null;
  readonly deliveryId: string | null;
}

export type EnqueueOutcome =
  | { readonly kind: "queued"; readonly runId: RunId; readonly sessionId: SessionId }
  /** The input goes into the log with the next step of this run. */
  | { readonly kind: "joined"; readonly runId: RunId; readonly sessionId: SessionId }
  | { readonly kind: "busy"; readonly runId: RunId; readonly retryAfterSeconds: number }
  | { readonly kind: "session_not_found" }
  | { readonly kind: "replay"; readonly runId: RunId; readonly sameRequest: boolean };
