/** What triggers received: stored before the sender is answered, then made into turns by the queue. */
import { type SQL, sql } from "drizzle-orm";
import type { DeliveryId, RunId, SessionId, TenantId, TriggerId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import type { Page } from "./pages.ts";
import { number, text, textOrNull, time, timeOrNull } from "./rows.ts";
import { TRIGGER_COLUMNS, type TriggerRecord, triggerRecord } from "./triggers.ts";

export const deliveryStatuses = [
  "refused",
  "ignored",
  "duplicate",
  "waiting",
  "accepted",
  "failed",
  "completed",
] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];
export type ReplyStatus = "pending" | "delivered" | "failed";

export interface DeliveryRecord {
  readonly id: DeliveryId;
  readonly tenantId: TenantId;
  readonly triggerId: TriggerId;
  readonly eventId: string | null;
  readonly status: DeliveryStatus;
  readonly reason: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** The payload as JSON text; null where none was kept, or the list leaves it out. */
  readonly payload: string | null;
  readonly sessionKey: string | null;
  readonly sessionId: SessionId | null;
  readonly runId: RunId | null;
  readonly runStatus: string | null;
  readonly dueAt: string | null;
  readonly attempts: number;
  readonly replyStatus: ReplyStatus | null;
  readonly replyAttempts: number;
  readonly createdAt: string;
  readonly updatedAt: string;
}

const columns = (withPayload: boolean): SQL =>
  sql.raw(`d.id, d.tenant_id, d.trigger_id, d.event_id, d.status, d.reason, d.headers::text as headers,
  ${withPayload ? "d.payload" : "null::text as payload"}, d.session_key, d.session_id, d.run_id,
  (select r.status from runs r where r.id = d.run_id) as run_status, d.due_at, d.attempts, d.reply_status, d.reply_attempts,
  d.created_at, d.updated_at`);

const deliveryRecord = (row: Row): DeliveryRecord => ({
  id: text(row, "id") as DeliveryId,
  tenantId: text(row, "tenant_id") as TenantId,
  triggerId: text(row, "trigger_id") as TriggerId,
  eventId: textOrNull(row, "event_id"),
  status: text(row, "status") as DeliveryStatus,
  reason: textOrNull(row, "reason"),
  headers: JSON.parse(text(row, "headers")),
  payload: textOrNull(row, "payload"),
  sessionKey: textOrNull(row, "session_key"),
  sessionId: textOrNull(row, "session_id") as SessionId | null,
  runId: textOrNull(row, "run_id") as RunId | null,
  runStatus: textOrNull(row, "run_status"),
  dueAt: timeOrNull(row, "due_at"),
  attempts: number(row, "attempts"),
  replyStatus: textOrNull(row, "reply_status") as ReplyStatus | null,
  replyAttempts: number(row, "reply_attempts"),
  createdAt: time(row, "created_at"),
  updatedAt: time(row, "updated_at"),
});

export interface NewDelivery {
  readonly id: DeliveryId;
  readonly tenantId: TenantId;
  readonly triggerId: TriggerId;
  readonly eventId: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON text. */
  readonly payload: string;
  readonly sessionKey: string | null;
  readonly status: "waiting" | "ignored" | "failed";
  readonly reason: string | null;
  /** Seconds until the turn; deliveries of the same session that come before are part of it. */
  readonly debounceSeconds: number;
}

export type StoreOutcome =
  | { readonly kind: "stored"; readonly id: DeliveryId; readonly delaySeconds: number }
  /** The event was delivered before, as this one. */
  | { readonly kind: "duplicate"; readonly id: DeliveryId };

