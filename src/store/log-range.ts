/** A range of a session's log, for what is made from it: the history file and its times (M1). */
import { sql } from "drizzle-orm";
import { type Seq, type SessionId, seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { Db } from "./db.ts";
import { LOG_COLUMNS, logRow, number, time } from "./rows.ts";

/** A page ends with the row that reaches so many stored bytes, or after so many rows: one page is in memory at a time. */
const PAGE_BYTES = 4 * 1024 * 1024;
const PAGE_ROWS = 500;

/**
 * The rows from one seq to another, both inclusive, ascending, read a page at a time.
 * @param sessionId a session that was found by its tenant
 * @throws StoreUnavailable
 */
export async function* rowsBetween(
  db: Db,
  sessionId: SessionId,
  first: number,
  last: number,
): AsyncGenerator<LogRow & { readonly createdAt: string }> {
  let from = first;
  while (from <= last) {
    const [rows = []] = await db.batch(
      [
        sql`select ${sql.raw(LOG_COLUMNS)} from (
            select *, sum(octet_length(content::text)) over (order by seq) - octet_length(content::text) as bytes_before from (
              select * from messages where session_id = ${sessionId} and seq between ${from}::bigint and ${last}::bigint
                order by seq limit ${PAGE_ROWS}) page) m
          where m.bytes_before < ${PAGE_BYTES} order by m.seq`,
      ],
      { name: "log range", repeatable: true },
    );
    if (rows.length === 0) return;
    for (const row of rows) {
      const read = logRow(row);
      from = read.seq + 1;
      yield { ...read, createdAt: time(row, "created_at") };
    }
  }
}

/**
 * When the rows of a range were stored, RFC 3339. One round trip.
 * @param sessionId as for `rowsBetween`
 * @throws StoreUnavailable
 */
export const timesBetween = async (
  db: Db,
  sessionId: SessionId,
  first: number,
  last: number,
): Promise<ReadonlyMap<Seq, string>> => {
  const [rows = []] = await db.batch(
    [
      sql`select m.seq, m.created_at from messages m where m.session_id = ${sessionId} and m.seq between ${first}::bigint and ${last}::bigint`,
    ],
    { name: "log times", repeatable: true },
  );
  return new Map(rows.map((row) => [seq(number(row, "seq")), time(row, "created_at")]));
};
