/**
 * A run's hand on the log and on the event stream. It chooses ids, seqs and event numbers (the lease makes it the only writer), stores
 * first, and tells clients after.
 */
import type { AnsweredCall, Journal, TurnEnd } from "../agent/ports.ts";
import { costUsd } from "../models/prices.ts";
import type { PriceList } from "../models/profiles.ts";
import { type EventSink, type RunEvent, withContent } from "../protocol/events.ts";
import { type MessageId, type Seq, seq } from "../protocol/ids.ts";
import { externaliseMedia, type PutMedia } from "../protocol/media-text.ts";
import { type LogRow, type ModelResponse, type NewRow, promptTokens, type Usage } from "../protocol/messages.ts";
import type { PrivateState } from "../protocol/middleware.ts";
import type { LoadedSession } from "../store/begin.ts";
import { type FinishOutcome, type RunError, storeFinish } from "../store/finish.ts";
import type { RunRecord } from "../store/runs.ts";
import type { NewEvent, NewUsage, RunIdentity, RunTotals, StepRecord } from "../store/statements.ts";
import { storeAssistant, storeProgress, storeResults } from "../store/steps.ts";
import type { Deps } from "./deps.ts";
import { resultBlocks, resultsContent } from "./results.ts";
import { logRowOf, newRow } from "./rows.ts";
import { usageJson } from "./usage-json.ts";

/** How often the text of an answer under way is stored for clients that attach in its middle, in ms. */
const DRAFT_INTERVAL_MS = 5_000;

const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 };

const addUsage = (a: Usage, b: Usage): Usage => ({
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  cacheReadTokens: a.cacheReadTokens + b.cacheReadTokens,
  cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
});

export interface JournalOptions {
  readonly deps: Pick<Deps, "db" | "newId" | "now" | "log">;
  readonly session: LoadedSession;
  readonly state: PrivateState;
  readonly prices: PriceList | null;
  readonly putMedia: PutMedia;
  readonly sink: EventSink;
  /** Reads the floor that the loop may raise (V5). */
  readonly thinkingFloor: () => number;
  /** Ends the run: its session is lost. */
  readonly onLeaseLost: (error: unknown) => void;
  /** Time since the run began that was not spent waiting for the provider, in ms. */
  readonly overheadMs: () => number;
}

/** What the run stands at; the one place where it is kept. */
interface State {
  nextSeq: number;
  nextEvent: number;
  totals: RunTotals;
  lastInputTokens: number | null;
  /** Durable events that wait for the next write, and their content for clients. */
  pending: { readonly event: NewEvent; readonly content: string | null }[];
  pendingUsage: NewUsage[];
  answer: { readonly id: MessageId; text: string; index: number } | null;
  draftedMs: number;
  drafting: Promise<void> | null;
  ended: RunRecord | null;
}

/** The journal of a run, with what ends it when the loop could not. */
export interface RunJournal extends Journal {
  /** Closes the results of a batch that a dead run left open (M7). @returns the row, which stands before the run's own input */
  closeOpenBatch(calls: readonly string[], openBatchSeq: number): Promise<readonly LogRow[]>;
  /** Records that the run failed, and releases the session. */
  fail(error: RunError): Promise<void>;
  /** The run as it was recorded at its end; null while it is not over. */
  ended(): RunRecord | null;
}