/** SQL: one more delivery; nothing where the event's id is taken, or the same row was stored before. */
const insertDelivery = (d: NewDelivery): SQL => {
  // A window that is open takes the delivery in; so the first of a burst waits no longer than the window.
  const open = sql`(select min(o.due_at) from deliveries o where o.trigger_id = ${d.triggerId} and o.tenant_id = ${d.tenantId}
    and o.session_key = ${d.sessionKey} and o.status = 'waiting' and o.run_id is null and o.due_at > hango_now())`;
  const due =
    d.debounceSeconds === 0
      ? sql`hango_now()`
      : sql`coalesce(${open}, hango_now() + make_interval(secs => ${d.debounceSeconds}::int))`;
  return sql`insert into deliveries (id, tenant_id, trigger_id, event_id, status, reason, headers, payload, session_key, due_at)
    select ${d.id}, t.tenant_id, t.id, ${d.eventId}, ${d.status}, ${d.reason}, ${JSON.stringify(d.headers)}::jsonb, ${d.payload},
      ${d.sessionKey}, ${d.status === "waiting" ? due : sql`null`}
    from triggers t where t.id = ${d.triggerId} and t.tenant_id = ${d.tenantId} on conflict do nothing`;
};

/**
 * Stores a delivery, once per event id of the trigger; a second one leaves a row that says so, without a payload. One round trip.
 * @param duplicateId id of that row
 * @throws StoreUnavailable
 */
export const storeDelivery = async (db: Db, delivery: NewDelivery, duplicateId: DeliveryId): Promise<StoreOutcome> => {
  const { id, tenantId, triggerId, eventId } = delivery;
  const results = await db.batch(
    [
      insertDelivery(delivery),
      sql`insert into deliveries (id, tenant_id, trigger_id, event_id, status, headers)
        select ${duplicateId}, t.tenant_id, t.id, ${eventId}, 'duplicate', ${JSON.stringify(delivery.headers)}::jsonb
        from triggers t where t.id = ${triggerId} and t.tenant_id = ${tenantId}
          and not exists (select 1 from deliveries d where d.id = ${id}) on conflict do nothing`,
      sql`select d.id, greatest(0, ceil(extract(epoch from d.due_at - hango_now())))::int as delay_seconds from deliveries d
        where d.trigger_id = ${triggerId} and d.tenant_id = ${tenantId}
          and (d.id = ${id} or (d.event_id = ${eventId} and d.status not in ('refused', 'duplicate')))
        order by d.id = ${id} desc limit 1`,
    ],
    { name: "store delivery", repeatable: true },
  );
  const row = results.at(-1)?.[0];
  // Deleted in this moment: nothing will come of it.
  if (row === undefined) return { kind: "stored", id, delaySeconds: 0 };
  const found = text(row, "id") as DeliveryId;
  if (found !== id) return { kind: "duplicate", id: found };
  return { kind: "stored", id, delaySeconds: row.delay_seconds === null ? 0 : number(row, "delay_seconds") };
};

/** Most refusals of a trigger that are recorded within a minute: anybody may post to an address, and must not fill the table. */
const MAX_REFUSALS_A_MINUTE = 60;

/**
 * Records that something was refused: why, and its harmless headers; no payload. Of a flood only some are recorded.
 * @throws StoreUnavailable
 */
export const storeRefusal = async (
  db: Db,
  refusal: Pick<NewDelivery, "id" | "tenantId" | "triggerId" | "headers"> & { readonly reason: string },
): Promise<void> => {
  await db.batch(
    [
      sql`insert into deliveries (id, tenant_id, trigger_id, status, reason, headers)
        select ${refusal.id}, t.tenant_id, t.id, 'refused', ${refusal.reason}, ${JSON.stringify(refusal.headers)}::jsonb
        from triggers t where t.id = ${refusal.triggerId} and t.tenant_id = ${refusal.tenantId}
          and (select count(*) from (select d.status, d.created_at from deliveries d where d.trigger_id = t.id and d.tenant_id = t.tenant_id
            order by d.id desc limit ${MAX_REFUSALS_A_MINUTE}) newest
            where newest.status = 'refused' and newest.created_at > hango_now() - interval '1 minute') < ${MAX_REFUSALS_A_MINUTE}::int
        on conflict do nothing`,
    ],
    { name: "store refusal", repeatable: true },
  );
};

/** Finds a delivery with its payload. @throws StoreUnavailable */
export const findDelivery = async (
  db: Db,
  tenantId: TenantId,
  triggerId: string,
  id: string,
): Promise<DeliveryRecord | undefined> => {
  const [rows] = await db.batch(
    [
      sql`select ${columns(true)} from deliveries d where d.tenant_id = ${tenantId} and d.trigger_id = ${triggerId} and d.id = ${id}`,
    ],
    { name: "find delivery", repeatable: true },
  );
  const row = rows?.[0];
  return row === undefined ? undefined : deliveryRecord(row);
};

