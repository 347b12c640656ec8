/** A summariser that does what a script says: good summaries, and every way in which one can be bad (S5, G1). */

import { END_MARK, PREFIXES } from "../../src/context/handoff.ts";
import type { SummariserPort, SummaryAnswer, SummaryFailure } from "../../src/context/ports.ts";
import type { SummaryKind } from "./session-plan.ts";

class ScriptedFailure extends Error {
  readonly failure: SummaryFailure;
  constructor(failure: SummaryFailure) {
    super(failure);
    this.failure = failure;
  }
}

/** Units of text that are surely no more tokens than this by any estimate here. */
const textOfTokens = (tokens: number): string => "It was done. ".repeat(Math.max(1, Math.floor(tokens / 8)));

const answerOf = (kind: SummaryKind, prompt: string, maxTokens: number): Pick<SummaryAnswer, "text" | "stopReason"> => {
  const end = { stopReason: "end_turn" };
  switch (kind) {
    case "good":
      return { ...end, text: `## What was done\n${textOfTokens(maxTokens / 5)}` };
    case "short":
      return { ...end, text: "All was well." };
    case "empty":
      return { ...end, text: " \n" };
    case "echo":
      return { ...end, text: prompt.slice(0, maxTokens).toWellFormed() };
    case "too_long":
      return { ...end, text: "long ".repeat(maxTokens * 3) };
    case "truncated":
      return { text: textOfTokens(maxTokens / 2), stopReason: "max_tokens" };
    case "refusal":
      return { text: "I can't help with that.", stopReason: "refusal" };
    case "handoff":
      return { ...end, text: `${PREFIXES[0]}\n\nIt was done.\n\n${END_MARK}\n\nGo on.` };
    case "timeout":
    case "overloaded":
      throw new ScriptedFailure(kind);
    default:
      return kind satisfies never;
  }
};

/** @param kinds what its calls do, from the first again after the last */
export const scriptedSummariser = (kinds: readonly SummaryKind[], windowTokens: number): SummariserPort => {
  let calls = 0;
  return {
    model: "summariser",
    windowTokens,
    failureOf: (error) => {
      if (error instanceof ScriptedFailure) return error.failure;
      throw error;
    },
    call: async ({ prompt, maxTokens }) => {
      const kind = kinds[calls++ % kinds.length] ?? "good";
      const usage = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 };
      return { ...answerOf(kind, prompt, maxTokens), usage, model: "summariser" };
    },
  };
};
