/** Sets of seqs between PostgreSQL's `int8multirange` and inclusive ranges. */
import { type Seq, seq } from "../protocol/ids.ts";

/** Rows from one seq to another, both inclusive. */
export interface StoredRange {
  readonly from: Seq;
  readonly to: Seq;
}

/** Reads `{[1,5),[9,12)}`, the one form in which PostgreSQL writes integers' ranges. */
export const parseRanges = (text: string): readonly StoredRange[] =>
  [...text.matchAll(/\[(\d+),(\d+)\)/g)].map(([, from, end]) => ({
    from: seq(Number(from)),
    to: seq(Number(end) - 1),
  }));

/** Writes ranges as a literal of `int8multirange`; they need not be sorted or disjoint. */
export const formatRanges = (ranges: readonly StoredRange[]): string =>
  `{${ranges.map(({ from, to }) => `[${from},${to}]`).join(",")}}`;
