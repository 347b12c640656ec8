/**
 * The loop between the model and its tools. Free functions over what they are given: the run's state lives with the caller, every
 * failure of a tool becomes a result, and a failure of the model passes out typed.
 */
import { ModelError } from "../models/errors.ts";
import type { Provider } from "../models/provider.ts";
import type { LogRow, ModelRequest, ModelResponse, ThinkingSetting, ViewMessage } from "../protocol/messages.ts";
import type { Middleware, ModelCall, RequestDraft, RunContext } from "../protocol/middleware.ts";
import type { Tool } from "../protocol/tool.ts";
import { chatAttributes, genai, hango } from "../telemetry/genai.ts";
import { overflowOf } from "./overflow.ts";
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
  /** What the model is shown of the log. */
  readonly view: TurnView;
  /** Whether the stack holds the compaction that a too long prompt is answered with. */
  readonly compacts: boolean;
}

/** The view, as the loop needs it; wired in `turns/`. */
export interface TurnView {
  messages(): readonly ViewMessage[];
  /** Leaves all thinking out that is in the log by now, from here on, and records it (V5). */
  dropThinking(): Promise<void>;
  /** False where nothing but background would be sent (R1). */
  drivesCall(): boolean;
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

/** The request of the next model call, as the stack makes it. */
export const assembleRequest = async (turn: Turn): Promise<Assembled> => {
  const { settings, run } = turn;
  // Compaction has the bytes of the request as one of its budgets (E6), and shows less than there is.
  if (!turn.compacts) checkBytes(turn.rows, settings.maxRequestBytes);
  const draft: RequestDraft = {
    system: settings.system === null ? [] : [{ text: settings.system }],
    tools: [],
    providerTools: [],
    messages: turn.view.messages(),
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
        attributes: {
          ...chatAttributes.request(turn.provider.name, request, "turn"),
          ...(turn.run.state.private.compacted ? { [genai.compacted]: true } : {}),
        },
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
          turn.run.state.private.compacted = false;
          return response;
        } finally {
          turn.onProviderTime(turn.now() - startedMs);
        }
      },
    );

const refusesThinking = (error: unknown): boolean =>
  error instanceof ModelError && error.kind === "invalid_thinking_signature";

/** An overflow is answered by a compaction, then by truncation, then not any more (section 8). */
const OVERFLOW_ANSWERS = ["overflow", "truncate"] as const;

interface Answer {
  readonly response: ModelResponse;
  readonly tools: readonly Tool[];
}

/**
 * One step's answer. What the provider refuses to take is left out and the call made again: thinking that it no longer accepts, once
 * (V5); a prompt that is too long, by the ladder, twice (section 8).
 */
const nextAnswer = async (turn: Turn): Promise<Answer> => {
  const { state, span, windowTokens } = turn.run;
  let thinkingDropped = false;
  for (let overflows = 0; ; ) {
    try {
      const { request, tools } = await assembleRequest(turn);
      return { tools, response: await wrapModel(turn.stack, callProvider(turn), turn.run)(request) };
    } catch (error) {
      turn.journal.abandon();
      if (refusesThinking(error) && !thinkingDropped) {
        thinkingDropped = true;
        await turn.view.dropThinking();
        continue;
      }
      const overflow = overflowOf(error, { estimateTokens: state.private.estimate, windowTokens });
      const reason = OVERFLOW_ANSWERS[overflows];
      if (overflow === undefined || reason === undefined || !turn.compacts) throw error;
      overflows++;
      span.addEvent(hango.overflowRetry, { attempt: overflows, stated_limit: overflow.statedLimit });
      state.private.forced = { reason, ...overflow };
    }
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
    if (!turn.view.drivesCall()) {
      const end = { stopReason: "nothing_to_answer", answer: null, counted: null, outputText: lastText } as const;
      ended = (await turn.journal.finish(end)).finished;
      continue;
    }
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
