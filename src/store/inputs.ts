/** Input that arrives while a run is on (M5). */
import { sql } from "drizzle-orm";
import type { SessionId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import type { Db } from "./db.ts";

/**
 * Leaves input for the run that holds the session; the run moves it into the log with its next results or at its end.
 * @returns false when no run holds the session: then there is nobody to pick it up, and a turn must be begun instead
 * @throws StoreUnavailable
 */
export const addInput = async (db: Db, sessionId: SessionId, row: NewRow): Promise<boolean> => {
  // The lock makes this wait for a finish under way, which releases the lease: then no row is found and nothing is left behind.
  const [, accepted] = await db.batch(
    [
      sql`insert into inputs (id, session_id, origin, content, media, tokens, bytes)
        select ${row.id}, h.session_id, ${row.origin}, ${row.content}::json, ${sql.param([...row.media])}::text[], ${row.tokens}::int, ${row.bytes}::int
        from (select session_id from session_heads where session_id = ${sessionId} and lease_holder is not null
          and lease_expires_at > hango_now() for update) h on conflict (id) do nothing`,
      sql`select 1 from inputs where id = ${row.id} union all select 1 from messages where id = ${row.id}`,
    ],
    { name: "add input", repeatable: true },
  );
  return accepted !== undefined && accepted.length > 0;
};
