/** A file that is read again while the model still sees what it read before (R6): a note instead of the same pages. */
import { type EarlierResult, type RepeatedRead, unchangedNote } from "../context/dedup.ts";
import { HISTORY_DIRECTORY, parsePath } from "../files/path.ts";
import type { ToolCall } from "../protocol/messages.ts";
import type { ToolResult } from "../protocol/tool.ts";

const READ_FILE = "read_file";

/** A shorter result is given again: a note would save next to nothing. Scaled as other budgets are (context.md, "Window"). */
const LEAST_TOKENS = 1_000;
const SHARE_OF_WINDOW = 0.05;

export interface RepeatedReadPorts {
  readonly estimateTokens: (text: string) => number;
  /** Looks through what the model is shown: `unchangedSince` over the run's rows and view. */
  readonly unchangedSince: (read: RepeatedRead) => EarlierResult | null;
}

/** The file that a call reads; undefined where its input does not say. */
const pathOf = (inputText: string): string | undefined => {
  let input: unknown;
  try {
    input = JSON.parse(inputText);
  } catch {
    return undefined;
  }
  if (typeof input !== "object" || input === null || !("file_path" in input)) return undefined;
  const parsed = typeof input.file_path === "string" ? parsePath(input.file_path) : undefined;
  return parsed?.ok === true ? parsed.path : undefined;
};

/**
 * The result as it is to be stored: a note where it repeats what the model still sees whole, else unchanged (R6). Which lines were read need
 * not be compared: a page's text numbers its lines. The history is never left out: it is read for what the view has lost.
 */
export const withoutRepetition = (
  call: ToolCall,
  result: ToolResult,
  windowTokens: number,
  { estimateTokens, unchangedSince }: RepeatedReadPorts,
): ToolResult => {
  const { content: text } = result;
  if (call.name !== READ_FILE || result.isError === true || typeof text !== "string") return result;
  const path = pathOf(call.inputText);
  if (path === undefined || path.startsWith(HISTORY_DIRECTORY)) return result;
  if (estimateTokens(text) < Math.min(LEAST_TOKENS, SHARE_OF_WINDOW * windowTokens)) return result;
  const earlier = unchangedSince({ tool: READ_FILE, path, text, pathOf });
  return earlier === null ? result : { content: unchangedNote(path, earlier) };
};
