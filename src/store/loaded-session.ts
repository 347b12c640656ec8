/** What a run begins or goes on with: its session, and what it brings along itself. */
import type { KeyId, Seq } from "../protocol/ids.ts";
import type { Lease } from "./lease.ts";
import type { RunTrigger } from "./runs.ts";
import type { SettledSession } from "./settled-session.ts";
import type { RunTotals, Used } from "./statements.ts";

/** What a request asks of its run alone; stored as `runs.options`. */
export interface RunOptions {
  /** Most model calls. */
  readonly maxSteps?: number;
  /** Most that the turn may cost, in USD at list price. */
  readonly maxUsd?: number;
}

/** A session as a run sees it, and what makes it that run's. */
export interface LoadedSession extends SettledSession {
  readonly lease: Lease;
  readonly keyId: KeyId | null;
  /** Where the turn's own input stands; null where the run has none. */
  readonly inputSeq: Seq | null;
  readonly run: RunFacts;
}

/** What a run brings along, of its request and of what was done of it before. */
export interface RunFacts {
  readonly trigger: RunTrigger;
  readonly options: RunOptions;
  /** What its earlier parts used. */
  readonly totals: RunTotals;
  /** What the subagents of its earlier parts used, at every depth; null where it had none. */
  readonly subagents: Used | null;
  /** Time that its earlier parts took of the turn's limit, in ms. */
  readonly spentMs: number;
  /** Round trips and time of its earlier parts, as they counted them. */
  readonly overheadMs: number;
  readonly dbRoundTrips: number;
  /** Starts, the first included; a hand-over is none. */
  readonly attempts: number;
  /** RFC 3339. */
  readonly createdAt: string;
  readonly startedAt: string;
  /** A hard cancel was asked for. */
  readonly cancelled: boolean;
  /** The time for the caller's tool results is over. */
  readonly overdue: boolean;
  /** Results of an open batch that came before the others, by call. */
  readonly answers: ReadonlyMap<string, StoredAnswer>;
}

/** A result that waits for the others of its batch. */
export interface StoredAnswer {
  /** JSON text of the result's content: a string, or blocks. */
  readonly content: string;
  readonly isError: boolean;
}

/** What a run has behind it that starts now: nothing. @param startedAt RFC 3339 */
export const newRunFacts = (trigger: RunTrigger, options: RunOptions, startedAt: string): RunFacts => ({
  trigger,
  options,
  createdAt: startedAt,
  startedAt,
  totals: {
    steps: 0,
    usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
    costUsd: null,
  },
  subagents: null,
  spentMs: 0,
  overheadMs: 0,
  dbRoundTrips: 0,
  attempts: 1,
  cancelled: false,
  overdue: false,
  answers: new Map(),
});
