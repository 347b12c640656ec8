/** Forking a session: its rows in one transaction, its objects in the request where they are few, else through the queue. */
import type { KeyId, RunId, SessionId, TenantId } from "../protocol/ids.ts";
import { type ForkFields, type ForkOutcome, forkByClaim, storeFork } from "../store/fork.ts";
import type { Claim } from "../store/idempotency.ts";
import type { SessionRef } from "../store/session-ref.ts";
import { findSession } from "../store/sessions.ts";
import { lookAtUndo, type UndoLook } from "../store/undoing.ts";
import { continueCopy, OBJECTS_A_REQUEST } from "./copy-files.ts";
import type { Deps } from "./deps.ts";
import type { CopyFiles } from "./queue.ts";
import { LOOKS, sendForBusy, type UndoRefusal } from "./rewind.ts";
import { todosOf } from "./todos-at.ts";

export interface ForkRequest {
  readonly tenantId: TenantId;
  readonly keyId: KeyId | null;
  readonly session: SessionRef;
  /** The last seq to copy; undefined for all. */
  readonly atSeq: number | undefined;
  readonly forkId: SessionId;
  readonly copyRunId: RunId;
  readonly fields: ForkFields;
  /** What a session that is created with the fork's key must have been created with: nothing is. */
  readonly createdWith: string;
  readonly claim: Claim | null;
}

export type ForkResult =
  | ForkOutcome
  | Exclude<UndoRefusal, { readonly kind: "too_few" | "at_end" }>
  | {
      /** There is no such seq. */
      readonly kind: "beyond_end";
      readonly lastSeq: number;
    };

/** Checks that what is copied ends where a turn ends. */
const checkFork = (
  look: UndoLook | undefined,
  atSeq: number | undefined,
): Exclude<ForkResult, ForkOutcome> | { readonly kind: "go"; readonly look: UndoLook } => {
  if (look === undefined) return { kind: "not_found" };
  const { busy, keptTo, undone, boundaryBefore } = look;
  if (busy !== null) return { kind: "busy", ...busy };
  if (atSeq === undefined) return { kind: "go", look };
  if (atSeq < keptTo)
    return { kind: "no_boundary", before: boundaryBefore === 0 ? null : boundaryBefore, after: keptTo };
  if (undone === null && atSeq > keptTo) return { kind: "beyond_end", lastSeq: keptTo };
  return { kind: "go", look };
};

/**
 * Forks a session. Two round trips, and those of the copying; two more for each change that comes between.
 * @throws StoreUnavailable, BucketUnavailable
 */
export const fork = async (deps: Deps, request: ForkRequest): Promise<ForkResult> => {
  const { tenantId, keyId, session, atSeq, forkId, copyRunId, fields, createdWith, claim } = request;
  const before = forkByClaim(tenantId, forkId, claim);
  for (let looks = 0; looks < LOOKS; looks++) {
    // Without a seq nothing is left out: no turn begins after the largest.
    const target = { toSeq: atSeq ?? Number.MAX_SAFE_INTEGER };
    const { look, also } = await lookAtUndo(deps.db, tenantId, session, target, before.statements);
    const known = before.read(also);
    if (known !== undefined) return known.kind === "forked" ? completed(deps, tenantId, known) : known;
    const checked = checkFork(look, atSeq);
    if (checked.kind === "busy") await sendForBusy(deps, tenantId, look);
    if (checked.kind !== "go") return checked;
    const { at, undone, clipTokens } = checked.look;
    const outcome = await storeFork(
      deps.db,
      {
        tenantId,
        keyId,
        at,
        forkId,
        copyRunId,
        atSeq: undone === null ? null : (atSeq ?? null),
        todos: undone?.todoCalls == null ? null : todosOf(undone.todoCalls),
        fields,
        createdWith,
        clipTokens: clipTokens ?? deps.config.context.toolArgMaxTokens,
      },
      claim,
    );
    if (outcome.kind === "forked") return completed(deps, tenantId, outcome);
    if (outcome.kind !== "overtaken") return outcome;
  }
  return { kind: "overtaken" };
};

/** Copies the objects, or leaves that to the queue, and shows the fork as it is then. */
const completed = async (
  deps: Deps,
  tenantId: TenantId,
  forked: Extract<ForkOutcome, { kind: "forked" }>,
): Promise<ForkOutcome> => {
  const sessionId = forked.session.id;
  const message: CopyFiles = { v: 1, type: "copy_files", tenantId, sessionId };
  const done = await continueCopy(deps, message, OBJECTS_A_REQUEST).catch(() => false);
  // The copy is recorded: should the queue not take the message, the cron door sends it again.
  if (!done) {
    await deps.queue.send(message).catch(() => {
      deps.log.warn("the queue did not take a copy", { session_id: sessionId });
    });
  }
  const now = await findSession(deps.db, tenantId, { id: sessionId });
  return now === undefined ? { kind: "gone" } : { ...forked, session: now };
};
