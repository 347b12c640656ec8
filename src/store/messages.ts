/** The log as a resource: read in pages, content as the text that it is (V9). */
import { sql } from "drizzle-orm";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { Db } from "./db.ts";
import type { Page } from "./pages.ts";
import { flag, LOG_COLUMNS, logRow, number, text, time } from "./rows.ts";
import type { SessionRef } from "./session-ref.ts";
import { refers } from "./session-ref.ts";

export interface MessageRecord extends LogRow {
  readonly createdAt: string;
  /** Undone: the model never sees it again (R3). */
  readonly rewound: boolean;
}

export interface MessagePage {
  readonly sessionId: SessionId;
  /** The session that keeps its media: itself, or for a subagent's the one at the top. */
  readonly rootSessionId: SessionId;
  readonly rows: readonly MessageRecord[];
  /** There are rows after these. */
  readonly more: boolean;
}

/**
 * A page of a session's log, by seq. Ends early once its contents, media included, reach `maxBytes`; holds one row at least.
 * @param withRewound whether rows that were undone are among them
 * @param page its limit is one more than is shown
 * @returns undefined when the tenant has no such session
 * @throws StoreUnavailable
 */
export const listMessages = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  page: Page,
  maxBytes: number,
  withRewound: boolean,
): Promise<MessagePage | undefined> => {
  const [sessions, rows] = await db.batch(
    [
      sql`select s.id, coalesce(s.root_session_id, s.id) as root_session_id from sessions s where ${refers(tenantId, ref)}`,
      sql`with candidates as (
          select m.session_id, m.seq, m.bytes, h.rewound @> m.seq as rewound
          from messages m join sessions s on s.id = m.session_id join session_heads h on h.session_id = s.id
          where ${refers(tenantId, ref)} and (${withRewound} or not h.rewound @> m.seq) and ${page.after(sql`m.seq`)} order by ${page.order(sql`m.seq`)} limit ${page.limit}),
        sized as (
          select c.session_id, c.seq, c.rewound, coalesce(sum(c.bytes) over (order by ${page.order(sql`c.seq`)}
            rows between unbounded preceding and 1 preceding), 0) as before, count(*) over () as candidates from candidates c)
        select ${sql.raw(LOG_COLUMNS)}, z.candidates, z.rewound from sized z join messages m on m.session_id = z.session_id and m.seq = z.seq
        where z.before < ${maxBytes}::bigint order by ${page.order(sql`m.seq`)} limit ${page.limit - 1}`,
    ],
    { name: "list messages", repeatable: true },
  );
  const session = sessions?.[0];
  if (session === undefined) return undefined;
  const read = rows ?? [];
  const first = read[0];
  return {
    sessionId: text(session, "id") as SessionId,
    rootSessionId: text(session, "root_session_id") as SessionId,
    rows: read.map((row) => ({ ...logRow(row), createdAt: time(row, "created_at"), rewound: flag(row, "rewound") })),
    more: first !== undefined && number(first, "candidates") > read.length,
  };
};
