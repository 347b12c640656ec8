/** A run from where it stands to its end, or until another Worker or its caller has to do something. */
import { type Resumption, runLoop } from "../agent/loop.ts";
import { CommitWasLate } from "../context/compact.ts";
import { ModelError } from "../models/errors.ts";
import { LeaseLost } from "../store/errors.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import { isOver, type RunRecord } from "../store/runs.ts";
import { hango, http, metric, turnAttributes } from "../telemetry/genai.ts";
import type { Span } from "../telemetry/tracer.ts";
import { requestBacklog } from "./backlog-request.ts";
import type { Deps } from "./deps.ts";
import { CallerTooLate, HandedOver, RunCancelled, RunStopped, runErrorOf, TurnTimedOut } from "./failure.ts";
import { requestMicro } from "./micro-request.ts";
import { sendForNext } from "./next-run.ts";
import { writePendingFiles } from "./pending-files.ts";
import { type PreparedRun, prepareRun } from "./prepare-run.ts";
import { resume } from "./resume.ts";
import type { RunRequest } from "./run-request.ts";
import { watchRun } from "./watch-run.ts";

/** Starts of a run whose Worker died each time, before it is failed (issue: at most 3 attempts). */
export const MAX_ATTEMPTS = 3;

/** After a run was to be left, a tool has so much longer before it is stopped, in ms: `waitUntil` ends 30 s after the client went (platform.md). */
const LEAVE_GRACE_MS = 10_000;

/**
 * Does the work of a prepared run within its time and its lease. A failure is recorded, a cancel too; a run that is to be left is handed over.
 * @returns false when it failed
 */
export const withinRun = async (
  deps: Deps,
  prepared: PreparedRun,
  detached: AbortSignal | undefined,
  work: () => Promise<void>,
): Promise<boolean> => {
  const { turn, ending, leaving } = prepared;
  const { settings } = turn;
  const { turnTimeoutMs, detachGraceMs } = deps.config;
  const timers = new Set<ReturnType<typeof setTimeout>>();
  const after = (delayMs: number, act: () => void) => timers.add(setTimeout(act, Math.max(0, delayMs)));
  after(settings.deadlineMs - deps.now(), () => ending.abort(new TurnTimedOut(turnTimeoutMs)));
  // The turn's deadline is the cap of a provider's silence, over its retries.
  const unwatch = watchRun(prepared);
  const leave = () =>
    after(detachGraceMs, () => {
      leaving.abort(new HandedOver());
      after(LEAVE_GRACE_MS, () => ending.abort(new HandedOver()));
    });
  if (detached?.aborted === true) leave();
  else detached?.addEventListener("abort", leave, { once: true });
  try {
    await work();
    return true;
  } catch (caught) {
    // What the run began ends before it does: nothing of it goes on in the background, and all that it used is known.
    await prepared.settled();
    // What aborted the run says more than what the abort broke.
    const error: unknown = ending.signal.aborted
      ? ending.signal.reason
      : leaving.signal.aborted && isAborted(caught)
        ? leaving.signal.reason
        : caught;
    return await settle(deps, prepared, error);
  } finally {
    for (const timer of timers) clearTimeout(timer);
    unwatch();
    detached?.removeEventListener("abort", leave);
  }
};

/** Whether an error is no more than the echo of an abort. */
const isAborted = (error: unknown): boolean =>
  error instanceof HandedOver || (error instanceof ModelError && error.kind === "aborted");

/** Records how a run ended that did not end by itself. */
const settle = async (deps: Deps, { turn, journal, ending }: PreparedRun, error: unknown): Promise<boolean> => {
  const { run } = turn;
  if (error instanceof CommitWasLate && !ending.signal.aborted) {
    // A commit comes too late after a take-over, which this tells apart, or after a hard cancel.
    await journal.check();
    if (!ending.signal.aborted) throw new LeaseLost();
    return settle(deps, { turn, journal, ending } as PreparedRun, ending.signal.reason);
  }
  if (error instanceof RunCancelled) {
    await journal.cancel();
    return true;
  }
  if (error instanceof HandedOver) {
    await journal.handOver();
    return true;
  }
  const failure = runErrorOf(error);
  run.span.fail(failure.code);
  deps.log.error("a run failed", {
    session_id: run.sessionId,
    run_id: run.runId,
    code: failure.code,
    error: nameOf(error),
  });
  await journal.fail(failure);
  return false;
};

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : typeof error);

