/**
 * Idempotency keys of requests whose effect is more than one transaction: claimed first, answered when the work is done. A claim whose
 * worker died before it answered is taken over, so that a repeated request never hangs on it.
 */
import { sql } from "drizzle-orm";
import type { Db } from "./db.ts";
import { type Claim, type ClaimState, claimState, insertClaim, selectClaim } from "./idempotency.ts";
import { leaseLive } from "./lease.ts";

/** A claim without an answer is taken over after this, in seconds, unless the run that it stands for holds its session. */
const TAKE_OVER_SECONDS = 15;

const ours = (claim: Claim) =>
  sql`tenant_id = ${claim.owner} and key = ${claim.key} and resource_id = ${claim.resourceId}`;

/**
 * Claims the key, takes it over where its first request is dead, or says what it stands for. One round trip.
 * @param claim `resourceId` is the run that does the work, where it is done by one
 * @returns `ours`: do the work, then `answerClaim`; `replay` without a response: the first request is still at work
 * @throws StoreUnavailable
 */
export const takeClaim = async (db: Db, claim: Claim): Promise<ClaimState> => {
  const results = await db.batch(
    [
      insertClaim(claim),
      sql`update idempotency_keys i set resource_id = ${claim.resourceId}, created_at = hango_now()
        where i.tenant_id = ${claim.owner} and i.key = ${claim.key} and i.request_hash = ${claim.requestHash} and i.response is null
          and i.resource_id <> ${claim.resourceId}
          and i.created_at <= hango_now() - make_interval(secs => ${sql.raw(String(TAKE_OVER_SECONDS))})
          and not exists (select 1 from runs r join session_heads h on h.session_id = r.session_id and h.lease_holder = r.id
            where r.id = i.resource_id and ${leaseLive})`,
      selectClaim(claim),
    ],
    { name: "take claim", repeatable: true },
  );
  return claimState(claim, results.at(-1)?.[0]);
};

/** Keeps what a repeated request is answered with. Without content: it outlives its session. @throws StoreUnavailable */
export const answerClaim = async (db: Db, claim: Claim, response: string): Promise<void> => {
  await db.batch([sql`update idempotency_keys set response = ${response} where ${ours(claim)}`], {
    name: "answer claim",
    repeatable: true,
  });
};

/** Gives a key back: the request had no effect and may be made again. @throws StoreUnavailable */
export const releaseClaim = async (db: Db, claim: Claim): Promise<void> => {
  await db.batch([sql`delete from idempotency_keys where ${ours(claim)} and response is null`], {
    name: "release claim",
    repeatable: true,
  });
};
