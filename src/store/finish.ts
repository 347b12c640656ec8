/** The end of a turn, in one round trip. */
import { sql } from "drizzle-orm";
import type { RunId, Seq, WebhookDeliveryId } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { Db } from "./db.ts";
import { GUARD_TIMES, guardTimes, type StoredGuardTimes } from "./guards.ts";
import { busyRun, leaseHeld, RELEASED } from "./lease.ts";
import { tellOfRun, toldIds } from "./outbox.ts";
import { flag, logRow, number, textOrNull, time, timeOrNull } from "./rows.ts";
import {
  insertEvents,
  insertMessage,
  insertUsage,
  moveInputs,
  type PlacedRow,
  type RunIdentity,
  type RunTotals,
  requireHeld,
  type StepRecord,
  selectFrom,
  storeReading,
  touchLease,
  updateTotals,
} from "./statements.ts";
import { addSubagentUse, endSubagents } from "./subagent-ends.ts";

export interface RunError {
  readonly type: string;
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
}

export interface FinishTurn {
  readonly status: "completed" | "failed" | "cancelled";
  readonly stopReason: string | null;
  readonly outputText: string | null;
  readonly error: RunError | null;
  /** The last assistant message, when there is one. */
  readonly message: PlacedRow | null;
  /** The first seq after all rows known to the run, `message` included. */
  readonly base: Seq;
  readonly totals: RunTotals;
  /** The run had subagents: what they used is added to its totals, and those that are left end with it. */
  readonly subagents?: boolean;
  /** Prompt size of the run's newest call, in tokens; null when none was answered. */
  readonly lastInputTokens: number | null;
  readonly todos: readonly unknown[];
  /** Every how many turns micro-compaction makes a pass, where this one counts; null where it does not. */
  readonly microEveryNTurns: number | null;
  /** Round trips of the turn, this one included. */
  readonly dbRoundTrips: number;
  readonly overheadMs: number;
  /** Events that belong to the message: stored whether or not the run ends here. */
  readonly record: StepRecord;
  /** Events that say that the run ended, numbered after those of `record`. */
  readonly closing: StepRecord;
}

export type FinishOutcome =
  | {
      readonly kind: "finished";
      readonly createdAt: string;
      readonly startedAt: string | null;
      readonly finishedAt: string;
      readonly attempts: number;
      /** The run that has waited longest for the session, now free. */
      readonly next: RunId | null;
      /** What is to be sent to the tenant's receivers. */
      readonly deliveries: readonly WebhookDeliveryId[];
      /** A pass of micro-compaction is due (section 11). */
      readonly microDue: boolean;
    }
  /** Input had been waiting and is now in the log after the message: the run is not over. */
  | {
      readonly kind: "more_input";
      readonly moved: readonly LogRow[];
      readonly nextSeq: number;
      readonly guardTimes: StoredGuardTimes;
    };

/**
 * Closes a turn: the last message, the run, the session's counters (the one update of `sessions`), and the lease. A completed turn
 * with input waiting is not closed: the input is moved into the log and the caller goes on (M5). A failed or cancelled one is closed either way.
 * @throws LeaseLost, StoreUnavailable
 */
export const storeFinish = async (db: Db, run: RunIdentity, finish: FinishTurn): Promise<FinishOutcome> => {
  const { totals, closing } = finish;
  const nothingMoved = sql`not exists (select 1 from messages m where m.session_id = h.session_id and m.seq >= ${finish.base})`;
  const closes = finish.status === "completed" ? nothingMoved : sql`true`;
  const closed = sql`exists (select 1 from session_heads h where ${leaseHeld(run.lease)} and ${closes})`;
  const results = await db.batch(
    [
      touchLease(run, { ...finish.record, ...closing }, [sql`next_seq = ${finish.base}::bigint`]),
      ...(finish.message === null ? [] : [insertMessage(run, finish.message)]),
      ...insertUsage(run, finish.record.usage),
      ...insertEvents(run, finish.record.events),
      ...storeReading(run, finish.record),
      ...moveInputs(run, finish.base),
      updateTotals(run, totals),
      ...(finish.subagents === true
        ? [endSubagents(run.lease.holder, closed), addSubagentUse(run.lease.holder, closed)]
        : []),
      sql`update sessions s set turns = s.turns + 1, input_tokens = s.input_tokens + r.input_tokens, output_tokens = s.output_tokens + r.output_tokens,
          cache_read_tokens = s.cache_read_tokens + r.cache_read_tokens, cache_write_tokens = s.cache_write_tokens + r.cache_write_tokens,
          cost_usd = s.cost_usd + coalesce(r.cost_usd, 0),
          compactions = s.compactions + (select count(*) from compactions c where c.session_id = s.id and c.run_id = ${run.lease.holder}),
          last_input_tokens = coalesce(${finish.lastInputTokens}::int, s.last_input_tokens),
          todos = ${JSON.stringify(finish.todos)}::jsonb, last_run_id = ${run.lease.holder}, updated_at = hango_now()
        from session_heads h join runs r on r.id = ${run.lease.holder} where s.id = h.session_id and ${leaseHeld(run.lease)} and ${closes}`,
      sql`update runs r set status = ${finish.status}, stop_reason = ${finish.stopReason}, output_text = ${finish.outputText},
          error = ${finish.error === null ? null : JSON.stringify(finish.error)}::jsonb, finished_at = hango_now(),
          db_round_trips = ${finish.dbRoundTrips}::int, overhead_ms = ${finish.overheadMs}::int
        from session_heads h where r.id = ${run.lease.holder} and ${leaseHeld(run.lease)} and ${closes}`,
      ...insertEvents(run, closing.events, closes),
      sql`update session_heads h set ${RELEASED}${finish.microEveryNTurns === null ? sql`` : sql`, micro_turns = h.micro_turns + 1`}
        where ${leaseHeld(run.lease)} and ${closes}`,
      tellOfRun(run.tenantId, run.lease.holder),
      sql`select r.db_round_trips is not null and r.status = ${finish.status} and h.lease_epoch = ${run.lease.epoch} as closed,
          (${leaseHeld(run.lease)}) as held, ${GUARD_TIMES}, h.next_seq, r.created_at, r.started_at, r.finished_at, r.attempts, ${busyRun} as next,
          coalesce(h.micro_turns >= ${finish.microEveryNTurns}::int, false) as micro_due
        from runs r join session_heads h on h.session_id = r.session_id where r.id = ${run.lease.holder}`,
      selectFrom(run, finish.base),
    ],
    { name: "finish", repeatable: true },
  );
  const state = results.at(-2)?.[0];
  // The epoch tells our own close, whose answer may have been lost, from one by whoever continued the run after us. One that is closed with
  // another status was finished by an earlier attempt: then that is what counts, and the lease is gone.
  if (state !== undefined && flag(state, "closed")) {
    return {
      kind: "finished",
      createdAt: time(state, "created_at"),
      startedAt: timeOrNull(state, "started_at"),
      finishedAt: time(state, "finished_at"),
      attempts: number(state, "attempts"),
      next: textOrNull(state, "next") as RunId | null,
      deliveries: toldIds(results.at(-3)),
      microDue: flag(state, "micro_due"),
    };
  }
  const head = requireHeld(state);
  return {
    kind: "more_input",
    moved: (results.at(-1) ?? []).map(logRow),
    nextSeq: number(head, "next_seq"),
    guardTimes: guardTimes(head),
  };
};
