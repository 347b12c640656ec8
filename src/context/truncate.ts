/** The ladder's last step before giving up: whole turns are left out of the view, the oldest first (ladder step 5). */
import type { Seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import { endsTurn, isUserOriginated, openAsk } from "./ask.ts";
import { batchEnd, inFlightFrom } from "./batches.ts";
import { rangesOf, type SeqRange, union } from "./view-state.ts";

export interface TruncationInput {
  /** The rows that the view shows: outside of what is covered and what is hidden, ascending. */
  readonly rows: readonly LogRow[];
  /** What is hidden already. */
  readonly hidden: readonly SeqRange[];
  /** How much less the view must be; the line that names what is hidden counted in. */
  readonly tokensToFree: number;
  /** Tokens of a row as it is sent. */
  readonly tokensOf: (row: LogRow) => number;
  /** Whether the handoff restates a request: then every row may go. */
  readonly isPinned?: boolean;
}

export interface Truncation {
  readonly kind: "truncate";
  /** All that is hidden now, what was before included. */
  readonly hidden: readonly SeqRange[];
  readonly newlyHidden: readonly LogRow[];
  readonly freedTokens: number;
}

/**
 * What keeps a request from fitting (ladder step 6): the request in progress alone, the batch in flight, or what is no row at all
 * (system, tools, handoff).
 */
export interface CannotFit {
  readonly kind: "cannot_fit";
  readonly what: "live_ask" | "batch_in_flight" | "fixed_parts";
  /** The largest row that must stay, null for the fixed parts. */
  readonly seq: Seq | null;
  /** Tokens of the rows that must stay. */
  readonly keptTokens: number;
  /** What would still be too much with everything hidden that may be. */
  readonly missingTokens: number;
}

export type TruncationPlan = Truncation | CannotFit;

/** Rows that are hidden together or not at all. */
type Piece = readonly LogRow[];

/**
 * Finished turns as wholes, since an ask whose answer is hidden would read as open; the turn in progress batch by batch. Its ask stays,
 * and without one its newest batch does, or there would be nothing to answer (R1, R7).
 */
const piecesOf = ({ rows, isPinned = false }: TruncationInput): readonly Piece[] => {
  const ask = openAsk(rows);
  const begun = rows.findLastIndex(endsTurn) + 1;
  const end = inFlightFrom(rows);
  const pieces: Piece[] = [];
  let turn: LogRow[] = [];
  const endTurn = (): void => {
    if (turn.length > 0) pieces.push(turn);
    turn = [];
  };
  let isInProgress = false;
  for (let at = 0; at < end; ) {
    const next = Math.min(batchEnd(rows, at), end);
    const batch = rows.slice(at, next);
    if (ask === undefined && at >= begun) isInProgress = true;
    at = next;
    if (ask !== undefined && batch.includes(ask)) {
      endTurn();
      isInProgress = true;
    } else if (isInProgress) {
      endTurn();
      pieces.push(batch);
    } else {
      if (batch.some(isUserOriginated)) endTurn();
      turn.push(...batch);
    }
  }
  endTurn();
  const isAskedByNobody = ask === undefined && !isPinned && begun < rows.length && end === rows.length;
  return isAskedByNobody ? pieces.slice(0, -1) : pieces;
};

const cannotFit = (input: TruncationInput, pieces: readonly Piece[], freedTokens: number): CannotFit => {
  const hideable = new Set(pieces.flat());
  const staying = input.rows.filter((row) => !hideable.has(row));
  const tokens = staying.map(input.tokensOf);
  const keptTokens = tokens.reduce((sum, each) => sum + each, 0);
  const missingTokens = input.tokensToFree - freedTokens;
  const largest = staying[tokens.indexOf(Math.max(...tokens))];
  // Without any row that stays it would still not fit: then the rows are not what is too large.
  if (largest === undefined || keptTokens < missingTokens)
    return { kind: "cannot_fit", what: "fixed_parts", seq: null, keptTokens, missingTokens };
  const what = isUserOriginated(largest) ? "live_ask" : "batch_in_flight";
  return { kind: "cannot_fit", what, seq: largest.seq, keptTokens, missingTokens };
};

/**
 * Plans which rows to hide (ladder step 5): whole turns, the oldest first; then the oldest complete batches of the turn in progress.
 * Never a request in progress, never a part of a batch, never what is in flight (C3, C4). In a turn without a request (R7) batches go
 * one by one, but for the last.
 * @returns a plan that frees what is asked for, or what stands in its way
 */
export const planTruncation = (input: TruncationInput): TruncationPlan => {
  const pieces = piecesOf(input);
  const newlyHidden: LogRow[] = [];
  let freedTokens = 0;
  for (const piece of pieces) {
    if (freedTokens >= input.tokensToFree && newlyHidden.length > 0) break;
    newlyHidden.push(...piece);
    freedTokens += piece.reduce((sum, row) => sum + input.tokensOf(row), 0);
  }
  if (freedTokens < input.tokensToFree || newlyHidden.length === 0) return cannotFit(input, pieces, freedTokens);
  return {
    kind: "truncate",
    hidden: union(input.hidden, rangesOf(newlyHidden.map((row) => row.seq))),
    newlyHidden,
    freedTokens,
  };
};
