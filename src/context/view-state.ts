/**
 * What the view of a session shows, as recorded facts (V2): a generation and a revision. Pure data; two of them that are equal render the
 * same bytes from the same rows.
 */
import { type Seq, seq } from "../protocol/ids.ts";
import type { SkillFact } from "./lost-skills.ts";
import type { Sections } from "./sections.ts";

/** Rows from one seq to another, both inclusive. */
export interface SeqRange {
  readonly from: Seq;
  readonly to: Seq;
}

/** A covered ask whose turn is still open, restated after the handoff (C4). */
export interface PinnedAsk {
  readonly seq: Seq;
  /** Its text, verbatim. */
  readonly text: string;
}

/** Where the covered rows can be read in full. */
export type HistoryPointer =
  | { readonly kind: "file"; readonly path: string }
  /** The file could not be written: the API's own list of messages is named instead (M1). */
  | { readonly kind: "api" };

/** One committed compaction, as far as the view needs it. */
export interface Generation {
  /** 1 for the first. */
  readonly number: number;
  /** The generation that this one was made from; 0 for none. */
  readonly base: number;
  /** Sorted, disjoint, not empty (V3). */
  readonly covered: readonly SeqRange[];
  /** The narrative of the model, stripped of prefix, end mark and restated ask (S1). Empty where none could be made. */
  readonly summary: string;
  /** What is rendered from the rows, not asked of a model (S2). */
  readonly sections: Sections;
  readonly pinned: PinnedAsk | null;
  readonly history: HistoryPointer;
  /** Which of the prefix texts the handoff begins with (S4). */
  readonly prefixVersion: number;
  /** What of the handoff follows from the above, as it was rendered at the commit: later code may word it otherwise (V2). */
  readonly rendered?: string;
}

export interface ViewState {
  /** 0 while nothing of the view was ever changed. */
  readonly revision: number;
  readonly generation: Generation | null;
  /** Rows with a lower seq are shown clipped (ladder step 2); 1 for none. */
  readonly clippedBefore: Seq;
  /** Longest string leaf of a clipped row, in tokens. */
  readonly clipTokens: number;
  /** Assistant rows with a lower seq are shown without thinking (V5). */
  readonly thinkingFloor: Seq;
  /** Ids of calls whose results are shown as a note of their size (ladder step 4). */
  readonly demoted: readonly string[];
  /** Skills in rows that are clipped, demoted or hidden, ascending by seq (R5). A skill that is in none of them is not here. */
  readonly skills: readonly SkillFact[];
  /** Rows that are left out and named in the handoff (ladder step 5). Sorted, disjoint. */
  readonly hidden: readonly SeqRange[];
  /** Hash of the volatile inputs of the last call, or null before the first (V8). */
  readonly volatileHash: string | null;
}

/** `HANGO_TOOL_ARG_MAX_TOKENS` unless set (ladder step 2). */
export const DEFAULT_CLIP_TOKENS = 500;

export const EMPTY_VIEW: ViewState = {
  revision: 0,
  generation: null,
  clippedBefore: seq(1),
  clipTokens: DEFAULT_CLIP_TOKENS,
  thinkingFloor: seq(1),
  demoted: [],
  skills: [],
  hidden: [],
  volatileHash: null,
};

/** Whether a seq lies in one of the ranges. */
export const contains = (ranges: readonly SeqRange[], at: number): boolean =>
  ranges.some(({ from, to }) => from <= at && at <= to);

/** The ranges of a set of seqs: sorted, neighbours joined. */
export const rangesOf = (seqs: readonly Seq[]): readonly SeqRange[] => {
  const ranges: { from: Seq; to: Seq }[] = [];
  for (const at of [...seqs].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && at <= last.to + 1) last.to = seq(Math.max(last.to, at));
    else ranges.push({ from: at, to: at });
  }
  return ranges;
};

/** The union of ranges: sorted, disjoint, neighbours joined. */
export const union = (...sets: readonly (readonly SeqRange[])[]): readonly SeqRange[] => {
  const joined: { from: Seq; to: Seq }[] = [];
  for (const { from, to } of sets.flat().sort((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last !== undefined && from <= last.to + 1) last.to = seq(Math.max(last.to, to));
    else joined.push({ from, to });
  }
  return joined;
};

/** What of the first ranges is in none of the second: sorted, disjoint. */
export const difference = (ranges: readonly SeqRange[], without: readonly SeqRange[]): readonly SeqRange[] =>
  without.reduce<readonly SeqRange[]>(
    (left, cut) =>
      left.flatMap(({ from, to }) =>
        cut.to < from || to < cut.from
          ? [{ from, to }]
          : [
              ...(from < cut.from ? [{ from, to: seq(cut.from - 1) }] : []),
              ...(cut.to < to ? [{ from: seq(cut.to + 1), to }] : []),
            ],
      ),
    union(ranges),
  );

/** Ranges as text, for people and prompts: `1-40, 43`. */
export const rangesText = (ranges: readonly SeqRange[]): string =>
  ranges.map(({ from, to }) => (from === to ? `${from}` : `${from}-${to}`)).join(", ");
