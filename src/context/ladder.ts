/**
 * The ladder (section 3): what is done to a view that has become too large, cheapest step first, measured after each, and stopped as
 * soon as the request fits. No step runs twice in a call. What the steps decide is stored by one commit at the end, before it is sent
 * (M1); until then nothing has changed but a section of the history file, whose key makes a repeat overwrite it.
 */

import { type Seq, seq } from "../protocol/ids.ts";
import type { LogRow, ViewMessage } from "../protocol/messages.ts";
import { acceptSummary, summarySize } from "./acceptance.ts";
import { isPaused, openAsk } from "./ask.ts";
import { type Cut, decideCut, type Keep, type NothingToCut } from "./cut.ts";
import { demoteContent, planDemotion } from "./demote.ts";
import {
  afterFailure,
  afterNothing,
  afterSuccess,
  beforeForced,
  decideGuards,
  type Guard,
  type GuardState,
} from "./guards.ts";
import { PREFIX_VERSION, renderGeneration } from "./handoff.ts";
import type { CommitPort, CompactionReason, HistoryPort, Receipt, SummariserPort, SummaryFailure } from "./ports.ts";
import { redact } from "./redact.ts";
import { mergeSections, sectionsOf } from "./sections.ts";
import { summarise } from "./summarise.ts";
import { PROMPT_VERSION } from "./summary-prompt.ts";
import { type Truncated, toolArgTruncation } from "./tool-arg-truncation.ts";
import type { Budgets } from "./trigger.ts";
import { type CannotFit, planTruncation } from "./truncate.ts";
import { validateMessages } from "./validator.ts";
import type { SizedView } from "./view.ts";
import { contains, type Generation, type HistoryPointer, rangesOf, type ViewState } from "./view-state.ts";

export interface LadderPorts {
  readonly history: HistoryPort;
  readonly summariser: SummariserPort;
  readonly commit: CommitPort;
}

export interface LadderInput {
  readonly sessionId: string;
  /** Every loaded row, ascending. */
  readonly rows: readonly LogRow[];
  readonly view: ViewState;
  readonly guards: GuardState;
  readonly reason: CompactionReason;
  readonly focus: string | null;
  readonly budgets: Budgets;
  /** Where the request is under its trigger and under what it must never exceed, in tokens. */
  readonly triggerTokens: number;
  readonly hardLimitTokens: number;
  readonly maxBytes: number;
  /** The reading of this turn's newest request, null before the first (M4). */
  readonly reading: number | null;
  /** Thinking is valid only behind the bytes that it was written after (V5). */
  readonly thinkingBound: boolean;
  readonly minTailUserMessages: number;
  /** Cache marks left for messages (C7). */
  readonly maxMarks: number;
  readonly measure: (view: ViewState) => SizedView;
  readonly estimateTokens: (text: string) => number;
  /** Tokens of a row as the view shows it. */
  readonly rowTokens: (row: LogRow, view: ViewState) => number;
  readonly attemptId: string;
  /** Numbers of voided generations are not used again. */
  readonly nextGeneration: number;
  readonly ports: LadderPorts;
}

/** What became of a climb, for events, spans and the receipt. */
export interface Climbed {
  readonly view: ViewState;
  readonly guards: GuardState;
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  /** The generation, where one was made. */
  readonly compaction: { readonly generation: Generation; readonly receipt: Receipt } | null;
  /** Steps that changed the view, in order. */
  readonly steps: readonly Step[];
  readonly clippedByTool: Readonly<Record<string, number>>;
}

export type Step = "clip" | "summarise" | "demote" | "truncate";

export type LadderOutcome =
  | ({ readonly kind: "changed" } & Climbed)
  /** Nothing was changed: a guard is on, there is nothing to cut, or the summary failed while the view still fits. */
  | { readonly kind: "unchanged"; readonly guards: GuardState; readonly why: Why }
  /** Even the smallest view is too large (ladder step 6). */
  | { readonly kind: "cannot_fit"; readonly what: string; readonly guards: GuardState }
  /** The summariser cannot be had and the view does not fit without it: the turn is given up before anything is lost (G2). */
  | { readonly kind: "aborted"; readonly failure: SummaryFailure; readonly guards: GuardState }
  /** The run has lost its session: nothing was stored (M2). */
  | { readonly kind: "late" };

export type Why =
  | { readonly kind: "guard"; readonly guard: Guard; readonly words: string }
  | { readonly kind: "nothing_to_cut"; readonly words: string }
  | {
      readonly kind: "failed";
      readonly failure: SummaryFailure;
      readonly words: string;
      readonly cooldownSeconds: number;
    }
  | { readonly kind: "fits" };

