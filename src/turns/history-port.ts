/** The history file as compaction sees it: seqs in, a pointer out (M1). */
import type { HistoryPort } from "../context/ports.ts";
import type { SeqRange } from "../context/view-state.ts";
import type { FileSystem } from "../files/filesystem.ts";
import { appendHistory } from "../files/history.ts";
import type { HistoryRow } from "../files/history-text.ts";
import { type Seq, type SessionId, seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";

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

export const historyPort = ({ files, sessionId, loadTimes }: HistoryPortOptions): HistoryPort => ({
  append: async ({ from, to }, rows) => {
    const timed = await withTimes(rows, loadTimes);
    const { path, sizeBytes, sha256 } = await appendHistory(files, sessionId, { first: from, last: to }, timed);
    return { pointer: { kind: "file", path }, sizeBytes, sha256 };
  },
});
