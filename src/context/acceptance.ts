/** Whether what the summariser said is a summary (S5). Everything else is a failure of a named class; an error text never passes. */
import { stripHandoff } from "./handoff.ts";
import type { SummaryFailure } from "./ports.ts";

export interface Rejection {
  readonly kind: "rejected";
  readonly failure: SummaryFailure;
  /** In words, without content. */
  readonly reason: string;
}

export type Acceptance = { readonly kind: "accepted" } | Rejection;

/** Size bounds of a summary (S5). */
const TARGET_FRACTION = 0.2;
const SMALLEST_TARGET_TOKENS = 2_000;
const LARGEST_TARGET_TOKENS = 10_000;
const CEILING_FACTOR = 4;
/** Fixed budgets are at most this part of the window (context.md, "Window"). */
const BUDGET_FRACTION = 0.05;
/** A new view is at most this part of the old one (S5). */
const LARGEST_NEW_VIEW = 0.95;
/** A refusal or an error is short; a summary that begins with regret may still be one. */
const SHORT_CHARS = 600;

export interface SummarySize {
  /** What the prompt asks for. */
  readonly targetTokens: number;
  /** What is still accepted. */
  readonly ceilingTokens: number;
}

/**
 * How long a summary should be and may be (S5).
 * @param coveredTokens of the rows it is about
 * @param windowTokens of the model that will read it; where the bounds cross, the upper wins
 */
export const summarySize = (coveredTokens: number, windowTokens: number): SummarySize => {
  const scaled = (tokens: number): number => Math.min(tokens, BUDGET_FRACTION * windowTokens);
  const wanted = Math.max(scaled(SMALLEST_TARGET_TOKENS), TARGET_FRACTION * coveredTokens);
  const targetTokens = Math.max(1, Math.floor(Math.min(scaled(LARGEST_TARGET_TOKENS), wanted)));
  return { targetTokens, ceilingTokens: CEILING_FACTOR * targetTokens };
};

const REFUSAL =
  /^\W*(?:(?:i['’]?m|i am) (?:sorry|afraid|unable|not able)|sorry\b|i (?:can['’]?t|cannot|can not|won['’]?t|will not|must decline|am not able to)\b|as an ai\b)/i;

/** Error bodies and the lines that clients make of them, at the beginning of the text. */
const ERROR_TEXTS: readonly RegExp[] = [
  /^\W*\{\s*"(?:type"\s*:\s*"error"|error"\s*:)/i,
  /^\W*(?:(?:api|internal|server|http|request)\s+)*error\b\W*(?:\d{3}\b|[:({]|$)/i,
  /^\W*(?:http\s+)?[45]\d\d:?\s+(?:\w+\s+){0,2}(?:error|overloaded|unauthori[sz]ed|forbidden|unavailable|too many requests)\b/i,
  /^\W*\w{1,40}_error\b/i,
];

const isErrorText = (text: string): boolean => ERROR_TEXTS.some((pattern) => pattern.test(text));

const rejected = (failure: SummaryFailure, reason: string): Rejection => ({ kind: "rejected", failure, reason });

const stopProblem = (stopReason: string): Rejection | undefined => {
  switch (stopReason) {
    case "end_turn":
      return undefined;
    case "max_tokens":
    case "model_context_window_exceeded":
      return rejected("truncated", `the summary was cut off: ${stopReason}`);
    case "refusal":
      return rejected("refused", "the summariser refused");
    default:
      return rejected("malformed", "the summariser stopped for another reason than its end");
  }
};

export interface AnswerCheck {
  readonly text: string;
  readonly stopReason: string;
  readonly ceilingTokens: number;
  readonly estimateTokens: (text: string) => number;
}

/** The part of S5 that an answer shows by itself: its stop reason, what it says, its length. */
export const acceptAnswer = ({ text, stopReason, ceilingTokens, estimateTokens }: AnswerCheck): Acceptance => {
  const stopped = stopProblem(stopReason);
  if (stopped !== undefined) return stopped;
  const said = stripHandoff(text);
  if (!/[\p{L}\p{N}]/u.test(said)) return rejected("empty", "the summary is blank");
  if (said.length <= SHORT_CHARS && REFUSAL.test(said)) return rejected("refused", "the summary is a refusal");
  if (said.length <= SHORT_CHARS && isErrorText(said)) return rejected("malformed", "the summary is an error text");
  const tokens = estimateTokens(said);
  if (tokens > ceilingTokens)
    return rejected("too_long", `the summary has ${tokens} tokens, more than ${ceilingTokens}`);
  return { kind: "accepted" };
};

export interface SummaryCheck {
  readonly text: string;
  readonly stopReason: string;
  readonly targetTokens: number;
  /** What the summary stands for: the rows, and the summary before it. */
  readonly replacedTokens: number;
  readonly newViewEstimate: number;
  readonly oldViewEstimate: number;
  /** What the validator found in the new view (C7). */
  readonly problems: readonly unknown[];
  readonly estimateTokens: (text: string) => number;
}

/**
 * The whole of S5: the answer is a summary, it is smaller than what it replaces, and the view with it is valid and at least 5 % smaller.
 * Sizes are in tokens, old and new by the same estimate.
 */
export const acceptSummary = (check: SummaryCheck): Acceptance => {
  const { text, replacedTokens, newViewEstimate, oldViewEstimate, problems } = check;
  const answer = acceptAnswer({ ...check, ceilingTokens: CEILING_FACTOR * check.targetTokens });
  if (answer.kind === "rejected") return answer;
  const tokens = check.estimateTokens(stripHandoff(text));
  if (tokens >= replacedTokens)
    return rejected("would_grow", `the summary has ${tokens} tokens, what it replaces ${replacedTokens}`);
  if (problems.length > 0) return rejected("invalid_view", `the new view breaks ${problems.length} rules`);
  if (newViewEstimate > LARGEST_NEW_VIEW * oldViewEstimate)
    return rejected("would_grow", `the new view has ${newViewEstimate} tokens, the old one ${oldViewEstimate}`);
  return { kind: "accepted" };
};
