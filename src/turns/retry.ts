/** Running the last turn again (R2, R3): what it left is undone and its input begins a new turn, in one transaction. */
import type { KeyId, TenantId } from "../protocol/ids.ts";
import type { BeginOutcome } from "../store/begin-request.ts";
import type { RunOptions } from "../store/loaded-session.ts";
import { beginReplacing } from "../store/replace.ts";
import { findRunByKey } from "../store/runs.ts";
import type { SessionRef } from "../store/session-ref.ts";
import { lookAtUndo } from "../store/undoing.ts";
import type { Deps } from "./deps.ts";
import { loadLimits } from "./load-limits.ts";
import { checkUndo, LOOKS, sendForBusy, type UndoRefusal, undoingOf } from "./rewind.ts";

export interface RetryRequest {
  readonly tenantId: TenantId;
  readonly keyId: KeyId | null;
  readonly session: SessionRef;
  readonly idempotencyKey: string | null;
  /** SHA-256 of what the idempotency key stands for. */
  readonly requestHash: string;
  readonly options: RunOptions;
  /** When the request arrived, RFC 3339. */
  readonly startedAt: string;
}

export type RetryOutcome =
  | Extract<BeginOutcome, { kind: "started" | "replay" }>
  | UndoRefusal
  | { readonly kind: "overtaken" };

const LAST_TURN = { turns: 1 };

/**
 * Begins the last turn anew: same bytes, a new row, a new run. Two round trips, and two more for each change that comes between.
 * @returns `overtaken` after several changes in a row
 * @throws StoreUnavailable
 */
export const beginRetry = async (deps: Deps, request: RetryRequest): Promise<RetryOutcome> => {
  const { tenantId, session, idempotencyKey, requestHash } = request;
  const runId = deps.newId("run");
  const attemptId = deps.newId("cmp");
  const messageId = deps.newId("msg");
  const byKey = idempotencyKey === null ? [] : [findRunByKey(tenantId, idempotencyKey)];
  for (let looks = 0; looks < LOOKS; looks++) {
    const { look, also } = await lookAtUndo(
      deps.db,
      tenantId,
      session,
      LAST_TURN,
      byKey.map(({ statement }) => statement),
    );
    const known = byKey[0]?.read(also[0]?.[0]);
    if (known !== undefined)
      return { kind: "replay", tenantId, runId: known.runId, sameRequest: known.requestHash === requestHash };
    const checked = checkUndo(look, LAST_TURN);
    if (checked.kind === "busy") await sendForBusy(deps, tenantId, look);
    if (checked.kind !== "go") return checked;
    const input = checked.look.input;
    if (input === null) return { kind: "too_few", turns: 0 };
    const { seq: _, createdAt: __, ...row } = input;
    const outcome = await beginReplacing(deps.db, {
      ...request,
      session: { id: checked.look.at.sessionId },
      runId,
      input: { ...row, id: messageId, runId },
      limits: loadLimits(deps.config),
      undoing: undoingOf(deps, checked.look, checked.undone, { attemptId, reason: "retry" }),
    });
    if (outcome.kind === "started" || outcome.kind === "replay") return outcome;
    if (outcome.kind !== "busy") return { kind: "not_found" };
  }
  return { kind: "overtaken" };
};
