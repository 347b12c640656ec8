/**
 * The loop between the model and its tools. Free functions over what they are given: the run's state lives with the caller, every
 * failure of a tool becomes a result, and a failure of the model passes out typed.
 */
import { renderView } from "../context/view.ts";
import { ModelError } from "../models/errors.ts";
import type { Provider } from "../models/provider.ts";
import type { LogRow, ModelRequest, ModelResponse, ThinkingSetting } from "../protocol/messages.ts";
import type { Middleware, ModelCall, RequestDraft, RunContext } from "../protocol/middleware.ts";
import type { Tool } from "../protocol/tool.ts";
import { chatAttributes, genai } from "../telemetry/genai.ts";
import type { Journal } from "./ports.ts";
import { wrapModel, wrapTool } from "./stack.ts";
import { runToolBatch } from "./tool-batch.ts";

export interface AgentSettings {
  /** The session's own system prompt; null for none. */
  readonly system: string | null;
  /** Most tokens of one answer. */
  readonly maxTokens: number;
  /** Most model calls of one turn. */
  readonly maxSteps: number;
  readonly thinking: ThinkingSetting | undefined;
  readonly toolTimeoutMs: number;
  /** Most bytes of a request's messages: they all stand in memory at once (V10). */
  readonly maxRequestBytes: number;
  /** The turn's deadline, ms since the epoch. */
  readonly deadlineMs: number;
}

/** What the loop works on; `rows` grows as the log does. */
export interface Turn {
  readonly run: RunContext;
  readonly rows: LogRow[];
  readonly stack: readonly Middleware[];
  readonly provider: Provider;
  readonly journal: Journal;
  readonly settings: AgentSettings;
  readonly now: () => number;
  readonly onToolFault: (tool: string, error: unknown) => void;
  /** Called around the time spent waiting for the provider, in ms. */
  readonly onProviderTime: (durationMs: number) => void;
  /** See `ViewSettings`; raised and kept when the provider refuses the thinking that was sent (V5). */
  thinkingFloor: number;
}

interface Assembled {
  readonly request: ModelRequest;
  readonly tools: readonly Tool[];
}

/** @throws ModelError `too_large` */
const checkBytes = (rows: readonly LogRow[], limitBytes: number): void => {
  const sizeBytes = rows.reduce((sum, row) => sum + row.bytes, 0);
  if (sizeBytes > limitBytes) throw new ModelError({ kind: "too_large", sizeBytes, limitBytes });
};

const assemble = async (turn: Turn): Promise<Assembled> => {
  const { settings, run } = turn;
  checkBytes(turn.rows, settings.maxRequestBytes);
  const draft: RequestDraft = {
    system: settings.system === null ? [] : [{ text: settings.system }],
    tools: [],
    providerTools: [],
    messages: renderView(turn.rows, { thinkingFloor: turn.thinkingFloor }),
  };
  for (const middleware of turn.stack) await middleware.assemble?.(draft, run);
  return {
    tools: draft.tools,
    request: {
      model: run.model,
      maxTokens: settings.maxTokens,
      system: draft.system,
      tools: [
        ...draft.tools.map(({ name, description, inputSchema }) => ({
          kind: "function" as const,
          name,
          description,
          inputSchema,
        })),
        ...draft.providerTools,
      ],
      messages: draft.messages,
      ...(settings.thinking === undefined ? {} : { thinking: settings.thinking }),
    },
  };
};

/** The innermost model call: one span, one request to the provider, its pieces handed to the journal. */
const callProvider =
  (turn: Turn): ModelCall =>
  (request) =>
    turn.run.tracer.span(
      `${genai.operation.chat} ${request.model}`,
      {
        kind: "client",
        parent: turn.run.span,
        attributes: chatAttributes.request(turn.provider.name, request, "turn"),
      },
      async (span) => {
        const startedMs = turn.now();
        turn.journal.answering();
        try {
          const response = await turn.provider.generate(request, {
            signal: turn.run.signal,
            deadlineMs: turn.settings.deadlineMs,
            ...(turn.run.user === null ? {} : { user: turn.run.user }),
            onDelta: (delta) => {
              turn.journal.heartbeat();
              if (delta.kind !== "progress") turn.journal.delta(delta);
            },
          });
          span.setAttributes(chatAttributes.response(response));
          return response;
        } finally {
          turn.onProviderTime(turn.now() - startedMs);
        }
      },
    );

