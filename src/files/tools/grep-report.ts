/** What a `grep` shows of its matches, within its limits. */
import { besideSecret } from "../../protocol/redact.ts";
import type { FilePath } from "../path.ts";
import type { Found } from "../search.ts";
import { headOf, tailOf } from "../text-cut.ts";

export type OutputMode = "files_with_matches" | "content" | "count";

export interface Report {
  /** Takes a match; says whether to go on. */
  add(found: Found): "continue" | "next-file" | "stop";
  /** Takes note that a file was searched to its end, or as far as this call gets. @returns whether the limit is reached */
  endFile(path: FilePath): "full" | "room";
  /** What was found: matching lines for `content`, files for the others. */
  count(): number;
  text(): string;
}

const LINE_CHARS = 400;
/** Longest secret that a cut goes around. */
const SECRET_CHARS = 1_000;
/** Shown before a match that is far into a long line. */
const LEAD_CHARS = 100;
/** Under the offload threshold, so that the pages of an answer are its own. */
const MAX_CHARS = 40_000;

/** A line cut to `LINE_CHARS` around the match, which begins at `at` (0 if unknown). */
const cutLine = (line: string, at: number): string => {
  if (line.length <= LINE_CHARS) return line;
  const from = at + LEAD_CHARS < LINE_CHARS ? 0 : at - LEAD_CHARS;
  const lead = from === 0 ? "" : "...";
  // The match is what was asked for; a secret that only the edge would tear is left out whole (S6).
  const start = Math.min(besideSecret(line, from, SECRET_CHARS).after, Math.max(from, at));
  const end = Math.max(besideSecret(line, from + LINE_CHARS, SECRET_CHARS).before, start);
  return `${lead}${headOf(tailOf(line, line.length - start), end - start)}... [${line.length} characters]`;
};

/**
 * @param limit most files (or lines, for `content`)
 * @param placeOf where in a line the match begins; 0 if unknown
 */
export const createReport = (mode: OutputMode, limit: number, placeOf: (line: string) => number): Report => {
  const lines: string[] = [];
  let chars = 0;
  let found = 0;
  let inFile = 0;
  /** The last line of a file that was shown, and context lines after it that wait for the next match. */
  let shown: { readonly path: string; readonly line: number; readonly after: readonly string[] } = {
    path: "",
    line: 0,
    after: [],
  };

  const push = (line: string): void => {
    lines.push(line);
    chars += line.length + 1;
  };
  const context = (path: string, firstLine: number, texts: readonly string[]): void => {
    texts.forEach((text, index) => {
      push(`${path}-${firstLine + index}- ${cutLine(text, 0)}`);
    });
  };
  /** Shows the waiting context before a line. */
  const flush = (beforeLine: number): void => {
    context(shown.path, shown.line + 1, shown.after.slice(0, Math.max(0, beforeLine - shown.line - 1)));
  };

  const addContent = ({ path, line, text, before, after }: Found): "continue" | "stop" => {
    const samePlace = shown.path === path && line > shown.line;
    const lastShown = samePlace ? Math.min(line - 1, shown.line + shown.after.length) : 0;
    flush(samePlace ? line : Number.POSITIVE_INFINITY);
    const skipped = Math.max(0, lastShown - (line - before.length) + 1);
    if (before.length + after.length > 0 && lines.length > 0 && line - before.length > lastShown + 1) push("--");
    context(path, line - before.length + skipped, before.slice(skipped));
    push(`${path}:${line}: ${cutLine(text, placeOf(text))}`);
    shown = { path, line, after };
    found++;
    return found >= limit || chars >= MAX_CHARS ? "stop" : "continue";
  };

  return {
    add: (match) => {
      if (mode === "content") return addContent(match);
      inFile++;
      return mode === "count" ? "continue" : "next-file";
    },
    endFile: (path) => {
      if (mode !== "content" && inFile > 0) {
        push(mode === "count" ? `${path}: ${inFile}` : path);
        found++;
        inFile = 0;
      }
      return found >= limit || chars >= MAX_CHARS ? "full" : "room";
    },
    count: () => found,
    text: () => {
      flush(Number.POSITIVE_INFINITY);
      shown = { ...shown, after: [] };
      return lines.join("\n");
    },
  };
};
