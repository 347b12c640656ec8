/** A compaction that somebody asks for over the API (G9): done at once where the session is idle, left to the run that holds it where not. */
import type { KeyId, RunId, SessionId, TenantId } from "../protocol/ids.ts";
import { requestCompaction } from "../store/compactions.ts";
import { LeaseLost, StoreUnavailable } from "../store/errors.ts";
import type { RunError } from "../store/finish.ts";
import { takeMaintenanceLease } from "../store/maintenance-lease.ts";
import { type CompactionRecord, findCompaction } from "../store/receipts.ts";
import type { SessionRef } from "../store/session-ref.ts";
import { metric } from "../telemetry/genai.ts";
import { attemptEvent } from "./attempt-event.ts";
import { compactSession, type SessionCompacted } from "./compact-session.ts";
import type { Deps } from "./deps.ts";
import { runErrorOf } from "./failure.ts";
import { loadLimits } from "./load-limits.ts";

export interface CompactionRequest {
  readonly tenantId: TenantId;
  readonly keyId: KeyId;
  readonly session: SessionRef;
  readonly focus: string | null;
  /** The run that is recorded for it. */
  readonly runId: RunId;
  /** ms since the epoch. */
  readonly startedMs: number;
}

export type RequestedCompaction =
  | {
      readonly kind: "done";
      readonly sessionId: SessionId;
      readonly runId: RunId;
      readonly outcome: SessionCompacted;
      readonly receipt: CompactionRecord | null;
    }
  /** A run holds the session and compacts at its next step. */
  | { readonly kind: "left_to_run"; readonly runId: RunId }
  | { readonly kind: "failed"; readonly runId: RunId; readonly error: RunError }
  | { readonly kind: "not_found" }
  | { readonly kind: "busy"; readonly runId: RunId; readonly retryAfterSeconds: number };

/** A run may end just when it is asked, and another begin: then the lease is tried for again, so often. */
const ATTEMPTS = 3;

/**
 * Compacts, or has it done.
 * @throws LeaseLost when the session was taken over meanwhile; StoreUnavailable
 */
export const compactOnRequest = async (deps: Deps, request: CompactionRequest): Promise<RequestedCompaction> => {
  const { tenantId, keyId, session: ref, focus, runId, startedMs } = request;
  const startedAt = new Date(startedMs).toISOString();
  for (let attempt = 1; ; attempt++) {
    const taken = await takeMaintenanceLease(deps.db, {
      tenantId,
      keyId,
      session: ref,
      runId,
      startedAt,
      limits: loadLimits(deps.config),
    });
    if (taken.kind === "session_not_found") return { kind: "not_found" };
    if (taken.kind === "started") {
      const { session } = taken;
      const { sessionId } = session;
      try {
        const outcome = await compactSession(deps, { session, focus, startedMs });
        const made = outcome.kind === "changed" ? outcome.compaction : null;
        const receipt =
          made === null ? null : await findCompaction(deps.db, tenantId, { id: sessionId }, made.generation.number);
        return { kind: "done", sessionId, runId, outcome, receipt: receipt ?? null };
      } catch (error) {
        if (error instanceof LeaseLost || error instanceof StoreUnavailable) throw error;
        return { kind: "failed", runId, error: runErrorOf(error) };
      }
    }
    if (await requestCompaction(deps.db, tenantId, ref, focus ?? "")) {
      return { kind: "left_to_run", runId: taken.runId };
    }
    if (attempt >= ATTEMPTS) {
      const held = { reason: "manual", status: "lock_contended", runId: taken.runId } as const;
      deps.meter.add(metric.contextCompactions, 1, { reason: held.reason, outcome: held.status });
      deps.log.info("a compaction attempt", attemptEvent({ ...held, sessionId: "id" in ref ? ref.id : null }));
      return taken;
    }
  }
};
