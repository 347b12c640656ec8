/** Triggers as a resource, and as their door finds them. */
import { type SQL, sql } from "drizzle-orm";
import type { TenantId, TriggerId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import { type Claim, claimed, claimState, insertClaim, selectClaim } from "./idempotency.ts";
import type { Page } from "./pages.ts";
import { flag, number, text, time, timeOrNull } from "./rows.ts";

type Json = Readonly<Record<string, unknown>>;

export type TriggerType = "webhook" | "cron";

/** One of a trigger's secrets. */
export interface TriggerSecret {
  readonly id: string;
  readonly secret: string;
  readonly created_at: string;
  /** RFC 3339; null for the newest, which does not expire. */
  readonly expires_at: string | null;
}

export interface TriggerRecord {
  readonly id: TriggerId;
  readonly tenantId: TenantId;
  readonly name: string;
  readonly type: TriggerType;
  readonly enabled: boolean;
  readonly config: Json;
  /** Newest first. */
  readonly secrets: readonly TriggerSecret[];
  readonly nextAt: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** As PostgreSQL writes it, for `changeTrigger`. */
  readonly version: string;
}

/** The columns of `triggers t` that `triggerRecord` reads. */
export const TRIGGER_COLUMNS = sql.raw(`t.id, t.tenant_id, t.name, t.type, t.enabled, t.config::text as config,
  t.secrets::text as secrets, t.next_at, t.created_at, t.updated_at, t.updated_at::text as version`);

export const triggerRecord = (row: Row): TriggerRecord => ({
  id: text(row, "id") as TriggerId,
  tenantId: text(row, "tenant_id") as TenantId,
  name: text(row, "name"),
  type: text(row, "type") as TriggerType,
  enabled: flag(row, "enabled"),
  config: JSON.parse(text(row, "config")),
  secrets: JSON.parse(text(row, "secrets")),
  nextAt: timeOrNull(row, "next_at"),
  createdAt: time(row, "created_at"),
  updatedAt: time(row, "updated_at"),
  version: text(row, "version"),
});

/** Most secrets that are kept; rotating more often drops the oldest. */
export const MAX_SECRETS = 5;

/** The secrets that are accepted at a time. @param nowMs by the database's clock */
export const validSecrets = (secrets: readonly TriggerSecret[], nowMs: number): readonly string[] =>
  secrets.filter(({ expires_at }) => expires_at === null || Date.parse(expires_at) > nowMs).map(({ secret }) => secret);

export interface NewTrigger {
  readonly id: TriggerId;
  readonly tenantId: TenantId;
  readonly name: string;
  readonly type: TriggerType;
  readonly enabled: boolean;
  readonly config: Json;
  /** Null where the scheme has none. */
  readonly secret: { readonly id: string; readonly secret: string } | null;
  /** RFC 3339. */
  readonly nextAt: string | null;
}

/** SQL: one secret as it is kept. */
const keptSecret = ({ id, secret }: { readonly id: string; readonly secret: string }): SQL =>
  sql`jsonb_build_object('id', ${id}::text, 'secret', ${secret}::text, 'created_at', hango_now(), 'expires_at', null)`;

export type CreateTriggerOutcome =
  | { readonly kind: "trigger"; readonly trigger: TriggerRecord; readonly replayed: boolean }
  | { readonly kind: "mismatch" }
  | { readonly kind: "gone" };

/** Stores a trigger, or finds the one that an equal request made. One round trip. @throws StoreUnavailable */
export const createTrigger = async (
  db: Db,
  trigger: NewTrigger,
  claim: Claim | null,
): Promise<CreateTriggerOutcome> => {
  const { id, tenantId, secret } = trigger;
  const target =
    claim === null
      ? sql`${id}`
      : sql`(select i.resource_id from idempotency_keys i where i.tenant_id = ${claim.owner} and i.key = ${claim.key})`;
  const results = await db.batch(
    [
      ...(claim === null ? [] : [insertClaim(claim)]),
      sql`insert into triggers (id, tenant_id, name, type, enabled, config, secrets, next_at)
        select ${id}, ${tenantId}, ${trigger.name}, ${trigger.type}, ${trigger.enabled}::boolean, ${JSON.stringify(trigger.config)}::jsonb,
          ${secret === null ? sql`'[]'::jsonb` : sql`jsonb_build_array(${keptSecret(secret)})`}, ${trigger.nextAt}::timestamptz
        where ${claimed(claim)} on conflict (id) do nothing`,
      selectClaim(claim),
      sql`select ${TRIGGER_COLUMNS} from triggers t where t.tenant_id = ${tenantId} and t.id = ${target}`,
    ],
    { name: "create trigger", repeatable: true },
  );
  const state = claimState(claim, results.at(-2)?.[0]);
  if (state.kind === "mismatch") return state;
  const row = results.at(-1)?.[0];
  if (row === undefined) return { kind: "gone" };
  return { kind: "trigger", trigger: triggerRecord(row), replayed: state.kind === "replay" };
};

/** Finds a trigger. @returns undefined when the tenant has none of that id @throws StoreUnavailable */
export const findTrigger = async (db: Db, tenantId: TenantId, id: string): Promise<TriggerRecord | undefined> => {
  const [rows] = await db.batch(
    [sql`select ${TRIGGER_COLUMNS} from triggers t where t.tenant_id = ${tenantId} and t.id = ${id}`],
    { name: "find trigger", repeatable: true },
  );
  const row = rows?.[0];
  return row === undefined ? undefined : triggerRecord(row);
};

/** A page of a tenant's triggers, by age. @throws StoreUnavailable */
export const listTriggers = async (db: Db, tenantId: TenantId, page: Page): Promise<readonly TriggerRecord[]> => {
  const [rows] = await db.batch(
    [
      sql`select ${TRIGGER_COLUMNS} from triggers t where t.tenant_id = ${tenantId} and ${page.after(sql`t.id`)}
        order by ${page.order(sql`t.id`)} limit ${page.limit}`,
    ],
    { name: "list triggers", repeatable: true },
  );
  return (rows ?? []).map(triggerRecord);
};

export interface TriggerChange {
  readonly name: string;
  readonly enabled: boolean;
  readonly config: Json;
  readonly nextAt: string | null;
}

/**
 * Writes a trigger's settings over those of a version that was read before.
 * @returns undefined when it was changed or deleted in between
 * @throws StoreUnavailable
 */
export const changeTrigger = async (
  db: Db,
  { tenantId, id, version }: Pick<TriggerRecord, "tenantId" | "id" | "version">,
  change: TriggerChange,
): Promise<TriggerRecord | undefined> => {
  const [rows] = await db.batch(
    [
      sql`update triggers t set name = ${change.name}, enabled = ${change.enabled}::boolean, config = ${JSON.stringify(change.config)}::jsonb,
          next_at = ${change.nextAt}::timestamptz, updated_at = hango_now()
        where t.tenant_id = ${tenantId} and t.id = ${id} and t.updated_at = ${version}::timestamptz returning ${TRIGGER_COLUMNS}`,
    ],
    { name: "change trigger" },
  );
  const row = rows?.[0];
  return row === undefined ? undefined : triggerRecord(row);
};

/** Removes a trigger with its log of deliveries; its sessions and runs stay. @returns whether there was one @throws StoreUnavailable */
export const deleteTrigger = async (db: Db, tenantId: TenantId, id: string): Promise<boolean> => {
  const [rows] = await db.batch(
    [sql`delete from triggers t where t.tenant_id = ${tenantId} and t.id = ${id} returning t.id`],
    { name: "delete trigger" },
  );
  return rows !== undefined && rows.length > 0;
};

/**
 * Puts a new secret before the others, which are accepted for so long after.
 * @returns undefined when the tenant has no such trigger
 * @throws StoreUnavailable
 */
export const rotateSecret = async (
  db: Db,
  tenantId: TenantId,
  id: string,
  secret: { readonly id: string; readonly secret: string },
  overlapSeconds: number,
): Promise<TriggerRecord | undefined> => {
  const end = sql`hango_now() + make_interval(secs => ${overlapSeconds}::int)`;
  const own = sql`t.tenant_id = ${tenantId} and t.id = ${id}`;
  const results = await db.batch(
    [
      sql`update triggers t set updated_at = hango_now(), secrets = jsonb_build_array(${keptSecret(secret)}) || coalesce((
            select jsonb_agg(old.value || jsonb_build_object('expires_at', least((old.value->>'expires_at')::timestamptz, ${end})) order by old.n)
            from jsonb_array_elements(t.secrets) with ordinality as old(value, n)
            where old.n < ${MAX_SECRETS}::int
              and ((old.value->>'expires_at') is null or (old.value->>'expires_at')::timestamptz > hango_now())), '[]'::jsonb)
        where ${own} and not t.secrets @> jsonb_build_array(jsonb_build_object('id', ${secret.id}::text))`,
      sql`select ${TRIGGER_COLUMNS} from triggers t where ${own}`,
    ],
    { name: "rotate secret", repeatable: true },
  );
  const row = results[1]?.[0];
  return row === undefined ? undefined : triggerRecord(row);
};

/** A trigger as its public door finds it. */
export interface OpenTrigger {
  readonly trigger: TriggerRecord;
  /** By the database's clock, ms since the epoch. */
  readonly nowMs: number;
}

/** The enabled trigger of this id and type, whose tenant is active. The id is the address: nobody's key is asked for. @throws StoreUnavailable */
export const openTrigger = async (db: Db, id: string, type: TriggerType): Promise<OpenTrigger | undefined> => {
  const [rows] = await db.batch(
    [
      sql`select ${TRIGGER_COLUMNS}, (extract(epoch from hango_now()) * 1000)::bigint as now_ms
        from triggers t join tenants on tenants.id = t.tenant_id and tenants.status = 'active'
        where t.id = ${id} and t.enabled and t.type = ${type}`,
    ],
    { name: "open trigger", repeatable: true },
  );
  const row = rows?.[0];
  return row === undefined ? undefined : { trigger: triggerRecord(row), nowMs: number(row, "now_ms") };
};

/** Cron triggers that are due, longest overdue first. Of all tenants: the sweeper asks. @throws StoreUnavailable */
export const dueTriggers = async (db: Db, limit: number): Promise<readonly OpenTrigger[]> => {
  const [rows] = await db.batch(
    [
      sql`select ${TRIGGER_COLUMNS}, (extract(epoch from hango_now()) * 1000)::bigint as now_ms
        from triggers t join tenants on tenants.id = t.tenant_id and tenants.status = 'active'
        where t.type = 'cron' and t.enabled and t.next_at <= hango_now() order by t.next_at limit ${limit}`,
    ],
    { name: "due triggers", repeatable: true },
  );
  return (rows ?? []).map((row) => ({ trigger: triggerRecord(row), nowMs: number(row, "now_ms") }));
};
