/**
 * A run's hand on the log. It chooses ids and seqs (the lease makes it the only writer), stores first, and tells clients after.
 */
import type { AnsweredCall, Journal, TurnEnd } from "../agent/ports.ts";
import type { PriceList } from "../models/profiles.ts";
import type { EventSink } from "../protocol/events.ts";
import { type RunId, type Seq, seq } from "../protocol/ids.ts";
import { externaliseMedia, type PutMedia } from "../protocol/media-text.ts";
import type { LogRow, ModelResponse, ToolCall } from "../protocol/messages.ts";
import type { PrivateState } from "../protocol/middleware.ts";
import type { ToolResult } from "../protocol/tool.ts";
import type { LoadedSession } from "../store/begin.ts";
import { type FinishOutcome, type RunError, storeFinish } from "../store/finish.ts";
import { storeHandOver, storeWait } from "../store/pause.ts";
import type { RunRecord } from "../store/runs.ts";
import type { PlacedRow, RunIdentity, RunTotals, StepRecord } from "../store/statements.ts";
import { checkCancel, storeAssistant, storeProgress, storeResults } from "../store/steps.ts";
import type { Deps } from "./deps.ts";
import { createDraft } from "./draft.ts";
import { createEventWriter, type EventWriter } from "./event-writer.ts";
import { resultBlocks, resultsContent, storedAnswerOf } from "./results.ts";
import { logRowOf, newRow } from "./rows.ts";
import { sendDeliveries } from "./send-deliveries.ts";
import { createTally, type Tally } from "./tally.ts";
import { usageJson } from "./usage-json.ts";

