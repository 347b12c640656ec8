/** Ladder step 1: a tool result too large for the log goes to a file, and the log gets a preview and the way to read on. */
import { besideSecret } from "../protocol/redact.ts";
import { sha256Hex } from "../protocol/sha256.ts";
import type { ResultBlock, ToolResult } from "../protocol/tool.ts";
import type { FileSystem } from "./filesystem.ts";
import { countLines, indexLines } from "./line-index.ts";
import { type FilePath, RESULTS_DIRECTORY } from "./path.ts";
import { formatCount, headOf, plural, tailOf } from "./text-cut.ts";

export interface OffloadInput {
  readonly callId: string;
  readonly toolName: string;
  readonly result: ToolResult;
  /** `min(20,000, 0.1 x window)` (context.md, "Window"). */
  readonly thresholdTokens: number;
  readonly estimateTokens: (text: string) => number;
  readonly fs: FileSystem;
}

/** Enough to see what kind of answer it is; the rest is one call away. */
const HEAD_LINES = 20;
const TAIL_LINES = 10;
const PREVIEW_CHARS = 3_000;
const MAX_NAME_LENGTH = 100;

/** A file name made of a call's id; distinct for distinct ids. */
const fileName = async (callId: string): Promise<string> => {
  const safe = callId.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, MAX_NAME_LENGTH);
  return safe === callId && safe !== "" ? safe : `${safe}-${(await sha256Hex(callId)).slice(0, 16)}`;
};

/** The first lines of a text within a number of characters; a line that does not fit is cut. */
const firstLines = (text: string, chars: number): string => {
  let end = -1;
  for (let line = 0; line < HEAD_LINES; line++) {
    const next = text.indexOf("\n", end + 1);
    if (next === -1 || next > chars) break;
    end = next;
  }
  return end === -1 ? headOf(text, chars) : text.slice(0, end);
};

/** The last lines, likewise. */
const lastLines = (text: string, chars: number): string => {
  const trimmed = text.endsWith("\n") ? text.slice(0, -1) : text;
  let start = trimmed.length;
  for (let line = 0; line < TAIL_LINES; line++) {
    const previous = start === 0 ? -1 : trimmed.lastIndexOf("\n", start - 1);
    if (previous === -1 || trimmed.length - previous - 1 > chars) break;
    start = previous;
  }
  return start === trimmed.length ? tailOf(trimmed, chars) : trimmed.slice(start + 1);
};

/** Says what lies between the head and the tail: whole lines, or part of one very long line. */
const gapMark = (text: string, head: string, tail: string): string => {
  const end = text.endsWith("\n") ? text.length - 1 : text.length;
  const between = text.slice(head.length, end - tail.length);
  const newlines = between.split("\n").length - 1;
  return newlines === 0
    ? `[... ${plural(between.length, "character")} of this one long line left out ...]`
    : `[... ${plural(between.length, "character")} left out, on ${plural(Math.max(1, newlines - 1), "line")} ...]`;
};

const preview = (input: OffloadInput, text: string, path: string, lines: number, sizeBytes: number): string => {
  const chars = Math.min(PREVIEW_CHARS, Math.max(200, Math.floor(input.thresholdTokens / 2)));
  const first = firstLines(text, Math.floor((chars * 2) / 3));
  const last = lastLines(text, Math.floor(chars / 3));
  // A secret of which a part is shown would be recognised by nothing that reads the preview (S6).
  const head = text.slice(0, besideSecret(text, first.length).before);
  const end = text.endsWith("\n") ? text.length - 1 : text.length;
  const tail = text.slice(besideSecret(text, end - last.length).after, end);
  return [
    `The result of ${input.toolName} is too large to show: ${plural(lines, "line")}, ${formatCount(sizeBytes)} bytes. All of it is in ${path}; it begins and ends like this:`,
    "",
    head,
    gapMark(text, head, tail),
    tail,
    "",
    `To read it: read_file ${JSON.stringify({ file_path: path, offset: 1, limit: 2_000 })}. To search it: grep with "path": ${JSON.stringify(path)}.`,
  ].join("\n");
};

/**
 * The result as the log should hold it: unchanged up to the threshold, else a preview that names the file with all of its text,
 * `/large_tool_results/{call id}`. Images and documents stay. If the file cannot be written, or the preview would not be smaller,
 * the full result stays. Repeating it overwrites the same file.
 */
export const offloadResult = async (input: OffloadInput): Promise<ToolResult> => {
  const { result, estimateTokens, thresholdTokens, fs } = input;
  const texts =
    typeof result.content === "string"
      ? [result.content]
      : result.content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const text = texts.join("\n");
  const tokens = estimateTokens(text);
  if (tokens <= thresholdTokens) return result;
  const path = `${RESULTS_DIRECTORY}${await fileName(input.callId)}` as FilePath;
  const bytes = new TextEncoder().encode(text);
  const shown = preview(input, text, path, countLines(indexLines(bytes), bytes.length), bytes.length);
  if (estimateTokens(shown) >= tokens) return result;
  try {
    await fs.write(path, bytes, { contentType: "text/plain; charset=utf-8" });
  } catch {
    return result;
  }
  return { ...result, content: withText(result.content, shown) };
};

/** The content with one text in place of all of its texts, where the first one stood. */
const withText = (content: ToolResult["content"], text: string): ToolResult["content"] => {
  if (typeof content === "string") return text;
  const first = content.findIndex((block) => block.type === "text");
  return content.flatMap((block, index): readonly ResultBlock[] => {
    if (block.type !== "text") return [block];
    return index === first ? [{ type: "text", text }] : [];
  });
};
