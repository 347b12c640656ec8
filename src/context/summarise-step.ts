/** Step 3 of the ladder: a cut, the history file, the summary, and the view with both, accepted or not (sections 4 to 6). Whether it may be tried: `summary-rung.ts`. */

import { type Seq, seq } from "../protocol/ids.ts";
import type { ViewMessage } from "../protocol/messages.ts";
import { redact } from "../protocol/redact.ts";
import { acceptSummary, summarySize } from "./acceptance.ts";
import { answeredRequests } from "./answered-requests.ts";
import { endsTurn, isPaused, openAsk } from "./ask.ts";
import { coveredHash } from "./covered-hash.ts";
import { type Cut, type CutDecision, decideCut, type Keep, type NothingToCut } from "./cut.ts";
import type { GuardState } from "./guards/state.ts";
import { PREFIX_VERSION, renderGeneration } from "./handoff.ts";
import { floorAfter, type LadderInput, shown } from "./ladder-input.ts";
import { skillLoads } from "./lost-skills.ts";
import type { Receipt, SummaryFailure } from "./ports.ts";
import { mergeSections, sectionsOf } from "./sections.ts";
import { rowsForSummary, stillLost, withoutMarkers } from "./skills.ts";
import { summarise } from "./summarise.ts";
import { PROMPT_VERSION } from "./summary-prompt.ts";
import type { Budgets } from "./trigger.ts";
import { validateMessages } from "./validator.ts";
import type { SizedView } from "./view.ts";
import type { Generation, HistoryPointer, ViewState } from "./view-state.ts";

/** Stands for the request that a session between two turns is still to get: only with it is its view something to send. */
const NEXT_REQUEST: ViewMessage = { role: "user", content: '[{"type":"text","text":"(the next request)"}]', media: [] };

/** What the validator finds in a view that a compaction would make (C7); between turns, as if the next request were there. */
export const problemsOf = (
  input: Pick<LadderInput, "rows" | "maxMarks">,
  view: ViewState,
  messages: readonly ViewMessage[],
) => {
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

/** Why there is nothing to cut, in words (C5). */
export const NOTHING_WORDS: Readonly<Record<NothingToCut, string>> = {
  no_rows: "the session has no messages",
  no_new_rows: "nothing was said since the last compaction",
  all_kept: "everything there is would be kept",
  paused: "the model has paused in the middle of its answer",
};

const keepOf = ({ keep }: Budgets): Keep =>
  keep.kind === "share" ? { kind: "fraction", frac: keep.frac } : { kind: "messages", count: keep.count };

export type Summarised =
  | { readonly kind: "made"; readonly generation: Generation; readonly receipt: Receipt; readonly view: ViewState }
  | { readonly kind: "failed"; readonly failure: SummaryFailure; readonly words: string };

/** What would be covered now (section 4). */
export const cutOf = (input: LadderInput, view: ViewState, guards: GuardState): CutDecision =>
  decideCut({
    rows: shown(input.rows, view),
    loaded: input.rows,
    base: view.generation,
    keep: keepOf(input.budgets),
    windowTokens: input.budgets.windowTokens,
    tokensOf: (row) => input.rowTokens(row, view),
    minTailUserMessages: input.minTailUserMessages,
    // After an overflow the kept slice is what is too large, and may be cut again.
    ...(input.reason === "overflow" ? {} : { settledSeq: seq(guards.newestSeq) }),
  });

/** The first row that a cut made now would keep: all that is shown, where it would cut nothing. Null in an empty log. */
export const keptFromOf = (input: LadderInput, view: ViewState): Seq | null => {
  const cut = cutOf(input, view, input.guards);
  return cut.kind === "cut" ? cut.keptFrom : (shown(input.rows, view)[0]?.seq ?? null);
};

/** What a cut would cover anew, in tokens. */
export const sliceTokens = (input: LadderInput, view: ViewState, cut: Cut): number =>
  cut.newlyCovered.reduce((sum, row) => sum + input.rowTokens(row, view), 0);

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
  if (cut.newlyCovered.length === 0) return null;
  try {
    return await input.ports.history.append(cut.newlyCovered);
  } catch {
    return mustGoOn ? { pointer: { kind: "api" }, sizeBytes: null, sha256: null } : null;
  }
};

const failed = (failure: SummaryFailure, words: string): Summarised => ({ kind: "failed", failure, words });

/** Makes the next generation, or says what failed; stores nothing but a section of the history file. */
export const summariseStep = async (
  input: LadderInput,
  view: ViewState,
  before: SizedView,
  cut: Cut,
): Promise<Summarised> => {
  const base = view.generation;
  const mustGoOn = before.tokens > input.hardLimitTokens;
  const history = await offload(input, cut, mustGoOn);
  if (history === null) return failed("transient", "the history file could not be written");

  const coveredTokens = sliceTokens(input, view, cut);
  const size = summarySize(coveredTokens, input.budgets.windowTokens);
  const summary = await summarise({
    rows: rowsForSummary(cut.newlyCovered),
    base,
    pinned: cut.pinned,
    focus: input.focus,
    size,
    port: input.ports.summariser,
    redact: (text) => redact(text).text,
    estimateTokens: input.estimateTokens,
  });
  if (summary.kind === "failed") return failed(summary.failure, summary.reason);

  const { windowTokens } = input.budgets;
  const sections = mergeSections(base?.sections ?? null, sectionsOf(cut.newlyCovered, windowTokens), windowTokens);
  const text = withoutMarkers(
    summary.text,
    [...skillLoads(cut.newlyCovered), ...(sections.skills ?? [])].map(({ name }) => name),
  );
  const made: Generation = {
    number: input.nextGeneration,
    base: base?.number ?? 0,
    covered: cut.covered,
    summary: text,
    sections: { ...sections, skills: stillLost(sections.skills, cut.kept, view) },
    pinned: cut.pinned,
    history: history.pointer,
    prefixVersion: PREFIX_VERSION,
  };
  const answered = answeredRequests(shown(input.rows, view), made.covered);
  const generation: Generation = { ...made, rendered: renderGeneration(made, input.sessionId, answered) };
  const next: ViewState = { ...view, generation, thinkingFloor: floorAfter(input) };
  const after = input.measure(next);
  const accepted = acceptSummary({
    text,
    stopReason: summary.stopReason,
    targetTokens: size.targetTokens,
    replacedTokens: coveredTokens + (base === null ? 0 : input.estimateTokens(base.summary)),
    newViewEstimate: after.tokens,
    oldViewEstimate: before.tokens,
    problems: problemsOf(input, next, after.messages),
    estimateTokens: input.estimateTokens,
  });
  if (accepted.kind === "rejected") return failed(accepted.failure, accepted.reason);
  const receipt: Receipt = {
    attemptId: input.attemptId,
    reason: input.reason,
    tokensBefore: before.tokens,
    tokensAfter: after.tokens,
    evicted: cut.newlyCovered.length,
    model: summary.model,
    usage: summary.usage,
    promptVersion: PROMPT_VERSION,
    coveredHash: await coveredHash(cut.covered),
    historySizeBytes: history.sizeBytes,
    historySha256: history.sha256,
  };
  return { kind: "made", generation, receipt, view: next };
};