export interface JournalOptions {
  readonly deps: Pick<Deps, "db" | "newId" | "now" | "log" | "queue" | "waitUntil">;
  readonly session: LoadedSession;
  readonly state: PrivateState;
  readonly prices: PriceList | null;
  readonly putMedia: PutMedia;
  readonly sink: EventSink;
  /** What the view leaves in the session's head with every write: its floor, what was learned, the guards. */
  readonly head: () => Pick<StepRecord, "thinkingFloor" | "calibration" | "guardState" | "reading" | "forceTaken">;
  /** Told of a compaction that was asked for since the last step, with its focus, empty for none (G9). */
  readonly onForced: (focus: string) => void;
  /** Told when the session could not be kept: LeaseLost, or a database that does not answer. */
  readonly onProgressFailure: (error: unknown) => void;
  /** Told, perhaps more than once, that a hard cancel was asked for. */
  readonly onCancelled: () => void;
  /** How long a caller has to send results of its tools, in seconds. */
  readonly callerWaitSeconds: number;
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
  /** Events and usage of what happens beside the turn's own messages. */
  readonly tell: EventWriter["tell"];
  readonly note: EventWriter["note"];
  readonly addApart: Tally["addApart"];
  /** Everything that waits to be stored, for a write of its own. */
  take(): { readonly record: StepRecord; readonly publish: () => void };
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

/** A batch whose results are not stored yet. */
interface OpenBatch {
  readonly seq: Seq;
  readonly calls: readonly ToolCall[];
  readonly answered: Map<string, AnsweredCall>;
}

export const createJournal = (options: JournalOptions): RunJournal => {
  const { deps, session } = options;
  const { db, newId, now } = deps;
  const run: RunIdentity = session;
  const runId = session.lease.holder;
  const events = createEventWriter({
    sessionId: session.sessionId,
    runId,
    nextEvent: session.nextEvent,
    now,
    sink: options.sink,
  });
  const tally = createTally(newId, options.prices, session.run.totals);
  const draft = createDraft({
    newId,
    now,
    tell: events.tell,
    store: async (text) => heed(await storeProgress(db, run, text)),
    onFailure: options.onProgressFailure,
  });
  /** The first seq after all rows of the log, one kept free for results included. */
  let nextSeq = session.nextSeq;
  let ended: RunRecord | null = null;
  let nextRun: RunId | null = null;
  let open: OpenBatch | null = null;
  let storedTodos = options.state.todos;
  const startedMs = now();

  const heed = (cancelled: boolean): void => {
    if (cancelled) options.onCancelled();
  };

  /** Everything that waits to be stored. */
  const take = (): { readonly record: StepRecord; readonly publish: () => void } => {
    const { publish, ...taken } = events.take();
    return { publish, record: { ...taken, usage: tally.take(), ...options.head() } };
  };

  /** Gives an answer its place in the log, and notes the event that says so. */
  const placeAnswer = (response: ModelResponse): PlacedRow => {
    const place = seq(nextSeq);
    const row = newRow({
      id: draft.end() ?? newId("msg"),
      origin: "assistant",
      content: response.content,
      calls: response.calls.map((call) => call.id),
      runId,
    });
    const { stopReason, usage } = response;
    const data = { message_id: row.id, seq: place, role: row.role, stop_reason: stopReason, usage: usageJson(usage) };
    events.note("message.completed", data, { seq: place, content: row.content });
    return { row, seq: place };
  };

  const noteMoved = (rows: readonly LogRow[]): void => {
    for (const row of rows) events.note("message.completed", { message_id: row.id, seq: row.seq, role: row.role }, row);
  };

  const assistant: Journal["assistant"] = async (response) => {
    await draft.settle();
    tally.add(response);
    const message = placeAnswer(response);
    for (const call of response.calls) events.note("tool.started", { tool_use_id: call.id, name: call.name });
    const { record, publish } = take();
    const cancelled = await storeAssistant(db, run, message, tally.totals(), record);
    nextSeq = message.seq + (response.calls.length > 0 ? 2 : 1);
    if (response.calls.length > 0) open = { seq: message.seq, calls: response.calls, answered: new Map() };
    publish();
    heed(cancelled);
    return logRowOf(message);
  };

  /** Where the bucket does not take a large payload, the row keeps it: what a tool did must not be lost for that. */
  const withMediaApart = async (whole: string) => {
    try {
      return await externaliseMedia(whole, options.putMedia);
    } catch (error) {
      deps.log.warn("media stay in their row", {
        run_id: runId,
        error: error instanceof Error ? error.name : typeof error,
      });
      return { content: whole, media: [] };
    }
  };

  const results = async (answers: readonly AnsweredCall[]): Promise<readonly LogRow[]> => {
    if (open === null) throw new Error("there is no open batch");
    // The seq after the calls is kept free for them.
    const place = seq(open.seq + 1);
    const blocks = answers.map(({ call, result }) => resultBlocks(call.id, result));
    const whole = resultsContent(blocks);
    const { content, media } = await withMediaApart(whole);
    const row = newRow({ id: newId("msg"), origin: "tool", content, media, sentContent: whole, runId });
    answers.forEach(({ call, result, durationMs }, index) => {
      const is_error = result.isError === true;
      const data = { tool_use_id: call.id, name: call.name, is_error, duration_ms: durationMs, seq: place, index };
      events.note("tool.completed", data, { seq: place, content: blocks[index] ?? "null" });
    });
    await draft.settle();
    const { record, publish } = take();
    const { todos } = options.state;
    const written = todos === storedTodos ? null : todos;
    const after = await storeResults(db, run, { row, seq: place }, seq(nextSeq), record, written);
    storedTodos = todos;
    publish();
    nextSeq = after.nextSeq;
    open = null;
    noteMoved(after.moved);
    heed(after.cancelled);
    if (after.forceCompaction !== null) options.onForced(after.forceCompaction);
    return [logRowOf({ row, seq: place }), ...after.moved];
  };

  /** Stores what was answered of a batch that is stopped, and why the rest was not. */
  const closeBatch = async ({ calls, answered }: OpenBatch, why: string): Promise<void> => {
    const stopped = { content: why, isError: true };
    await results(calls.map((call) => answered.get(call.id) ?? { call, result: stopped, durationMs: 0 }));
  };

  /** What the run cost its Workers so far, this one's included. @param more round trips that are being made */
  const soFar = (more: number) => ({
    dbRoundTrips: session.run.dbRoundTrips + db.roundTrips.counted + more,
    overheadMs: session.run.overheadMs + Math.round(options.overheadMs()),
  });

  const paused = (status: "running" | "requires_action"): RunRecord => ({
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
    attempts: session.run.attempts,
    cancelRequestedAt: null,
    createdAt: session.run.createdAt,
    startedAt: session.run.startedAt,
    finishedAt: null,
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
    const message = answer === null ? null : placeAnswer(answer);
    if (message !== null) nextSeq = message.seq + 1;
    const own = take();
    const { steps, usage, costUsd } = tally.totals();
    const status = cancelled ? "cancelled" : error === null ? "completed" : "failed";
    const facts = {
      status,
      stopReason: status === "completed" ? stopReason : null,
      outputText,
      error,
      ...soFar(1),
    } as const;
    events.note(`run.${status}`, {
      status,
      stop_reason: facts.stopReason,
      output_text: outputText,
      steps,
      usage: usageJson(usage),
      cost_usd: costUsd,
      ...(error === null ? {} : { error }),
    });
    events.note("session.idle", {});
    const closing = take();
    const outcome = await storeFinish(db, run, {
      ...facts,
      message,
      base: seq(nextSeq),
      totals: tally.totals(),
      lastInputTokens: tally.lastInputTokens(),
      todos: options.state.todos,
      record: own.record,
      closing: closing.record,
    });
    own.publish();
    const rows = message === null ? [] : [logRowOf(message)];
    if (outcome.kind === "more_input") {
      nextSeq = outcome.nextSeq;
      noteMoved(outcome.moved);
      return { ...outcome, rows: [...rows, ...outcome.moved] };
    }
    ended = {
      ...facts,
      ...tally.totals(),
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
    };
    nextRun = outcome.next;
    closing.publish();
    sendDeliveries(deps, session.tenantId, outcome.deliveries);
    return { ...outcome, rows };
  };

  return {
    answering: draft.answering,
    delta: draft.delta,
    heartbeat: draft.heartbeat,
    abandon: draft.abandon,
    assistant,
    results,
    answered: (answer) => {
      open?.answered.set(answer.call.id, answer);
      draft.heartbeat();
    },
    wait: async (answers, missing) => {
      await draft.settle();
      const calls = missing.map(
        ({ id, name, inputText }) => `{"id":${JSON.stringify(id)},"name":${JSON.stringify(name)},"input":${inputText}}`,
      );
      const seconds = options.callerWaitSeconds;
      const deadline = new Date(now() + seconds * 1000).toISOString();
      events.noteText(
        "run.requires_action",
        `{"status":"requires_action","deadline":"${deadline}","tool_calls":[${calls.join(",")}]}`,
      );
      const { pause: wait, publish } = pause();
      const kept = new Map(answers.map(({ call, result }) => [call.id, storedAnswerOf(result)]));
      await storeWait(db, run, { ...wait, answers: kept, waitSeconds: seconds }, (deliveries) =>
        sendDeliveries(deps, session.tenantId, deliveries),
      );
      ended = paused("requires_action");
      publish();
    },
    reopen: (openBatchSeq, calls, answers = new Map()) => {
      const answered = calls.flatMap((call) => {
        const result = answers.get(call.id);
        return result === undefined ? [] : [[call.id, { call, result, durationMs: 0 }] as const];
      });
      open = { seq: openBatchSeq, calls, answered: new Map(answered) };
    },
    finish: async (end) => {
      if (end.counted !== null) tally.add(end.counted);
      const { kind, rows } = await finish({ ...end, error: null, cancelled: false });
      return kind === "finished" ? { finished: true } : { finished: false, rows };
    },
    fail: async (error) => {
      const text = draft.text();
      draft.abandon();
      // What tools did that were done is kept; a batch of which nothing is known is closed by the next run (M7).
      if (open !== null && open.answered.size > 0) await closeBatch(open, FAILED);
      await finish({ stopReason: "end_turn", answer: null, outputText: text, error, cancelled: false });
    },
    cancel: async () => {
      const text = draft.text();
      draft.abandon();
      if (open !== null) await closeBatch(open, CANCELLED);
      await finish({ stopReason: "end_turn", answer: null, outputText: text, error: null, cancelled: true });
    },
    handOver: async () => {
      await draft.settle();
      draft.abandon();
      const { pause: left, publish } = pause();
      const kept = new Map([...(open?.answered ?? [])].map(([id, { result }]) => [id, storedAnswerOf(result)]));
      await storeHandOver(db, run, left, kept);
      nextRun = runId;
      ended = paused("running");
      publish();
    },
    check: async () => heed(await checkCancel(db, run)),
    next: () => nextRun,
    ended: () => ended,
    tell: events.tell,
    note: events.note,
    addApart: tally.addApart,
    take,
    totals: tally.totals,
  };
};
