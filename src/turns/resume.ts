/** Where a run goes on: the loaded rows, and the batch of calls that was left open (M7). */
import type { Resumption } from "../agent/loop.ts";
import { arrayElements, objectMembers } from "../protocol/json-text.ts";
import type { LogRow, ToolCall } from "../protocol/messages.ts";
import { toolError } from "../protocol/tool.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import { textOf } from "./answer-text.ts";
import type { PreparedRun } from "./prepare-run.ts";
import { resultOf } from "./results.ts";

/** The calls of an assistant row as the model made them. */
const callsOf = (row: LogRow): readonly ToolCall[] =>
  arrayElements(row.content).flatMap(({ start, end }) => {
    const block = row.content.slice(start, end);
    const { type, id, name }: { type?: unknown; id?: unknown; name?: unknown } = JSON.parse(block);
    if (type !== "tool_use" || typeof id !== "string" || typeof name !== "string" || !row.calls.includes(id)) return [];
    const input = objectMembers(block).findLast(({ key }) => key === "input");
    return [{ id, name, inputText: input === undefined ? "{}" : block.slice(input.start, input.end) }];
  });

/** What a call gets whose run ended before its result was stored (M7). */
const ABANDONED = toolError(
  "The run that made this call was interrupted before a result was stored. Its outcome is unknown.",
);

/**
 * Puts the loaded rows into the turn. A batch that another run left open, or an import, is closed in the log before anything else (M7).
 * @returns what the run goes on with: its steps, and a batch of its own that was left open
 * @throws LeaseLost, StoreUnavailable
 */
export const resume = async (prepared: PreparedRun, session: LoadedSession): Promise<Resumption> => {
  const { turn, journal } = prepared;
  const { openBatchSeq, rows, run } = session;
  turn.rows.push(...rows);
  const steps = run.totals.steps;
  const lastText = textOf(rows.findLast((row) => row.origin === "assistant" && row.runId === session.lease.holder));
  const open = openBatchSeq === null ? undefined : rows.find((row) => row.seq === openBatchSeq);
  if (open === undefined) return { steps, lastText, batch: null };
  const calls = callsOf(open);
  if (open.runId === session.lease.holder) {
    const answers = new Map([...run.answers].map(([id, answer]) => [id, resultOf(answer)]));
    journal.reopen(open.seq, calls, answers);
    return { steps, lastText, batch: { calls, answers } };
  }
  journal.reopen(open.seq, calls);
  turn.rows.push(...(await journal.results(calls.map((call) => ({ call, result: ABANDONED, durationMs: 0 })))));
  turn.rows.sort((a, b) => a.seq - b.seq);
  return { steps, lastText, batch: null };
};
