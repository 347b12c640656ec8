/**
 * The identifiers of the covered rows, ranked by how likely they are needed again, and bounded (S2). What does not fit is named by its
 * family (`identifier-families.ts`).
 */
import type { Seq } from "../protocol/ids.ts";
import type { IdentifierKind } from "./identifiers.ts";

export interface IndexedIdentifier {
  readonly text: string;
  readonly kind: IdentifierKind;
  /** The last row that holds it. */
  readonly seq: Seq;
  /** Rows in which the agent put it into a tool's input. */
  readonly used: number;
  /** Rows in which the user or the assistant wrote it. */
  readonly said: number;
  /** Rows that hold it. */
  readonly rows: number;
}

/** Rows in which an identifier stood, by where. */
export type Place = "input" | "said" | "result";

interface Tally {
  readonly text: string;
  readonly kind: IdentifierKind;
  seq: Seq;
  used: number;
  said: number;
  rows: number;
  usedAt: number;
  saidAt: number;
}

export type TallyMap = Map<string, Tally>;

/** Counts one occurrence; several in one row count once. Rows come in order. */
export const tally = (map: TallyMap, text: string, kind: IdentifierKind, at: Seq, place: Place): void => {
  let entry = map.get(text);
  if (entry === undefined) {
    entry = { text, kind, seq: at, used: 0, said: 0, rows: 1, usedAt: 0, saidAt: 0 };
    map.set(text, entry);
  } else if (entry.seq !== at) {
    entry.seq = at;
    entry.rows++;
  }
  if (place === "input" && entry.usedAt !== at) {
    entry.usedAt = at;
    entry.used++;
  } else if (place === "said" && entry.saidAt !== at) {
    entry.saidAt = at;
    entry.said++;
  }
};

export const tallied = (map: TallyMap): readonly IndexedIdentifier[] =>
  [...map.values()].map(({ text, kind, seq, used, said, rows }) => ({ text, kind, seq, used, said, rows }));

/** How much an identifier is worth by kind: tuned on half of the recorded sessions (see the recall measurement). */
const KIND_WEIGHT: Readonly<Record<IdentifierKind, number>> = {
  path: 4,
  url: 1.5,
  id: 5,
  uuid: 3,
  hash: 2.5,
  error: 1,
  code: 1.5,
  version: 0.7,
  date: 0.5,
  number: 0.4,
  email: 1.5,
  constraint: 8,
};

/** Characters of an entry beside its text. */
const ENTRY_OVERHEAD_CHARS = 6;

/** How much a longer text costs its place: less than its length, since a long path says more than a short name. */
const COST_EXPONENT = 0.4;
/** The newest identifiers are worth twice the oldest. */
const RECENCY = 2;

/** Worth per character, higher first. `span` is the seqs that the index covers. */
const worth = (entry: IndexedIdentifier, newest: number, span: number): number => {
  const age = (newest - entry.seq) / span;
  const use =
    1 + 3 * Math.min(entry.used, 4) ** 0.5 + 0.7 * Math.min(entry.said, 4) ** 0.5 + 0.3 * Math.log2(entry.rows);
  const cost = (entry.text.length + ENTRY_OVERHEAD_CHARS) ** COST_EXPONENT;
  return (KIND_WEIGHT[entry.kind] * use * (RECENCY - age)) / cost;
};

/** The entries, worthiest first; ties by seq and text, so that the order is the same everywhere. */
export const ranked = (entries: readonly IndexedIdentifier[]): readonly IndexedIdentifier[] => {
  let newest = 0;
  let oldest = Number.MAX_SAFE_INTEGER;
  for (const { seq } of entries) {
    if (seq > newest) newest = seq;
    if (seq < oldest) oldest = seq;
  }
  const span = Math.max(1, newest - oldest);
  return entries
    .map((entry) => ({ entry, worth: worth(entry, newest, span) }))
    .sort((a, b) => b.worth - a.worth || b.entry.seq - a.entry.seq || (a.entry.text < b.entry.text ? -1 : 1))
    .map(({ entry }) => entry);
};

export interface Split {
  readonly kept: readonly IndexedIdentifier[];
  readonly dropped: readonly IndexedIdentifier[];
}

/** The worthiest entries that fit into a number of characters; a long one that does not fit makes room for shorter ones after it. */
export const fitting = (entries: readonly IndexedIdentifier[], budgetChars: number): Split => {
  const kept: IndexedIdentifier[] = [];
  const dropped: IndexedIdentifier[] = [];
  let left = budgetChars;
  for (const entry of ranked(entries)) {
    const cost = entry.text.length + ENTRY_OVERHEAD_CHARS;
    if (cost <= left) {
      kept.push(entry);
      left -= cost;
    } else dropped.push(entry);
  }
  return { kept, dropped };
};

/** Two indexes of different rows as one: counts added, the later row named. */
export const mergedIndex = (
  base: readonly IndexedIdentifier[],
  next: readonly IndexedIdentifier[],
): readonly IndexedIdentifier[] => {
  const merged = new Map(base.map((entry) => [entry.text, entry]));
  for (const entry of next) {
    const before = merged.get(entry.text);
    merged.set(
      entry.text,
      before === undefined
        ? entry
        : {
            ...(entry.seq >= before.seq ? entry : before),
            used: before.used + entry.used,
            said: before.said + entry.said,
            rows: before.rows + entry.rows,
          },
    );
  }
  return [...merged.values()];
};
