/** Small questions about a session, for those who go on with its id. */
import { sql } from "drizzle-orm";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import { number, text } from "./rows.ts";
import type { SessionRef } from "./session-ref.ts";
import { refers } from "./session-ref.ts";

export interface ResolvedSession {
  readonly sessionId: SessionId;
  /** The session whose files these are: its own, or for a subagent's the one at the top. */
  readonly rootSessionId: SessionId;
  readonly lastEvent: number;
}

/** The id of a tenant's session, and the number of its newest event; undefined when there is none of that name. @throws StoreUnavailable */
export const resolveSession = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
): Promise<ResolvedSession | undefined> => {
  const [rows] = await db.batch(
    [
      sql`select s.id, coalesce(s.root_session_id, s.id) as root_session_id, h.next_event - 1 as last_event from sessions s join session_heads h on h.session_id = s.id where ${refers(tenantId, ref)}`,
    ],
    { name: "resolve session", repeatable: true },
  );
  const row = rows?.[0];
  return row === undefined
    ? undefined
    : {
        sessionId: text(row, "id") as SessionId,
        rootSessionId: text(row, "root_session_id") as SessionId,
        lastEvent: number(row, "last_event"),
      };
};
