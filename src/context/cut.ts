/** Which rows a compaction covers and which it keeps (section 4). One decision, by the same rules whoever asks for it. */
import { type Seq, seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import { askText, endsTurn, isPaused, isUserOriginated, openAsk } from "./ask.ts";
import { batchEnd, batchStart, inFlightFrom, isAnswered } from "./batches.ts";
import { type Generation, type PinnedAsk, rangesOf, type SeqRange, union } from "./view-state.ts";

/** C1: the share of the rows since the last cut that is kept. */
export const DEFAULT_KEEP_FRAC = 0.1;

/** C1: how many rows are kept for a model whose window is not known. */
export const UNKNOWN_MODEL_KEEP_MESSAGES = 6;

/** C1: most of the window that the kept rows may take. */
const MAX_KEEP_SHARE_OF_WINDOW = 0.25;

/** C2, C4: how far whole batches and an ask may go beyond the keep budget. */
const KEEP_TOLERANCE = 1.5;

export type Keep =
  | { readonly kind: "fraction"; readonly frac: number }
  | { readonly kind: "messages"; readonly count: number };

export interface CutInput {
  /** The rows that the view shows: outside of what the base covers and what is hidden, ascending. */
  readonly rows: readonly LogRow[];
  /** The generation that the view shows now. */
  readonly base: Generation | null;
  readonly keep: Keep;
  readonly windowTokens: number;
  /** Tokens of a row as it is sent. */
  readonly tokensOf: (row: LogRow) => number;
  /** Every row that is loaded; `rows` unless given. What ended the turn of a restated ask may be hidden, and ends it all the same. */
  readonly loaded?: readonly LogRow[];
  /** How many of the newest user-originated rows are kept, whatever they cost; 1 for the live ask alone (C4). */
  readonly minTailUserMessages?: number;
  /**
   * The newest row at the base's commit: with none newer there is nothing to cut, a kept slice is not cut again at once (C5).
   * Left out after an overflow, where the kept slice is what is too large.
   */
  readonly settledSeq?: Seq;
}

export interface Cut {
  readonly kind: "cut";
  /** All that is covered now, the base's included. */
  readonly covered: readonly SeqRange[];
  readonly newlyCovered: readonly LogRow[];
  /** What the view shows after the handoff, `keptAsk` included, ascending. */
  readonly kept: readonly LogRow[];
  /** Where the kept slice begins; one after the last row where it is empty. */
  readonly keptFrom: Seq;
  /** The open ask, where it stands before the kept slice and is kept nevertheless (C4). */
  readonly keptAsk: Seq | null;
  /** The open ask, where it is covered and restated (C4). */
  readonly pinned: PinnedAsk | null;
  /** Most tokens that the kept slice was to have (C1). */
  readonly keepBudgetTokens: number;
}

/** Why there is nothing to cut (C5, V6). */
export type NothingToCut = "no_rows" | "no_new_rows" | "all_kept" | "paused";

export type CutDecision = Cut | { readonly kind: "nothing"; readonly reason: NothingToCut };

/** Sums over the tail of a log: `tailTokens(i)` is what the rows from index i to the end cost. */
const tailSums = (rows: readonly LogRow[], tokensOf: (row: LogRow) => number): ((index: number) => number) => {
  const sums = new Float64Array(rows.length + 1);
  for (let at = rows.length - 1; at >= 0; at--) {
    const row = rows[at];
    sums[at] = (sums[at + 1] ?? 0) + (row === undefined ? 0 : tokensOf(row));
  }
  return (index) => sums[index] ?? 0;
};

/** How many of n rows are kept; the subtrahend undoes what floating point adds to a product such as 0.1 x 30. */
const keepCount = (keep: Keep, n: number): number => {
  const count = keep.kind === "fraction" ? Math.ceil(keep.frac * n - 1e-9) : keep.count;
  return Math.min(Math.max(count, 0), n);
};

/** A cut leaves at most the open ask behind; what is more was left by micro-compaction (section 11), and is kept slice as well. */
const LEFT_BY_A_CUT = 1;

/** Where the rows begin that the base did not leave behind on its own side of the cut: n of C1 counts from here. */
const sliceStart = (rows: readonly LogRow[], base: Generation | null): number => {
  const last = base?.covered.at(-1)?.to ?? 0;
  const at = rows.findIndex((row) => row.seq > last);
  if (at > LEFT_BY_A_CUT) return 0;
  return at < 0 ? rows.length : at;
};

interface Bounds {
  readonly rows: readonly LogRow[];
  readonly tailTokens: (index: number) => number;
  readonly budgetTokens: number;
}

/** The nearest answer at or before an index from which on no call lacks its result (C2), or undefined. */
const answerBefore = (rows: readonly LogRow[], index: number): number | undefined => {
  const from = Math.min(index, rows.length - 1);
  for (let at = batchStart(rows, Math.max(from, 0)); at >= 0; at--)
    if (rows[at]?.role === "assistant" && isAnswered(rows, at)) return at;
  return undefined;
};

/** C2: back to an answer that begins no torn batch, together with what it answers, or forward past the batch where that is too much. */
const snap = (index: number, { rows, tailTokens, budgetTokens }: Bounds): number => {
  const mostTokens = KEEP_TOLERANCE * budgetTokens;
  const back = answerBefore(rows, index);
  if (back === undefined || tailTokens(back) > mostTokens) {
    const start = batchStart(rows, index);
    return start === index ? index : batchEnd(rows, start);
  }
  const isPair = back > 0 && batchStart(rows, back - 1) === back - 1 && rows[back - 1]?.role === "user";
  return isPair && tailTokens(back - 1) <= mostTokens ? back - 1 : back;
};

/** Whether a turn is in progress that no user's request drives (R7): its newest batch then is all that there is to go on with. */
const isAskedByNobody = (input: CutInput): boolean => {
  const { rows } = input;
  const last = rows.at(-1);
  return last !== undefined && !endsTurn(last) && openAsk(rows) === undefined && stillPinned(input) === null;
};

/**
 * The highest index that keeps what must be kept whole: the batch in flight (C3), the last row if somebody asks there, the newest asks
 * (C4), the newest batch if nobody asks (R1).
 */
const latestCut = (input: CutInput): number => {
  const { rows, minTailUserMessages = 1 } = input;
  let latest = inFlightFrom(rows);
  const last = rows.length - 1;
  const lastRow = rows[last];
  if ((lastRow !== undefined && isUserOriginated(lastRow)) || isAskedByNobody(input))
    latest = Math.min(latest, batchStart(rows, last));
  if (minTailUserMessages <= 1) return latest;
  let missing = minTailUserMessages;
  for (let at = last; at >= 0 && missing > 0; at--) {
    const row = rows[at];
    if (row === undefined || !isUserOriginated(row)) continue;
    missing--;
    latest = Math.min(latest, batchStart(rows, at));
  }
  return latest;
};

/** Whether a covered ask is cheap enough to be kept as a row of its own, and is one (C4). */
const standsAlone = (ask: LogRow, { rows, tokensOf }: CutInput, budgetTokens: number): boolean => {
  const at = rows.indexOf(ask);
  return batchStart(rows, at) === at && tokensOf(ask) <= KEEP_TOLERANCE * budgetTokens;
};

/** The base's pinned ask, while nothing has ended its turn or come after it (C4). */
const stillPinned = ({ rows, loaded = rows, base }: CutInput): PinnedAsk | null => {
  const pinned = base?.pinned ?? null;
  if (pinned === null) return null;
  const later = loaded.filter((row) => row.seq > pinned.seq);
  return later.some((row) => isUserOriginated(row) || endsTurn(row)) ? null : pinned;
};

/**
 * Decides the cut (C1 to C6). Pure and linear in the rows; contents are read near the boundary only.
 * @returns the parts on either side of it, or why there is nothing to cut
 */
export const decideCut = (input: CutInput): CutDecision => {
  const { rows, base, tokensOf } = input;
  const last = rows.at(-1);
  if (last === undefined) return { kind: "nothing", reason: "no_rows" };
  if (isPaused(last)) return { kind: "nothing", reason: "paused" };
  if (base !== null && input.settledSeq !== undefined && last.seq <= input.settledSeq)
    return { kind: "nothing", reason: "no_new_rows" };

  const tailTokens = tailSums(rows, tokensOf);
  const start = sliceStart(rows, base);
  let index = rows.length - keepCount(input.keep, rows.length - start);
  const budgetTokens = Math.min(tailTokens(index), MAX_KEEP_SHARE_OF_WINDOW * input.windowTokens);
  while (index < rows.length && tailTokens(index) > budgetTokens) index++;
  const boundary = Math.min(snap(index, { rows, tailTokens, budgetTokens }), latestCut(input));

  const before = rows.slice(0, boundary);
  const ask = openAsk(rows);
  const coveredAsk = ask !== undefined && before.includes(ask) ? ask : undefined;
  const keptAsk = coveredAsk !== undefined && standsAlone(coveredAsk, input, budgetTokens) ? coveredAsk : undefined;
  const newlyCovered = before.filter((row) => row !== keptAsk);
  if (newlyCovered.length === 0) return { kind: "nothing", reason: "all_kept" };

  const tail = rows.slice(boundary);
  return {
    kind: "cut",
    covered: union(base?.covered ?? [], rangesOf(newlyCovered.map((row) => row.seq))),
    newlyCovered,
    kept: keptAsk === undefined ? tail : [keptAsk, ...tail],
    keptFrom: tail[0]?.seq ?? seq(last.seq + 1),
    keptAsk: keptAsk?.seq ?? null,
    pinned:
      coveredAsk !== undefined && keptAsk === undefined
        ? { seq: coveredAsk.seq, text: askText(coveredAsk) }
        : stillPinned(input),
    keepBudgetTokens: budgetTokens,
  };
};
