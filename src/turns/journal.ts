/**
 * A run's hand on its session: what it writes to the log (`log-writer.ts`), and the ways in which this Worker is done with it.
 */
import type { Journal, TurnEnd } from "../agent/ports.ts";
import type { RunId, Seq } from "../protocol/ids.ts";
import type { LogRow, ToolCall } from "../protocol/messages.ts";
import type { PrivateState } from "../protocol/middleware.ts";
import type { ToolResult } from "../protocol/tool.ts";
import { type FinishOutcome, type RunError, storeFinish } from "../store/finish.ts";
import { storeHandOver, storeWait } from "../store/pause.ts";
import type { RunRecord } from "../store/runs.ts";
import type { RunIdentity, RunTotals } from "../store/statements.ts";
import { checkCancel } from "../store/steps.ts";
import type { Deps } from "./deps.ts";
import type { EventWriter } from "./event-writer.ts";
import { createLogWriter, type LogWriter, type LogWriterOptions, type Taken } from "./log-writer.ts";
import { storedAnswerOf } from "./results.ts";
import { logRowOf } from "./rows.ts";
import { runEndData } from "./run-end.ts";
import { sendDeliveries } from "./send-deliveries.ts";
import type { SubagentUse } from "./subagent-use.ts";
import type { Tally } from "./tally.ts";
import { plus } from "./used.ts";

export interface JournalOptions extends LogWriterOptions {
  readonly deps: LogWriterOptions["deps"] & Pick<Deps, "queue" | "waitUntil">;
  readonly state: PrivateState;
  /** How long a caller has to send results of its tools, in seconds. */
  readonly callerWaitSeconds: number;
  /** Every how many turns micro-compaction makes a pass; null where it makes none. */
  readonly microEveryNTurns: number | null;
  /** What the run's subagents have used. */
  readonly use: SubagentUse;
  /** Time since the run began that was not spent waiting for the provider, in ms. */
  readonly overheadMs: () => number;
}

/** The journal of a run, with what ends it when the loop could not. */
export interface RunJournal extends Journal {
  /** Takes up a batch that an earlier part of this run, or a run before it, left open: its results go where they belong (M7). */
  reopen(openBatchSeq: Seq, calls: readonly ToolCall[], answers?: ReadonlyMap<string, ToolResult>): void;
  /** Records that the run failed, and releases the session. */
  fail(error: RunError): Promise<void>;
  /** Closes an open batch with what was answered of it, records that the run was cancelled, and releases the session. */
  cancel(): Promise<void>;
  /** Leaves the run to another Worker, at the step where it is. */
  handOver(): Promise<void>;
  /** Looks whether the run may go on. @throws LeaseLost, StoreUnavailable */
  check(): Promise<void>;
  /** The run as it was recorded when this Worker was done with it; null while it is at work. */
  ended(): RunRecord | null;
  /** The run that may have the session now. */
  next(): RunId | null;
  /** Whether a pass of micro-compaction is due now that the run is over (section 11). */
  microDue(): boolean;
  /** Events and usage of what happens beside the turn's own messages. */
  readonly tell: EventWriter["tell"];
  readonly note: EventWriter["note"];
  readonly addApart: Tally["addApart"];
  readonly putBack: Tally["putBack"];
  readonly delegated: LogWriter["delegated"];
  /** Everything that waits to be stored, for a write of its own. */
  take(): Taken;
  /** Of the run's own calls. */
  totals(): RunTotals;
}

/** What a call gets that a hard cancel stopped. */
const CANCELLED = "The run was cancelled before this call had a result. Its outcome is unknown.";

/** What a call gets whose run failed. */
const FAILED = "The run failed before this call had a result. Its outcome is unknown.";

type Ending = Pick<TurnEnd, "stopReason" | "answer" | "outputText"> & {
  readonly error: RunError | null;
  readonly cancelled: boolean;
};

