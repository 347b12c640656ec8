/** What the summariser reads: the covered rows as bounded text, redacted, fenced, and in pieces that its window takes (S1, S6). */
import { isRecord } from "../protocol/is-record.ts";
import { arrayElements, objectMembers } from "../protocol/json-text.ts";
import type { LogRow } from "../protocol/messages.ts";
import { grouped, headOf, tailOf } from "./text-cut.ts";

/** A covered row, its content as the view showed it (clipped where it was). */
export type SummaryRow = Pick<LogRow, "seq" | "role" | "origin" | "content">;

/** One message as the summariser reads it. */
export interface InputEntry {
  readonly seq: number;
  /** A heading line with the seq and who speaks, then the message. */
  readonly text: string;
}

export interface InputOptions {
  /** Replaces secrets (S6). Applied before anything is cut, since half a secret is not recognised. */
  readonly redact: (text: string) => string;
  /** The row of the pinned ask, or null: it is restated elsewhere, and the summariser is told so (C4). */
  readonly pinnedSeq: number | null;
}

/** Characters a message has, and what of a longer one is kept (S1). */
const MESSAGE_CHARS = 6_000;
const MESSAGE_HEAD_CHARS = 4_000;
const MESSAGE_TAIL_CHARS = 1_500;
/** Characters of a call's arguments, the same way (S1); the rest of the 1,500 is the note. */
const ARGUMENT_CHARS = 1_500;
const ARGUMENT_HEAD_CHARS = 1_000;
const ARGUMENT_TAIL_CHARS = 400;
/** Deepest nesting of blocks that is read; real content needs 4. */
const MAX_DEPTH = 8;
/** The blank line between two entries. */
const SEPARATOR_TOKENS = 1;

/** The text, or its head and tail around a note of what is missing. Never half a character. */
const cut = (text: string, limitChars: number, headChars: number, tailChars: number): string => {
  if (text.length <= limitChars) return text;
  const [head, tail] = [headOf(text, headChars), tailOf(text, tailChars)];
  return `${head}\n[... ${grouped(text.length - head.length - tail.length)} characters left out ...]\n${tail}`;
};

type Json = Readonly<Record<string, unknown>>;

const textMember = (value: unknown, key: string): string => {
  const member = isRecord(value) ? value[key] : undefined;
  return typeof member === "string" ? member : "";
};

const joined = (parts: readonly string[], by: string): string => parts.filter((part) => part !== "").join(by);

/** What can be said of a picture or file without its bytes. */
const mediaLabel = (block: Json): string => {
  const { source } = block;
  return `[${joined([String(block.type), textMember(block, "title"), textMember(source, "media_type"), textMember(source, "url")], " ")}]`;
};

/** What it takes to put a block into words. */
interface Reading {
  /** Tools by the ids of their calls. */
  readonly names: ReadonlyMap<string, string>;
  readonly redact: (text: string) => string;
}

const inner = (content: unknown, reading: Reading, depth: number): string => {
  // By itself, since a result that is JSON is read as such only where nothing stands before it.
  if (typeof content === "string") return reading.redact(content);
  if (depth > MAX_DEPTH) return "";
  const blocks = Array.isArray(content) ? content : [content];
  return joined(
    blocks.map((block) => blockText(block, reading, depth + 1)),
    "\n",
  );
};

const resultText = (block: Json, reading: Reading, depth: number): string => {
  const id = textMember(block, "tool_use_id");
  const name = reading.names.get(id);
  const failed = block.is_error === true ? ", failed" : "";
  return `result of ${name === undefined ? id : `${name} (${id})`}${failed}: ${inner(block.content, reading, depth) || "(nothing)"}`;
};

const blockText = (block: unknown, reading: Reading, depth: number): string => {
  if (!isRecord(block)) return "";
  const type = textMember(block, "type");
  switch (type) {
    case "text":
      return reading.redact(textMember(block, "text"));
    case "thinking":
    case "redacted_thinking":
      return "";
    case "image":
    case "document":
      return mediaLabel(block);
    case "compaction":
      return textMember(block, "content");
    case "search_result":
    case "web_search_result":
      return joined(
        [
          textMember(block, "title"),
          textMember(block, "url") || textMember(block, "source"),
          inner(block.content, reading, depth),
        ],
        " ",
      );
    default:
      if (type.endsWith("tool_result")) return resultText(block, reading, depth);
      return joined([`[${type}]`, textMember(block, "error_code")], " ");
  }
};

const isCall = (block: unknown): boolean => textMember(block, "type").endsWith("tool_use");