export const createJournal = (options: JournalOptions): RunJournal => {
  const { deps, session, sink } = options;
  const runId = session.lease.holder;
  const run: RunIdentity = session;
  const state: State = {
    nextSeq: session.nextSeq,
    nextEvent: session.nextEvent,
    totals: { steps: 0, usage: NO_USAGE, costUsd: null },
    lastInputTokens: null,
    pending: [],
    pendingUsage: [],
    answer: null,
    draftedMs: deps.now(),
    drafting: null,
    ended: null,
  };

  const identity = {
    id: runId,
    sessionId: session.sessionId,
    trigger: "api",
    model: session.model,
    inputSeq: session.rows.findLast((row) => row.runId === runId)?.seq ?? null,
  } as const;

  const tell = (event: Omit<RunEvent, "sessionId" | "runId">): void =>
    sink({ ...event, sessionId: session.sessionId, runId });
  const nowText = (): string => new Date(deps.now()).toISOString();
  const tellNow = (type: string, data: object): void =>
    tell({ n: null, type, data: JSON.stringify(data), createdAt: nowText() });

  const note = (type: string, data: object, messageSeq: Seq | null = null, content: string | null = null): void => {
    const event = { n: state.nextEvent++, type, data: JSON.stringify(data), messageSeq, createdAt: nowText() };
    state.pending.push({ event, content });
  };

  /** Takes everything that waits to be stored. */
  const takeRecord = (): { readonly record: StepRecord; readonly publish: () => void } => {
    const { pending, pendingUsage } = state;
    state.pending = [];
    state.pendingUsage = [];
    return {
      record: {
        events: pending.map(({ event }) => event),
        usage: pendingUsage,
        nextEvent: state.nextEvent,
        thinkingFloor: options.thinkingFloor(),
      },
      publish: () => {
        for (const { event, content } of pending) {
          tell({
            n: event.n,
            type: event.type,
            createdAt: event.createdAt,
            data: content === null ? event.data : withContent(event.data, content),
          });
        }
      },
    };
  };

  /** A draft under way must not be stored over what comes after it. */
  const settleDraft = async (): Promise<void> => {
    if (state.drafting !== null) await state.drafting;
  };

  const count = (response: ModelResponse): void => {
    const cost = costUsd(options.prices, response.usage);
    state.pendingUsage.push({
      id: deps.newId("usg"),
      purpose: "turn",
      model: response.model,
      usage: response.usage,
      costUsd: cost,
    });
    state.totals = {
      steps: state.totals.steps + 1,
      usage: addUsage(state.totals.usage, response.usage),
      costUsd: cost === null ? state.totals.costUsd : (state.totals.costUsd ?? 0) + cost,
    };
    state.lastInputTokens = promptTokens(response.usage);
  };

  /** Gives an answer its place in the log, and notes the event that says so. */
  const placeAnswer = (response: ModelResponse): { readonly row: NewRow; readonly seq: Seq } => {
    const place = seq(state.nextSeq);
    const row = newRow({
      id: state.answer?.id ?? deps.newId("msg"),
      origin: "assistant",
      content: response.content,
      calls: response.calls.map((call) => call.id),
      runId,
    });
    state.answer = null;
    const { id: message_id } = row;
    note(
      "message.completed",
      { message_id, seq: place, role: "assistant", stop_reason: response.stopReason, usage: usageJson(response.usage) },
      place,
      row.content,
    );
    return { row, seq: place };
  };

  const noteMoved = (rows: readonly LogRow[]): void => {
    for (const row of rows)
      note("message.completed", { message_id: row.id, seq: row.seq, role: row.role }, row.seq, row.content);
  };

  const finish = async (
    end: { readonly status: "completed" | "failed"; readonly error: RunError | null } & TurnEnd,
  ): Promise<FinishOutcome & { readonly answerRow: LogRow | null }> => {
    await settleDraft();
    const message = end.answer === null ? null : placeAnswer(end.answer);
    if (message !== null) state.nextSeq = message.seq + 1;
    const own = takeRecord();
    const { totals } = state;
    const summary = {
      status: end.status,
      stop_reason: end.status === "failed" ? null : end.stopReason,
      output_text: end.outputText,
      steps: totals.steps,
      usage: usageJson(totals.usage),
      cost_usd: totals.costUsd,
    };
    note(`run.${end.status}`, end.error === null ? summary : { ...summary, error: end.error });
    note("session.idle", {});
    const closing = takeRecord();
    const facts = {
      status: end.status,
      stopReason: summary.stop_reason,
      outputText: end.outputText,
      error: end.error,
      dbRoundTrips: deps.db.roundTrips.counted + 1,
      overheadMs: Math.round(options.overheadMs()),
    };
    const outcome = await storeFinish(deps.db, run, {
      ...facts,
      message,
      base: seq(state.nextSeq),
      totals,
      lastInputTokens: state.lastInputTokens,
      todos: options.state.todos,
      record: own.record,
      closing: closing.record,
    });
    own.publish();
    if (outcome.kind === "finished") {
      const { createdAt, finishedAt } = outcome;
      state.ended = { ...facts, ...totals, ...identity, createdAt, finishedAt };
      closing.publish();
    } else {
      state.nextSeq = outcome.nextSeq;
      noteMoved(outcome.moved);
    }
    return { ...outcome, answerRow: message === null ? null : logRowOf(message) };
  };

  const answering: Journal["answering"] = () => {
    state.answer = { id: deps.newId("msg"), text: "", index: -1 };
    tellNow("message.started", { message_id: state.answer.id, role: "assistant" });
  };

  const delta: Journal["delta"] = (piece) => {
    const { answer } = state;
    if (answer === null) return;
    if (piece.kind === "text") {
      if (piece.index !== answer.index) Object.assign(answer, { text: "", index: piece.index });
      answer.text += piece.text;
    }
    const { kind, index, offset, text } = piece;
    tellNow("message.delta", { message_id: answer.id, kind, index, offset, text });
  };

  const heartbeat: Journal["heartbeat"] = () => {
    if (state.drafting !== null || deps.now() - state.draftedMs < DRAFT_INTERVAL_MS) return;
    state.draftedMs = deps.now();
    const { answer } = state;
    const draft =
      answer === null
        ? null
        : JSON.stringify({ message_id: answer.id, index: Math.max(0, answer.index), text: answer.text.toWellFormed() });
    state.drafting = storeProgress(deps.db, run, draft)
      .catch(options.onLeaseLost)
      .finally(() => {
        state.drafting = null;
      });
  };

  const assistant: Journal["assistant"] = async (response) => {
    await settleDraft();
    count(response);
    const message = placeAnswer(response);
    for (const call of response.calls) note("tool.started", { tool_use_id: call.id, name: call.name });
    const { record, publish } = takeRecord();
    await storeAssistant(deps.db, run, message, state.totals, record);
    state.nextSeq = message.seq + (response.calls.length > 0 ? 2 : 1);
    publish();
    return logRowOf(message);
  };

  const storeAnswers = async (answers: readonly AnsweredCall[], place: Seq): Promise<readonly LogRow[]> => {
    const blocks = answers.map(({ call, result }) => resultBlocks(call.id, result));
    const whole = resultsContent(blocks);
    const { content, media } = await externaliseMedia(whole, options.putMedia);
    const row = newRow({ id: deps.newId("msg"), origin: "tool", content, media, sentContent: whole, runId });
    answers.forEach(({ call, result, durationMs }, index) => {
      note(
        "tool.completed",
        {
          tool_use_id: call.id,
          name: call.name,
          is_error: result.isError === true,
          duration_ms: durationMs,
          seq: place,
          index,
        },
        place,
        blocks[index] ?? null,
      );
    });
    await settleDraft();
    const { record, publish } = takeRecord();
    const after = await storeResults(deps.db, run, { row, seq: place }, seq(state.nextSeq), record);
    publish();
    state.nextSeq = after.nextSeq;
    noteMoved(after.moved);
    return [logRowOf({ row, seq: place }), ...after.moved];
  };

  return {
    answering,
    delta,
    heartbeat,
    assistant,
    // The seq before the next is the one that `assistant` left free for them.
    results: (answers) => storeAnswers(answers, seq(state.nextSeq - 1)),
    closeOpenBatch: (calls, openBatchSeq) =>
      storeAnswers(
        calls.map((id) => ({
          call: { id, name: "", inputText: "{}" },
          result: {
            content: "The run that made this call was interrupted before a result was stored. Its outcome is unknown.",
            isError: true,
          },
          durationMs: 0,
        })),
        seq(openBatchSeq + 1),
      ),
    finish: async (end) => {
      if (end.counted !== null) count(end.counted);
      const outcome = await finish({ ...end, status: "completed", error: null });
      if (outcome.kind === "finished") return { finished: true };
      return {
        finished: false,
        rows: outcome.answerRow === null ? outcome.moved : [outcome.answerRow, ...outcome.moved],
      };
    },
    fail: async (error) => {
      await finish({
        status: "failed",
        error,
        stopReason: "end_turn",
        answer: null,
        outputText: state.answer?.text ?? "",
        counted: null,
      });
    },
    abandon: () => {
      state.answer = null;
    },
    ended: () => state.ended,
  };
};
