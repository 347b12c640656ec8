/** Rewinding a session (R2, R3): looked at, then undone on the condition that it is still as it was looked at. */
import type { CompactionId, TenantId } from "../protocol/ids.ts";
import { type Claim, claimState, selectClaim } from "../store/idempotency.ts";
import { storeRewind, type Undoing } from "../store/rewind.ts";
import type { SessionRef } from "../store/session-ref.ts";
import { lookAtUndo, type UndoLook, type Undone, type UndoTarget } from "../store/undoing.ts";
import type { Deps } from "./deps.ts";
import { sendForNext } from "./next-run.ts";
import { todosOf } from "./todos-at.ts";

/** How often a session that changes under our hands is looked at anew. */
export const LOOKS = 3;

export interface RewindRequest {
  readonly tenantId: TenantId;
  readonly session: SessionRef;
  readonly target: UndoTarget;
  readonly attemptId: CompactionId;
  readonly claim: Claim | null;
}

/** Why turns cannot be undone. */
export type UndoRefusal =
  | { readonly kind: "not_found" }
  | NonNullable<{ readonly kind: "busy" } & UndoLook["busy"]>
  /** There are so many turns only. */
  | { readonly kind: "too_few"; readonly turns: number }
  /** No turn begins right after this seq; the nearest after which one does, null where there is none on that side. */
  | { readonly kind: "no_boundary"; readonly before: number | null; readonly after: number | null }
  /** Nothing stands after this seq. */
  | { readonly kind: "at_end"; readonly lastSeq: number; readonly before: number | null };

export type RewindResult =
  | UndoRefusal
  | { readonly kind: "rewound"; readonly body: string; readonly replayed: boolean }
  | { readonly kind: "mismatch" }
  | { readonly kind: "overtaken" };

/** Checks that the target is a boundary between turns. */
export const checkUndo = (
  look: UndoLook | undefined,
  target: UndoTarget,
): UndoRefusal | { readonly kind: "go"; readonly look: UndoLook; readonly undone: Undone } => {
  if (look === undefined) return { kind: "not_found" };
  const { busy, undone, keptTo, boundaryBefore: before } = look;
  if (busy !== null) return { kind: "busy", ...busy };
  if ("turns" in target) {
    const turns = undone?.turns ?? 0;
    return undone === null || turns < target.turns ? { kind: "too_few", turns } : { kind: "go", look, undone };
  }
  const { toSeq } = target;
  if (undone === null)
    return toSeq < keptTo ? { kind: "no_boundary", before, after: null } : { kind: "at_end", lastSeq: keptTo, before };
  return toSeq < keptTo ? { kind: "no_boundary", before, after: keptTo } : { kind: "go", look, undone };
};

/** Sends for the run that a session waits for, where no Worker is at work on it; then says that it is busy. */
export const sendForBusy = async (deps: Deps, tenantId: TenantId, look: UndoLook | undefined): Promise<void> => {
  if (look?.busy?.stranded !== true) return;
  await sendForNext(deps, { tenantId, sessionId: look.at.sessionId }, look.busy.runId).catch(() => undefined);
};

/** What is to be stored to undo the rows. */
export const undoingOf = (
  deps: Deps,
  { at, clipTokens }: UndoLook,
  undone: Undone,
  how: Pick<Undoing, "attemptId" | "reason">,
): Undoing => ({
  ...how,
  at,
  start: undone.start,
  todos: undone.todoCalls === null ? null : todosOf(undone.todoCalls),
  clipTokens: clipTokens ?? deps.config.context.toolArgMaxTokens,
});

/**
 * Undoes turns. Two round trips, and two more for each change that comes between.
 * @param render the answer, but for generation and revision
 * @throws StoreUnavailable
 */
export const rewind = async (
  deps: Deps,
  request: RewindRequest,
  render: (look: UndoLook, undone: Undone) => Readonly<Record<string, unknown>>,
): Promise<RewindResult> => {
  const { tenantId, session, target, attemptId, claim } = request;
  for (let looks = 0; looks < LOOKS; looks++) {
    const { look, also } = await lookAtUndo(deps.db, tenantId, session, target, [selectClaim(claim)]);
    const known = claimState(claim, also[0]?.[0]);
    if (known.kind === "mismatch") return known;
    if (known.kind === "replay" && known.response !== null)
      return { kind: "rewound", body: known.response, replayed: true };
    const checked = checkUndo(look, target);
    if (checked.kind === "busy") await sendForBusy(deps, tenantId, look);
    if (checked.kind !== "go") return checked;
    const undoing = undoingOf(deps, checked.look, checked.undone, { attemptId, reason: "rewind" });
    const outcome = await storeRewind(deps.db, tenantId, undoing, claim, render(checked.look, checked.undone));
    if (outcome.kind === "rewound") return { ...outcome, replayed: false };
    if (outcome.kind === "mismatch") return outcome;
    if (outcome.kind === "replay" && outcome.response !== null)
      return { kind: "rewound", body: outcome.response, replayed: true };
  }
  return { kind: "overtaken" };
};
