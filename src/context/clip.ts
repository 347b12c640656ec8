/**
 * Ladder step 2: long arguments and results of old tool calls are shown by their head, their tail and a note of what is between.
 * Only the view changes: the log and the history file keep the whole text.
 */
import type { Seq } from "../protocol/ids.ts";
import { type Span, stringLeaves } from "../protocol/json-text.ts";
import type { ContentText, LogRow, Role } from "../protocol/messages.ts";
import { LOAD_SKILL } from "../protocol/skill-file.ts";
import { type Edit, splice } from "../protocol/splice.ts";
import { type SkillFact, type SkillLoad, skillMarker } from "./lost-skills.ts";
import { clippedSkills } from "./skills.ts";
import { grouped, headOf, tailOf } from "./text-cut.ts";
import { resultParts, type ToolBlock, toolCalls, toolResults } from "./tool-blocks.ts";
import { contains, type ViewState } from "./view-state.ts";

/** Version of what clipping makes of a text. Another result for the same text is another version, since sent bytes must stay (V2). */
export const CLIP_VERSION = 1;

/** The newest messages that are never clipped (ladder step 2). */
export const CLIP_KEEP_RECENT = 20;

/** The least that a clip must reclaim, in tokens, before scaling (ladder step 2): each one breaks the prompt cache. */
export const MIN_RECLAIM_TOKENS = 4_096;

/** Fixed budgets are at most this part of the window (context.md, "Window"). */
const BUDGET_FRACTION = 0.05;

/** The least sensible limit for a string, in tokens: the note takes half of it. */
export const MIN_CLIP_TOKENS = 64;

/** Tokens of a text: grows with it. */
export type Estimate = (text: string) => number;

/** No tokenizer over bytes makes more tokens of a UTF-16 unit, since a unit is at most three bytes of UTF-8. */
const MOST_TOKENS_PER_UNIT = 3;

/** Where a text is much longer than this for each token of the limit, a part of it is enough to tell that it is over. */
const UNITS_PER_TOKEN_SAMPLED = 16;

/** The beginning of a tool's text says what it is, its end how it went; the beginning is worth more. */
const HEAD_FRACTION = 2 / 3;

const MAX_FITTINGS = 8;

/** Taken off each new guess, since a text's density varies. */
const FIT_MARGIN = 0.97;

const NOTE_START = "…[clipped: ";
const NOTE = /^…\[clipped: ([\d,]{1,20}) of ([\d,]{1,20}) characters\]…/;
const LONGEST_NOTE = 80;

const noteOf = (leftOut: number, total: number): string =>
  `${NOTE_START}${grouped(leftOut)} of ${grouped(total)} characters]…`;

/** A text as clipping sees it: what can still be shown of its two ends. */
interface Ends {
  readonly head: string;
  readonly tail: string;
  /** Size of the whole text, in UTF-16 units, left-out parts included. */
  readonly total: number;
  /** How much of it is still here. */
  readonly here: number;
}

const numberOf = (text: string | undefined): number => Number(text?.replaceAll(",", ""));

/** Recognises a text that was clipped before: by a note whose numbers agree with the text around it. */
const endsOf = (text: string): Ends => {
  for (let at = text.indexOf(NOTE_START); at !== -1; at = text.indexOf(NOTE_START, at + 1)) {
    const note = NOTE.exec(text.slice(at, at + LONGEST_NOTE));
    if (note === null) continue;
    const total = numberOf(note[2]);
    const here = text.length - note[0].length;
    if (here === total - numberOf(note[1])) {
      return { head: text.slice(0, at), tail: text.slice(at + note[0].length), total, here };
    }
  }
  return { head: text, tail: text, total: text.length, here: text.length };
};

/** At most `kept` units of the two ends, with the note between them. */
const shown = (ends: Ends, kept: number): string => {
  const head = headOf(ends.head, Math.ceil(kept * HEAD_FRACTION)).toWellFormed();
  const tail = tailOf(ends.tail, kept - head.length).toWellFormed();
  return head + noteOf(ends.total - head.length - tail.length, ends.total) + tail;
};