const refusesThinking = (error: unknown): boolean =>
  error instanceof ModelError && error.kind === "invalid_thinking_signature";

/** One step's answer. Thinking that the provider no longer accepts is left out from then on, and the call is made once more (V5). */
const nextAnswer = async (
  turn: Turn,
): Promise<{ readonly response: ModelResponse; readonly tools: readonly Tool[] }> => {
  const attempt = async () => {
    const { request, tools } = await assemble(turn);
    return { tools, response: await wrapModel(turn.stack, callProvider(turn), turn.run)(request) };
  };
  try {
    return await attempt();
  } catch (error) {
    if (!refusesThinking(error)) throw error;
    turn.journal.abandon();
    turn.thinkingFloor = (turn.rows.at(-1)?.seq ?? 0) + 1;
    return attempt();
  }
};

const runTools = async (turn: Turn, response: ModelResponse, tools: readonly Tool[]) =>
  runToolBatch(response.calls, {
    tools,
    timeoutMs: turn.settings.toolTimeoutMs,
    signal: turn.run.signal,
    now: turn.now,
    onFault: (call, error) => turn.onToolFault(call.name, error),
    onAnswered: () => turn.journal.heartbeat(),
    wrap: (exec) => {
      const wrapped = wrapTool(turn.stack, exec, turn.run);
      return (call, context) =>
        turn.run.tracer.span(
          `${genai.operation.executeTool} ${call.name}`,
          {
            kind: "internal",
            parent: turn.run.span,
            attributes: { [genai.toolName]: call.name, [genai.toolCallId]: call.id },
          },
          async (span) => {
            const result = await wrapped(call, context);
            if (result.isError === true) span.fail("tool_error");
            return result;
          },
        );
    },
  });

/** What to store of a last answer: nothing when it is empty, and nothing of a refusal, which would be refused again for its own words. */
const worthStoring = (response: ModelResponse): boolean =>
  response.content !== "[]" && response.stopReason !== "refusal";

/**
 * Runs a turn to its end: calls the model, runs the tools it asks for, and again, until it has said its last word, the step limit is
 * reached, or something fails.
 * @returns how many model calls were made
 * @throws ModelError, LeaseLost, StoreUnavailable, or the reason of `run.signal`
 */
export const runLoop = async (turn: Turn): Promise<number> => {
  for (const middleware of turn.stack) await middleware.beforeTurn?.(turn.run);
  let steps = 0;
  let lastText = "";
  for (let ended = false; !ended; ) {
    turn.run.signal.throwIfAborted();
    if (steps >= turn.settings.maxSteps) {
      // Input that arrives at the very end is in the log for the next turn: this one has no steps left.
      do
        ended = (
          await turn.journal.finish({ stopReason: "max_steps", answer: null, counted: null, outputText: lastText })
        ).finished;
      while (!ended);
      continue;
    }
    steps++;
    const { response, tools } = await nextAnswer(turn);
    lastText = response.text;
    if (response.calls.length > 0) {
      turn.rows.push(await turn.journal.assistant(response));
      turn.rows.push(...(await turn.journal.results(await runTools(turn, response, tools))));
    } else if (response.stopReason === "pause_turn" && response.content !== "[]") {
      turn.rows.push(await turn.journal.assistant(response));
    } else {
      const outcome = await turn.journal.finish({
        stopReason: response.stopReason,
        answer: worthStoring(response) ? response : null,
        counted: response,
        outputText: response.text,
      });
      ended = outcome.finished;
      if (!outcome.finished) turn.rows.push(...outcome.rows);
    }
  }
  for (const middleware of turn.stack) await middleware.afterTurn?.(turn.run);
  return steps;
};