/** What keeps a run from going on that was taken up: null for nothing. */
const hindrance = ({ run }: LoadedSession, from: Resumption): unknown => {
  if (run.cancelled) return new RunCancelled();
  if (run.attempts > MAX_ATTEMPTS) return new RunStopped(MAX_ATTEMPTS);
  const open = from.batch?.calls.some(({ id }) => !run.answers.has(id)) === true;
  return run.overdue && open ? new CallerTooLate() : null;
};

/** The metrics of a turn, once it is over: of all the Workers that ran it. One that is handed over, or waits for its caller, is not. */
const recordTurn = ({ meter, now }: Deps, { session, startedMs }: RunRequest, ended: RunRecord): void => {
  if (!isOver(ended.status)) return;
  const spentMs = session.run.spentMs + Math.max(0, now() - startedMs);
  meter.record(metric.turnDuration, spentMs / 1000, {
    [hango.runStatus]: ended.status,
    [hango.runTrigger]: ended.trigger,
    [http.errorType]: ended.error?.code,
  });
  if (ended.overheadMs !== null) meter.record(metric.turnOverhead, ended.overheadMs / 1000);
  if (ended.dbRoundTrips !== null) meter.record(metric.dbRoundTrips, ended.dbRoundTrips);
};

const runInSpan = async (deps: Deps, request: RunRequest, span: Span): Promise<RunRecord> => {
  const { session } = request;
  const prepared = prepareRun(deps, request, span, executeRun);
  const { turn, journal } = prepared;
  await withinRun(deps, prepared, request.detached, async () => {
    if (session.filesPending) await writePendingFiles(deps, session.tenantId, session.sessionId);
    const from = await resume(prepared, session);
    const hindered = hindrance(session, from);
    if (hindered !== null) throw hindered;
    span.setAttributes({ [hango.turnSteps]: await runLoop(turn, from) });
  });
  const ended = journal.ended();
  if (ended === null) throw new LeaseLost();
  span.setAttributes({ [hango.runStatus]: ended.status });
  // A subagent has no other run, and goes on with its parent.
  if (request.parent !== undefined) return ended;
  recordTurn(deps, request, ended);
  // The session is free now, or left. A message that is lost is sent again by the sweeper, a backlog's by the next turn.
  await sendForNext(deps, session, journal.next()).catch((error: unknown) =>
    deps.log.warn("the next run was not sent for", { session_id: session.sessionId, error: nameOf(error) }),
  );
  await requestBacklog(deps, session).catch(() => undefined);
  requestMicro(deps, session, journal);
  return ended;
};

/**
 * Runs a turn that holds its session, from where it stands: to its end, or until its caller has to answer or another Worker is to go on. What
 * became of it is in the store and went to the sink; a failure of the run is an outcome, not an exception.
 * @returns the run as it was recorded
 * @throws LeaseLost, StoreUnavailable when even the failure could not be recorded: the lease then expires by itself, and the sweeper finds the run
 */
export const executeRun = (deps: Deps, request: RunRequest): Promise<RunRecord> => {
  const { sessionId, lease } = request.session;
  const { parent } = request;
  const attributes = turnAttributes(sessionId, lease.holder, parent?.type);
  // A subagent's type is the caller's word, of any variety: it stands in an attribute, not in a name.
  const name = parent === undefined ? "invoke_agent hango" : "invoke_agent subagent";
  return deps.tracer.span(name, { kind: "internal", attributes, parent: parent?.span }, (span) =>
    runInSpan(deps, request, span),
  );
};
