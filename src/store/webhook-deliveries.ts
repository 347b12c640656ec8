/** Deliveries on their way to their receivers: claimed, recorded, found again, shown. They are made in `outbox.ts`. */
import { type SQL, sql } from "drizzle-orm";
import { type EndpointId, isId, type TenantId, type WebhookDeliveryId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import { insertTestDelivery } from "./outbox.ts";
import type { Page } from "./pages.ts";
import { number, numberOrNull, text, textOrNull, time, timeOrNull } from "./rows.ts";
import { SIGNING_SECRETS } from "./webhook-endpoints.ts";

/** How long an attempt owns its delivery, in seconds: longer than any attempt takes, so that two are never under way at once. */
const CLAIM_SECONDS = 60;

/** How long a delivery is tried again, in hours from when it was made (issue: 24). */
const RETRY_HOURS = 24;

export interface ClaimedDelivery {
  readonly id: WebhookDeliveryId;
  /** Null for the `callback_url` of a run. */
  readonly endpointId: EndpointId | null;
  readonly url: string;
  /** The body, byte for byte what every attempt sends. */
  readonly payload: string;
  /** This attempt's number, from 1. */
  readonly attempt: number;
  /** Whether the endpoint is enabled; true for a callback. */
  readonly enabled: boolean;
  /** The endpoint's secrets that sign at the moment, newest first; none for a callback. */
  readonly secrets: readonly string[];
}

/** SQL condition over `webhook_deliveries d`: there is something to send. An erasure, or retention, leaves the row and empties it. */
const HAS_BODY: SQL = sql`d.payload <> ''`;

const owned = (tenantId: TenantId, id: string): SQL => sql`d.tenant_id = ${tenantId} and d.id = ${id}`;

/**
 * Takes a delivery that is due for one attempt. Of several consumers one gets it; it is due again after a while, should the attempt never be recorded.
 * An endpoint's delivery goes to the URL that the endpoint has now.
 * @returns undefined when it is not due, delivered, failed, or gone
 * @throws StoreUnavailable: the delivery may be claimed then, and is due again by itself
 */
export const claimDelivery = async (
  db: Db,
  tenantId: TenantId,
  id: WebhookDeliveryId,
): Promise<ClaimedDelivery | undefined> => {
  const [rows] = await db.batch(
    [
      sql`with claimed as (
          update webhook_deliveries d set attempts = d.attempts + 1,
            next_at = hango_now() + make_interval(secs => ${sql.raw(String(CLAIM_SECONDS))}),
            url = coalesce((select e.url from webhook_endpoints e where e.id = d.endpoint_id and e.tenant_id = d.tenant_id), d.url)
          where ${owned(tenantId, id)} and d.status = 'pending' and d.next_at <= hango_now() and ${HAS_BODY}
          returning d.id, d.tenant_id, d.endpoint_id, d.url, d.payload, d.attempts)
        select c.*, coalesce(e.enabled, true) as enabled, coalesce(${SIGNING_SECRETS}, '[]') as secrets
        from claimed c left join webhook_endpoints e on e.id = c.endpoint_id and e.tenant_id = c.tenant_id`,
    ],
    { name: "claim webhook delivery" },
  );
  const row = rows?.[0];
  if (row === undefined) return undefined;
  return {
    id,
    endpointId: textOrNull(row, "endpoint_id") as EndpointId | null,
    url: text(row, "url"),
    payload: text(row, "payload"),
    attempt: number(row, "attempts"),
    enabled: row.enabled === true,
    secrets: JSON.parse(text(row, "secrets")),
  };
};

export interface AttemptRecord {
  /** Status of the answer; null when there was none. */
  readonly responseStatus: number | null;
  /** Why it was not delivered; null when it was. */
  readonly error: string | null;
  /** When it is tried again, in seconds from now; null for never. Never, too, where that would be too late. */
  readonly retryAfterSeconds: number | null;
  /** The receiver asked for no more of it: its endpoint is switched off. */
  readonly disables: boolean;
}

/**
 * Records how an attempt went. One that is no longer the newest, or whose delivery was erased, changes nothing.
 * @returns whether the delivery is to be tried again
 * @throws StoreUnavailable
 */
export const recordAttempt = async (
  db: Db,
  tenantId: TenantId,
  { id, endpointId, attempt }: Pick<ClaimedDelivery, "id" | "endpointId" | "attempt">,
  { responseStatus, error, retryAfterSeconds, disables }: AttemptRecord,
): Promise<boolean> => {
  const next = sql`hango_now() + make_interval(secs => ${retryAfterSeconds ?? 0}::double precision)`;
  const again =
    error === null || retryAfterSeconds === null
      ? sql`false`
      : sql`${next} <= d.created_at + make_interval(hours => ${sql.raw(String(RETRY_HOURS))})`;
  const results = await db.batch(
    [
      ...(disables && endpointId !== null
        ? [
            sql`update webhook_endpoints e set enabled = false, updated_at = hango_now()
              where e.id = ${endpointId} and e.tenant_id = ${tenantId} and e.enabled`,
          ]
        : []),
      sql`update webhook_deliveries d set response_status = ${responseStatus}::int, error = ${error},
          status = case when ${error === null} then 'delivered' when ${again} then 'pending' else 'failed' end,
          next_at = case when ${again} then ${next} end,
          delivered_at = case when ${error === null} then hango_now() end
        where ${owned(tenantId, id)} and d.status = 'pending' and d.attempts = ${attempt}::int`,
      sql`select d.status from webhook_deliveries d where ${owned(tenantId, id)}`,
    ],
    { name: "record webhook attempt", repeatable: true },
  );
  return results.at(-1)?.[0]?.status === "pending";
};

export interface DueDelivery {
  readonly tenantId: TenantId;
  readonly deliveryId: WebhookDeliveryId;
}

/** A delivery is taken for lost when it has been due for so long, in seconds: its queue message would have come by now. */
const LOST_AFTER_SECONDS = 60;

/** Deliveries that have been due for a while, the longest first. @throws StoreUnavailable */
export const overdueDeliveries = async (db: Db, limit: number): Promise<readonly DueDelivery[]> => {
  const [rows] = await db.batch(
    [
      sql`select d.tenant_id, d.id from webhook_deliveries d where d.status = 'pending'
        and d.next_at <= hango_now() - make_interval(secs => ${sql.raw(String(LOST_AFTER_SECONDS))}) order by d.next_at limit ${limit}`,
    ],
    { name: "overdue webhook deliveries", repeatable: true },
  );
  return (rows ?? []).map((row) => ({
    tenantId: text(row, "tenant_id") as TenantId,
    deliveryId: text(row, "id") as WebhookDeliveryId,
  }));
};

export type DeliveryStatus = "pending" | "delivered" | "failed";

export interface DeliveryRecord {
  readonly id: WebhookDeliveryId;
  readonly endpointId: EndpointId | null;
  /** Null for a test event, and where the session was erased. */
  readonly sessionId: string | null;
  readonly runId: string | null;
  readonly url: string;
  readonly eventType: string;
  readonly status: DeliveryStatus;
  readonly attempts: number;
  /** Null once it is over. */
  readonly nextAt: string | null;
  readonly responseStatus: number | null;
  readonly error: string | null;
  readonly createdAt: string;
  readonly deliveredAt: string | null;
}

const COLUMNS = sql.raw(
  "d.id, d.endpoint_id, d.session_id, d.run_id, d.url, d.event_type, d.status, d.attempts, d.next_at, d.response_status, d.error, d.created_at, d.delivered_at",
);

const deliveryRecord = (row: Row): DeliveryRecord => {
  const sessionId = text(row, "session_id");
  const status = text(row, "status") as DeliveryStatus;
  return {
    id: text(row, "id") as WebhookDeliveryId,
    endpointId: textOrNull(row, "endpoint_id") as EndpointId | null,
    // Not one's id for a test event, nor where the session was erased.
    sessionId: isId("ses", sessionId) ? sessionId : null,
    runId: textOrNull(row, "run_id"),
    url: text(row, "url"),
    eventType: text(row, "event_type"),
    status,
    attempts: number(row, "attempts"),
    nextAt: status === "pending" ? timeOrNull(row, "next_at") : null,
    responseStatus: numberOrNull(row, "response_status"),
    error: textOrNull(row, "error"),
    createdAt: time(row, "created_at"),
    deliveredAt: timeOrNull(row, "delivered_at"),
  };
};

/** What a tenant's deliveries are looked at by. */
export interface DeliveryFilter {
  /** Null for the `callback_url`s of runs. */
  readonly endpointId: string | null;
  readonly status?: DeliveryStatus | undefined;
}

const ofReceiver = (endpointId: string | null): SQL =>
  endpointId === null ? sql`d.endpoint_id is null` : sql`d.endpoint_id = ${endpointId}`;

/** A page of deliveries, by the age of what they tell of. @throws StoreUnavailable */
export const listDeliveries = async (
  db: Db,
  tenantId: TenantId,
  { endpointId, status }: DeliveryFilter,
  page: Page,
): Promise<readonly DeliveryRecord[]> => {
  const [rows] = await db.batch(
    [
      sql`select ${COLUMNS} from webhook_deliveries d where d.tenant_id = ${tenantId} and ${ofReceiver(endpointId)}
        and ${status === undefined ? sql`true` : sql`d.status = ${status}`} and ${page.after(sql`d.id`)}
        order by ${page.order(sql`d.id`)} limit ${page.limit}`,
    ],
    { name: "list webhook deliveries", repeatable: true },
  );
  return (rows ?? []).map(deliveryRecord);
};

/**
 * Makes a delivery due now, whatever became of it.
 * @returns undefined when the receiver has no such delivery; `emptied` when what it said is gone
 * @throws StoreUnavailable
 */
export const redeliver = async (
  db: Db,
  tenantId: TenantId,
  endpointId: string | null,
  id: string,
): Promise<DeliveryRecord | "emptied" | undefined> => {
  const mine = sql`${owned(tenantId, id)} and ${ofReceiver(endpointId)}`;
  const results = await db.batch(
    [
      sql`update webhook_deliveries d set status = 'pending', next_at = hango_now(), delivered_at = null where ${mine} and ${HAS_BODY}
        returning d.id`,
      sql`select ${COLUMNS} from webhook_deliveries d where ${mine}`,
    ],
    { name: "redeliver webhook", repeatable: true },
  );
  const row = results[1]?.[0];
  if (row === undefined) return undefined;
  return results[0]?.length === 0 ? "emptied" : deliveryRecord(row);
};

/**
 * Stores a test event for an endpoint.
 * @returns undefined when the tenant has no such endpoint
 * @throws StoreUnavailable
 */
export const storeTestDelivery = async (
  db: Db,
  tenantId: TenantId,
  endpointId: string,
  id: WebhookDeliveryId,
): Promise<DeliveryRecord | undefined> => {
  const results = await db.batch(
    [
      insertTestDelivery(tenantId, endpointId, id),
      sql`select ${COLUMNS} from webhook_deliveries d where ${owned(tenantId, id)}`,
    ],
    { name: "store test delivery", repeatable: true },
  );
  const row = results[1]?.[0];
  return row === undefined ? undefined : deliveryRecord(row);
};
