/**
 * A run's hand on the log. It chooses ids and seqs (the lease makes it the only writer), stores first, and tells clients after.
 */
import type { AnsweredCall, Journal, TurnEnd } from "../agent/ports.ts";
import type { PriceList } from "../models/profiles.ts";
import type { EventSink } from "../protocol/events.ts";
import { type Seq, seq } from "../protocol/ids.ts";
import { externaliseMedia, type PutMedia } from "../protocol/media-text.ts";
import type { LogRow, ModelResponse } from "../protocol/messages.ts";
import type { PrivateState } from "../protocol/middleware.ts";
import type { LoadedSession } from "../store/begin.ts";
import { type FinishOutcome, type RunError, storeFinish } from "../store/finish.ts";
import type { RunRecord } from "../store/runs.ts";
import type { PlacedRow, RunIdentity, RunTotals, StepRecord } from "../store/statements.ts";
import { storeAssistant, storeProgress, storeResults } from "../store/steps.ts";
import type { Deps } from "./deps.ts";
import { createDraft } from "./draft.ts";
import { createEventWriter, type EventWriter } from "./event-writer.ts";
import { resultBlocks, resultsContent } from "./results.ts";
import { logRowOf, newRow } from "./rows.ts";
import { createTally, type Tally } from "./tally.ts";
import { usageJson } from "./usage-json.ts";

export interface JournalOptions {
  readonly deps: Pick<Deps, "db" | "newId" | "now" | "log">;
  readonly session: LoadedSession;
  readonly state: PrivateState;
  readonly prices: PriceList | null;
  readonly putMedia: PutMedia;
  readonly sink: EventSink;
  /** What the view leaves in the session's head with every write: its floor, what was learned, the guards. */
  readonly head: () => Pick<StepRecord, "thinkingFloor" | "calibration" | "guardState" | "reading" | "forceTaken">;
  /** Compactions that the run has committed so far. */
  readonly compactions: () => number;
  /** Told of a compaction that was asked for since the last step, with its focus, empty for none (G9). */
  readonly onForced: (focus: string) => void;
  /** Told when the session could not be kept: LeaseLost, or a database that does not answer. */
  readonly onProgressFailure: (error: unknown) => void;
  /** Time since the run began that was not spent waiting for the provider, in ms. */
  readonly overheadMs: () => number;
}

/** The journal of a run, with what ends it when the loop could not. */
export interface RunJournal extends Journal {
  /** Closes the results of a batch that a dead run left open (M7). @returns the row, which stands before the run's own input */
  closeOpenBatch(calls: readonly string[], openBatchSeq: number): Promise<readonly LogRow[]>;
  /** Records that the run failed, and releases the session. */
  fail(error: RunError): Promise<void>;
  /** The run as it was recorded at its end; null while it is not over. */
  ended(): RunRecord | null;
  /** Events and usage of what happens beside the turn's own messages. */
  readonly tell: EventWriter["tell"];
  readonly note: EventWriter["note"];
  readonly addApart: Tally["addApart"];
  /** Everything that waits to be stored, for a write of its own. */
  take(): { readonly record: StepRecord; readonly publish: () => void };
  totals(): RunTotals;
}

/** What a call gets whose run died before its result was stored (M7). */
const INTERRUPTED = "The run that made this call was interrupted before a result was stored. Its outcome is unknown.";

type Ending = Pick<TurnEnd, "stopReason" | "answer" | "outputText"> & { readonly error: RunError | null };

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
  const tally = createTally(newId, options.prices);
  const draft = createDraft({
    newId,
    now,
    tell: events.tell,
    store: (text) => storeProgress(db, run, text),
    onFailure: options.onProgressFailure,
  });
  /** The first seq after all rows of the log, one kept free for results included. */
  let nextSeq = session.nextSeq;
  let ended: RunRecord | null = null;

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
    await storeAssistant(db, run, message, tally.totals(), record);
    nextSeq = message.seq + (response.calls.length > 0 ? 2 : 1);
    publish();
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

  const storeAnswers = async (answers: readonly AnsweredCall[], place: Seq): Promise<readonly LogRow[]> => {
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
    const after = await storeResults(db, run, { row, seq: place }, seq(nextSeq), record);
    publish();
    nextSeq = after.nextSeq;
    noteMoved(after.moved);
    if (after.forceCompaction !== null) options.onForced(after.forceCompaction);
    return [logRowOf({ row, seq: place }), ...after.moved];
  };

  const finish = async ({
    stopReason,
    answer,
    outputText,
    error,
  }: Ending): Promise<FinishOutcome & { readonly rows: readonly LogRow[] }> => {
    await draft.settle();
    const message = answer === null ? null : placeAnswer(answer);
    if (message !== null) nextSeq = message.seq + 1;
    const own = take();
    const { steps, usage, costUsd } = tally.totals();
    const status = error === null ? "completed" : "failed";
    const facts = {
      status,
      stopReason: error === null ? stopReason : null,
      outputText,
      error,
      dbRoundTrips: db.roundTrips.counted + 1,
      overheadMs: Math.round(options.overheadMs()),
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
      compactions: options.compactions(),
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
      trigger: "api",
      model: session.model,
      inputSeq: session.inputSeq,
      createdAt: outcome.createdAt,
      finishedAt: outcome.finishedAt,
    };
    closing.publish();
    return { ...outcome, rows };
  };

  return {
    answering: draft.answering,
    delta: draft.delta,
    heartbeat: draft.heartbeat,
    abandon: draft.abandon,
    assistant,
    // The seq before the next is the one that `assistant` left free for them.
    results: (answers) => storeAnswers(answers, seq(nextSeq - 1)),
    closeOpenBatch: (calls, openBatchSeq) => {
      const result = { content: INTERRUPTED, isError: true };
      const answers = calls.map((id) => ({ call: { id, name: "", inputText: "{}" }, result, durationMs: 0 }));
      return storeAnswers(answers, seq(openBatchSeq + 1));
    },
    finish: async (end) => {
      if (end.counted !== null) tally.add(end.counted);
      const { kind, rows } = await finish({ ...end, error: null });
      return kind === "finished" ? { finished: true } : { finished: false, rows };
    },
    fail: async (error) => {
      await finish({ stopReason: "end_turn", answer: null, outputText: draft.text(), error });
    },
    ended: () => ended,
    tell: events.tell,
    note: events.note,
    addApart: tally.addApart,
    take,
    totals: tally.totals,
  };
};
