/** Reading the whole log of a session, in pages: it never has to fit into memory. */
import { sql } from "drizzle-orm";
import type { SessionId } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { Db } from "./db.ts";
import { LOG_COLUMNS, logRow, number, time } from "./rows.ts";

/** A page ends with the row that reaches so many stored bytes, or after so many rows. */
const PAGE_BYTES = 4 * 1024 * 1024;
const PAGE_ROWS = 500;

/** What an export consists of, fixed when it begins: what is appended later is not in it. */
export interface ExportPlan {
  readonly sessionId: SessionId;
  readonly rows: number;
  /** Size in bytes of all contents, as sent. */
  readonly contentBytes: number;
  /** Size in bytes of what identifies the rows, as text: seqs, ids, roles and origins. */
  readonly labelBytes: number;
  readonly lastSeq: number;
  /** A seq up to `lastSeq` that is reserved for results and was empty when the export began; 0 when there is none. */
  readonly emptySeq: number;
}

export interface ExportedRow extends LogRow {
  /** RFC 3339. */
  readonly createdAt: string;
}

/**
 * Measures the log of a session for its export. One round trip.
 * @param sessionId a session that was found by its tenant
 * @returns undefined when it is gone
 * @throws StoreUnavailable
 */
export const planExport = async (db: Db, sessionId: SessionId): Promise<ExportPlan | undefined> => {
  const [rows] = await db.batch(
    [
      sql`select l.*, coalesce(h.open_batch_seq + 1, 0) as empty_seq
        from session_heads h, lateral (select count(*) as rows, coalesce(max(m.seq), 0) as last_seq,
          coalesce(sum(case when cardinality(m.media) = 0 then octet_length(m.content::text) else m.bytes end), 0) as content_bytes,
          coalesce(sum(octet_length(m.seq::text || m.id || m.role || m.origin)), 0) as label_bytes
          from messages m where m.session_id = h.session_id) l
        where h.session_id = ${sessionId}`,
    ],
    { name: "plan export", repeatable: true },
  );
  const row = rows?.[0];
  if (row === undefined) return undefined;
  return {
    sessionId,
    rows: number(row, "rows"),
    contentBytes: number(row, "content_bytes"),
    labelBytes: number(row, "label_bytes"),
    lastSeq: number(row, "last_seq"),
    emptySeq: number(row, "empty_seq"),
  };
};

/**
 * The rows of an export, in order, read a page at a time.
 * @throws StoreUnavailable
 */
export async function* exportRows(db: Db, plan: ExportPlan): AsyncGenerator<ExportedRow> {
  let after = 0;
  while (after < plan.lastSeq) {
    const [rows = []] = await db.batch(
      [
        sql`select ${sql.raw(LOG_COLUMNS)} from (
            select *, sum(octet_length(content::text)) over (order by seq) - octet_length(content::text) as bytes_before from (
              select * from messages where session_id = ${plan.sessionId} and seq > ${after}::bigint
                and seq <= ${plan.lastSeq}::bigint and seq <> ${plan.emptySeq}::bigint order by seq limit ${PAGE_ROWS}) page) m
          where m.bytes_before < ${PAGE_BYTES} order by m.seq`,
      ],
      { name: "export page", repeatable: true },
    );
    if (rows.length === 0) return;
    for (const row of rows) {
      const read = logRow(row);
      after = read.seq;
      yield { ...read, createdAt: time(row, "created_at") };
    }
  }
}
