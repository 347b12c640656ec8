/** Makes the narrative of a compaction: one call, or one for each piece of a slice that is larger than the summariser's window (S1, S7). */
import type { Usage } from "../protocol/messages.ts";
import { acceptAnswer, type SummarySize } from "./acceptance.ts";
import { stripHandoff } from "./handoff.ts";
import type { SummariserPort, SummaryAnswer, SummaryFailure } from "./ports.ts";
import { fitTokens, type InputEntry, nextChunk, renderInput, type SummaryRow } from "./summary-input.ts";
import { summaryPrompt } from "./summary-prompt.ts";
import type { Generation, PinnedAsk } from "./view-state.ts";

export interface SummariseInput {
  /** The newly covered rows, ascending, as the view shows them (clipped where it clips). */
  readonly rows: readonly SummaryRow[];
  /** The generation that this one is made from: its summary goes in apart (S1). */
  readonly base: Pick<Generation, "summary"> | null;
  /** The ask that the handoff will restate, so that the summary need not (C4). */
  readonly pinned: Pick<PinnedAsk, "seq"> | null;
  readonly focus: string | null;
  readonly size: SummarySize;
  readonly port: SummariserPort;
  /** Replaces secrets, in what goes in and in what comes out (S6). */
  readonly redact: (text: string) => string;
  readonly estimateTokens: (text: string) => number;
}

export type SummaryOutcome =
  | {
      readonly kind: "summary";
      /** Redacted, without prefix, end mark and restated ask. */
      readonly text: string;
      readonly stopReason: string;
      readonly model: string;
      /** Of all calls together. */
      readonly usage: Usage;
      readonly calls: number;
    }
  | {
      readonly kind: "failed";
      readonly failure: SummaryFailure;
      readonly reason: string;
      /** What the calls before the failure used. */
      readonly usage: Usage;
      readonly calls: number;
    };

/** Part of the summariser's window that is planned for: what is left allows for the error of an estimate (at most 15 %, E3). */
const PLANNED_FRACTION = 0.85;
/** Most of that window for the answer, and as much for the summary that goes in. */
const ANSWER_FRACTION = 0.25;
/** With less room than this for messages, a call is not worth making. */
const SMALLEST_CHUNK_TOKENS = 200;
/** How often the room is halved when the provider says that a call was too long. */
const MAX_HALVINGS = 2;

const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 };

const plus = (a: Usage, b: Usage): Usage => ({
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  cacheReadTokens: a.cacheReadTokens + b.cacheReadTokens,
  cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
});

type Called =
  | { readonly kind: "answered"; readonly answer: SummaryAnswer }
  | { readonly kind: "failed"; readonly failure: SummaryFailure };

const callOf = async (
  input: SummariseInput,
  entries: readonly InputEntry[],
  previous: string,
  maxTokens: number,
): Promise<Called> => {
  const { system, prompt } = summaryPrompt({
    entries,
    previous,
    focus: input.focus,
    targetTokens: Math.min(input.size.targetTokens, maxTokens),
  });
  try {
    return { kind: "answered", answer: await input.port.call({ system, prompt, maxTokens }) };
  } catch (error) {
    const failure = input.port.failureOf(error);
    if (failure === null) throw error;
    return { kind: "failed", failure };
  }
};

/** Room for messages in one call, in tokens, once instructions, the summary before and the answer have theirs. */
const roomFor = (input: SummariseInput, previous: string, maxTokens: number): number => {
  const empty = summaryPrompt({ entries: [], previous, focus: input.focus, targetTokens: input.size.targetTokens });
  const fixed = input.estimateTokens(empty.system) + input.estimateTokens(empty.prompt);
  return Math.floor(PLANNED_FRACTION * input.port.windowTokens) - maxTokens - fixed;
};

/**
 * Summarises rows. A slice that the summariser's window does not take goes in pieces, each call merging its piece into the summary so
 * far, so that there is one text in the end (S1). Every answer passes the gate before it is used (S5).
 * Never throws for a failed call: the failure is the answer. What ended the run itself is passed on.
 */
export const summarise = async (given: SummariseInput): Promise<SummaryOutcome> => {
  const input = given.focus === null ? given : { ...given, focus: given.redact(given.focus) };
  const { port, redact, estimateTokens } = input;
  const share = Math.floor(ANSWER_FRACTION * port.windowTokens);
  const maxTokens = Math.max(1, Math.min(input.size.ceilingTokens, share));
  let left = renderInput(input.rows, { redact, pinnedSeq: input.pinned?.seq ?? null });
  let summary = redact(stripHandoff(input.base?.summary ?? ""));
  let usage = NO_USAGE;
  let calls = 0;
  let halvings = 0;
  let last: SummaryAnswer | undefined;
  const failed = (failure: SummaryFailure, reason: string): SummaryOutcome => ({
    kind: "failed",
    failure,
    reason,
    usage,
    calls,
  });

  while (left.length > 0) {
    const previous = fitTokens(summary, share, estimateTokens);
    const room = Math.floor(roomFor(input, previous, maxTokens) / 2 ** halvings);
    if (room < SMALLEST_CHUNK_TOKENS) return failed("too_long", "the summariser's window is too small");
    const { chunk, rest } = nextChunk(left, room, estimateTokens);
    const called = await callOf(input, chunk, previous, maxTokens);
    calls++;
    if (called.kind === "failed") {
      if (called.failure !== "too_long" || halvings >= MAX_HALVINGS) return failed(called.failure, "the call failed");
      halvings++;
      continue;
    }
    const { answer } = called;
    usage = plus(usage, answer.usage);
    const text = redact(stripHandoff(answer.text)).toWellFormed();
    const accepted = acceptAnswer({
      text,
      stopReason: answer.stopReason,
      ceilingTokens: input.size.ceilingTokens,
      estimateTokens,
    });
    if (accepted.kind === "rejected") return failed(accepted.failure, accepted.reason);
    [summary, left, last] = [text, rest, answer];
  }
  if (last === undefined) return failed("empty", "there was nothing to summarise");
  return { kind: "summary", text: summary, stopReason: last.stopReason, model: last.model, usage, calls };
};
