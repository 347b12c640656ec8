/** What is removed by age. All of it across tenants, in batches of bounded size, by the database's clock. */
import { type SQL, sql } from "drizzle-orm";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import type { Erasure } from "./erase-rows.ts";
import { sessionBusy } from "./lease.ts";
import { number, text } from "./rows.ts";

const before = (days: number): SQL => sql`hango_now() - make_interval(days => ${days}::int)`;

/** SQL condition over `sessions s` and `session_heads h`: untouched for so many days, and nothing is on or waits. */
export const unusedFor = (days: number): SQL => sql`s.updated_at <= ${before(days)} and not ${sessionBusy}`;

/** Sessions that nobody has used for so many days. @throws StoreUnavailable */
export const unusedSessions = async (db: Db, days: number, limit: number): Promise<readonly Erasure[]> => {
  // Tenant by tenant, so that the index by tenant and age serves.
  const [rows] = await db.batch(
    [
      sql`select u.tenant_id, u.id from tenants t cross join lateral (
          select s.tenant_id, s.id from sessions s join session_heads h on h.session_id = s.id
          where s.tenant_id = t.id and s.depth = 0 and ${unusedFor(days)} order by s.updated_at limit ${limit}) u limit ${limit}`,
    ],
    { name: "unused sessions", repeatable: true },
  );
  return (rows ?? []).map((row) => ({
    tenantId: text(row, "tenant_id") as TenantId,
    sessionId: text(row, "id") as SessionId,
  }));
};

const counted = (rows: readonly Row[] | undefined): number => (rows?.[0] === undefined ? 0 : number(rows[0], "rows"));

/**
 * Removes the events of some of the runs that ended so many days ago. The log is not touched.
 * @param limit most runs
 * @returns how many runs were done
 * @throws StoreUnavailable
 */
export const expireEvents = async (db: Db, days: number, limit: number): Promise<number> => {
  const [rows] = await db.batch(
    [
      sql`with due as (select r.id from runs r where not r.events_expired and r.finished_at <= ${before(days)}
            order by r.finished_at limit ${limit} for update skip locked),
          gone as (delete from run_events e using due where e.run_id = due.id),
          marked as (update runs r set events_expired = true from due where r.id = due.id)
        select count(*)::int as rows from due`,
    ],
    { name: "expire events", repeatable: true },
  );
  return counted(rows);
};

/**
 * Removes what some of the deliveries carried, in and out, that came to their end and are so many days old. Their rows stay.
 * @param limit most deliveries of each kind
 * @returns whether there may be more
 * @throws StoreUnavailable
 */
export const expirePayloads = async (db: Db, days: number, limit: number): Promise<boolean> => {
  const results = await db.batch(
    [
      sql`with gone as (update deliveries set payload = null, headers = '{}' where id in (
          select d.id from deliveries d where d.payload is not null and d.created_at <= ${before(days)}
            and d.status not in ('waiting', 'accepted') order by d.created_at limit ${limit} for update skip locked) returning 1)
        select count(*)::int as rows from gone`,
      sql`with gone as (update webhook_deliveries set payload = '' where id in (
          select d.id from webhook_deliveries d where d.payload <> '' and d.created_at <= ${before(days)}
            and d.status <> 'pending' order by d.created_at limit ${limit} for update skip locked) returning 1)
        select count(*)::int as rows from gone`,
    ],
    { name: "expire payloads", repeatable: true },
  );
  return results.some((rows) => counted(rows) === limit);
};
