/** Step 3 of the ladder: a cut, the history file, the summary, and the view with both, accepted or not (sections 4 to 6). */

import { seq } from "../protocol/ids.ts";
import type { ViewMessage } from "../protocol/messages.ts";
import { acceptSummary, summarySize } from "./acceptance.ts";
import { endsTurn, isPaused, openAsk } from "./ask.ts";
import { type Cut, decideCut, type Keep, type NothingToCut } from "./cut.ts";
import { afterFailure, afterNothing, type GuardState } from "./guards.ts";
import { PREFIX_VERSION, renderGeneration } from "./handoff.ts";
import { floorAfter, type LadderInput, shown, type Why } from "./ladder-input.ts";
import type { Receipt, SummaryFailure } from "./ports.ts";
import { redact } from "./redact.ts";
import { mergeSections, sectionsOf } from "./sections.ts";
import { summarise } from "./summarise.ts";
import { PROMPT_VERSION } from "./summary-prompt.ts";
import type { Budgets } from "./trigger.ts";
import { validateMessages } from "./validator.ts";
import type { SizedView } from "./view.ts";
import type { Generation, HistoryPointer, ViewState } from "./view-state.ts";

/** Stands for the request that a session between two turns is still to get: only with it is its view something to send. */
const NEXT_REQUEST: ViewMessage = { role: "user", content: '[{"type":"text","text":"(the next request)"}]', media: [] };

const problemsOf = (input: LadderInput, view: ViewState, messages: readonly ViewMessage[]) => {
  const newest = input.rows.at(-1);
  const ask = openAsk(input.rows);
  const pinned = view.generation?.pinned ?? null;
  const liveAsk =
    ask === undefined
      ? {}
      : pinned?.seq === ask.seq
        ? { liveAsk: { kind: "pinned" as const, text: pinned.text } }
        : { liveAsk: { kind: "row" as const, content: ask.content } };
  const idle = newest !== undefined && endsTurn(newest);
  return validateMessages(idle ? [...messages, NEXT_REQUEST] : messages, {
    pauseTurn: newest !== undefined && isPaused(newest),
    maxMarks: input.maxMarks,
    ...liveAsk,
  });
};

const NOTHING: Readonly<Record<NothingToCut, string>> = {
  no_rows: "the session has no messages",
  no_new_rows: "nothing was said since the last compaction",
  all_kept: "everything there is would be kept",
  paused: "the model has paused in the middle of its answer",
};

const keepOf = ({ keep }: Budgets): Keep =>
  keep.kind === "share" ? { kind: "fraction", frac: keep.frac } : { kind: "messages", count: keep.count };

export type Summarised =
  | { readonly kind: "made"; readonly generation: Generation; readonly receipt: Receipt; readonly view: ViewState }
  | { readonly kind: "why"; readonly why: Why; readonly guards: GuardState };

/** Writes the covered rows to the history file; where that fails the API's own messages are named, if sending cannot wait (M1). */
const offload = async (
  input: LadderInput,
  cut: Cut,
  mustGoOn: boolean,
): Promise<{
  readonly pointer: HistoryPointer;
  readonly sizeBytes: number | null;
  readonly sha256: string | null;
} | null> => {
  const first = cut.newlyCovered[0];
  const last = cut.newlyCovered.at(-1);
  if (first === undefined || last === undefined) return null;
  try {
    return await input.ports.history.append({ from: first.seq, to: last.seq }, cut.newlyCovered);
  } catch {
    return mustGoOn ? { pointer: { kind: "api" }, sizeBytes: null, sha256: null } : null;
  }
};

const failedWith = (guards: GuardState, failure: SummaryFailure, words: string): Summarised => {
  const after = afterFailure(guards, failure);
  return {
    kind: "why",
    guards: after.state,
    why: { kind: "failed", failure, words, cooldownSeconds: after.cooldownSeconds },
  };
};

/** Makes the next generation, or says why there is none; stores nothing but a section of the history file. */
export const summariseStep = async (
  input: LadderInput,
  view: ViewState,
  before: SizedView,
  guards: GuardState,
): Promise<Summarised> => {
  const base = view.generation;
  const cut = decideCut({
    rows: shown(input.rows, view),
    loaded: input.rows,
    base,
    keep: keepOf(input.budgets),
    windowTokens: input.budgets.windowTokens,
    tokensOf: (row) => input.rowTokens(row, view),
    minTailUserMessages: input.minTailUserMessages,
    // After an overflow the kept slice is what is too large, and may be cut again.
    ...(input.reason === "overflow" ? {} : { settledSeq: seq(guards.newestSeq) }),
  });
  if (cut.kind === "nothing") {
    return {
      kind: "why",
      guards: afterNothing(guards, input.reason),
      why: { kind: "nothing_to_cut", words: NOTHING[cut.reason] },
    };
  }
  const mustGoOn = before.tokens > input.hardLimitTokens;
  const history = await offload(input, cut, mustGoOn);
  if (history === null) return failedWith(guards, "transient", "the history file could not be written");

  const coveredTokens = cut.newlyCovered.reduce((sum, row) => sum + input.rowTokens(row, view), 0);
  const size = summarySize(coveredTokens, input.budgets.windowTokens);
  const summary = await summarise({
    rows: cut.newlyCovered,
    base,
    pinned: cut.pinned,
    focus: input.focus,
    size,
    port: input.ports.summariser,
    redact: (text) => redact(text).text,
    estimateTokens: input.estimateTokens,
  });
  if (summary.kind === "failed") return failedWith(guards, summary.failure, summary.reason);

  const made: Generation = {
    number: input.nextGeneration,
    base: base?.number ?? 0,
    covered: cut.covered,
    summary: summary.text,
    sections: mergeSections(
      base?.sections ?? null,
      sectionsOf(cut.newlyCovered, input.budgets.windowTokens),
      input.budgets.windowTokens,
    ),
    pinned: cut.pinned,
    history: history.pointer,
    prefixVersion: PREFIX_VERSION,
  };
  const generation: Generation = { ...made, rendered: renderGeneration(made, input.sessionId) };
  const next: ViewState = { ...view, generation, thinkingFloor: floorAfter(input) };
  const after = input.measure(next);
  const accepted = acceptSummary({
    text: summary.text,
    stopReason: summary.stopReason,
    targetTokens: size.targetTokens,
    replacedTokens: coveredTokens + (base === null ? 0 : input.estimateTokens(base.summary)),
    newViewEstimate: after.tokens,
    oldViewEstimate: before.tokens,
    problems: problemsOf(input, next, after.messages),
    estimateTokens: input.estimateTokens,
  });
  if (accepted.kind === "rejected") return failedWith(guards, accepted.failure, accepted.reason);
  const receipt: Receipt = {
    attemptId: input.attemptId,
    reason: input.reason,
    tokensBefore: before.tokens,
    tokensAfter: after.tokens,
    evicted: cut.newlyCovered.length,
    model: summary.model,
    usage: summary.usage,
    promptVersion: PROMPT_VERSION,
    historySizeBytes: history.sizeBytes,
    historySha256: history.sha256,
  };
  return { kind: "made", generation, receipt, view: next };
};
