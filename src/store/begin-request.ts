/** What a run is begun with, and what comes of it. */
import type { SQL } from "drizzle-orm";
import type { KeyId, RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import type { LoadedSession, RunOptions } from "./loaded-session.ts";
import type { LoadLimits } from "./loading.ts";
import type { RunTrigger } from "./runs.ts";
import type { SessionRef } from "./session-ref.ts";

/** Who asks: the holder of a key, who is authenticated by the same statements, or somebody whom the caller has authenticated. */
export type Caller =
  /** SHA-256 of the API key's secret. */
  { readonly keyHash: string } | { readonly tenantId: TenantId; readonly keyId: KeyId | null };

/** What becomes of a turn whose session is busy (api.md). `join` puts the input into the turn that is on (M5). */
export type OnBusy = "reject" | "queue" | "interrupt" | "join";

export interface BeginRun {
  readonly caller: Caller;
  readonly session: SessionRef;
  readonly runId: RunId;
  readonly trigger: RunTrigger;
  readonly idempotencyKey: string | null;
  readonly requestHash: string | null;
  /** The turn's input; null for a run that works on what is there. */
  readonly input: NewRow | null;
  /** When the run started, RFC 3339: the time of its first event. */
  readonly startedAt: string;
  /** How far back rows are read; null for all of them. */
  readonly limits: LoadLimits | null;
  readonly onBusy: OnBusy;
  /** Stored to be run by the queue, also where the session is idle. */
  readonly background: boolean;
  readonly options: RunOptions;
  readonly callbackUrl: string | null;
  readonly triggerId: string | null;
  readonly deliveryId: string | null;
  /** SQL condition over `session_heads h`, without which the run does not begin. */
  readonly only?: SQL;
  /** SQL that takes effect with the begin, before the view is read. */
  readonly also?: readonly SQL[];
}

export type BeginTurn = Omit<BeginRun, "caller" | "input" | "requestHash"> & {
  /** SHA-256 of the API key's secret. */
  readonly keyHash: string;
  readonly requestHash: string;
  readonly input: NewRow;
};

/** A turn that nobody waits for in the request that brings it. */
export type EnqueueTurn = Omit<BeginRun, "caller" | "input" | "startedAt" | "limits" | "background"> & {
  readonly tenantId: TenantId;
  readonly keyId: KeyId | null;
  readonly input: NewRow;
};

export type BeginOutcome =
  | { readonly kind: "started"; readonly session: LoadedSession }
  | { readonly kind: "unauthenticated" }
  | { readonly kind: "forbidden"; readonly reason: "scope" | "tenant_suspended" }
  | { readonly kind: "session_not_found" }
  /** The session is a subagent's: its turns are those that its parent gives it. */
  | { readonly kind: "subagent" }
  | {
      readonly kind: "busy";
      readonly runId: RunId;
      readonly retryAfterSeconds: number;
      /** Of a run that is on, or could go on, and that no Worker is at work on: somebody is to send for it. */
      readonly stranded: { readonly tenantId: TenantId; readonly sessionId: SessionId } | null;
    }
  /** Stored; the queue runs it. */
  | { readonly kind: "queued"; readonly runId: RunId; readonly sessionId: SessionId; readonly tenantId: TenantId }
  /** The input goes into the log with the next step of this run (M5). */
  | { readonly kind: "joined"; readonly runId: RunId; readonly sessionId: SessionId; readonly tenantId: TenantId }
  /** The idempotency key was used before: by the same request (then `runId` is its run), or by another. */
  | { readonly kind: "replay"; readonly runId: RunId; readonly tenantId: TenantId; readonly sameRequest: boolean };
