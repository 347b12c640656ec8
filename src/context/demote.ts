/**
 * Ladder step 4: bulky results of tool calls that are still in the kept slice are shown as a note of their size. Only the view changes.
 * Applied before clipping: the note counts the whole result, and is too short to be clipped.
 */

import { objectMembers, type Span } from "../protocol/json-text.ts";
import type { ContentText, LogRow } from "../protocol/messages.ts";
import { pdfPages } from "../protocol/pdf-pages.ts";
import { splice } from "../protocol/splice.ts";
import { clipContent, type Estimate } from "./clip.ts";
import { imageTokens, PDF_PAGE_TOKENS } from "./media-cost.ts";
import { counted } from "./text-cut.ts";
import { memberNamed, type ResultPart, resultParts, stringOf, type ToolBlock, toolResults } from "./tool-blocks.ts";
import { contains, type ViewState } from "./view-state.ts";

/** Version of what demotion makes of a result. Another note is another version, since sent bytes must stay (V2). */
export const DEMOTE_VERSION = 1;

/** Results under this are not worth a note, in tokens: the note itself takes a tenth of it. */
export const BULKY_RESULT_TOKENS = 256;

/** Recognises a note, so that a demoted result stays as it is. */
const NOTE = /^"\[result of [^"\\[\]]{1,200} left out here; it is in the history file at message \d+\]"$/;
const LONGEST_NOTE = 400;

const isNote = (content: ContentText, { start, end }: Span): boolean =>
  end - start <= LONGEST_NOTE && NOTE.test(content.slice(start, end));

/** A text's length as parsed, in UTF-16 units. */
const lengthOf = (content: ContentText, { start, end }: Span): number => {
  const json = content.slice(start, end);
  return json.includes("\\") ? String(JSON.parse(json)).length : json.length - 2;
};

/** A block's type as a word: `tool_reference` as `tool reference`. Whatever else an import brought is not repeated. */
const label = (type: string): string => (/^[a-z_]{1,40}$/.test(type) ? type.replaceAll("_", " ") : "block");

/** `14,000 characters and 2 images`. */
const sizeInWords = (content: ContentText, parts: readonly ResultPart[]): string => {
  const characters = parts.reduce((sum, { text }) => sum + (text === null ? 0 : lengthOf(content, text)), 0);
  const others = new Map<string, number>();
  for (const { text, type } of parts) {
    if (text === null) others.set(label(type), (others.get(label(type)) ?? 0) + 1);
  }
  const words = [...others].map(([noun, count]) => counted(count, noun));
  return [...(characters > 0 || words.length === 0 ? [counted(characters, "character")] : []), ...words].join(" and ");
};

/** The note as JSON text, or null where it would not be shorter than what it replaces. */
const noteFor = (content: ContentText, body: Span, seq: number): string | null => {
  if (isNote(content, body)) return null;
  const size = sizeInWords(content, resultParts(content, body));
  const note = `"[result of ${size} left out here; it is in the history file at message ${seq}]"`;
  return note.length < body.end - body.start ? note : null;
};

/**
 * Puts a one-line note in place of the content of some tool results, media included; ids, `is_error` and every other byte stay, so does
 * the user's text beside them (ladder step 4, V9). Demoting a demoted result changes nothing.
 * @param callIds the calls whose results are to be demoted
 * @param seq where the row stands in the log
 * @returns a shorter text, or the very same one
 */
export const demoteContent = (content: ContentText, callIds: ReadonlySet<string>, seq: number): ContentText => {
  if (callIds.size === 0) return content;
  const edits = toolResults(content).flatMap(({ callId, body }) => {
    const note = body === null || !callIds.has(callId) ? null : noteFor(content, body, seq);
    return body === null || note === null ? [] : [{ start: body.start, end: body.end, by: note }];
  });
  return splice(content, edits);
};

