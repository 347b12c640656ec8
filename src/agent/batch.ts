/**
 * The calls of one answer, from the model's request to results in the log: run here, or waited for where the caller runs them. A batch stays whole:
 * its results are stored together, directly after the calls (M7).
 */
import type { LogRow, ToolCall } from "../protocol/messages.ts";
import { type Tool, type ToolResult, toolError } from "../protocol/tool.ts";
import { genai } from "../telemetry/genai.ts";
import type { AnsweredCall } from "./ports.ts";
import { wrapTool } from "./stack.ts";
import { runToolBatch } from "./tool-batch.ts";
import type { Turn } from "./turn.ts";

/** What a call gets whose run died before its result was stored (M7). */
const INTERRUPTED = "The run that made this call was interrupted before a result was stored. Its outcome is unknown.";

export interface Batch {
  /** In the order in which the model made them. */
  readonly calls: readonly ToolCall[];
  readonly tools: readonly Tool[];
  /** Results that are there already, by call: of our own tools as they were kept, of the caller's as they were sent. */
  readonly answers: ReadonlyMap<string, ToolResult>;
  /** Whether the calls may have been run before, by a Worker that died: then only tools that bear it are run again. */
  readonly mayHaveRun: boolean;
}

/** A span's name is one of few: a name that the model made up is an attribute, which is redacted (S6), and no more. */
const spanName = (called: string, tools: readonly Tool[]): string =>
  tools.some(({ name }) => name === called)
    ? `${genai.operation.executeTool} ${called}`
    : `${genai.operation.executeTool} (unknown)`;

const runTools = (turn: Turn, calls: readonly ToolCall[], tools: readonly Tool[]): Promise<readonly AnsweredCall[]> =>
  runToolBatch(calls, {
    tools,
    timeoutMs: turn.settings.toolTimeoutMs,
    signal: turn.run.signal,
    now: turn.now,
    onFault: (call, error) => turn.onToolFault(call.name, error),
    onAnswered: turn.journal.answered,
    wrap: (exec) => {
      const wrapped = wrapTool(turn.stack, exec, turn.run);
      return (call, context) =>
        turn.run.tracer.span(
          spanName(call.name, tools),
          {
            kind: "internal",
            parent: turn.run.span,
            attributes: {
              [genai.operationName]: genai.operation.executeTool,
              [genai.toolName]: call.name,
              [genai.toolCallId]: call.id,
              [genai.toolType]: "function",
              ...turn.telemetry.content.toolCall(call.inputText),
            },
          },
          async (span) => {
            const result = await wrapped(call, { ...context, span });
            span.setAttributes(turn.telemetry.content.toolResult(result.content));
            if (result.isError === true) span.fail("tool_error");
            return result;
          },
        );
    },
  });

/** The caller's tools with their results in place of the caller: so a large one is offloaded like any other. */
const answeringTools = (tools: readonly Tool[], results: ReadonlyMap<string, ToolResult>): readonly Tool[] =>
  tools.map((tool) =>
    tool.byCaller === true
      ? { ...tool, call: async (_, { callId }) => results.get(callId) ?? toolError(INTERRUPTED) }
      : tool,
  );

/**
 * Completes a batch, or stops the run for what only the caller can answer.
 * @returns the rows that are new in the log; null where the run waits for its caller
 * @throws LeaseLost, StoreUnavailable, or the reason of `run.signal`
 */
export const completeBatch = async (turn: Turn, batch: Batch): Promise<readonly LogRow[] | null> => {
  const { calls, tools, answers, mayHaveRun } = batch;
  const toolOf = (call: ToolCall): Tool | undefined => tools.find(({ name }) => name === call.name);
  const isCallers = (call: ToolCall): boolean => toolOf(call)?.byCaller === true;
  const own = calls.filter((call) => !isCallers(call) && !answers.has(call.id));
  const unknown = mayHaveRun ? own.filter((call) => toolOf(call)?.idempotent !== true) : [];
  const done = new Map<string, AnsweredCall>();
  const keep = (answer: AnsweredCall): void => {
    done.set(answer.call.id, answer);
  };
  for (const call of calls) {
    const result = isCallers(call) ? undefined : answers.get(call.id);
    if (result !== undefined) keep({ call, result, durationMs: 0 });
  }
  for (const call of unknown) keep({ call, result: toolError(INTERRUPTED), durationMs: 0 });
  const toRun = own.filter((call) => !done.has(call.id));
  for (const answer of await runTools(turn, toRun, tools)) keep(answer);

  const missing = calls.filter((call) => isCallers(call) && !answers.has(call.id));
  if (missing.length > 0) {
    await turn.journal.wait([...done.values()], missing);
    return null;
  }
  for (const answer of await runTools(turn, calls.filter(isCallers), answeringTools(tools, answers))) keep(answer);
  return turn.journal.results(calls.flatMap((call) => done.get(call.id) ?? []));
};
