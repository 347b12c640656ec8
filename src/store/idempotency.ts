/**
 * Idempotency keys of everything but turns (those keep theirs in `runs`). The claim is inserted in the same batch as the effect,
 * and the effect happens only where the claim is ours: of several equal requests one takes effect, and a batch sent twice does once.
 */
import { type SQL, sql } from "drizzle-orm";
import type { Row } from "./db.ts";
import { text, textOrNull } from "./rows.ts";

/** How long a key is remembered (api.md, "Idempotency"). */
export const IDEMPOTENCY_HOURS = 24;

export interface Claim {
  /** The tenant's id, or a fixed word for the operator, who has none. */
  readonly owner: string;
  readonly key: string;
  /** SHA-256 of method, path and body. */
  readonly requestHash: string;
  /** Id of what the request makes, chosen by the Worker. */
  readonly resourceId: string;
}

const expired: SQL = sql`idempotency_keys.created_at <= hango_now() - make_interval(hours => ${sql.raw(String(IDEMPOTENCY_HOURS))})`;

/** SQL: claims the key; one that is older than 24 hours is taken over. Waits for an equal request under way. */
export const insertClaim = ({ owner, key, requestHash, resourceId }: Claim): SQL =>
  sql`insert into idempotency_keys (tenant_id, key, request_hash, resource_id) values (${owner}, ${key}, ${requestHash}, ${resourceId})
    on conflict (tenant_id, key) do update set request_hash = excluded.request_hash, resource_id = excluded.resource_id,
      response = null, created_at = hango_now() where ${expired}`;

/** SQL condition: the key is claimed for our resource; true where the request has no key. */
export const claimed = (claim: Claim | null): SQL =>
  claim === null
    ? sql`true`
    : sql`exists (select 1 from idempotency_keys i where i.tenant_id = ${claim.owner} and i.key = ${claim.key} and i.resource_id = ${claim.resourceId})`;

/** SQL: what the key stands for. */
export const selectClaim = (claim: Claim | null): SQL =>
  claim === null
    ? sql`select null::text as resource_id where false`
    : sql`select request_hash, resource_id, response from idempotency_keys where tenant_id = ${claim.owner} and key = ${claim.key}`;

/** What a repeated request finds. */
export type ClaimState =
  /** The request took effect now (or has no key). */
  | { readonly kind: "ours" }
  /** The same request took effect before. */
  | { readonly kind: "replay"; readonly resourceId: string; readonly response: string | null }
  /** The key stands for another request. */
  | { readonly kind: "mismatch" };

/** Reads the row of `selectClaim`. */
export const claimState = (claim: Claim | null, row: Row | undefined): ClaimState => {
  if (claim === null || row === undefined) return { kind: "ours" };
  if (text(row, "request_hash") !== claim.requestHash) return { kind: "mismatch" };
  const resourceId = text(row, "resource_id");
  return resourceId === claim.resourceId
    ? { kind: "ours" }
    : { kind: "replay", resourceId, response: textOrNull(row, "response") };
};

/** SQL: keeps a claim with its answer where the effect is stored, and gives it back where it is not. For the batch of the effect. */
export const settleClaim = (claim: Claim, stored: SQL, response: string | SQL): readonly SQL[] => {
  const ours = sql`tenant_id = ${claim.owner} and key = ${claim.key} and resource_id = ${claim.resourceId}`;
  return [
    sql`update idempotency_keys set response = ${response} where ${ours} and ${stored}`,
    sql`delete from idempotency_keys where ${ours} and not ${stored}`,
  ];
};