/** A page of a trigger's deliveries, without payloads. @throws StoreUnavailable */
export const listDeliveries = async (
  db: Db,
  tenantId: TenantId,
  triggerId: string,
  status: DeliveryStatus | undefined,
  page: Page,
): Promise<readonly DeliveryRecord[]> => {
  const [rows] = await db.batch(
    [
      sql`select ${columns(false)} from deliveries d where d.tenant_id = ${tenantId} and d.trigger_id = ${triggerId}
        and ${status === undefined ? sql`true` : sql`d.status = ${status}`} and ${page.after(sql`d.id`)}
        order by ${page.order(sql`d.id`)} limit ${page.limit}`,
    ],
    { name: "list deliveries", repeatable: true },
  );
  return (rows ?? []).map(deliveryRecord);
};

/** Most deliveries of one debounce window that become one turn; the others become the next one. */
const MAX_MERGED = 50;

export type ClaimOutcome =
  | {
      readonly kind: "claimed";
      readonly trigger: TriggerRecord;
      readonly runId: RunId;
      /** What becomes one turn, oldest first. */
      readonly deliveries: readonly DeliveryRecord[];
      /** Of those, the ones whose body an earlier event of the trigger had, by their ids, with its run. */
      readonly seen: ReadonlyMap<string, RunId>;
    }
  | { readonly kind: "not_due"; readonly delaySeconds: number }
  /** It is not there, or somebody has settled it. */
  | { readonly kind: "settled" };

/**
 * Takes a waiting delivery, with what waits for the same session of the same trigger, for a turn. Whoever comes first gives the turn its
 * run; whoever comes again finds the same deliveries and the same run, so a Worker that died in between loses and doubles nothing.
 * @throws StoreUnavailable
 */
export const claimDeliveries = async (
  db: Db,
  tenantId: TenantId,
  id: DeliveryId,
  newRunId: RunId,
): Promise<ClaimOutcome> => {
  const mine = sql`d.id = ${id} and d.tenant_id = ${tenantId}`;
  const claimed = sql`(select c.run_id from deliveries c where c.id = ${id} and c.tenant_id = ${tenantId})`;
  const results = await db.batch(
    [
      sql`update deliveries o set run_id = ${newRunId}, attempts = o.attempts + 1, updated_at = hango_now()
        from deliveries d join triggers t on t.id = d.trigger_id and t.tenant_id = d.tenant_id where ${mine} and d.status = 'waiting' and d.run_id is null and d.due_at <= hango_now()
          and o.tenant_id = d.tenant_id and o.trigger_id = d.trigger_id and o.status = 'waiting' and o.run_id is null
          and o.due_at <= hango_now()
          and (o.id = d.id or (t.config->>'debounce_seconds')::int > 0 and o.id in (select w.id from deliveries w where w.trigger_id = d.trigger_id and w.session_key = d.session_key
            and w.status = 'waiting' and w.run_id is null and w.due_at <= hango_now() and w.id <> d.id
            order by w.id limit ${MAX_MERGED - 1}))`,
      sql`select d.status, d.run_id, greatest(0, ceil(extract(epoch from d.due_at - hango_now())))::int as delay_seconds
        from deliveries d where ${mine}`,
      sql`select ${TRIGGER_COLUMNS} from triggers t join deliveries d on d.trigger_id = t.id and d.tenant_id = t.tenant_id where ${mine}`,
      sql`select ${columns(true)} from deliveries d where d.tenant_id = ${tenantId} and d.status = 'waiting'
        and d.run_id = ${claimed} order by d.id`,
      // The hash is indexed; equal hashes are compared byte for byte.
      sql`select d.id, min(o.run_id) as seen_run_id from deliveries d join deliveries o on o.tenant_id = d.tenant_id
          and o.trigger_id = d.trigger_id and md5(o.payload) = md5(d.payload) and o.payload = d.payload and o.id < d.id
          and o.event_id is not null and o.status in ('accepted', 'completed')
        where d.tenant_id = ${tenantId} and d.status = 'waiting' and d.event_id is not null and d.run_id = ${claimed} group by d.id`,
    ],
    { name: "claim deliveries", repeatable: true },
  );
  const state = results[1]?.[0];
  const trigger = results[2]?.[0];
  if (state === undefined || trigger === undefined || text(state, "status") !== "waiting") return { kind: "settled" };
  const runId = textOrNull(state, "run_id") as RunId | null;
  if (runId === null) return { kind: "not_due", delaySeconds: Math.max(1, number(state, "delay_seconds")) };
  return {
    kind: "claimed",
    trigger: triggerRecord(trigger),
    runId,
    deliveries: (results[3] ?? []).map(deliveryRecord),
    seen: new Map((results[4] ?? []).map((row) => [text(row, "id"), text(row, "seen_run_id") as RunId])),
  };
};

