/** The history file as compaction sees it: seqs in, a pointer out (M1). */
import type { HistoryPort } from "../context/ports.ts";
import { rangesOf, type SeqRange } from "../context/view-state.ts";
import type { FileSystem } from "../files/filesystem.ts";
import { appendHistory, historyPath, type WrittenHistory } from "../files/history.ts";
import type { HistoryRow } from "../files/history-text.ts";
import { type Seq, type SessionId, seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import { sha256Hex } from "../protocol/sha256.ts";

export interface HistoryPortOptions {
  readonly files: FileSystem;
  readonly sessionId: SessionId;
  /** When the rows of a range were stored, RFC 3339, as the log says. Asked only for rows that were appended by this very turn. */
  readonly loadTimes: (range: SeqRange) => Promise<ReadonlyMap<Seq, string>>;
}

const isTimed = (row: LogRow): row is HistoryRow => row.createdAt !== undefined;

/** @throws Error for a row that the log does not have */
const withTimes = async (
  rows: readonly LogRow[],
  loadTimes: HistoryPortOptions["loadTimes"],
): Promise<readonly HistoryRow[]> => {
  if (rows.every(isTimed)) return rows;
  const seqs = rows.filter((row) => !isTimed(row)).map((row) => row.seq);
  const times = await loadTimes({ from: seq(Math.min(...seqs)), to: seq(Math.max(...seqs)) });
  return rows.map((row) => {
    const createdAt = row.createdAt ?? times.get(row.seq);
    if (createdAt === undefined) throw new Error(`the log has no row ${row.seq}`);
    return { ...row, createdAt };
  });
};

/**
 * The ranges that the rows are written as: one for each run of neighbours. A section that spans a row which it does not hold would hide the
 * section that does (M1): one that micro-compaction wrote before, or one that was undone (R3).
 */
const piecesOf = (rows: readonly HistoryRow[]) =>
  rangesOf(rows.map((row) => row.seq)).map(({ from, to }) => ({
    range: { first: from, last: to },
    rows: rows.filter(({ seq: at }) => from <= at && at <= to),
  }));

const sha256OfAll = async (written: readonly WrittenHistory[]): Promise<string> => {
  const [only, ...more] = written;
  if (only === undefined) throw new RangeError("there are no rows to write");
  if (more.length === 0) return only.sha256;
  return sha256Hex(written.flatMap(({ sections }) => sections.map(({ sha256 }) => sha256)).join("\n"));
};

export const historyPort = ({ files, sessionId, loadTimes }: HistoryPortOptions): HistoryPort => ({
  append: async (rows) => {
    const timed = await withTimes(rows, loadTimes);
    const written: WrittenHistory[] = [];
    for (const piece of piecesOf(timed)) {
      written.push(await appendHistory(files, sessionId, piece.range, piece.rows));
    }
    return {
      pointer: { kind: "file", path: historyPath(sessionId) },
      sizeBytes: written.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      sha256: await sha256OfAll(written),
    };
  },
});
