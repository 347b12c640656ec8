/** A compaction that was asked for from outside (`POST /compact`, G9): a run of its own that makes no turn. */

import { assembleRequest } from "../agent/loop.ts";
import { beginTurn } from "../agent/stack.ts";
import { compactNow } from "../context/compact.ts";
import type { LadderOutcome } from "../context/ladder-input.ts";
import { seq } from "../protocol/ids.ts";
import { LeaseLost } from "../store/errors.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import { finishMaintenance } from "../store/maintenance.ts";
import { turnAttributes } from "../telemetry/genai.ts";
import type { Span } from "../telemetry/tracer.ts";
import type { Deps } from "./deps.ts";
import { RunCancelled, runErrorOf, TurnTimedOut } from "./failure.ts";
import { sendForNext } from "./next-run.ts";
import { type PreparedRun, prepareRun } from "./prepare-run.ts";
import { resume } from "./resume.ts";
import { watchRun } from "./watch-run.ts";

export interface CompactSession {
  readonly session: LoadedSession;
  /** What the summary should keep in most detail; null for nothing in particular. */
  readonly focus: string | null;
  /** ms since the epoch. */
  readonly startedMs: number;
}

/** What became of it; a hard cancel ends it without one. */
export type SessionCompacted = LadderOutcome | { readonly kind: "cancelled" };

/** Whether a hard cancel ended the work, or kept its commit from being made (M2). @throws LeaseLost when the session was lost instead */
const wasCancelled = async (
  { journal, ending }: Pick<PreparedRun, "journal" | "ending">,
  outcome: LadderOutcome | undefined,
): Promise<boolean> => {
  if (outcome?.kind === "late") await journal.check();
  return ending.signal.reason instanceof RunCancelled;
};

const compactInSpan = async (deps: Deps, request: CompactSession, span: Span): Promise<SessionCompacted> => {
  const { session, focus, startedMs } = request;
  const prepared = prepareRun(deps, { session, startedMs, sink: () => undefined }, span);
  const { turn, journal, live, compaction, ending } = prepared;
  const { turnTimeoutMs } = deps.config;
  const timeUp = setTimeout(() => ending.abort(new TurnTimedOut(turnTimeoutMs)), turnTimeoutMs);
  const unwatch = watchRun(prepared);
  let outcome: LadderOutcome | undefined;
  let failure: unknown;
  try {
    await resume(prepared, session);
    await beginTurn(turn.stack, turn.run);
    const { request: next } = await assembleRequest(turn);
    outcome = await compactNow(compaction, turn.run, next, {
      kind: "climb",
      reason: "manual",
      forced: { reason: "manual", focus: focus ?? undefined },
    });
  } catch (error) {
    failure = error;
  } finally {
    clearTimeout(timeUp);
    unwatch();
  }
  const isCancelled = await wasCancelled(prepared, outcome);
  const taken = journal.take();
  const { next } = await finishMaintenance(deps.db, session, {
    error: failure === undefined || isCancelled ? null : runErrorOf(failure),
    isCancelled,
    base: seq(session.nextSeq),
    totals: journal.totals(),
    compactions: live.compactions,
    dbRoundTrips: deps.db.roundTrips.counted + 1,
    overheadMs: Math.round(prepared.overheadMs()),
    record: taken.record,
  });
  taken.publish();
  // A message that is lost is sent again by the sweeper.
  await sendForNext(deps, session, next).catch(() => undefined);
  if (isCancelled) return { kind: "cancelled" };
  if (outcome === undefined) throw failure;
  if (outcome.kind === "late") throw new LeaseLost();
  return outcome;
};

/**
 * Compacts a session that a maintenance run holds, by the same rules and steps as before a model call, and releases it.
 * @throws ModelError and the like never: a summary that fails is an outcome. LeaseLost, StoreUnavailable
 */
export const compactSession = (deps: Deps, request: CompactSession): Promise<SessionCompacted> => {
  const { sessionId, lease } = request.session;
  return deps.tracer.span("compact", { attributes: turnAttributes(sessionId, lease.holder) }, (span) =>
    compactInSpan(deps, request, span),
  );
};
