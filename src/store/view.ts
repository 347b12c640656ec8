/** The current view of a session as it is stored. `turns/` makes the state that `context/` renders out of it. */
import { type Seq, seq } from "../protocol/ids.ts";
import type { Row } from "./db.ts";
import { parseRanges, type StoredRange } from "./ranges.ts";
import { number, numberOrNull, text, textOrNull, texts } from "./rows.ts";

/** One committed compaction, as far as the view needs it. */
export interface StoredGeneration {
  readonly number: number;
  /** The generation that it was made from; 0 for none. */
  readonly base: number;
  readonly covered: readonly StoredRange[];
  readonly summary: string;
  /** JSON text of what was rendered from the rows (S2). */
  readonly sections: string;
  readonly pinned: { readonly seq: Seq; readonly text: string } | null;
  readonly history: { readonly kind: "file"; readonly path: string } | { readonly kind: "api" };
  readonly prefixVersion: number;
}

/** The facts of one revision (V2). */
export interface StoredView {
  readonly revision: number;
  readonly generation: StoredGeneration | null;
  readonly clippedBefore: Seq;
  readonly clipTokens: number;
  readonly thinkingFloor: Seq;
  readonly demoted: readonly string[];
  /** JSON text: what the view shows of skills (R5). */
  readonly skills: string;
  readonly hidden: readonly StoredRange[];
  readonly volatileHash: string | null;
}

/** The columns of a generation that `storedGeneration` reads, from `compactions c`. */
export const GENERATION_COLUMNS =
  "c.generation, c.base_generation, c.covered::text as covered, c.summary, c.sections::text as sections, c.pinned_seq, c.pinned_text, c.history_path, c.prefix_version";

export const storedGeneration = (row: Row): StoredGeneration => {
  const pinnedSeq = numberOrNull(row, "pinned_seq");
  const path = textOrNull(row, "history_path");
  return {
    number: number(row, "generation"),
    base: number(row, "base_generation"),
    covered: parseRanges(text(row, "covered")),
    summary: text(row, "summary"),
    sections: text(row, "sections"),
    pinned: pinnedSeq === null ? null : { seq: seq(pinnedSeq), text: text(row, "pinned_text") },
    history: path === null ? { kind: "api" } : { kind: "file", path },
    prefixVersion: number(row, "prefix_version"),
  };
};

/** The columns of a revision that `storedView` reads, from `view_revisions v`. */
export const REVISION_COLUMNS =
  "v.revision, v.clipped_before, v.clip_tokens, v.thinking_floor, v.demoted, v.skills::text as skills, v.hidden::text as hidden, v.volatile_hash";

/** @param row with both sets of columns, the generation's empty where there is none */
export const storedView = (row: Row): StoredView => ({
  revision: number(row, "revision"),
  generation: row.generation == null ? null : storedGeneration(row),
  clippedBefore: seq(number(row, "clipped_before")),
  clipTokens: number(row, "clip_tokens"),
  thinkingFloor: seq(number(row, "thinking_floor")),
  demoted: texts(row, "demoted"),
  skills: text(row, "skills"),
  hidden: parseRanges(text(row, "hidden")),
  volatileHash: textOrNull(row, "volatile_hash"),
});
