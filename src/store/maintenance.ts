/** The end of a run that worked on a session between turns, in one round trip. Its beginning is in `maintenance-lease.ts`. */
import { sql } from "drizzle-orm";
import type { RunId, Seq } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import type { RunError } from "./finish.ts";
import { busyRun, leaseHeld, RELEASED } from "./lease.ts";
import { number, textOrNull, time } from "./rows.ts";
import {
  insertEvents,
  insertUsage,
  moveInputs,
  type RunIdentity,
  type RunTotals,
  requireHeld,
  type StepRecord,
  touchLease,
  updateTotals,
} from "./statements.ts";

export interface FinishMaintenance {
  readonly error: RunError | null;
  /** A hard cancel ended it. */
  readonly isCancelled: boolean;
  /** The first seq after all rows of the log: `nextSeq` of the loaded session. */
  readonly base: Seq;
  readonly totals: RunTotals;
  /** Compactions that the run committed. */
  readonly compactions: number;
  /** Round trips of the run, this one included. */
  readonly dbRoundTrips: number;
  readonly overheadMs: number;
  readonly record: StepRecord;
}

export interface MaintenanceEnd {
  readonly createdAt: string;
  readonly finishedAt: string;
  /** Inputs that arrived meanwhile and are now in the log, unanswered: reason enough for a turn (M5). */
  readonly moved: number;
  /** The run that has waited longest for the session, now free. */
  readonly next: RunId | null;
}

/**
 * Closes the run, counts what it used, and releases the session.
 * @throws LeaseLost, StoreUnavailable
 */
export const finishMaintenance = async (
  db: Db,
  run: RunIdentity,
  finish: FinishMaintenance,
): Promise<MaintenanceEnd> => {
  const { error, totals, record } = finish;
  const { usage } = totals;
  const results = await db.batch(
    [
      touchLease(run, record, [sql`next_seq = ${finish.base}::bigint`]),
      ...insertUsage(run, record.usage),
      ...insertEvents(run, record.events),
      ...moveInputs(run, finish.base),
      updateTotals(run, totals),
      sql`update sessions s set input_tokens = s.input_tokens + ${usage.inputTokens}::bigint,
          output_tokens = s.output_tokens + ${usage.outputTokens}::bigint,
          cache_read_tokens = s.cache_read_tokens + ${usage.cacheReadTokens}::bigint,
          cache_write_tokens = s.cache_write_tokens + ${usage.cacheWriteTokens}::bigint,
          cost_usd = s.cost_usd + coalesce(${totals.costUsd}::numeric, 0),
          compactions = s.compactions + ${finish.compactions}::int, updated_at = hango_now()
        from session_heads h where s.id = h.session_id and ${leaseHeld(run.lease)}`,
      sql`update runs r set status = ${finish.isCancelled ? "cancelled" : error === null ? "completed" : "failed"}, error = ${error === null ? null : JSON.stringify(error)}::jsonb,
          finished_at = hango_now(), db_round_trips = ${finish.dbRoundTrips}::int, overhead_ms = ${finish.overheadMs}::int
        from session_heads h where r.id = ${run.lease.holder} and ${leaseHeld(run.lease)}`,
      sql`update session_heads h set ${RELEASED} where ${leaseHeld(run.lease)}`,
      // Only a run's own finish counts its round trips: a run that was found dead and closed by another has none.
      sql`select r.db_round_trips is not null as held, r.created_at, r.finished_at,
          (select count(*) from messages m where m.session_id = r.session_id and m.run_id = r.id and m.seq >= ${finish.base}) as moved, ${busyRun} as next
        from runs r join session_heads h on h.session_id = r.session_id where r.id = ${run.lease.holder}`,
    ],
    { name: "finish maintenance", repeatable: true },
  );
  const row = requireHeld(results.at(-1)?.[0]);
  return {
    createdAt: time(row, "created_at"),
    finishedAt: time(row, "finished_at"),
    moved: number(row, "moved"),
    next: textOrNull(row, "next") as RunId | null,
  };
};
