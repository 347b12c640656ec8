/** Searches files line by line, a bounded amount at a time: what `grep` is built on. */
import { sniff } from "./content-type.ts";
import type { FileEntry, FileSystem } from "./filesystem.ts";
import type { FilePath } from "./path.ts";

export interface Query {
  readonly matches: (line: string) => boolean;
  /** A quick test of many lines at once: false means that none of them matches. */
  readonly mayMatch: (text: string) => boolean;
  /** Work that `matches` has done so far, in steps; counted against the budget. */
  readonly steps: () => number;
}

/** Where a search goes on: in which object of a file, at which byte of the file, and after how many newlines of it. */
export interface Position {
  readonly path: FilePath;
  readonly unitStartBytes: number;
  readonly offsetBytes: number;
  readonly newlines: number;
}

export interface Found {
  readonly path: FilePath;
  /** 1 for the first. */
  readonly line: number;
  readonly text: string;
  readonly before: readonly string[];
  readonly after: readonly string[];
}

export interface Budget {
  bytesLeft: number;
  stepsLeft: number;
}

export interface FileSearch {
  readonly fs: FileSystem;
  readonly query: Query;
  /** Spent as the search goes. */
  readonly budget: Budget;
  /** Lines before and after a match; fewer where a chunk or a section ends. */
  readonly contextLines: number;
  /** Told of every matching line, in order; says how to go on. */
  readonly onMatch: (found: Found) => "continue" | "next-file" | "stop";
}

export type FileOutcome =
  | { readonly kind: "done" | "binary" }
  /** The budget is spent, or `onMatch` asked to stop: the search goes on there. */
  | { readonly kind: "stopped"; readonly at: Position };

/** One object: a whole file, or a section of one. */
interface Unit {
  readonly path: FilePath;
  readonly startBytes: number;
  readonly endBytes: number;
  readonly newlinesBefore: number;
  /** A section: text by its making, whatever a chunk of it begins with. */
  readonly section: boolean;
}

/** Read at a time. A longer line is searched in pieces. */
export const CHUNK_BYTES = 1_048_576;
const NEWLINE = 0x0a;

/** A file's objects in the order of a search: newest section first (architecture section 4). */
const unitsOf = async (fs: FileSystem, file: FileEntry): Promise<readonly Unit[]> => {
  if (file.sectioned !== true)
    return [{ path: file.path, startBytes: 0, endBytes: file.sizeBytes, newlinesBefore: 0, section: false }];
  const sections = (await fs.stat(file.path))?.sections ?? [];
  return sections
    .map(({ offsetBytes, sizeBytes, newlinesBefore }) => ({
      path: file.path,
      startBytes: offsetBytes,
      endBytes: offsetBytes + sizeBytes,
      newlinesBefore,
      section: true,
    }))
    .reverse();
};

/** The byte after the nth newline, and how many newlines there were up to it. */
const skipNewlines = (
  bytes: Uint8Array,
  count: number,
): { readonly offsetBytes: number; readonly newlines: number } => {
  let offsetBytes = 0;
  let newlines = 0;
  while (newlines < count) {
    const at = bytes.indexOf(NEWLINE, offsetBytes);
    if (at === -1) return { offsetBytes: bytes.length, newlines };
    newlines++;
    offsetBytes = at + 1;
  }
  return { offsetBytes, newlines };
};

/** Searches one file. @param from where an earlier search of it stopped */
export const searchFile = async (search: FileSearch, file: FileEntry, from?: Position): Promise<FileOutcome> => {
  for (const unit of await unitsOf(search.fs, file)) {
    // Newer sections than the one that was being searched are done.
    if (from !== undefined && unit.startBytes > from.unitStartBytes) continue;
    const resumed = from?.unitStartBytes === unit.startBytes;
    const outcome = await searchUnit(
      search,
      unit,
      resumed ? from : { offsetBytes: unit.startBytes, newlines: unit.newlinesBefore },
    );
    if (outcome === "next-file") return { kind: "done" };
    if (outcome.kind !== "done") return outcome;
  }
  return { kind: "done" };
};

const searchUnit = async (
  search: FileSearch,
  unit: Unit,
  from: Pick<Position, "offsetBytes" | "newlines">,
): Promise<FileOutcome | "next-file"> => {
  const { path, startBytes: unitStartBytes, endBytes } = unit;
  let { offsetBytes, newlines } = from;
  while (offsetBytes < endBytes) {
    if (search.budget.bytesLeft <= 0 || search.budget.stepsLeft <= 0) {
      return { kind: "stopped", at: { path, unitStartBytes, offsetBytes, newlines } };
    }
    const lengthBytes = Math.min(CHUNK_BYTES, endBytes - offsetBytes);
    const read = await search.fs.read(path, { range: { offsetBytes, lengthBytes } });
    if (read === undefined || read.bytes.length === 0) return { kind: "done" };
    if (!unit.section && sniff(read.bytes).kind !== "text") return { kind: "binary" };
    const more = offsetBytes + read.bytes.length < endBytes;
    const lastNewline = more ? read.bytes.lastIndexOf(NEWLINE) : -1;
    const bytes = lastNewline === -1 ? read.bytes : read.bytes.subarray(0, lastNewline + 1);
    search.budget.bytesLeft -= bytes.length;
    const stopped = searchLines(search, path, new TextDecoder().decode(bytes), newlines);
    if (stopped === "next-file") return stopped;
    const passed = skipNewlines(bytes, stopped?.linesDone ?? Number.POSITIVE_INFINITY);
    offsetBytes += passed.offsetBytes;
    newlines += passed.newlines;
    if (stopped !== undefined) return { kind: "stopped", at: { path, unitStartBytes, offsetBytes, newlines } };
  }
  return { kind: "done" };
};

/** @returns undefined when all lines were searched */
const searchLines = (
  { query, budget, contextLines, onMatch }: FileSearch,
  path: FilePath,
  text: string,
  newlinesBefore: number,
): { readonly linesDone: number } | "next-file" | undefined => {
  if (!query.mayMatch(text)) return undefined;
  const lines = (text.endsWith("\n") ? text.slice(0, -1) : text)
    .split("\n")
    .map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  for (const [index, line] of lines.entries()) {
    if (budget.stepsLeft <= 0) return { linesDone: index };
    const before = query.steps();
    const matched = query.matches(line);
    budget.stepsLeft -= query.steps() - before;
    if (!matched) continue;
    const verdict = onMatch({
      path,
      line: newlinesBefore + index + 1,
      text: line,
      before: lines.slice(Math.max(0, index - contextLines), index),
      after: lines.slice(index + 1, index + 1 + contextLines),
    });
    if (verdict === "stop") return { linesDone: index + 1 };
    if (verdict === "next-file") return verdict;
  }
  return undefined;
};
