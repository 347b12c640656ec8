/**
 * The lease of a session: one holder, an epoch that grows with every take-over, an expiry by the database's clock. Only the
 * holder appends to the log, and every write repeats the condition (M2, M5).
 */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, SessionId } from "../protocol/ids.ts";

/** How long a lease lives without a write, in seconds (issue: expiry 180 s by the database clock). */
export const LEASE_SECONDS = 180;

/** A renewal that rides on nothing else happens at most so often, in seconds (architecture section 2). */
export const RENEWAL_SECONDS = 30;

export interface Lease {
  readonly sessionId: SessionId;
  /** The run that holds the session. */
  readonly holder: RunId;
  readonly epoch: number;
}

/** SQL: the expiry of a lease taken or renewed now. */
export const leaseExpiry: SQL = sql`hango_now() + make_interval(secs => ${sql.raw(String(LEASE_SECONDS))})`;

/** SQL condition over `session_heads h`: this lease is held and has not expired. */
export const leaseHeld = (lease: Lease): SQL =>
  sql`h.session_id = ${lease.sessionId} and h.lease_holder = ${lease.holder} and h.lease_epoch = ${lease.epoch} and h.lease_expires_at > hango_now()`;