/** What a piece that is no text costs, in tokens (E2). */
const mediaTokens = (content: ContentText, part: ResultPart, estimate: Estimate): number => {
  const source = memberNamed(objectMembers(content, part.start), "source");
  if (source === undefined || content[source.start] !== "{") return estimate(content.slice(part.start, part.end));
  const members = objectMembers(content, source.start);
  const data = stringOf(content, memberNamed(members, "data"));
  if (part.type === "image") return imageTokens(data);
  return stringOf(content, memberNamed(members, "type")) === "base64"
    ? pdfPages(data) * PDF_PAGE_TOKENS
    : estimate(data);
};

const bodyTokens = (content: ContentText, body: Span, estimate: Estimate): number =>
  resultParts(content, body).reduce(
    (sum, part) =>
      sum + (part.text === null ? mediaTokens(content, part, estimate) : estimate(stringOf(content, part.text))),
    0,
  );

export interface DemotionCandidate {
  readonly callId: string;
  /** What demoting it takes off the view, in tokens. */
  readonly reclaimedTokens: number;
}

/** The calls of a batch at the log's end that still waits for results: it stays whole (C3). */
const inFlight = (rows: readonly LogRow[]): ReadonlySet<string> => {
  const at = rows.findLastIndex((row) => row.role === "assistant");
  const calls = rows[at]?.calls ?? [];
  const answered = new Set(rows.slice(at + 1).flatMap((row) => toolResults(row.content).map(({ callId }) => callId)));
  return new Set(calls.every((id) => answered.has(id)) ? [] : calls);
};

/** A result as the view shows it so far, and what is left of it as a note. */
const candidate = (
  content: ContentText,
  { callId, body }: ToolBlock,
  seq: number,
  estimate: Estimate,
): readonly DemotionCandidate[] => {
  const note = body === null ? null : noteFor(content, body, seq);
  if (body === null || note === null) return [];
  const tokens = bodyTokens(content, body, estimate);
  return tokens < BULKY_RESULT_TOKENS ? [] : [{ callId, reclaimedTokens: tokens - estimate(note) }];
};

/**
 * The results that can be demoted, in the order in which they should be: bulky, completed and still shown, oldest first, the newest last
 * (ladder step 4).
 * @param rows ascending by seq; rows that the view does not show are passed over
 */
export const demotionOrder = (
  rows: readonly LogRow[],
  view: ViewState,
  estimate: Estimate,
): readonly DemotionCandidate[] => {
  const covered = view.generation?.covered ?? [];
  const marked = view.skills.filter(({ shown }) => shown === "marker").map(({ callId }) => callId);
  const passedOver = new Set([...view.demoted, ...marked, ...inFlight(rows)]);
  const whole = new Set(view.skills.map(({ callId }) => callId));
  return rows.flatMap((row) => {
    if (row.role !== "user" || contains(covered, row.seq) || contains(view.hidden, row.seq)) return [];
    const shown =
      row.seq < view.clippedBefore ? clipContent(row.content, row.role, view.clipTokens, estimate, whole) : row.content;
    return toolResults(shown)
      .filter(({ callId }) => !passedOver.has(callId))
      .flatMap((block) => candidate(shown, block, row.seq, estimate));
  });
};

/**
 * The calls whose results are to be demoted so that the view loses this many tokens: as few as do, from the oldest on, or all there are
 * where they do not suffice (ladder step 4).
 * @returns ids to add to `ViewState.demoted`; none when there is nothing to free or nothing to demote
 */
export const planDemotion = (
  rows: readonly LogRow[],
  view: ViewState,
  tokensToFree: number,
  estimate: Estimate,
): readonly string[] => {
  const planned: string[] = [];
  let freed = 0;
  if (tokensToFree <= 0) return planned;
  for (const { callId, reclaimedTokens } of demotionOrder(rows, view, estimate)) {
    if (freed >= tokensToFree) break;
    planned.push(callId);
    freed += reclaimedTokens;
  }
  return planned;
};
