/**
 * The copying of a forked session's objects: a maintenance run that holds the fork's lease from its first moment until everything is
 * there, so that no turn finds a part of it. The lease does not expire by itself; a copy that was cut off is gone on with.
 */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import { busyRun, RELEASED } from "./lease.ts";
import { flag, number, text, textOrNull } from "./rows.ts";

/** A copy that has not ended; what of it is kept in `runs.state_json`. */
export interface Copy {
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
  readonly runId: RunId;
  readonly from: SessionId;
  /** The last seq that was copied. */
  readonly atSeq: number;
  /** The key of the last object that was copied; null before the first. */
  readonly after: string | null;
}

/** How long the copy holds the lease, in years: until it says that it is done. Far, and within what an interval in seconds may be. */
const LEASE_YEARS = 30;

/** SQL: the expiry of a copy's lease. */
export const copyLeaseExpiry: SQL = sql`hango_now() + make_interval(years => ${sql.raw(String(LEASE_YEARS))})`;

/** `runs.state_json` of a copy. */
export const copyState = (from: SQL, atSeq: SQL): SQL =>
  sql`jsonb_build_object('copy_from', ${from}, 'at_seq', ${atSeq})`;

const copying = sql`r.trigger = 'maintenance' and r.status = 'running' and r.state_json ? 'copy_from'`;

/** SQL condition: a fork of this session is being copied. */
export const copiedFrom = (tenantId: SQL, sessionId: SQL): SQL =>
  sql`exists (select 1 from runs r where r.tenant_id = ${tenantId} and ${copying} and r.state_json->>'copy_from' = ${sessionId})`;

/** @returns undefined when the session is not being copied to (any more) @throws StoreUnavailable */
export const findCopy = async (db: Db, tenantId: TenantId, sessionId: SessionId): Promise<Copy | undefined> => {
  const [rows] = await db.batch(
    [
      sql`select r.id, r.state_json->>'copy_from' as copy_from, (r.state_json->>'at_seq')::bigint as at_seq, r.state_json->>'after' as after
        from runs r where r.tenant_id = ${tenantId} and r.session_id = ${sessionId} and ${copying}`,
    ],
    { name: "find copy", repeatable: true },
  );
  const row = rows?.[0];
  if (row === undefined) return undefined;
  return {
    tenantId,
    sessionId,
    runId: text(row, "id") as RunId,
    from: text(row, "copy_from") as SessionId,
    atSeq: number(row, "at_seq"),
    after: textOrNull(row, "after"),
  };
};

/** Remembers how far a copy has come. @throws StoreUnavailable */
export const noteCopied = async (db: Db, { tenantId, runId }: Copy, after: string): Promise<void> => {
  await db.batch(
    [
      sql`update runs r set state_json = r.state_json || jsonb_build_object('after', ${after}::text)
        where r.id = ${runId} and r.tenant_id = ${tenantId} and ${copying} and coalesce(r.state_json->>'after', '') < ${after} collate "C"`,
    ],
    { name: "note copied", repeatable: true },
  );
};

/**
 * Ends a copy: the fork is free.
 * @returns whether the objects of the original wait for it to be erased, and the run that may have the fork now, if there is one
 * @throws StoreUnavailable
 */
export const finishCopy = async (
  db: Db,
  { tenantId, sessionId, runId, from }: Copy,
): Promise<{ readonly erasureWaits: boolean; readonly next: RunId | null }> => {
  const results = await db.batch(
    [
      sql`update runs r set status = 'completed', finished_at = hango_now() where r.id = ${runId} and r.tenant_id = ${tenantId} and ${copying}`,
      sql`update session_heads h set ${RELEASED} from sessions s
        where h.session_id = s.id and s.id = ${sessionId} and s.tenant_id = ${tenantId} and h.lease_holder = ${runId}`,
      sql`select exists (select 1 from erasures e where e.session_id = ${from} and e.tenant_id = ${tenantId} and not e.done) as waits,
          (select ${busyRun} from session_heads h join sessions s on s.id = h.session_id and s.tenant_id = ${tenantId}
            where h.session_id = ${sessionId}) as next`,
    ],
    { name: "finish copy", repeatable: true },
  );
  const row = results.at(-1)?.[0];
  return row === undefined
    ? { erasureWaits: false, next: null }
    : { erasureWaits: flag(row, "waits"), next: textOrNull(row, "next") as RunId | null };
};

/** Copies that began some time ago and have not ended, oldest first: their messages may be lost. @throws StoreUnavailable */
export const unfinishedCopies = async (
  db: Db,
  limit: number,
): Promise<readonly { readonly tenantId: TenantId; readonly sessionId: SessionId }[]> => {
  const [rows] = await db.batch(
    [
      sql`select r.tenant_id, r.session_id from runs r where ${copying} and r.created_at < hango_now() - interval '1 minute'
        order by r.created_at limit ${limit}`,
    ],
    { name: "unfinished copies", repeatable: true },
  );
  return (rows ?? []).map((row) => ({
    tenantId: text(row, "tenant_id") as TenantId,
    sessionId: text(row, "session_id") as SessionId,
  }));
};
