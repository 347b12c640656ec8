/** What a run writes between its begin and its finish: one round trip a step. */
import { sql } from "drizzle-orm";
import type { Seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { Db } from "./db.ts";
import { guardTimes, type StoredGuardTimes } from "./guards.ts";
import { LEASE_SECONDS, leaseHeld, RENEWAL_SECONDS, renewedExpiry } from "./lease.ts";
import { flag, logRow, number, textOrNull } from "./rows.ts";
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
  selectHeld,
  storeReading,
  storeTodos,
  touchLease,
  updateTotals,
} from "./statements.ts";

/**
 * Stores an assistant message before any of its tools runs. When it has calls, the seq after it is reserved for their results.
 * @returns whether a hard cancel was asked for
 * @throws LeaseLost, StoreUnavailable
 */
export const storeAssistant = async (
  db: Db,
  run: RunIdentity,
  message: PlacedRow,
  totals: RunTotals,
  record: StepRecord,
): Promise<boolean> => {
  const open = message.row.calls.length > 0;
  const nextSeq = message.seq + (open ? 2 : 1);
  const results = await db.batch(
    [
      touchLease(run, record, [
        sql`next_seq = ${nextSeq}::bigint, open_batch_seq = ${open ? message.seq : null}::bigint`,
      ]),
      insertMessage(run, message),
      ...insertUsage(run, record.usage),
      ...insertEvents(run, record.events),
      updateTotals(run, totals),
      ...storeReading(run, record),
      selectHeld(run),
    ],
    { name: "store assistant", repeatable: true },
  );
  return flag(requireHeld(results.at(-1)?.[0]), "cancelled");
};

export interface AfterResults {
  /** Input that had been waiting, now in the log. */
  readonly moved: readonly LogRow[];
  readonly nextSeq: number;
  /** A compaction that was asked for since the run began: its focus, empty for none; null when there is none (G9). */
  readonly forceCompaction: string | null;
  /** A hard cancel was asked for. */
  readonly cancelled: boolean;
  /** What is over of the guards by now. */
  readonly guardTimes: StoredGuardTimes;
}

/**
 * Stores the results of a batch at the seq reserved for them, and moves waiting input in after everything that is in the log.
 * @param base the first seq after all rows known to the run
 * @param todos the list as the batch left it, so that whoever goes on with the run has it; null where the batch did not write it
 * @throws LeaseLost, StoreUnavailable
 */
export const storeResults = async (
  db: Db,
  run: RunIdentity,
  results: PlacedRow,
  base: Seq,
  record: StepRecord,
  todos: readonly unknown[] | null = null,
): Promise<AfterResults> => {
  const answers = await db.batch(
    [
      touchLease(run, record, [sql`open_batch_seq = null`]),
      insertMessage(run, results),
      sql`delete from tool_answers a using session_heads h where a.run_id = ${run.lease.holder} and ${leaseHeld(run.lease)}`,
      ...insertUsage(run, record.usage),
      ...insertEvents(run, record.events),
      ...moveInputs(run, base),
      ...(todos === null ? [] : [storeTodos(run, todos)]),
      selectHeld(run),
      selectFrom(run, base),
    ],
    { name: "store results", repeatable: true },
  );
  const head = requireHeld(answers.at(-2)?.[0]);
  return {
    moved: (answers.at(-1) ?? []).map(logRow),
    nextSeq: number(head, "next_seq"),
    forceCompaction: textOrNull(head, "force_compaction"),
    cancelled: flag(head, "cancelled"),
    guardTimes: guardTimes(head),
  };
};

/**
 * Keeps a long call's session and shows how far it is: stores the text so far, for clients that attach in the middle, and renews
 * the lease when it is due. Counted apart.
 * @returns whether a hard cancel was asked for
 * @throws LeaseLost, StoreUnavailable
 */
export const storeProgress = async (db: Db, run: RunIdentity, draft: string | null): Promise<boolean> => {
  const due = sql`h.lease_expires_at < hango_now() + make_interval(secs => ${sql.raw(String(LEASE_SECONDS - RENEWAL_SECONDS))})`;
  const results = await db.batch(
    [
      sql`update session_heads h set lease_expires_at = ${renewedExpiry} where ${leaseHeld(run.lease)} and ${due}`,
      sql`update runs r set draft = ${draft} from session_heads h where r.id = ${run.lease.holder} and ${leaseHeld(run.lease)}`,
      selectHeld(run),
    ],
    { name: "store progress", repeatable: true, apart: true },
  );
  return flag(requireHeld(results.at(-1)?.[0]), "cancelled");
};

/**
 * Looks whether the run may go on: whether it holds its session, and was not cancelled. Counted apart.
 * @returns whether a hard cancel was asked for
 * @throws LeaseLost, StoreUnavailable
 */
export const checkCancel = async (db: Db, run: RunIdentity): Promise<boolean> => {
  const results = await db.batch([selectHeld(run)], { name: "check cancel", repeatable: true, apart: true });
  return flag(requireHeld(results.at(-1)?.[0]), "cancelled");
};