/** How deliveries that were claimed for a run end. */
export interface Settlement {
  readonly status: "accepted" | "duplicate" | "failed" | "ignored";
  readonly reason: string | null;
  readonly sessionId: SessionId | null;
  /** The run that their turn is part of; null where there is none. */
  readonly runId: RunId | null;
  /** Whether a reply is owed when the run has ended; the newest of them gets it. */
  readonly reply: boolean;
}

/**
 * Settles what waits under a claim.
 * @param claimedFor the run that the deliveries were claimed for
 * @returns the deliveries that this call settled; none when they were settled before
 * @throws StoreUnavailable
 */
export const settleDeliveries = async (
  db: Db,
  tenantId: TenantId,
  claimedFor: RunId,
  { status, reason, sessionId, runId, reply }: Settlement,
): Promise<readonly DeliveryId[]> => {
  const [rows] = await db.batch(
    [
      sql`update deliveries d set status = ${status}, reason = ${reason}, session_id = ${sessionId}, run_id = ${runId},
          due_at = hango_now(), updated_at = hango_now(),
          reply_status = case when ${reply}::boolean and d.id = (select max(o.id) from deliveries o
            where o.tenant_id = ${tenantId} and o.run_id = ${claimedFor} and o.status = 'waiting') then 'pending' end
        where d.tenant_id = ${tenantId} and d.run_id = ${claimedFor} and d.status = 'waiting' returning d.id`,
    ],
    { name: "settle deliveries" },
  );
  return (rows ?? []).map((row) => text(row, "id") as DeliveryId);
};

/** Gives a waiting delivery up. @throws StoreUnavailable */
export const failDelivery = async (db: Db, tenantId: TenantId, id: DeliveryId, reason: string): Promise<void> => {
  await db.batch(
    [
      sql`update deliveries d set status = 'failed', reason = ${reason}, updated_at = hango_now()
        where d.tenant_id = ${tenantId} and d.id = ${id} and d.status = 'waiting'`,
    ],
    { name: "fail delivery", repeatable: true },
  );
};

/** Ids of deliveries, each with its tenant, as queue messages carry them. */
export interface DeliveryRef {
  readonly tenantId: TenantId;
  readonly deliveryId: DeliveryId;
}

const refs = (rows: readonly Row[] | undefined): readonly DeliveryRef[] =>
  (rows ?? []).map((row) => ({
    tenantId: text(row, "tenant_id") as TenantId,
    deliveryId: text(row, "id") as DeliveryId,
  }));

/**
 * Deliveries whose message may have been lost: due for a while and still waiting. Of all tenants: the sweeper asks.
 * @throws StoreUnavailable
 */
export const overdueDeliveries = async (
  db: Db,
  overdueSeconds: number,
  limit: number,
): Promise<readonly DeliveryRef[]> => {
  const [rows] = await db.batch(
    [
      sql`select d.tenant_id, d.id from deliveries d where d.status = 'waiting'
        and d.due_at <= hango_now() - make_interval(secs => ${overdueSeconds}::int) order by d.due_at limit ${limit}`,
    ],
    { name: "overdue deliveries", repeatable: true },
  );
  return refs(rows);
};
