/** The guards of compaction in the session's head (context section 7). Their rules are in `context/guards`; here they are columns and single statements. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId } from "../protocol/ids.ts";
import type { Row } from "./db.ts";
import { flag, number, numberOrNull, textOrNull, timeOrNull } from "./rows.ts";

/** What the database's clock says of the guards. */
export interface StoredGuardTimes {
  readonly cooldownActive: boolean;
  readonly probationDue: boolean;
}

/** The guards as every write of a run leaves them. What lasts until a time is set by statements of its own, and only cleared by these. */
export interface GuardRecord {
  /** Null ends the cooldown and forgets its reason; else both stay as they are. */
  readonly cooldownReason: string | null;
  readonly summaryTimeouts: number;
  readonly summaryTruncations: number;
  readonly strikes: number;
  readonly pause: "same_result" | null;
  /** False ends the probation; else it stays as it is. */
  readonly onProbation: boolean;
  readonly skips: number;
  readonly generation: number;
  readonly reading: "awaiting" | "over" | "under" | null;
  readonly result: { readonly coveredHash: string; readonly summaryTokens: number } | null;
  readonly settledSeq: number;
  /** Of the run that writes. */
  readonly budget: { readonly compactions: number; readonly attempts: number };
  readonly learnedWith: { readonly model: string; readonly provider: string; readonly summariser: string } | null;
}

export interface StoredGuards extends Omit<GuardRecord, "onProbation" | "budget">, StoredGuardTimes {
  /** RFC 3339. */
  readonly cooldownUntil: string | null;
  readonly probationAt: string | null;
  /** With the run that it is of; null before the first. */
  readonly budget: { readonly runId: RunId; readonly compactions: number; readonly attempts: number } | null;
}

/** SQL over `session_heads h`: the columns that `guardTimes` reads. */
export const GUARD_TIMES: SQL = sql`coalesce(h.cooldown_until > hango_now(), false) as cooldown_active,
  coalesce(h.probation_at <= hango_now(), false) as probation_due`;

export const guardTimes = (row: Row): StoredGuardTimes => ({
  cooldownActive: flag(row, "cooldown_active"),
  probationDue: flag(row, "probation_due"),
});

/** SQL over `session_heads h`: the columns that `storedGuards` reads. */
export const GUARD_COLUMNS: SQL = sql`${GUARD_TIMES}, h.cooldown_until, h.cooldown_reason, h.summary_timeouts, h.summary_truncations, h.strikes,
  h.compaction_pause, h.probation_at, h.infeasible_skips, h.guarded_generation, h.guarded_reading, h.guarded_hash, h.guarded_summary_tokens,
  h.settled_seq, h.budget_run_id, h.budget_compactions, h.budget_attempts, h.guards_model, h.guards_provider, h.guards_summarizer`;

export const storedGuards = (row: Row): StoredGuards => {
  const coveredHash = textOrNull(row, "guarded_hash");
  const summaryTokens = numberOrNull(row, "guarded_summary_tokens");
  const runId = textOrNull(row, "budget_run_id");
  const [model, provider, summariser] = [
    textOrNull(row, "guards_model"),
    textOrNull(row, "guards_provider"),
    textOrNull(row, "guards_summarizer"),
  ];
  return {
    ...guardTimes(row),
    cooldownUntil: timeOrNull(row, "cooldown_until"),
    cooldownReason: textOrNull(row, "cooldown_reason"),
    summaryTimeouts: number(row, "summary_timeouts"),
    summaryTruncations: number(row, "summary_truncations"),
    strikes: number(row, "strikes"),
    pause: textOrNull(row, "compaction_pause") as StoredGuards["pause"],
    probationAt: timeOrNull(row, "probation_at"),
    skips: number(row, "infeasible_skips"),
    generation: number(row, "guarded_generation"),
    reading: textOrNull(row, "guarded_reading") as StoredGuards["reading"],
    result: coveredHash === null || summaryTokens === null ? null : { coveredHash, summaryTokens },
    settledSeq: number(row, "settled_seq"),
    budget:
      runId === null
        ? null
        : {
            runId: runId as RunId,
            compactions: number(row, "budget_compactions"),
            attempts: number(row, "budget_attempts"),
          },
    learnedWith: model === null || provider === null || summariser === null ? null : { model, provider, summariser },
  };
};

/** SQL: the guards, as assignments of an update of `session_heads`. @param runId whose budget it is (M4); null for work that is no run */
export const guardChanges = (runId: RunId | null, guards: GuardRecord): readonly SQL[] => [
  sql`summary_timeouts = ${guards.summaryTimeouts}::int, summary_truncations = ${guards.summaryTruncations}::int, strikes = ${guards.strikes}::int,
    compaction_pause = ${guards.pause}, infeasible_skips = ${guards.skips}::int, guarded_generation = ${guards.generation}::bigint,
    guarded_reading = ${guards.reading}, guarded_hash = ${guards.result?.coveredHash ?? null},
    guarded_summary_tokens = ${guards.result?.summaryTokens ?? null}::int, settled_seq = ${guards.settledSeq}::bigint, budget_run_id = ${runId},
    budget_compactions = ${guards.budget.compactions}::int, budget_attempts = ${guards.budget.attempts}::int,
    guards_model = ${guards.learnedWith?.model ?? null}, guards_provider = ${guards.learnedWith?.provider ?? null},
    guards_summarizer = ${guards.learnedWith?.summariser ?? null}`,
  ...(guards.cooldownReason === null ? [sql`cooldown_until = null, cooldown_reason = null`] : []),
  ...(guards.onProbation ? [] : [sql`probation_at = null, probe_id = null`]),
];

/** SQL: what a rewind leaves of the guards: strikes of compactions that a longer log needed say nothing of what is left. */
export const FORGET_STRIKES: SQL = sql`strikes = 0, compaction_pause = null, probation_at = null, probe_id = null, infeasible_skips = 0,
  guarded_reading = null, guarded_hash = null, guarded_summary_tokens = null`;
