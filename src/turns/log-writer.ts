/**
 * A run's writes to its session's log. It chooses ids and seqs (the lease makes it the only writer), stores first, and tells clients after.
 */
import type { AnsweredCall, Journal } from "../agent/ports.ts";
import type { PriceList } from "../models/profiles.ts";
import type { EventSink } from "../protocol/events.ts";
import { type RunId, type Seq, type SessionId, seq } from "../protocol/ids.ts";
import { externaliseMedia, type PutMedia } from "../protocol/media-text.ts";
import type { LogRow, ModelResponse, ToolCall } from "../protocol/messages.ts";
import type { PrivateState } from "../protocol/middleware.ts";
import type { ToolResult } from "../protocol/tool.ts";
import type { StoredGuardTimes } from "../store/guards.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import type { PlacedRow, RunIdentity, StepRecord } from "../store/statements.ts";
import { storeAssistant, storeProgress, storeResults } from "../store/steps.ts";
import type { Deps } from "./deps.ts";
import { createDraft, type Draft } from "./draft.ts";
import { createEventWriter, type EventWriter } from "./event-writer.ts";
import { resultBlocks, resultsContent } from "./results.ts";
import { logRowOf, newRow } from "./rows.ts";
import { createTally, type Tally } from "./tally.ts";
import { usageJson } from "./usage-json.ts";

export interface LogWriterOptions {
  readonly deps: Pick<Deps, "db" | "newId" | "now" | "log">;
  readonly session: LoadedSession;
  readonly state: PrivateState;
  readonly prices: PriceList | null;
  readonly putMedia: PutMedia;
  readonly sink: EventSink;
  /** What the view leaves in the session's head with every write: its floor, what was learned, the guards. */
  readonly head: () => Pick<StepRecord, "thinkingFloor" | "calibration" | "guards" | "reading" | "forceTaken">;
  /** Told of a compaction that was asked for since the last step, with its focus, empty for none (G9). */
  readonly onForced: (focus: string) => void;
  /** Told what is over of the guards by the database's clock, with every step. */
  readonly onGuardTimes: (times: StoredGuardTimes) => void;
  /** Told when the session could not be kept: LeaseLost, or a database that does not answer. */
  readonly onProgressFailure: (error: unknown) => void;
  /** Told, perhaps more than once, that a hard cancel was asked for. */
  readonly onCancelled: () => void;
}

/** Everything that waits to be stored, and what tells clients of it once it is. */
export interface Taken {
  readonly record: StepRecord;
  readonly publish: () => void;
}

/** A batch whose results are not stored yet. */
export interface OpenBatch {
  readonly seq: Seq;
  readonly calls: readonly ToolCall[];
  readonly answered: Map<string, AnsweredCall>;
}

/** The session and the run of a call that was given to a subagent. */
export interface Delegated {
  readonly sessionId: SessionId;
  readonly runId: RunId;
  readonly type: string;
}

export interface LogWriter extends Pick<Journal, "assistant" | "results"> {
  readonly events: EventWriter;
  readonly tally: Tally;
  readonly draft: Draft;
  take(): Taken;
  /** Tells clients that a call is a subagent's now, and names it again with the call's result. */
  delegated(callId: string, subagent: Delegated): void;
  /** Passes on that a hard cancel was asked for, where a write said so. */
  heed(cancelled: boolean): void;
  /** Gives a turn's last answer its place in the log; it is stored with the turn's end. */
  placeLast(response: ModelResponse): PlacedRow;
  /** The first seq after all rows of the log, one kept free for results included. */
  nextSeq(): Seq;
  /** Goes on after rows that the store moved into the log. */
  moved(rows: readonly LogRow[], nextSeq: number): void;
  /** Calls that have no stored results; null for none. */
  openBatch(): OpenBatch | null;
  /**
   * @param openBatchSeq where the calls stand
   * @param answers results that are there already, by call
   */
  reopen(openBatchSeq: Seq, calls: readonly ToolCall[], answers?: ReadonlyMap<string, ToolResult>): void;
  /** Stores what was answered of a batch that is stopped, and why the rest was not. */
  close(batch: OpenBatch, why: string): Promise<void>;
}

const shown = ({ sessionId, runId, type }: Delegated) => ({
  session_id: sessionId,
  run_id: runId,
  subagent_type: type,
});

export const createLogWriter = (options: LogWriterOptions): LogWriter => {
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
  const tally = createTally(newId, options.prices, session.run.totals, session.depth > 0 ? "subagent" : "turn");
  const draft = createDraft({
    newId,
    now,
    tell: events.tell,
    store: async (text) => heed(await storeProgress(db, run, text)),
    onFailure: options.onProgressFailure,
  });
  /** The first seq after all rows of the log, one kept free for results included. */
  let nextSeq = session.nextSeq;
  let open: OpenBatch | null = null;
  let storedTodos = options.state.todos;
  const delegations = new Map<string, Delegated>();

  const heed = (cancelled: boolean): void => {
    if (cancelled) options.onCancelled();
  };

  /** Everything that waits to be stored. */
  const take = (): Taken => {
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
      const delegated = delegations.get(call.id);
      const data = {
        tool_use_id: call.id,
        name: call.name,
        is_error,
        duration_ms: durationMs,
        seq: place,
        index,
        ...(delegated === undefined ? {} : { subagent: shown(delegated) }),
      };
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
    options.onGuardTimes(after.guardTimes);
    if (after.forceCompaction !== null) options.onForced(after.forceCompaction);
    return [logRowOf({ row, seq: place }), ...after.moved];
  };

  return {
    events,
    tally,
    draft,
    assistant,
    results,
    take,
    heed,
    delegated: (callId, subagent) => {
      delegations.set(callId, subagent);
      events.tell("subagent.started", { tool_use_id: callId, ...shown(subagent) });
    },
    placeLast: (response) => {
      const message = placeAnswer(response);
      nextSeq = message.seq + 1;
      return message;
    },
    nextSeq: () => seq(nextSeq),
    moved: (rows, next) => {
      nextSeq = next;
      noteMoved(rows);
    },
    openBatch: () => open,
    reopen: (openBatchSeq, calls, answers = new Map()) => {
      const answered = calls.flatMap((call) => {
        const result = answers.get(call.id);
        return result === undefined ? [] : [[call.id, { call, result, durationMs: 0 }] as const];
      });
      open = { seq: openBatchSeq, calls, answered: new Map(answered) };
    },
    close: async ({ calls, answered }, why) => {
      const stopped = { content: why, isError: true };
      await results(calls.map((call) => answered.get(call.id) ?? { call, result: stopped, durationMs: 0 }));
    },
  };
};
