/** Small questions about a session, for those who go on with its id. */
import { sql } from "drizzle-orm";
import { type Seq, type SessionId, seq, type TenantId } from "../protocol/ids.ts";
import type { SessionRef } from "./begin.ts";
import type { Db } from "./db.ts";
import { number, text, time } from "./rows.ts";
import { refers } from "./sessions.ts";

/** The id of a tenant's session, and the number of its newest event; undefined when there is none of that name. @throws StoreUnavailable */
export const resolveSession = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
): Promise<{ readonly sessionId: SessionId; readonly lastEvent: number } | undefined> => {
  const [rows] = await db.batch(
    [
      sql`select s.id, h.next_event - 1 as last_event from sessions s join session_heads h on h.session_id = s.id where ${refers(tenantId, ref)}`,
    ],
    { name: "resolve session", repeatable: true },
  );
  const row = rows?.[0];
  return row === undefined
    ? undefined
    : { sessionId: text(row, "id") as SessionId, lastEvent: number(row, "last_event") };
};

/** When rows of a range were stored, RFC 3339, by seq. @throws StoreUnavailable */
export const rowTimes = async (db: Db, sessionId: SessionId, from: number, to: number): Promise<ReadonlyMap<Seq, string>> => {
  const [rows] = await db.batch(
    [sql`select m.seq, m.created_at from messages m where m.session_id = ${sessionId} and m.seq between ${from}::bigint and ${to}::bigint`],
    { name: "row times", repeatable: true },
  );
  return new Map((rows ?? []).map((row) => [seq(number(row, "seq")), time(row, "created_at")]));
};