/** A part of a text, its size, and whether the part alone settles that the text is over the limit. */
const measure = (text: string, maxTokens: number, estimate: Estimate) => {
  for (let size = Math.ceil(maxTokens * UNITS_PER_TOKEN_SAMPLED); size < text.length; size *= 2) {
    const tokens = estimate(headOf(text, size));
    if (tokens > maxTokens) return { units: size, tokens };
  }
  return { units: text.length, tokens: estimate(text) };
};

/** A shorter text within the limit, or null where the text is within it, or the limit too small for a note. */
const clipText = (text: string, maxTokens: number, estimate: Estimate): string | null => {
  const measured = measure(text, maxTokens, estimate);
  if (measured.tokens <= maxTokens) return null;
  const ends = endsOf(text);
  const noteTokens = estimate(noteOf(ends.total, ends.total));
  const room = Math.max(0, maxTokens - noteTokens);
  let kept = Math.min(ends.here - 1, Math.floor((measured.units * room) / measured.tokens));
  for (let fitting = 0; fitting < MAX_FITTINGS && kept > 0; fitting++) {
    const candidate = shown(ends, kept);
    const tokens = estimate(candidate);
    if (tokens <= maxTokens) return candidate;
    kept = Math.floor((kept * room * FIT_MARGIN) / Math.max(1, tokens - noteTokens, room));
  }
  const note = noteOf(ends.total, ends.total);
  return estimate(note) <= maxTokens ? note : null;
};

/** A JSON string's value, without a parse where its text is its value. */
const decoded = (json: string): string => (json.includes("\\") ? String(JSON.parse(json)) : json.slice(1, -1));

interface Clipped extends Edit {
  readonly before: string;
  readonly after: string;
}

const clipLeaf = (content: ContentText, leaf: Span, maxTokens: number, estimate: Estimate): readonly Clipped[] => {
  if ((leaf.end - leaf.start - 2) * MOST_TOKENS_PER_UNIT <= maxTokens) return [];
  const before = decoded(content.slice(leaf.start, leaf.end));
  const after = clipText(before, maxTokens, estimate);
  if (after === null) return [];
  const by = JSON.stringify(after);
  return by.length < leaf.end - leaf.start ? [{ start: leaf.start, end: leaf.end, by, before, after }] : [];
};

/** What may be clipped of a block. */
const leavesOf = (content: ContentText, block: ToolBlock, role: Role, maxTokens: number): readonly Span[] => {
  if (block.body === null) return [];
  if (role === "assistant") return stringLeaves(content, block.body, maxTokens / MOST_TOKENS_PER_UNIT);
  return resultParts(content, block.body).flatMap(({ text }) => (text === null ? [] : [text]));
};

const NONE: ReadonlySet<string> = new Set();

interface ClippedBlock {
  readonly block: ToolBlock;
  readonly edits: readonly Clipped[];
}

const clipBlocks = (
  content: ContentText,
  role: Role,
  maxTokens: number,
  estimate: Estimate,
  except: ReadonlySet<string> = NONE,
): readonly ClippedBlock[] => {
  if (content.length * MOST_TOKENS_PER_UNIT <= maxTokens) return [];
  return (role === "assistant" ? toolCalls(content) : toolResults(content)).flatMap((block) => {
    if (except.has(block.callId)) return [];
    const edits = leavesOf(content, block, role, maxTokens).flatMap((leaf) =>
      clipLeaf(content, leaf, maxTokens, estimate),
    );
    return edits.length === 0 ? [] : [{ block, edits }];
  });
};

/**
 * Clips the string leaves of tool arguments (assistant) and the texts of tool results (user) that are over the limit; every other byte
 * stays (ladder step 2, V9). Text, thinking, media, and what the provider's own tools said are never touched (V6).
 * Clipping a clipped text changes nothing; with a lower limit, the note goes on counting the whole text.
 * @param maxTokens most tokens of a string, its note included; below `MIN_CLIP_TOKENS` a string may be left as it is for want of room
 * @param estimate must grow with the text
 * @param except calls that are left alone: skills, which are whole or not there (R5)
 * @returns a shorter text, or the very same one
 */