export const createJournal = (options: JournalOptions): RunJournal => {
  const { deps, session } = options;
  const { db, now } = deps;
  const run: RunIdentity = session;
  const runId = session.lease.holder;
  const log = createLogWriter(options);
  const { events, tally, draft, take } = log;
  let ended: RunRecord | null = null;
  let nextRun: RunId | null = null;
  let microDue = false;
  const startedMs = now();

  /** What the run cost its Workers so far, this one's included. @param more round trips that are being made */
  const soFar = (more: number) => ({
    dbRoundTrips: session.run.dbRoundTrips + db.roundTrips.counted + more,
    overheadMs: session.run.overheadMs + Math.round(options.overheadMs()),
  });

  const paused = (status: "running" | "requires_action", requiredAction: string | null): RunRecord => ({
    ...tally.totals(),
    ...soFar(0),
    id: runId,
    sessionId: session.sessionId,
    status,
    trigger: session.run.trigger,
    model: session.model,
    inputSeq: session.inputSeq,
    stopReason: null,
    outputText: null,
    error: null,
    requiredAction,
    attempts: session.run.attempts,
    cancelRequestedAt: null,
    createdAt: session.run.createdAt,
    startedAt: session.run.startedAt,
    finishedAt: null,
    eventsExpired: false,
  });

  const pause = () => {
    const { record, publish } = take();
    return {
      publish,
      pause: {
        ...soFar(1),
        record,
        totals: tally.totals(),
        spentMs: session.run.spentMs + Math.max(0, now() - startedMs),
        todos: options.state.todos,
      },
    };
  };

  const finish = async ({
    stopReason,
    answer,
    outputText,
    error,
    cancelled,
  }: Ending): Promise<FinishOutcome & { readonly rows: readonly LogRow[] }> => {
    await draft.settle();
    const message = answer === null ? null : log.placeLast(answer);
    const own = take();
    const all = { ...tally.totals(), ...plus(tally.totals(), options.use.total()) };
    const { steps, usage, costUsd } = all;
    const status = cancelled ? "cancelled" : error === null ? "completed" : "failed";
    // A turn that was stopped, by whomever or whatever, is not one after which there is time (section 11).
    const isNormal = status === "completed" && stopReason === "end_turn" && answer !== null;
    const facts = {
      status,
      stopReason: status === "completed" ? stopReason : null,
      outputText,
      error,
      ...soFar(1),
    } as const;
    events.note(`run.${status}`, runEndData({ ...facts, steps, usage, costUsd }));
    events.note("session.idle", {});
    const closing = take();
    const outcome = await storeFinish(db, run, {
      ...facts,
      message,
      base: log.nextSeq(),
      totals: tally.totals(),
      subagents: options.use.any(),
      lastInputTokens: tally.lastInputTokens(),
      todos: options.state.todos,
      microEveryNTurns: isNormal ? options.microEveryNTurns : null,
      record: own.record,
      closing: closing.record,
    });
    own.publish();
    const rows = message === null ? [] : [logRowOf(message)];
    if (outcome.kind === "more_input") {
      log.moved(outcome.moved, outcome.nextSeq);
      options.onGuardTimes(outcome.guardTimes);
      return { ...outcome, rows: [...rows, ...outcome.moved] };
    }
    ended = {
      ...facts,
      ...all,
      requiredAction: null,
      id: runId,
      sessionId: session.sessionId,
      trigger: session.run.trigger,
      model: session.model,
      inputSeq: session.inputSeq,
      attempts: outcome.attempts,
      cancelRequestedAt: cancelled ? outcome.finishedAt : null,
      createdAt: outcome.createdAt,
      startedAt: outcome.startedAt,
      finishedAt: outcome.finishedAt,
      eventsExpired: false,
    };
    nextRun = outcome.next;
    microDue = outcome.microDue;
    closing.publish();
    sendDeliveries(deps, session.tenantId, outcome.deliveries);
    return { ...outcome, rows };
  };

  return {
    answering: draft.answering,
    delta: draft.delta,
    heartbeat: draft.heartbeat,
    abandon: (paid) => {
      draft.abandon();
      if (paid !== null) tally.addPaid(paid);
    },
    assistant: log.assistant,
    results: log.results,
    answered: (answer) => {
      log.openBatch()?.answered.set(answer.call.id, answer);
      draft.heartbeat();
    },
    wait: async (answers, missing) => {
      await draft.settle();
      const calls = missing.map(
        ({ id, name, inputText }) => `{"id":${JSON.stringify(id)},"name":${JSON.stringify(name)},"input":${inputText}}`,
      );
      const seconds = options.callerWaitSeconds;
      const deadline = new Date(now() + seconds * 1000).toISOString();
      const required = `"deadline":"${deadline}","tool_calls":[${calls.join(",")}]`;
      events.noteText("run.requires_action", `{"status":"requires_action",${required}}`);
      const { pause: wait, publish } = pause();
      const kept = new Map(answers.map(({ call, result }) => [call.id, storedAnswerOf(result)]));
      await storeWait(db, run, { ...wait, answers: kept, waitSeconds: seconds }, (deliveries) =>
        sendDeliveries(deps, session.tenantId, deliveries),
      );
      ended = paused("requires_action", `{${required}}`);
      publish();
    },
    reopen: log.reopen,
    finish: async (end) => {
      if (end.counted !== null) tally.add(end.counted);
      const { kind, rows } = await finish({ ...end, error: null, cancelled: false });
      return kind === "finished" ? { finished: true } : { finished: false, rows };
    },
    fail: async (error) => {
      const text = draft.text();
      draft.abandon();
      // What tools did that were done is kept; a batch of which nothing is known is closed by the next run (M7).
      const open = log.openBatch();
      if (open !== null && open.answered.size > 0) await log.close(open, FAILED);
      await finish({ stopReason: "end_turn", answer: null, outputText: text, error, cancelled: false });
    },
    cancel: async () => {
      const text = draft.text();
      draft.abandon();
      const open = log.openBatch();
      if (open !== null) await log.close(open, CANCELLED);
      await finish({ stopReason: "end_turn", answer: null, outputText: text, error: null, cancelled: true });
    },
    handOver: async () => {
      await draft.settle();
      draft.abandon();
      const { pause: left, publish } = pause();
      const answered = log.openBatch()?.answered ?? [];
      const kept = new Map([...answered].map(([id, { result }]) => [id, storedAnswerOf(result)]));
      await storeHandOver(db, run, left, kept);
      nextRun = runId;
      ended = paused("running", null);
      publish();
    },
    check: async () => log.heed(await checkCancel(db, run)),
    next: () => nextRun,
    microDue: () => microDue,
    ended: () => ended,
    tell: events.tell,
    note: events.note,
    addApart: tally.addApart,
    putBack: tally.putBack,
    delegated: log.delegated,
    take,
    totals: tally.totals,
  };
};
