/** Outbound subscriptions: who is told of what happens in a tenant's sessions. Their secrets sign, so they are kept as they are; no query but a claim reads them. */
import { type SQL, sql } from "drizzle-orm";
import type { EndpointId, TenantId } from "../protocol/ids.ts";
import type { WebhookEvent } from "../protocol/webhook-events.ts";
import type { Db, Row } from "./db.ts";
import type { Page } from "./pages.ts";
import { flag, number, text, texts, time } from "./rows.ts";

export interface EndpointRecord {
  readonly id: EndpointId;
  readonly url: string;
  readonly description: string;
  readonly enabled: boolean;
  /** Empty for all. */
  readonly events: readonly string[];
  /** Secrets that sign at the moment: more than one while a rotation overlaps. */
  readonly secrets: number;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** SQL condition over a secret `x` of `webhook_endpoints.secrets`: it signs. */
const VALID: SQL = sql`(x->>'expires_at' is null or (x->>'expires_at')::timestamptz > hango_now())`;

/** SQL over `webhook_endpoints e`: the secrets that sign, newest first, as JSON text. */
export const SIGNING_SECRETS: SQL = sql`(select coalesce(json_agg(x->>'secret' order by n), '[]')::text
  from jsonb_array_elements(e.secrets) with ordinality s (x, n) where ${VALID})`;

const COLUMNS: SQL = sql`e.id, e.url, e.description, e.enabled, e.events, e.created_at, e.updated_at,
  (select count(*) from jsonb_array_elements(e.secrets) s (x) where ${VALID}) as secrets`;

const endpointRecord = (row: Row): EndpointRecord => ({
  id: text(row, "id") as EndpointId,
  url: text(row, "url"),
  description: text(row, "description"),
  enabled: flag(row, "enabled"),
  events: texts(row, "events"),
  secrets: number(row, "secrets"),
  createdAt: time(row, "created_at"),
  updatedAt: time(row, "updated_at"),
});

const owned = (tenantId: TenantId, id: string): SQL => sql`e.tenant_id = ${tenantId} and e.id = ${id}`;

const selectEndpoint = (tenantId: TenantId, id: string): SQL =>
  sql`select ${COLUMNS} from webhook_endpoints e where ${owned(tenantId, id)}`;

export interface EndpointSettings {
  readonly url: string;
  readonly description: string;
  readonly enabled: boolean;
  readonly events: readonly WebhookEvent[];
}

/** Most endpoints of a tenant: each event of each turn is stored once for every one that asked for it. */
export const MAX_ENDPOINTS = 20;

/**
 * Makes an endpoint with its first secret.
 * @returns undefined when the tenant has `MAX_ENDPOINTS` of them
 * @throws StoreUnavailable
 */
export const createEndpoint = async (
  db: Db,
  tenantId: TenantId,
  id: EndpointId,
  secret: string,
  settings: EndpointSettings,
): Promise<EndpointRecord | undefined> => {
  const secrets = JSON.stringify([{ id: 1, secret, expires_at: null }]);
  const results = await db.batch(
    [
      sql`insert into webhook_endpoints (id, tenant_id, url, description, enabled, events, secrets)
        select ${id}, ${tenantId}, ${settings.url}, ${settings.description}, ${settings.enabled}, ${sql.param([...settings.events])}::text[],
          ${secrets}::jsonb
        where (select count(*) from webhook_endpoints e where e.tenant_id = ${tenantId}) < ${MAX_ENDPOINTS}::int on conflict (id) do nothing`,
      selectEndpoint(tenantId, id),
    ],
    { name: "create webhook endpoint", repeatable: true },
  );
  const row = results[1]?.[0];
  return row === undefined ? undefined : endpointRecord(row);
};

/** @returns undefined when the tenant has no such endpoint @throws StoreUnavailable */
export const findEndpoint = async (db: Db, tenantId: TenantId, id: string): Promise<EndpointRecord | undefined> => {
  const [rows] = await db.batch([selectEndpoint(tenantId, id)], { name: "find webhook endpoint", repeatable: true });
  const row = rows?.[0];
  return row === undefined ? undefined : endpointRecord(row);
};

/** A page of a tenant's endpoints, by age. @throws StoreUnavailable */
export const listEndpoints = async (db: Db, tenantId: TenantId, page: Page): Promise<readonly EndpointRecord[]> => {
  const [rows] = await db.batch(
    [
      sql`select ${COLUMNS} from webhook_endpoints e where e.tenant_id = ${tenantId} and ${page.after(sql`e.id`)}
        order by ${page.order(sql`e.id`)} limit ${page.limit}`,
    ],
    { name: "list webhook endpoints", repeatable: true },
  );
  return (rows ?? []).map(endpointRecord);
};

/** What changes; an absent member stays. */
export type EndpointChange = { readonly [K in keyof EndpointSettings]?: EndpointSettings[K] };

/** @returns undefined when the tenant has no such endpoint @throws StoreUnavailable */
export const changeEndpoint = async (
  db: Db,
  tenantId: TenantId,
  id: string,
  { url, description, enabled, events }: EndpointChange,
): Promise<EndpointRecord | undefined> => {
  const changes = [
    ...(url === undefined ? [] : [sql`url = ${url}`]),
    ...(description === undefined ? [] : [sql`description = ${description}`]),
    ...(enabled === undefined ? [] : [sql`enabled = ${enabled}`]),
    ...(events === undefined ? [] : [sql`events = ${sql.param([...events])}::text[]`]),
    sql`updated_at = hango_now()`,
  ];
  const results = await db.batch(
    [
      sql`update webhook_endpoints e set ${sql.join(changes, sql`, `)} where ${owned(tenantId, id)}`,
      selectEndpoint(tenantId, id),
    ],
    { name: "change webhook endpoint", repeatable: true },
  );
  const row = results[1]?.[0];
  return row === undefined ? undefined : endpointRecord(row);
};

/** Removes an endpoint with its deliveries. @returns false when the tenant has none of that id @throws StoreUnavailable */
export const deleteEndpoint = async (db: Db, tenantId: TenantId, id: string): Promise<boolean> => {
  const [rows] = await db.batch([sql`delete from webhook_endpoints e where ${owned(tenantId, id)} returning e.id`], {
    name: "delete webhook endpoint",
  });
  return (rows ?? []).length > 0;
};

/** Older secrets that go on signing: each adds a signature to every delivery's header. */
const MAX_OLDER_SECRETS = 4;

/**
 * Gives an endpoint a new secret. Those that sign go on for the overlap, or until they were to end before that; the oldest beyond a few end at once.
 * @param rotation its id makes a rotation that is sent twice one
 * @returns undefined when the tenant has no such endpoint
 * @throws StoreUnavailable
 */
export const rotateSecret = async (
  db: Db,
  tenantId: TenantId,
  id: string,
  rotation: { readonly id: string; readonly secret: string; readonly overlapSeconds: number },
): Promise<EndpointRecord | undefined> => {
  const ends = sql`hango_now() + make_interval(secs => ${rotation.overlapSeconds}::int)`;
  const results = await db.batch(
    [
      sql`update webhook_endpoints e set updated_at = hango_now(),
          secrets = jsonb_build_array(jsonb_build_object('id', ${rotation.id}::text, 'secret', ${rotation.secret}::text, 'expires_at', null))
            || coalesce((select jsonb_agg(x || jsonb_build_object('expires_at', least((x->>'expires_at')::timestamptz, ${ends})) order by n)
              from jsonb_array_elements(e.secrets) with ordinality s (x, n) where ${VALID} and n <= ${MAX_OLDER_SECRETS}::int), '[]')
        where ${owned(tenantId, id)} and e.secrets->0->>'id' is distinct from ${rotation.id}`,
      selectEndpoint(tenantId, id),
    ],
    { name: "rotate webhook secret", repeatable: true },
  );
  const row = results[1]?.[0];
  return row === undefined ? undefined : endpointRecord(row);
};
