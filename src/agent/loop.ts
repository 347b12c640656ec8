/**
 * The loop between the model and its tools. Free functions over what they are given: the run's state lives with the caller, every
 * failure of a tool becomes a result, and a failure of the model passes out typed.
 */
import { ContextOverflowError, ModelError } from "../models/errors.ts";
import type { LogRow, ModelRequest, ModelResponse, ViewMessage } from "../protocol/messages.ts";
import type { ModelCall, RequestDraft } from "../protocol/middleware.ts";
import type { Tool } from "../protocol/tool.ts";
import { observeChat } from "../telemetry/chat.ts";
import { genai, hango } from "../telemetry/genai.ts";
import { type Batch, completeBatch } from "./batch.ts";
import { isBrokenOff, waitBeforeMs } from "./broken-off.ts";
import { overflowOf } from "./overflow.ts";
import { beginTurn, wrapModel } from "./stack.ts";
import type { Turn } from "./turn.ts";

/** The turn may make no model call at all: what it may cost has been spent before it. */
export class BudgetReached extends Error {
  override readonly name = "BudgetReached";
  constructor() {
    super(
      "the budget was reached before the turn made a model call: raise `budget.max_usd` of the session or of the turn, or take it away",
    );
  }
}

/** Where a run goes on that was begun before. */
export interface Resumption {
  /** Model calls that were made before. */
  readonly steps: number;
  /** Text of the newest answer; empty for none. */
  readonly lastText: string;
  /** A batch whose results are not in the log; null for none. */
  readonly batch: Pick<Batch, "calls" | "answers"> | null;
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

/** What the stack makes of these messages. */
const assembleDraft = async (turn: Turn, messages: readonly ViewMessage[]): Promise<RequestDraft> => {
  const { system } = turn.settings;
  const draft: RequestDraft = {
    system: system === null ? [] : [{ text: system }],
    tools: [],
    providerTools: [],
    messages,
  };
  for (const middleware of turn.stack) await middleware.assemble?.(draft, turn.run);
  return draft;
};

/** The request of the next model call, as the stack makes it. */
export const assembleRequest = async (turn: Turn): Promise<Assembled> => {
  const { settings, run } = turn;
  // Compaction has the bytes of the request as one of its budgets (E6), and shows less than there is.
  if (!turn.compacts) checkBytes(turn.rows, settings.maxRequestBytes);
  const draft = await assembleDraft(turn, turn.view.messages());
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
  (request) => {
    const { run, settings, journal } = turn;
    const call = {
      provider: turn.provider.name,
      request,
      purpose: settings.purpose ?? "turn",
      parent: run.span,
      attributes: run.state.private.compacted ? { [genai.compacted]: true } : {},
      costUsd: settings.costUsd,
    };
    return observeChat(turn.telemetry, call, async () => {
      const startedMs = turn.now();
      journal.answering();
      try {
        const response = await turn.provider.generate(request, {
          signal: AbortSignal.any([run.signal, turn.leave]),
          deadlineMs: settings.deadlineMs,
          ...(run.user === null ? {} : { user: run.user }),
          onDelta: (delta) => {
            journal.heartbeat();
            if (delta.kind !== "progress") journal.delta(delta);
          },
        });
        run.state.private.compacted = false;
        return response;
      } finally {
        turn.onProviderTime(turn.now() - startedMs);
      }
    });
  };

const refusesThinking = (error: unknown): boolean =>
  error instanceof ModelError && error.kind === "invalid_thinking_signature";

/** An overflow is answered by a compaction, then by truncation, then not any more (section 8). */
const OVERFLOW_ANSWERS = ["overflow", "truncate"] as const;

interface Answer {
  readonly response: ModelResponse;
  readonly tools: readonly Tool[];
}

/** Waits, unless the run ends or is left meanwhile. */
const pause = async ({ run, leave, sleep }: Turn, waitMs: number): Promise<void> => {
  const signal = AbortSignal.any([run.signal, leave]);
  await Promise.race([
    sleep(waitMs),
    new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true })),
  ]);
  signal.throwIfAborted();
};

/**
 * One step's answer. What the provider refuses to take is left out and the call made again: thinking that it no longer accepts, once
 * (V5); a prompt that is too long, by the ladder, twice (section 8). An answer that broke off is asked for again.
 */
const nextAnswer = async (turn: Turn): Promise<Answer> => {
  const { state, span, windowTokens } = turn.run;
  let thinkingDropped = false;
  let brokenOff = 0;
  for (let overflows = 0; ; ) {
    try {
      const { request, tools } = await assembleRequest(turn);
      return { tools, response: await wrapModel(turn.stack, callProvider(turn), turn.run)(request) };
    } catch (error) {
      turn.journal.abandon(error instanceof ContextOverflowError ? error.paid : null);
      turn.leave.throwIfAborted();
      if (refusesThinking(error) && !thinkingDropped) {
        thinkingDropped = true;
        await turn.view.dropThinking();
        continue;
      }
      if (isBrokenOff(error) && brokenOff < turn.settings.maxRetries) {
        await pause(turn, waitBeforeMs(brokenOff++));
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

/** What to store of a last answer: nothing when it is empty, and nothing of a refusal, which would be refused again for its own words. */
const worthStoring = (response: ModelResponse): boolean =>
  response.content !== "[]" && response.stopReason !== "refusal";

/** Why no further call may be made; null while one may. @throws BudgetReached where none was made */
const limitReached = ({ settings }: Turn, steps: number): "max_steps" | "budget_reached" | null => {
  if (steps >= settings.maxSteps) return "max_steps";
  if (settings.withinBudget()) return null;
  if (steps === 0) throw new BudgetReached();
  return "budget_reached";
};

/**
 * Runs a turn to its end: calls the model, runs the tools it asks for, and again, until it has said its last word, the step limit or the budget is
 * reached, the caller has to answer, or something fails.
 * @returns how many model calls the turn has made
 * @throws ModelError, BudgetReached, LeaseLost, StoreUnavailable, or the reason of `run.signal` or `leave`
 */
export const runLoop = async (turn: Turn, from: Resumption): Promise<number> => {
  await beginTurn(turn.stack, turn.run);
  let { steps, lastText } = from;
  if (from.batch !== null) {
    const { tools } = await assembleDraft(turn, []);
    const rows = await completeBatch(turn, { ...from.batch, tools, mayHaveRun: true });
    if (rows === null) return steps;
    turn.rows.push(...rows);
    turn.rows.sort((a, b) => a.seq - b.seq);
  }
  for (let ended = false; !ended; ) {
    turn.run.signal.throwIfAborted();
    turn.leave.throwIfAborted();
    if (!turn.view.drivesCall()) {
      const end = { stopReason: "nothing_to_answer", answer: null, counted: null, outputText: lastText } as const;
      ended = (await turn.journal.finish(end)).finished;
      continue;
    }
    const limit = limitReached(turn, steps);
    if (limit !== null) {
      // Input that arrives at the very end is in the log for the next turn: this one has no steps left.
      do
        ended = (await turn.journal.finish({ stopReason: limit, answer: null, counted: null, outputText: lastText }))
          .finished;
      while (!ended);
      continue;
    }
    steps++;
    const { response, tools } = await nextAnswer(turn);
    lastText = response.text;
    if (response.calls.length > 0) {
      turn.rows.push(await turn.journal.assistant(response));
      const rows = await completeBatch(turn, { calls: response.calls, tools, answers: new Map(), mayHaveRun: false });
      if (rows === null) return steps;
      turn.rows.push(...rows);
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