const lastSeq = (rows: readonly LogRow[]): Seq => rows.at(-1)?.seq ?? seq(0);

/**
 * Where thinking begins to be shown after a change of earlier bytes (V5): behind the log on models that bind it; else behind the turn
 * in progress, whose blocks the provider demands back before a pending call.
 */
export const floorAfter = (input: Pick<LadderInput, "rows" | "view" | "thinkingBound">): Seq => {
  const open = input.thinkingBound ? undefined : openAsk(input.rows);
  const floor = open === undefined ? lastSeq(input.rows) + 1 : open.seq;
  return seq(Math.max(floor, input.view.thinkingFloor));
};

/** The rows that a view shows. */
const shown = (rows: readonly LogRow[], view: ViewState): readonly LogRow[] =>
  rows.filter((row) => !contains(view.generation?.covered ?? [], row.seq) && !contains(view.hidden, row.seq));

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
  return validateMessages(messages, {
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

type Summarised =
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

const summariseStep = async (
  input: LadderInput,
  view: ViewState,
  before: SizedView,
  guards: GuardState,
): Promise<Summarised> => {
  const base = view.generation;
  const cut = decideCut({
    rows: shown(input.rows, view),
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

const clipStep = (input: LadderInput, view: ViewState): Truncated | null => {
  const clip = toolArgTruncation.apply(input.rows, view, input.budgets.windowTokens, input.estimateTokens);
  return clip === null ? null : { ...clip, view: { ...clip.view, thinkingFloor: floorAfter(input) } };
};

const demoteStep = (input: LadderInput, view: ViewState, tokensToFree: number) => {
  const calls = planDemotion(input.rows, view, tokensToFree, input.estimateTokens);
  if (calls.length === 0) return null;
  const named = new Set(calls);
  return {
    view: { ...view, demoted: [...view.demoted, ...calls], thinkingFloor: floorAfter(input) },
    rows: shown(input.rows, view).filter(
      (row) => row.role === "user" && demoteContent(row.content, named, row.seq) !== row.content,
    ),
  };
};

interface State {
  view: ViewState;
  guards: GuardState;
  size: SizedView;
  readonly steps: Step[];
  compaction: Climbed["compaction"];
  clippedByTool: Readonly<Record<string, number>>;
}

const fits = (input: LadderInput, size: SizedView, tokens: number): boolean =>
  size.tokens < tokens && size.bytes <= input.maxBytes && size.mediaItems <= input.budgets.maxMediaItems;

/** Takes a step's view if it really is smaller: no step may grow what it is to shrink. */
const take = (input: LadderInput, state: State, step: Step, view: ViewState): boolean => {
  const size = input.measure(view);
  if (size.tokens >= state.size.tokens && size.bytes >= state.size.bytes) return false;
  state.view = view;
  state.size = size;
  state.steps.push(step);
  return true;
};

/** Steps 4 and 5 lose something that the model might still use, so they are for what would otherwise not be sent at all. */
const shrink = async (input: LadderInput, state: State): Promise<string | null> => {
  const limit = input.hardLimitTokens;
  if (!fits(input, state.size, limit)) {
    const demoted = demoteStep(input, state.view, excess(input, state.size, limit));
    if (demoted !== null && take(input, state, "demote", demoted.view)) await keepReadable(input, demoted.rows);
  }
  if (fits(input, state.size, limit)) return null;
  // What is hidden is named in the view, which takes room too: more goes until all of it fits.
  for (let tokensToFree = excess(input, state.size, limit); ; ) {
    const plan = planTruncation({
      rows: shown(input.rows, state.view),
      hidden: state.view.hidden,
      tokensToFree,
      tokensOf: (row) => input.rowTokens(row, state.view),
    });
    if (plan.kind === "cannot_fit") return cannotFitWords(plan);
    const view = { ...state.view, hidden: plan.hidden, thinkingFloor: floorAfter(input) };
    const size = input.measure(view);
    if (!fits(input, size, limit)) {
      tokensToFree += Math.max(1, excess(input, size, limit));
      continue;
    }
    await keepReadable(input, plan.newlyHidden);
    return take(input, state, "truncate", view) ? null : "what must be kept is larger than the window";
  }
};

/** What has to go, in tokens: of the budget in tokens, or the same share where bytes or media are over theirs (E6). */
const excess = (input: LadderInput, size: SizedView, limit: number): number => {
  const over = Math.max(size.tokens - limit + 1, 0);
  const share = Math.max(size.bytes / input.maxBytes, size.mediaItems / Math.max(1, input.budgets.maxMediaItems));
  return Math.max(over, share > 1 ? Math.ceil(size.tokens * (1 - 1 / share)) : 0);
};

/** What the view no longer shows whole is written to the history file, which the notes name; where that fails it is still in the log. */
const keepReadable = async (input: LadderInput, rows: readonly LogRow[]): Promise<void> => {
  for (const range of rangesOf(rows.map((row) => row.seq))) {
    await input.ports.history
      .append(
        range,
        rows.filter((row) => contains([range], row.seq)),
      )
      .catch(() => undefined);
  }
};

const cannotFitWords = ({ what, seq: at, keptTokens }: CannotFit): string => {
  switch (what) {
    case "live_ask":
      return `message ${at} alone, the newest request, has about ${keptTokens} tokens`;
    case "batch_in_flight":
      return `message ${at} and what belongs to it have about ${keptTokens} tokens`;
    case "fixed_parts":
      return "the system prompt and the tools leave no room for a message";
    default:
      return what satisfies never;
  }
};

/** Whether the summary is worth trying: for a truncation nobody waits for one (section 8). */
const wantsSummary = (input: LadderInput, state: State): boolean =>
  input.reason !== "truncate" && !(input.reason === "threshold" && fits(input, state.size, input.triggerTokens));

const outcomeOf = async (input: LadderInput, state: State, before: SizedView, why: Why): Promise<LadderOutcome> => {
  if (state.steps.length === 0) return { kind: "unchanged", guards: state.guards, why };
  const view: ViewState = { ...state.view, revision: input.view.revision + 1 };
  const { compaction, guards, clippedByTool, steps } = state;
  const stored = await input.ports.commit.commit({
    view,
    reason: steps.join("+"),
    compaction,
    guards,
    sizes: { before: before.tokens, after: state.size.tokens },
  });
  if (!stored) return { kind: "late" };
  return {
    kind: "changed",
    view,
    guards,
    tokensBefore: before.tokens,
    tokensAfter: state.size.tokens,
    compaction,
    steps,
    clippedByTool,
  };
};

/** Failures with which the model call would fail as well: hiding rows for it would lose something for nothing (G2). */
const ABORTING: ReadonlySet<SummaryFailure> = new Set(["authentication", "quota", "network", "overloaded"]);

/**
 * Climbs the ladder and commits what it decided.
 * @returns the new view, or why there is none; never throws for a failed summary or history write
 */
export const climb = async (input: LadderInput): Promise<LadderOutcome> => {
  const before = input.measure(input.view);
  // Somebody who asks ends the cooldown (G9); an overflow only passes it by (G6).
  const asked = input.reason === "manual" || input.reason === "tool";
  const state: State = {
    view: input.view,
    guards: asked ? beforeForced(input.guards) : input.guards,
    size: before,
    steps: [],
    compaction: null,
    clippedByTool: {},
  };
  let why: Why = { kind: "fits" };

  const clip = clipStep(input, state.view);
  if (clip !== null && take(input, state, "clip", clip.view)) state.clippedByTool = clip.clippedByTool;

  if (wantsSummary(input, state)) {
    const allowed = decideGuards(state.guards, {
      reason: input.reason,
      reading: input.reading,
      triggerTokens: input.triggerTokens,
    });
    if (allowed.kind === "blocked") {
      why = { kind: "guard", guard: allowed.guard, words: allowed.words };
    } else {
      const made = await summariseStep(input, state.view, state.size, state.guards);
      if (made.kind === "made") {
        const newestSeq = lastSeq(input.rows);
        state.guards = afterSuccess(state.guards, { generation: made.generation.number, newestSeq });
        state.compaction = { generation: made.generation, receipt: { ...made.receipt, tokensBefore: before.tokens } };
        take(input, state, "summarise", made.view);
      } else {
        state.guards = made.guards;
        why = made.why;
        if (why.kind === "failed")
          await input.ports.commit.recordFailure(why.failure, state.guards, why.cooldownSeconds);
      }
    }
  }
  if (why.kind === "failed" && ABORTING.has(why.failure) && !fits(input, state.size, input.hardLimitTokens)) {
    return { kind: "aborted", failure: why.failure, guards: state.guards };
  }
  const tooLarge = await shrink(input, state);
  if (tooLarge !== null) return { kind: "cannot_fit", what: tooLarge, guards: state.guards };
  return outcomeOf(input, state, before, why);
};
