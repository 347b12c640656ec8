/** The history file of a session: its sections written, verified, and rebuilt from the log (M1). */

import { sha256Hex } from "../protocol/sha256.ts";
import type { FileSystem, SectionKey } from "./filesystem.ts";
import { type HistoryRow, type RenderedRow, renderHead, renderRow } from "./history-text.ts";
import { type FilePath, HISTORY_DIRECTORY } from "./path.ts";
import { joinBytes } from "./sections.ts";

/**
 * Largest object of a history, in bytes, but for one that holds a single larger message. Three copies of it are in memory while it is written
 * and read back; `grep` reads it whole at worst.
 */
export const MAX_SECTION_BYTES = 4 * 1_048_576;
/** Room for what a section says of itself before its index. */
const HEAD_BYTES = 8_192;

/** Where the history of a session is. */
export const historyPath = (sessionId: string): FilePath => `${HISTORY_DIRECTORY}${sessionId}.md` as FilePath;

/** A section as it was read back. */
export interface WrittenSection {
  readonly key: SectionKey;
  readonly sizeBytes: number;
  /** 64 hex digits. */
  readonly sha256: string;
}

export interface WrittenHistory {
  readonly path: FilePath;
  /** Of all sections together. */
  readonly sizeBytes: number;
  /** The section's; of several, the SHA-256 of their hashes, a line each. 64 hex digits. */
  readonly sha256: string;
  /** One, or several for a large range; together they are the range. */
  readonly sections: readonly WrittenSection[];
}

/** What was read back of a section is not what was written. */
export class HistoryNotVerified extends Error {
  constructor(key: SectionKey, wanted: string, found: string) {
    super(`the history section ${key.first}-${key.last} was written as ${wanted} but read back as ${found}`);
    this.name = "HistoryNotVerified";
  }
}

type Rows = Iterable<HistoryRow> | AsyncIterable<HistoryRow>;

interface Piece {
  readonly row: RenderedRow;
  readonly bytes: Uint8Array;
}

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Cuts a range into sections of bounded size. The same rows are cut in the same places, so that a repeated attempt writes the same keys. */
async function* sectionsOf(
  range: SectionKey,
  rows: Rows,
): AsyncGenerator<{ readonly key: SectionKey; readonly bytes: Uint8Array }> {
  const toolNames = new Map<string, string>();
  let first = range.first;
  let lastSeq = range.first - 1;
  let pieces: Piece[] = [];
  let sizeBytes = HEAD_BYTES;
  const section = (last: number) => {
    const key = { first, last };
    const head = renderHead(
      key,
      pieces.map(({ row }) => row),
    );
    return { key, bytes: joinBytes([encode(head), ...pieces.map(({ bytes }) => bytes)]) };
  };
  for await (const each of rows) {
    if (each.seq <= lastSeq || each.seq > range.last) {
      throw new RangeError(`the row ${each.seq} is out of order or outside of ${range.first}-${range.last}`);
    }
    lastSeq = each.seq;
    const row = renderRow(each, toolNames);
    const bytes = encode(row.markdown);
    const addedBytes = bytes.length + encode(row.indexLine).length + 1;
    if (pieces.length > 0 && sizeBytes + addedBytes > MAX_SECTION_BYTES) {
      yield section(each.seq - 1);
      first = each.seq;
      pieces = [];
      sizeBytes = HEAD_BYTES;
    }
    pieces.push({ row, bytes });
    sizeBytes += addedBytes;
  }
  if (pieces.length > 0) yield section(range.last);
}

const write = async (fs: FileSystem, path: FilePath, range: SectionKey, rows: Rows): Promise<WrittenHistory> => {
  const sections: WrittenSection[] = [];
  for await (const { key, bytes } of sectionsOf(range, rows)) {
    const wanted = { sizeBytes: bytes.length, sha256: await sha256Hex(bytes) };
    const found = await fs.append(path, bytes, key);
    if (found.sizeBytes !== wanted.sizeBytes || found.sha256 !== wanted.sha256) {
      throw new HistoryNotVerified(key, JSON.stringify(wanted), JSON.stringify(found));
    }
    sections.push({ key, ...wanted });
  }
  const sizeBytes = sections.reduce((sum, section) => sum + section.sizeBytes, 0);
  const [only, ...more] = sections.map((section) => section.sha256);
  const sha256 = only !== undefined && more.length === 0 ? only : await sha256Hex([only ?? "", ...more].join("\n"));
  return { path, sizeBytes, sha256, sections };
};

/**
 * Writes the rows of a range to the history, and checks size and hash of what the backend then holds (M1). A repeated attempt overwrites itself.
 * @param rows ascending, within the range; seqs that the log does not have may be missing
 * @throws HistoryNotVerified, RangeError for rows that do not belong to the range or none at all, and what the backend fails with
 */
export const appendHistory = async (
  fs: FileSystem,
  sessionId: string,
  range: SectionKey,
  rows: Rows,
): Promise<WrittenHistory> => {
  const written = await write(fs, historyPath(sessionId), range, rows);
  if (written.sections.length === 0) throw new RangeError(`there are no rows of ${range.first}-${range.last}`);
  return written;
};

/** The parts of a range that none of the keys covers. */
const gapsIn = (range: SectionKey, keys: readonly SectionKey[]): readonly SectionKey[] => {
  const gaps: SectionKey[] = [];
  let from = range.first;
  for (const { first, last } of [...keys].sort((a, b) => a.first - b.first)) {
    if (last < from) continue;
    if (first > range.last) break;
    if (first > from) gaps.push({ first: from, last: first - 1 });
    from = last + 1;
  }
  if (from <= range.last) gaps.push({ first: from, last: range.last });
  return gaps;
};

/**
 * Writes what the history lacks of the ranges that are referred to, from the log (M1).
 * @param loadRows the rows of the log from one seq to another, both inclusive, ascending; read as they come
 * @returns the sections that were missing; empty when the history was whole
 * @throws as `appendHistory`, and what `loadRows` fails with
 */
export const rebuildHistory = async (
  fs: FileSystem,
  sessionId: string,
  neededRanges: readonly SectionKey[],
  loadRows: (first: number, last: number) => AsyncIterable<HistoryRow> | Promise<Iterable<HistoryRow>>,
): Promise<readonly WrittenSection[]> => {
  const path = historyPath(sessionId);
  const keys = ((await fs.stat(path))?.sections ?? []).map(({ key }) => key);
  const rebuilt: WrittenSection[] = [];
  for (const needed of neededRanges) {
    for (const gap of gapsIn(needed, keys)) {
      const { sections } = await write(fs, path, gap, await loadRows(gap.first, gap.last));
      rebuilt.push(...sections);
      keys.push(gap);
    }
  }
  return rebuilt;
};
