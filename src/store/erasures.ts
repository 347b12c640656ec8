/**
 * Erasing a session. It is marked at once: its row belongs to no tenant any more, so that no statement finds it, its key is free, and its
 * head is gone, so that no run holds it or takes it. Its rows and objects go after that, and nothing waits for them.
 */
import { type SQL, sql } from "drizzle-orm";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import { copiedFrom } from "./copies.ts";
import type { Db, Row } from "./db.ts";
import { type Erasure, eraseRowsOf, setErasing } from "./erase-rows.ts";
import { flag, text, time, timeOrNull } from "./rows.ts";
import type { SessionRef } from "./session-ref.ts";
import { refers } from "./session-ref.ts";

/**
 * How long somebody who knew the session may go on writing objects for it, in seconds: a run that lost its lease learns it at its next
 * write, and no Worker outlives the queue's 15 minutes. What they leave behind is found by a last look after that.
 */
export const SETTLE_SECONDS = 900;

/** The sweeper leaves an erasure to the queue for so long, in seconds, before it sends it again. */
const RESEND_SECONDS = 600;

const inSeconds = (seconds: number) => sql`make_interval(secs => ${sql.raw(String(seconds))})`;
const settled = sql`e.created_at <= hango_now() - ${inSeconds(SETTLE_SECONDS)}`;

export interface Erased {
  readonly sessionId: SessionId;
  /** Sessions of its subagents, at every depth; none where it had been erased before. */
  readonly subagents: readonly SessionId[];
}

/**
 * Marks a session of the tenant as erased, whether a run holds it or not, and removes the first batch of its rows: of most sessions, all.
 * One round trip. An erased session is erased again without effect.
 * @param condition over `sessions s` and `session_heads h`: otherwise it is left alone
 * Its subagents' sessions are marked with it; their rows all go later.
 * @returns what was marked; undefined when the tenant has no such session, or not under this condition
 * @throws StoreUnavailable
 */
export const eraseSession = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  condition: SQL = sql`true`,
): Promise<Erased | undefined> => {
  const erasing = sql`current_setting('hango.erasing')`;
  // With those below it: at every depth, and itself.
  const all = sql`any(current_setting('hango.erasing_all')::text[])`;
  const before = "id" in ref ? sql`e.session_id = ${ref.id}` : sql`false`;
  const results = await db.batch(
    [
      // The lock keeps a turn from beginning until the mark is there; it then finds no session. Heads are locked before sessions, as by runs.
      setErasing(
        sql`select s.id from sessions s join session_heads h on h.session_id = s.id where ${refers(tenantId, ref)} and s.depth = 0 and ${condition} for update of h`,
      ),
      sql`select set_config('hango.erasing_all', (with recursive below (id) as (select s.id from sessions s where s.id = ${erasing}
          union select s.id from sessions s join below b on s.parent_session_id = b.id)
        select coalesce(array_agg(b.id), '{}')::text from below b), true)`,
      sql`select h.session_id from session_heads h where h.session_id = ${all} order by h.session_id for update`,
      sql`insert into erasures (session_id, tenant_id, next_at)
        select s.id, s.tenant_id, hango_now() + ${inSeconds(RESEND_SECONDS)} from sessions s where s.id = ${all} on conflict do nothing`,
      // A run that is queued is not begun any more, and the keys of all may be used again.
      sql`update runs set status = case when status in ('queued', 'running', 'requires_action') then 'cancelled' else status end,
          finished_at = coalesce(finished_at, hango_now()), draft = null, idempotency_key = null
        where session_id = ${all} and (status in ('queued', 'running', 'requires_action') or idempotency_key is not null)`,
      sql`delete from session_heads where session_id = ${all}`,
      sql`update sessions set tenant_id = null, key = null, user_id = null, title = null, system = null, tools = '[]', settings = '{}',
        metadata = '{}', todos = '[]', pending_files = null, created_with = '', subagent_type = null where id = ${all}`,
      ...eraseRowsOf,
      sql`select e.session_id from erasures e where e.tenant_id = ${tenantId} and e.session_id = ${all} and e.session_id <> ${erasing}`,
      sql`select e.session_id from erasures e where e.tenant_id = ${tenantId} and (e.session_id = ${erasing} or ${before})`,
    ],
    { name: "erase session", repeatable: true },
  );
  const erased = results.at(-1)?.[0];
  return erased === undefined
    ? undefined
    : {
        sessionId: text(erased, "session_id") as SessionId,
        subagents: (results.at(-2) ?? []).map((row) => text(row, "session_id") as SessionId),
      };
};

/** How far an erasure has come. */
export interface ErasureState {
  readonly sessionId: SessionId;
  readonly done: boolean;
  /** Nobody can write for the session any more. */
  readonly settled: boolean;
  /** A fork is being copied from the session: its objects are to stay until that is done. */
  readonly copied: boolean;
  readonly createdAt: string;
  /** When everything was removed the first time. */
  readonly sweptAt: string | null;
  /** When nothing was found at the last look. */
  readonly doneAt: string | null;
}

const stateOf = (row: Row): ErasureState => ({
  sessionId: text(row, "session_id") as SessionId,
  done: flag(row, "done"),
  settled: flag(row, "settled"),
  copied: flag(row, "copied"),
  createdAt: time(row, "created_at"),
  sweptAt: timeOrNull(row, "swept_at"),
  doneAt: timeOrNull(row, "done_at"),
});

/** @returns undefined when the tenant has erased no such session @throws StoreUnavailable */
export const findErasure = async (db: Db, tenantId: TenantId, id: string): Promise<ErasureState | undefined> => {
  const [rows] = await db.batch(
    [
      sql`select e.session_id, e.done, ${settled} as settled,
          ${copiedFrom(sql`e.tenant_id`, sql`e.session_id`)} as copied, e.created_at, e.swept_at, e.done_at from erasures e
        where e.session_id = ${id} and e.tenant_id = ${tenantId}`,
    ],
    { name: "find erasure", repeatable: true },
  );
  const row = rows?.[0];
  return row === undefined ? undefined : stateOf(row);
};

/**
 * Erasures that are due to be sent to the queue, oldest first: not swept in time, or to be looked at a last time. They are due again later.
 * @throws StoreUnavailable
 */
export const takeDueErasures = async (db: Db, limit: number): Promise<readonly Erasure[]> => {
  const [rows] = await db.batch(
    [
      sql`update erasures e set next_at = hango_now() + ${inSeconds(RESEND_SECONDS)} where e.session_id in (
          select d.session_id from erasures d where not d.done and d.next_at <= hango_now() order by d.next_at limit ${limit} for update skip locked)
        returning e.tenant_id, e.session_id`,
    ],
    { name: "due erasures" },
  );
  return (rows ?? []).map((row) => ({
    tenantId: text(row, "tenant_id") as TenantId,
    sessionId: text(row, "session_id") as SessionId,
  }));
};

/**
 * Records that a look found nothing left.
 * @param last the look began when nobody could write for the session any more: the erasure is done; else it is looked at again then
 * @throws StoreUnavailable
 */
export const recordSwept = async (db: Db, { tenantId, sessionId }: Erasure, last: boolean): Promise<void> => {
  const end = last ? sql`, done = true, done_at = hango_now()` : sql``;
  await db.batch(
    [
      sql`update erasures e set swept_at = coalesce(e.swept_at, hango_now()), next_at = e.created_at + ${inSeconds(SETTLE_SECONDS)}${end}
        where e.session_id = ${sessionId} and e.tenant_id = ${tenantId} and not e.done`,
    ],
    { name: "record erasure", repeatable: true },
  );
};