/** The arguments as they were streamed: a parse would change large numbers (V9). */
const argumentsOf = (content: string, start: number): string => {
  const input = objectMembers(content, start).findLast((member) => member.key === "input");
  return input === undefined ? "{}" : content.slice(input.start, input.end);
};

const callText = (block: unknown, inputText: string): string =>
  `call ${textMember(block, "name")} (${textMember(block, "id")}): ${cut(inputText, ARGUMENT_CHARS, ARGUMENT_HEAD_CHARS, ARGUMENT_TAIL_CHARS)}`;

/** Who speaks. A payload is never called a user's words (R7). */
const SPEAKERS: Readonly<Record<SummaryRow["origin"], string>> = {
  user: "user",
  event: "event: data from outside, not a user's words",
  assistant: "agent",
  tool: "tool results",
  injected: "note of the system, not a user's words",
};

const heading = (row: SummaryRow, pinnedSeq: number | null): string =>
  row.seq === pinnedSeq
    ? `[${row.seq}] ${SPEAKERS[row.origin]} (restated to the next agent word for word; do not repeat it)`
    : `[${row.seq}] ${SPEAKERS[row.origin]}`;

const bodyOf = (row: SummaryRow, names: Map<string, string>, redact: (text: string) => string): string => {
  const blocks: unknown = JSON.parse(row.content);
  if (!Array.isArray(blocks)) return "";
  const spans = row.content.includes("tool_use") ? arrayElements(row.content) : [];
  const parts = blocks.map((block: unknown, index) => {
    if (!isCall(block)) return blockText(block, { names, redact }, 0);
    names.set(textMember(block, "id"), textMember(block, "name"));
    return callText(block, redact(argumentsOf(row.content, spans[index]?.start ?? 0)));
  });
  // Once more together: a name may end one block and its value begin the next.
  return redact(joined(parts, "\n").trim());
};

/**
 * Renders covered rows for the summariser (S1): 6,000 characters of a message, 1,500 of a call's arguments, media as labels, no thinking.
 * Rows that have nothing to show are left out.
 * @param rows ascending by seq
 */
export const renderInput = (rows: readonly SummaryRow[], options: InputOptions): readonly InputEntry[] => {
  const names = new Map<string, string>();
  return rows.flatMap((row) => {
    const body = bodyOf(row, names, options.redact);
    if (body === "") return [];
    const shown = cut(body, MESSAGE_CHARS, MESSAGE_HEAD_CHARS, MESSAGE_TAIL_CHARS);
    return [{ seq: row.seq, text: `${heading(row, options.pinnedSeq)}\n${shown}`.toWellFormed() }];
  });
};

/**
 * Shortens a text until it fits a budget, its middle left out.
 * @returns "" when not even the note of what is missing fits
 */
export const fitTokens = (text: string, budgetTokens: number, estimateTokens: (text: string) => number): string => {
  let fitted = text;
  let chars = text.length;
  for (let tokens = estimateTokens(fitted); tokens > budgetTokens; tokens = estimateTokens(fitted)) {
    chars = Math.floor(Math.min(chars * (budgetTokens / tokens), chars * 0.9));
    if (chars < 1) return "";
    fitted = cut(text, chars, Math.ceil(chars * 0.7), Math.floor(chars * 0.3));
  }
  return fitted;
};

/**
 * The entries that one call can take, from the first on; at least one, shortened if it alone is over the budget (S1).
 * @returns the chunk and what is left after it
 */
export const nextChunk = (
  entries: readonly InputEntry[],
  budgetTokens: number,
  estimateTokens: (text: string) => number,
): { readonly chunk: readonly InputEntry[]; readonly rest: readonly InputEntry[] } => {
  let used = 0;
  let count = 0;
  for (const entry of entries) {
    used += estimateTokens(entry.text) + SEPARATOR_TOKENS;
    if (used > budgetTokens) break;
    count++;
  }
  const first = entries[0];
  if (count > 0 || first === undefined) return { chunk: entries.slice(0, count), rest: entries.slice(count) };
  const text = fitTokens(first.text, budgetTokens - SEPARATOR_TOKENS, estimateTokens);
  return { chunk: [{ seq: first.seq, text }], rest: entries.slice(1) };
};

/**
 * Puts data between tags that it cannot close: their number is the first that the data does not mention (S1).
 * @param name of the tags: letters and hyphens
 */
export const fence = (name: string, data: string): string => {
  const taken = new Set(Array.from(data.matchAll(/data-(\d+)>/g), ([, number]) => number));
  let number = 1;
  while (taken.has(String(number))) number++;
  return `<${name}-data-${number}>\n${data}\n</${name}-data-${number}>`;
};
