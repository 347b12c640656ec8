/** API keys: found by the hash of their secret, which is stored nowhere. */
import { type SQL, sql } from "drizzle-orm";
import type { KeyId, TenantId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import type { Page } from "./pages.ts";
import { flag, text, texts, time, timeOrNull } from "./rows.ts";

export type Scope = "read" | "write" | "content" | "admin";

export interface KeyRecord {
  readonly id: KeyId;
  readonly tenantId: TenantId;
  readonly name: string;
  readonly prefix: string;
  readonly scopes: readonly Scope[];
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
  readonly createdAt: string;
}

/** Who a valid key belongs to. */
export interface KeyOwner {
  readonly keyId: KeyId;
  readonly tenantId: TenantId;
  readonly scopes: readonly Scope[];
  readonly tenantActive: boolean;
}

const isScope = (text: string): text is Scope => ["read", "write", "content", "admin"].includes(text);

/**
 * Finds the owner of a key by the SHA-256 of its secret (hex). One round trip.
 * @returns undefined when the key is unknown, revoked or expired (by the database's clock)
 * @throws StoreUnavailable
 */
export const findKeyOwner = async (db: Db, hash: string): Promise<KeyOwner | undefined> => {
  const [rows] = await db.batch(
    [
      sql`select k.id, k.tenant_id, k.scopes, t.status = 'active' as active from api_keys k join tenants t on t.id = k.tenant_id
        where k.hash = ${hash} and k.revoked_at is null and (k.expires_at is null or k.expires_at > hango_now())`,
    ],
    { name: "authenticate", repeatable: true },
  );
  const row = rows?.[0];
  if (row === undefined) return undefined;
  return {
    keyId: text(row, "id") as KeyId,
    tenantId: text(row, "tenant_id") as TenantId,
    scopes: texts(row, "scopes").filter(isScope),
    tenantActive: flag(row, "active"),
  };
};

const COLUMNS = sql.raw("k.id, k.tenant_id, k.name, k.prefix, k.scopes, k.expires_at, k.revoked_at, k.created_at");

const keyRecord = (row: Row): KeyRecord => ({
  id: text(row, "id") as KeyId,
  tenantId: text(row, "tenant_id") as TenantId,
  name: text(row, "name"),
  prefix: text(row, "prefix"),
  scopes: texts(row, "scopes").filter(isScope),
  expiresAt: timeOrNull(row, "expires_at"),
  revokedAt: timeOrNull(row, "revoked_at"),
  createdAt: time(row, "created_at"),
});

export interface NewKey {
  readonly id: KeyId;
  readonly tenantId: TenantId;
  readonly name: string;
  /** SHA-256 of the secret, hex. */
  readonly hash: string;
  readonly prefix: string;
  readonly scopes: readonly Scope[];
  /** RFC 3339. */
  readonly expiresAt: string | null;
}

/** Stores a key. @returns undefined when there is no such tenant @throws StoreUnavailable */
export const createKey = async (db: Db, key: NewKey): Promise<KeyRecord | undefined> => {
  const results = await db.batch(
    [
      sql`insert into api_keys (id, tenant_id, name, hash, prefix, scopes, expires_at)
        select ${key.id}, t.id, ${key.name}, ${key.hash}, ${key.prefix}, ${sql.param([...key.scopes])}::text[], ${key.expiresAt}::timestamptz
        from tenants t where t.id = ${key.tenantId} on conflict (id) do nothing`,
      sql`select ${COLUMNS} from api_keys k where k.id = ${key.id}`,
    ],
    { name: "create key", repeatable: true },
  );
  const row = results[1]?.[0];
  return row === undefined ? undefined : keyRecord(row);
};

const owned = (tenantId: TenantId | null): SQL => (tenantId === null ? sql`true` : sql`k.tenant_id = ${tenantId}`);

/** A page of keys, revoked and expired ones included. @param tenantId null for those of all tenants @throws StoreUnavailable */
export const listKeys = async (db: Db, tenantId: TenantId | null, page: Page): Promise<readonly KeyRecord[]> => {
  const [rows] = await db.batch(
    [
      sql`select ${COLUMNS} from api_keys k where ${owned(tenantId)} and ${page.after(sql`k.id`)}
        order by ${page.order(sql`k.id`)} limit ${page.limit}`,
    ],
    { name: "list keys", repeatable: true },
  );
  return (rows ?? []).map(keyRecord);
};

/** Revokes a key; one that is revoked stays as it is. @returns undefined when there is none of that id @throws StoreUnavailable */
export const revokeKey = async (db: Db, tenantId: TenantId | null, id: string): Promise<KeyRecord | undefined> => {
  const results = await db.batch(
    [
      sql`update api_keys k set revoked_at = hango_now() where k.id = ${id} and ${owned(tenantId)} and k.revoked_at is null`,
      sql`select ${COLUMNS} from api_keys k where k.id = ${id} and ${owned(tenantId)}`,
    ],
    { name: "revoke key", repeatable: true },
  );
  const row = results[1]?.[0];
  return row === undefined ? undefined : keyRecord(row);
};
