/**
 * Hard cancels. The mark stands in the session's head, the row that every write of the run is conditional on, so that a cancel and the commit
 * of a compaction meet in one row and exactly one of them comes first (M2).
 */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, SessionId, TenantId, WebhookDeliveryId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import { tellOfRunEndedNow, toldIds } from "./outbox.ts";
import { text } from "./rows.ts";
import { findRunStatement, type RunRecord, runRecord } from "./runs.ts";

/** SQL: marks the run that a statement before has put into this setting. */
const CANCELLING: SQL = sql`current_setting('hango.cancelling')`;

const lock = (wanted: SQL): SQL =>
  // The lock waits for a commit under way, and lets the next one see the mark.
  sql`select set_config('hango.cancelling', coalesce((select h.session_id from session_heads h where h.session_id = (${wanted}) for update), ''), true)`;

const mark = (run: SQL): readonly SQL[] => [
  sql`update session_heads h set cancel_requested_at = coalesce(h.cancel_requested_at, hango_now())
    where h.session_id = ${CANCELLING} and (h.lease_holder = ${run} or h.waiting_run_id = ${run})`,
  sql`update runs r set cancel_requested_at = coalesce(r.cancel_requested_at, hango_now())
    where r.id = ${run} and r.session_id = ${CANCELLING} and r.status in ('queued', 'running', 'requires_action')`,
];

/**
 * SQL: cancels whatever run is on for a run that has just been queued to interrupt it. Part of a begin.
 * @param from finds the session, as `begin` does
 */
export const interruptStatements = (runId: RunId, from: SQL): readonly SQL[] => {
  const on = sql`(select coalesce(o.lease_holder, o.waiting_run_id) from session_heads o where o.session_id = ${CANCELLING})`;
  return [
    lock(
      sql`select r.session_id from runs r where r.id = ${runId} and r.status = 'queued' and exists (select 1 from ${from})`,
    ),
    ...mark(on),
  ];
};

export interface Cancelled {
  /** The run as it is now: cancelled if it was still waiting for its turn, else as it was, with the mark set. */
  readonly run: RunRecord;
  readonly tenantId: TenantId;
  /** A Worker is to look at the run: one that is at work sees the mark by itself. */
  readonly needsWorker: boolean;
  /** What is to be sent to the tenant's receivers. */
  readonly deliveries: readonly WebhookDeliveryId[];
}

/**
 * Cancels a run for good. One that is queued ends here; one that is at work ends when its Worker sees the mark, at its next write or look; one that
 * waits for tool results is to be ended by a Worker, which the caller sends for. A run that has ended stays as it is.
 * @returns undefined when the tenant has no such run
 * @throws StoreUnavailable
 */
export const cancelRun = async (db: Db, tenantId: TenantId, runId: string): Promise<Cancelled | undefined> => {
  const results = await db.batch(
    [
      lock(sql`select r.session_id from runs r where r.id = ${runId} and r.tenant_id = ${tenantId}`),
      ...mark(sql`${runId}`),
      sql`update runs r set status = 'cancelled', finished_at = hango_now()
        where r.id = ${runId} and r.session_id = ${CANCELLING} and r.status = 'queued'`,
      sql`delete from inputs i where i.run_id = ${runId} and i.session_id = ${CANCELLING}
        and exists (select 1 from runs r where r.id = ${runId} and r.status = 'cancelled')`,
      tellOfRunEndedNow(tenantId, runId as RunId),
      findRunStatement(tenantId, runId),
    ],
    { name: "cancel run", repeatable: true },
  );
  const row = results.at(-1)?.[0];
  if (row === undefined) return undefined;
  const run = runRecord(row);
  const sessionId = text(row, "session_id") as SessionId;
  return {
    run: { ...run, sessionId },
    tenantId,
    needsWorker: run.status === "running" || run.status === "requires_action",
    deliveries: toldIds(results.at(-2)),
  };
};
