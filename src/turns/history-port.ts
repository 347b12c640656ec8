/** The history file as compaction sees it: seqs in, a pointer out (M1). */
import type { HistoryPort } from "../context/ports.ts";
import { difference, type SeqRange } from "../context/view-state.ts";
import type { FileSystem } from "../files/filesystem.ts";
import { sha256Hex } from "../files/hash.ts";
import { appendHistory, historyPath, type WrittenHistory } from "../files/history.ts";
import type { HistoryRow } from "../files/history-text.ts";
import { type Seq, type SessionId, seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";

export interface HistoryPortOptions {
  readonly files: FileSystem;
  readonly sessionId: SessionId;
  /** Rows that were undone: no section may span them (R3). */
  readonly undone: readonly SeqRange[];
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

/** The ranges that the rows are written as: one, or several where undone rows lie between. */
const piecesOf = (range: SeqRange, rows: readonly HistoryRow[], undone: readonly SeqRange[]) =>
  difference([range], undone).flatMap((piece) => {
    const own = rows.filter(({ seq: at }) => piece.from <= at && at <= piece.to);
    return own.length === 0 ? [] : [{ range: { first: piece.from, last: piece.to }, rows: own }];
  });

const sha256OfAll = async (written: readonly WrittenHistory[]): Promise<string> => {
  const [only, ...more] = written;
  if (only === undefined) throw new RangeError("there are no rows to write");
  if (more.length === 0) return only.sha256;
  return sha256Hex(written.flatMap(({ sections }) => sections.map(({ sha256 }) => sha256)).join("\n"));
};

export const historyPort = ({ files, sessionId, undone, loadTimes }: HistoryPortOptions): HistoryPort => ({
  append: async (range, rows) => {
    const timed = await withTimes(rows, loadTimes);
    const written: WrittenHistory[] = [];
    for (const piece of piecesOf(range, timed, undone)) {
      written.push(await appendHistory(files, sessionId, piece.range, piece.rows));
    }
    return {
      pointer: { kind: "file", path: historyPath(sessionId) },
      sizeBytes: written.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      sha256: await sha256OfAll(written),
    };
  },
});
