/** Tenants: made and managed by the operator. */
import { sql } from "drizzle-orm";
import type { TenantId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import { type Claim, type ClaimState, claimed, claimState, insertClaim, selectClaim } from "./idempotency.ts";
import type { Page } from "./pages.ts";
import { text, time } from "./rows.ts";

export type TenantStatus = "active" | "suspended";

export interface TenantRecord {
  readonly id: TenantId;
  readonly name: string;
  readonly status: TenantStatus;
  readonly createdAt: string;
}

const COLUMNS = sql.raw("t.id, t.name, t.status, t.created_at");

const tenantRecord = (row: Row): TenantRecord => ({
  id: text(row, "id") as TenantId,
  name: text(row, "name"),
  status: text(row, "status") === "suspended" ? "suspended" : "active",
  createdAt: time(row, "created_at"),
});

/** Makes a tenant, once per claim. @returns the claim's state and the tenant that it stands for @throws StoreUnavailable */
export const createTenant = async (
  db: Db,
  id: TenantId,
  name: string,
  claim: Claim | null,
): Promise<{ readonly claim: ClaimState; readonly tenant: TenantRecord | undefined }> => {
  const results = await db.batch(
    [
      ...(claim === null ? [] : [insertClaim(claim)]),
      sql`insert into tenants (id, name) select ${id}, ${name} where ${claimed(claim)} on conflict do nothing`,
      selectClaim(claim),
      sql`select ${COLUMNS} from tenants t where t.id = ${
        claim === null
          ? id
          : sql`(select i.resource_id from idempotency_keys i where i.tenant_id = ${claim.owner} and i.key = ${claim.key})`
      }`,
    ],
    { name: "create tenant", repeatable: true },
  );
  const row = results.at(-1)?.[0];
  return {
    claim: claimState(claim, results.at(-2)?.[0]),
    tenant: row === undefined ? undefined : tenantRecord(row),
  };
};

/** A page of the tenants. @throws StoreUnavailable */
export const listTenants = async (db: Db, page: Page): Promise<readonly TenantRecord[]> => {
  const [rows] = await db.batch(
    [
      sql`select ${COLUMNS} from tenants t where ${page.after(sql`t.id`)} order by ${page.order(sql`t.id`)} limit ${page.limit}`,
    ],
    { name: "list tenants", repeatable: true },
  );
  return (rows ?? []).map(tenantRecord);
};

/** @returns undefined when there is no such tenant @throws StoreUnavailable */
export const findTenant = async (db: Db, id: string): Promise<TenantRecord | undefined> => {
  const [rows] = await db.batch([sql`select ${COLUMNS} from tenants t where t.id = ${id}`], {
    name: "find tenant",
    repeatable: true,
  });
  const row = rows?.[0];
  return row === undefined ? undefined : tenantRecord(row);
};

export interface TenantChange {
  readonly name?: string | undefined;
  readonly status?: TenantStatus | undefined;
}

/** Changes what is given. @returns undefined when there is no such tenant @throws StoreUnavailable */
export const changeTenant = async (db: Db, id: string, change: TenantChange): Promise<TenantRecord | undefined> => {
  const results = await db.batch(
    [
      sql`update tenants t set name = coalesce(${change.name ?? null}, t.name), status = coalesce(${change.status ?? null}, t.status)
        where t.id = ${id}`,
      sql`select ${COLUMNS} from tenants t where t.id = ${id}`,
    ],
    { name: "change tenant", repeatable: true },
  );
  const row = results[1]?.[0];
  return row === undefined ? undefined : tenantRecord(row);
};
