/** Erasing a session: its rows at once and together, its objects in R2 afterwards, through the queue. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { SessionRef } from "./begin.ts";
import { copiedFrom } from "./copies.ts";
import type { Db } from "./db.ts";
import { leaseLive } from "./lease.ts";
import { flag, number, text, textOrNull } from "./rows.ts";
import { refers } from "./sessions.ts";

/** What stands in the usage records of an erased session: what was used is still billed, by whom in which session is gone. */
export const ERASED_SESSION = "erased";

export type EraseOutcome =
  | { readonly kind: "erased"; readonly sessionId: SessionId }
  | { readonly kind: "busy"; readonly runId: RunId; readonly retryAfterSeconds: number }
  | { readonly kind: "not_found" };

/** SQL: the session that this transaction erases; empty when there is none. */
const erasing: SQL = sql`current_setting('hango.erasing')`;

/**
 * Erases a session of the tenant in one transaction, unless a run holds its lease. An erased session is erased again without effect.
 * @throws StoreUnavailable
 */
export const eraseSession = async (db: Db, tenantId: TenantId, ref: SessionRef): Promise<EraseOutcome> => {
  const before = "id" in ref ? sql`e.session_id = ${ref.id}` : sql`false`;
  const results = await db.batch(
    [
      // The lock keeps a turn from beginning until the rows are gone; it then finds no session.
      sql`select set_config('hango.erasing', coalesce((select s.id from sessions s join session_heads h on h.session_id = s.id
        where ${refers(tenantId, ref)} and not coalesce(${leaseLive}, false) for update of h), ''), true)`,
      sql`insert into erasures (session_id, tenant_id) select s.id, s.tenant_id from sessions s where s.id = ${erasing} on conflict do nothing`,
      sql`delete from run_events where session_id = ${erasing}`,
      sql`delete from messages where session_id = ${erasing}`,
      sql`delete from view_revisions where session_id = ${erasing}`,
      sql`delete from compactions where session_id = ${erasing}`,
      sql`delete from inputs where session_id = ${erasing}`,
      sql`delete from runs where session_id = ${erasing}`,
      sql`update usage_records set session_id = ${ERASED_SESSION}, run_id = null, user_id = null where session_id = ${erasing}`,
      sql`delete from session_heads where session_id = ${erasing}`,
      sql`delete from sessions where id = ${erasing}`,
      sql`select h.lease_holder, greatest(1, ceil(extract(epoch from h.lease_expires_at - hango_now())))::int as retry_after
        from sessions s join session_heads h on h.session_id = s.id where ${refers(tenantId, ref)}`,
      sql`select e.session_id from erasures e where e.tenant_id = ${tenantId} and (e.session_id = ${erasing} or ${before})`,
    ],
    { name: "erase session", repeatable: true },
  );
  const erased = results.at(-1)?.[0];
  if (erased !== undefined) return { kind: "erased", sessionId: text(erased, "session_id") as SessionId };
  const left = results.at(-2)?.[0];
  if (left === undefined) return { kind: "not_found" };
  return {
    kind: "busy",
    runId: (textOrNull(left, "lease_holder") ?? "") as RunId,
    retryAfterSeconds: Math.min(number(left, "retry_after"), 10),
  };
};

export interface Erasure {
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
}

/** Erasures whose objects may still be there, oldest first. @throws StoreUnavailable */
export const unfinishedErasures = async (db: Db, limit: number): Promise<readonly Erasure[]> => {
  const [rows] = await db.batch(
    [sql`select tenant_id, session_id from erasures where not done order by created_at limit ${limit}`],
    { name: "unfinished erasures", repeatable: true },
  );
  return (rows ?? []).map((row) => ({
    tenantId: text(row, "tenant_id") as TenantId,
    sessionId: text(row, "session_id") as SessionId,
  }));
};

/**
 * Whether a session is recorded as erased, its objects are not, and no fork is still being copied from them.
 * @throws StoreUnavailable
 */
export const erasureDue = async (db: Db, { tenantId, sessionId }: Erasure): Promise<boolean> => {
  const [rows] = await db.batch(
    [
      sql`select not e.done and not ${copiedFrom(sql`e.tenant_id`, sql`e.session_id`)} as due
        from erasures e where e.session_id = ${sessionId} and e.tenant_id = ${tenantId}`,
    ],
    { name: "erasure due", repeatable: true },
  );
  const row = rows?.[0];
  return row !== undefined && flag(row, "due");
};

/** Records that the objects are gone. @throws StoreUnavailable */
export const finishErasure = async (db: Db, { tenantId, sessionId }: Erasure): Promise<void> => {
  await db.batch([sql`update erasures set done = true where session_id = ${sessionId} and tenant_id = ${tenantId}`], {
    name: "finish erasure",
    repeatable: true,
  });
};
