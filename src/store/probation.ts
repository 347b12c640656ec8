/** The probation of a session whose automatic compaction is blocked (G4): two conditional statements, each decided by the database once. */
import { type SQL, sql } from "drizzle-orm";
import type { Db, Row } from "./db.ts";
import { leaseHeld } from "./lease.ts";
import { flag, timeOrNull } from "./rows.ts";
import { type RunIdentity, requireHeld } from "./statements.ts";

export interface StoredProbation {
  /** RFC 3339. */
  readonly at: string;
  readonly due: boolean;
}

/** SQL: the end of a probation that begins now. */
const from = (seconds: number): SQL =>
  sql`hango_now() + make_interval(secs => ${sql.raw(String(seconds))}::double precision)`;

const selectProbation = (run: RunIdentity, probeId: string | null): SQL =>
  sql`select ${leaseHeld(run.lease)} as held, h.probation_at, coalesce(h.probation_at <= hango_now(), false) as due,
    coalesce(h.probe_id = ${probeId}, false) as granted from session_heads h where h.session_id = ${run.sessionId}`;

const probationOf = (row: Row | undefined): StoredProbation => {
  const head = requireHeld(row);
  // It was set by the statement before, or by an earlier one that only a write of this run can take back.
  return { at: timeOrNull(head, "probation_at") ?? "", due: flag(head, "due") };
};

/**
 * Sets the probation of a blocked session, where none is set (G4): whoever comes later does not move it.
 * @returns the one that holds now
 * @throws LeaseLost, StoreUnavailable
 */
export const armProbation = async (db: Db, run: RunIdentity, seconds: number): Promise<StoredProbation> => {
  const results = await db.batch(
    [
      sql`update session_heads h set probation_at = ${from(seconds)} where ${leaseHeld(run.lease)} and h.probation_at is null`,
      selectProbation(run, null),
    ],
    { name: "arm probation", repeatable: true },
  );
  return probationOf(results.at(-1)?.[0]);
};

/**
 * Grants the one probe of a probation that has passed, and begins the next (G4): the first who asks has it, also when its answer is lost.
 * A probe that its Worker does not live to use is lost, and the next one is to be had when the next probation has passed.
 * @param probeId chosen by the Worker, once for an attempt
 * @throws LeaseLost, StoreUnavailable
 */
export const takeProbe = async (
  db: Db,
  run: RunIdentity,
  probeId: string,
  seconds: number,
): Promise<{ readonly isGranted: boolean; readonly probation: StoredProbation }> => {
  const results = await db.batch(
    [
      sql`update session_heads h set probation_at = ${from(seconds)}, probe_id = ${probeId}
        where ${leaseHeld(run.lease)} and h.probation_at <= hango_now() and h.probe_id is distinct from ${probeId}`,
      selectProbation(run, probeId),
    ],
    { name: "take probe", repeatable: true },
  );
  const row = results.at(-1)?.[0];
  const probation = probationOf(row);
  return { isGranted: row !== undefined && flag(row, "granted"), probation };
};