export const clipContent = (
  content: ContentText,
  role: Role,
  maxTokens: number,
  estimate: Estimate,
  except?: ReadonlySet<string>,
): ContentText =>
  splice(
    content,
    clipBlocks(content, role, maxTokens, estimate, except).flatMap(({ edits }) => edits),
  );

export interface ClipBoundary {
  /** Rows with a lower seq are to be shown clipped. */
  readonly clippedBefore: Seq;
  /** What that takes off the view, in tokens. */
  readonly reclaimedTokens: number;
  /** What is shown of skills then (R5). */
  readonly skills: readonly SkillFact[];
  /** Newly clipped calls and results by the name of their tool, for `hango.context.tool_args_truncated`; each counts for one. */
  readonly clippedByTool: Readonly<Record<string, number>>;
}

/** The least that a clip must reclaim in a window of this size, in tokens. */
export const minReclaimTokens = (windowTokens: number): number =>
  Math.min(MIN_RECLAIM_TOKENS, BUDGET_FRACTION * windowTokens);

/** The names of a row's calls, by id. */
const namesIn = (row: LogRow | undefined): ReadonlyMap<string, string> =>
  new Map(row === undefined ? [] : toolCalls(row.content).map(({ callId, name }) => [callId, name]));

/** What clipping the rows from `clippedBefore` up to, not including, `before` takes off the view. */
const reclaimed = (
  rows: readonly LogRow[],
  view: ViewState,
  before: Seq,
  marked: readonly SkillLoad[],
  estimate: Estimate,
) => {
  const untouched = new Set([...view.demoted, ...view.skills.map(({ callId }) => callId)]);
  const clippedByTool = new Map<string, number>(marked.length === 0 ? [] : [[LOAD_SKILL, marked.length]]);
  let reclaimedTokens = marked.reduce((sum, { name, text }) => sum + estimate(text) - estimate(skillMarker(name)), 0);
  let caller: LogRow | undefined;
  for (const row of rows) {
    if (row.seq >= before) break;
    if (row.role === "assistant") caller = row;
    if (row.seq < view.clippedBefore) continue;
    const clipped = clipBlocks(row.content, row.role, view.clipTokens, estimate);
    const showing = row.role === "assistant" ? clipped : clipped.filter(({ block }) => !untouched.has(block.callId));
    if (showing.length === 0) continue;
    const names = row.role === "assistant" ? new Map<string, string>() : namesIn(caller);
    for (const { block, edits } of showing) {
      const name = block.name || (names.get(block.callId) ?? "unknown");
      clippedByTool.set(name, (clippedByTool.get(name) ?? 0) + 1);
      for (const { before: whole, after } of edits) reclaimedTokens += estimate(whole) - estimate(after);
    }
  }
  return { reclaimedTokens, clippedByTool: Object.fromEntries(clippedByTool) };
};

/**
 * How far clipping can advance: to the newest `CLIP_KEEP_RECENT` messages.
 * @param rows ascending by seq; rows that the view does not show are passed over
 * @param view the view so far; what it already clips or demotes reclaims nothing
 * @param keptFrom the first row that a cut made now would keep: skills from there on are protected (R5); null where there is none to tell.
 *   Asked only where it matters
 * @returns null when that would not reclaim `minReclaimTokens`
 */
export const nextClipBoundary = (
  rows: readonly LogRow[],
  view: ViewState,
  windowTokens: number,
  estimate: Estimate,
  keptFrom: () => Seq | null = () => null,
): ClipBoundary | null => {
  const covered = view.generation?.covered ?? [];
  const visible = rows.filter((row) => !contains(covered, row.seq) && !contains(view.hidden, row.seq));
  const clippedBefore = visible.at(-CLIP_KEEP_RECENT)?.seq;
  if (clippedBefore === undefined || clippedBefore <= view.clippedBefore) return null;
  const { facts: skills, newlyMarked } = clippedSkills(visible, view, clippedBefore, keptFrom);
  const found = reclaimed(visible, { ...view, skills }, clippedBefore, newlyMarked, estimate);
  if (found.reclaimedTokens <= 0 || found.reclaimedTokens < minReclaimTokens(windowTokens)) return null;
  return { clippedBefore, skills, ...found };
};
