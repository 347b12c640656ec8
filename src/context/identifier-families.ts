/**
 * How identifiers that have no room in the index are found all the same: by what many of them begin with, and, for each kind, by a
 * pattern that all of its kind match. One search of the history with a term that is shown finds each of them (S2).
 */
import type { Seq } from "../protocol/ids.ts";
import type { IndexedIdentifier } from "./identifier-index.ts";
import type { IdentifierKind } from "./identifiers.ts";

/** A beginning that several identifiers share: a search for it finds them all. */
export interface IdentifierFamily {
  readonly term: string;
  readonly kind: IdentifierKind;
  readonly count: number;
  readonly lastSeq: Seq;
}

/** What `grep` finds every identifier of a kind with, as a regular expression without lookaround. */
export const KIND_PATTERN: Readonly<Record<IdentifierKind, string>> = {
  path: String.raw`/\w|\w\.[a-z]`,
  url: "[a-z]+://",
  id: String.raw`[A-Za-z_#]-?\d|\d{5}`,
  uuid: "[0-9a-fA-F]{8}-",
  hash: String.raw`\b[0-9a-f]{7}|[0-9A-F]{16}`,
  error: String.raw`Error|Exception|Warning|Fault|E[A-Z]{4}|TS\d{3}|(?:code|status|http|exit) -?\d`,
  code: String.raw`[a-z][A-Z]|\w_|--\w`,
  version: String.raw`\d\.\d+\.|v\d`,
  date: String.raw`\d{4}-\d\d-`,
  number: String.raw`\d ?[%A-Za-z]|[$€£¥]\d`,
  email: String.raw`\w@\w`,
  constraint: "must|ever|only|not\\b|n't|at (least|most)|void|eep|ntil|ithout|ways|不|只|必",
};

/** Directories of a path that a family's term goes down to at most. */
const DEEPEST = 5;
/** A single directory, such as "/home", would find everything. */
const SHALLOWEST = 2;
/** Of all families, those of paths at most, before they are grouped by fewer directories. */
const PATH_SHARE = 0.6;
const MIN_TERM_CHARS = 2;

/** The leading directories of a path, at most `depth` of them. */
const directories = (path: string, depth: number): string => {
  const parts = path.split("/");
  const root = parts[0] === "" ? 1 : 0;
  return parts.length - root < 2 ? path : parts.slice(0, Math.min(parts.length - 1, depth + root)).join("/");
};

/** The term that finds an identifier and its like: leading directories, the host, the letters of an id, the unit. */
const familyTerm = ({ text, kind }: IndexedIdentifier): string | null => {
  switch (kind) {
    case "path":
      return text.includes("/") ? directories(text, DEEPEST) : null;
    case "url":
      return /^[a-z+.-]+:\/\/[^/]+/i.exec(text)?.[0] ?? null;
    case "number":
      return text.replace(/^[\d.,]+/, "");
    case "date":
      return null;
    case "email":
      return text.slice(text.indexOf("@"));
    case "id":
    case "code":
      return /^[A-Za-z#$]{3,}?(?=[\d_-]|(?<=[a-z])[A-Z])/.exec(text)?.[0] ?? null;
    case "error":
    case "uuid":
    case "hash":
    case "version":
    case "constraint":
      return null;
    default: {
      const never: never = kind;
      return never;
    }
  }
};

const grouped = (families: readonly IdentifierFamily[], depth: number): readonly IdentifierFamily[] => {
  const groups = new Map<string, IdentifierFamily>();
  for (const family of families) {
    const term = family.kind === "path" ? directories(`${family.term}/`, depth) : family.term;
    const key = `${family.kind} ${term}`;
    const before = groups.get(key);
    groups.set(key, {
      term,
      kind: family.kind,
      count: (before?.count ?? 0) + family.count,
      lastSeq: before === undefined || family.lastSeq > before.lastSeq ? family.lastSeq : before.lastSeq,
    });
  }
  return [...groups.values()];
};

/**
 * The families of identifiers without room, joined with those already known: largest first, at most `limit`. Paths are grouped by fewer
 * directories where more would be too many families.
 */
export const familiesOf = (
  known: readonly IdentifierFamily[],
  dropped: readonly IndexedIdentifier[],
  limit: number,
): readonly IdentifierFamily[] => {
  const single = dropped.flatMap((entry): readonly IdentifierFamily[] => {
    const term = familyTerm(entry)?.trim() ?? "";
    return term.length < MIN_TERM_CHARS || !/[\p{L}%$€£¥]/u.test(term)
      ? []
      : [{ term, kind: entry.kind, count: 1, lastSeq: entry.seq }];
  });
  let families = grouped([...known, ...single], DEEPEST);
  const tooMany = (): boolean => families.filter(({ kind }) => kind === "path").length > limit * PATH_SHARE;
  for (let depth = DEEPEST - 1; depth >= SHALLOWEST && tooMany(); depth--) families = grouped(families, depth);
  return [...families]
    .sort((a, b) => b.count - a.count || b.lastSeq - a.lastSeq || (a.term < b.term ? -1 : 1))
    .slice(0, limit);
};
