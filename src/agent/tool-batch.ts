/** Runs the tool calls of one answer. Whatever happens to a call, it gets a result: nothing here rejects but an aborted run. */
import { inParallel } from "../protocol/in-parallel.ts";
import type { ToolCall } from "../protocol/messages.ts";
import type { ToolExec } from "../protocol/middleware.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../protocol/tool.ts";
import type { AnsweredCall } from "./ports.ts";

/** Calls of a batch under way at a time: a Worker has six connections, and the turn itself needs some (platform.md, "Workers"). */
const MAX_PARALLEL = 4;

export interface BatchOptions {
  readonly tools: readonly Tool[];
  /** Time a tool has that names none of its own, in ms. */
  readonly timeoutMs: number;
  /** Aborted when the run must end. */
  readonly signal: AbortSignal;
  readonly now: () => number;
  /** Told of exceptions, whose details the model is not shown. */
  readonly onFault: (call: ToolCall, error: unknown) => void;
  /** Called when a call has its result. */
  readonly onAnswered: (answer: AnsweredCall) => void;
  /** Wraps the execution of each call, innermost part given. */
  readonly wrap: (exec: ToolExec) => ToolExec;
}

const parseInput = (call: ToolCall): { readonly value: unknown } | { readonly problem: string } => {
  try {
    return { value: JSON.parse(call.inputText) };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : "not JSON" };
  }
};

const unknownTool = (name: string, tools: readonly Tool[]): ToolResult =>
  toolError(
    `There is no tool named ${JSON.stringify(name)}. ${
      tools.length === 0 ? "No tools are available." : `Available tools: ${tools.map((tool) => tool.name).join(", ")}.`
    }`,
  );

/** Settles with the tool's result, or with an error result when its time is up, whether or not the tool heeds its signal. */
const withinTime = async (tool: Tool, timeoutMs: number, context: ToolContext, input: unknown): Promise<ToolResult> => {
  const timeUp = AbortSignal.timeout(timeoutMs);
  const signal = AbortSignal.any([context.signal, timeUp]);
  let stop: (() => void) | undefined;
  const stopped = new Promise<ToolResult>((resolve, reject) => {
    stop = () =>
      timeUp.aborted
        ? resolve(
            toolError(
              `The tool ${JSON.stringify(tool.name)} did not answer within ${timeoutMs / 1000} s and was stopped. Its outcome is unknown.`,
            ),
          )
        : reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    signal.throwIfAborted();
    return await Promise.race([tool.call(input, { ...context, signal }), stopped]);
  } finally {
    if (stop !== undefined) signal.removeEventListener("abort", stop);
  }
};

const execute = async (call: ToolCall, context: ToolContext, options: BatchOptions): Promise<ToolResult> => {
  const tool = options.tools.find((candidate) => candidate.name === call.name);
  if (tool === undefined) return unknownTool(call.name, options.tools);
  const input = parseInput(call);
  if (call.invalid === true || "problem" in input) {
    return toolError(
      `The input of ${JSON.stringify(call.name)} is not a complete JSON object${"problem" in input ? ` (${input.problem})` : ""}; it may have been cut off. ` +
        `Expected input: ${JSON.stringify(tool.inputSchema)}`,
    );
  }
  return withinTime(tool, tool.timeoutMs ?? options.timeoutMs, context, input.value);
};

const answer = async (call: ToolCall, options: BatchOptions): Promise<AnsweredCall> => {
  const startedMs = options.now();
  const exec = options.wrap((inner, context) => execute(inner, context, options));
  const run = async (): Promise<ToolResult> => {
    try {
      return await exec(call, { callId: call.id, inputText: call.inputText, signal: options.signal });
    } catch (error) {
      options.signal.throwIfAborted();
      options.onFault(call, error);
      return toolError(`The tool ${JSON.stringify(call.name)} failed unexpectedly. Its outcome is unknown.`);
    }
  };
  const answered = { call, result: await run(), durationMs: options.now() - startedMs };
  options.onAnswered(answered);
  return answered;
};

/** Cuts a batch into groups that run one after the other: neighbours that may run side by side share one. */
const groups = (calls: readonly ToolCall[], tools: readonly Tool[]): readonly (readonly ToolCall[])[] => {
  const alone = (call: ToolCall): boolean => tools.find((tool) => tool.name === call.name)?.parallel === false;
  const cut: ToolCall[][] = [];
  for (const call of calls) {
    const last = cut.at(-1);
    const neighbour = last?.at(-1);
    if (last === undefined || neighbour === undefined || alone(call) || alone(neighbour)) cut.push([call]);
    else last.push(call);
  }
  return cut;
};

/**
 * Runs all calls of an answer, in parallel where their tools allow it.
 * @returns one result per call, in the order of the calls
 * @throws the signal's reason when the run must end
 */
export const runToolBatch = async (
  calls: readonly ToolCall[],
  options: BatchOptions,
): Promise<readonly AnsweredCall[]> => {
  const answers: AnsweredCall[] = [];
  for (const group of groups(calls, options.tools)) {
    answers.push(...(await inParallel(group, MAX_PARALLEL, (call) => answer(call, options))));
  }
  return answers;
};
