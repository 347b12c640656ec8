/** What the loop needs from outside, wired in `turns/`. */
import type { PaidCall } from "../models/errors.ts";
import type { LogRow, ModelResponse, ToolCall } from "../protocol/messages.ts";
import type { ToolResult } from "../protocol/tool.ts";

export interface AnsweredCall {
  readonly call: ToolCall;
  readonly result: ToolResult;
  readonly durationMs: number;
}

/** Why a turn that did not fail is over. */
export type EndReason = ModelResponse["stopReason"] | "max_steps" | "budget_reached" | "nothing_to_answer";

export interface TurnEnd {
  readonly stopReason: EndReason;
  /** The last answer, when it is to be stored as a message; null when it is empty, refused, or there is none. */
  readonly answer: ModelResponse | null;
  /** The answer whose usage is not counted yet: the last one, stored or not. */
  readonly counted: ModelResponse | null;
  /** What the caller is shown as the run's text. */
  readonly outputText: string;
}

/**
 * The log and the event stream, as the loop sees them. Every method stores first and tells clients after; every one but `delta` rejects
 * with LeaseLost when the run may not write any more.
 */
export interface Journal {
  /** Tells clients that an answer begins, and of its pieces as they come; stores at most a draft, now and then. */
  answering(): void;
  delta(piece: {
    readonly kind: "text" | "thinking";
    readonly index: number;
    readonly offset: number;
    readonly text: string;
  }): void;
  /** Called on every sign of life, to keep the session while a call or a tool takes long. Never waits. */
  heartbeat(): void;
  /** Stores an answer that the turn goes on after, before any of its tools runs. */
  assistant(answer: ModelResponse): Promise<LogRow>;
  /** Notes that a call of the newest answer has its result: kept, should the batch be stopped. Never waits. */
  answered(answer: AnsweredCall): void;
  /**
   * Stops the run until the caller has sent the results of these calls, which are its own tools'; what was answered meanwhile is kept. The batch
   * stays whole: nothing gets between its calls and their results.
   */
  wait(answers: readonly AnsweredCall[], missing: readonly ToolCall[]): Promise<void>;
  /** Stores the results of the newest answer's calls. @returns all rows that are new in the log: the results, then input that had waited */
  results(answers: readonly AnsweredCall[]): Promise<readonly LogRow[]>;
  /** Ends the turn, unless input was waiting: then that is in the log now, is returned with the answer's row, and the turn goes on. */
  finish(
    end: TurnEnd,
  ): Promise<{ readonly finished: true } | { readonly finished: false; readonly rows: readonly LogRow[] }>;
  /** Drops what was told of an answer that will be asked for again. @param paid what it cost all the same; null for nothing that is known */
  abandon(paid: PaidCall | null): void;
}
