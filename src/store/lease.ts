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

/**
 * The longest that one take of a lease lives, whatever progress it reports, in seconds: a queue consumer is stopped after 15 minutes
 * (platform.md), and no turn may take longer than 12.
 */
export const LEASE_CAP_SECONDS = 900;

/** A holder that does not heed a hard cancel for this long, in seconds, is taken for dead. It looks every `CANCEL_CHECK_MS`. */
export const CANCEL_GRACE_SECONDS = 10;

export interface Lease {
  readonly sessionId: SessionId;
  /** The run that holds the session. */
  readonly holder: RunId;
  readonly epoch: number;
}

/** SQL: the expiry of a lease taken now. */
export const leaseExpiry: SQL = sql`hango_now() + make_interval(secs => ${sql.raw(String(LEASE_SECONDS))})`;

/** SQL over `session_heads h`: the expiry of a lease renewed now, within its hard cap. */
export const renewedExpiry: SQL = sql`least(${leaseExpiry},
  coalesce(h.lease_taken_at, hango_now()) + make_interval(secs => ${sql.raw(String(LEASE_CAP_SECONDS))}))`;

/** SQL condition over `session_heads h`: this lease is held and has not expired. */
export const leaseHeld = (lease: Lease): SQL =>
  sql`h.session_id = ${lease.sessionId} and h.lease_holder = ${lease.holder} and h.lease_epoch = ${lease.epoch} and h.lease_expires_at > hango_now()`;

/** SQL condition over `session_heads h`: a run holds the lease. */
export const leaseLive: SQL = sql`(h.lease_holder is not null and h.lease_expires_at > hango_now())`;

/**
 * SQL condition over `session_heads h`: no run needs the session any more. A run that died keeps its name in the head until it was
 * continued or failed; work between turns (`maintenance`) is not continued and gives way.
 */
export const unclaimed: SQL = sql`((h.lease_holder is null or (h.lease_expires_at <= hango_now()
  and not exists (select 1 from runs dead where dead.id = h.lease_holder and dead.trigger <> 'maintenance' and dead.status = 'running')))
  and h.waiting_run_id is null)`;

/** SQL over `session_heads h`: whether a run is at work, waits for tool results, died unfinished, or is queued. */
export const sessionBusy: SQL = sql`(not ${unclaimed}
  or exists (select 1 from runs waiting where waiting.session_id = h.session_id and waiting.status = 'queued'))`;

/** SQL over `session_heads h`: the run that keeps the session busy, the one at work first; null when it is idle. */
export const busyRun: SQL = sql`coalesce(h.lease_holder, h.waiting_run_id,
  (select first.id from runs first where first.session_id = h.session_id and first.status = 'queued'
    order by first.interrupts desc, first.position limit 1))`;

/** SQL: what ends a hold on the session, as assignments of an update of `session_heads`. */
export const RELEASED: SQL = sql`lease_holder = null, lease_expires_at = null, lease_taken_at = null, lease_token = null, cancel_requested_at = null`;

/** Longest time after which a caller who found a session busy is told to come back, in seconds: runs end when they end. */
const MAX_RETRY_AFTER_SECONDS = 10;

/** SQL over `session_heads h`: when to come back to a busy session, in seconds; 1 where nothing says more. */
export const retryAfter: SQL = sql`least(${sql.raw(String(MAX_RETRY_AFTER_SECONDS))},
  greatest(1, ceil(extract(epoch from coalesce(h.lease_expires_at, hango_now()) - hango_now()))))::int`;
