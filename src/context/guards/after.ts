/** What the outcome of an attempt, and a reading, leave behind in the guards (section 7). */
import type { CompactionReason, SummaryFailure } from "../reasons.ts";
import { isAutomatic, isForced } from "./decide.ts";
import { type CompactionResult, type GuardState, isBlocked, NO_GUARDS, type Probation } from "./state.ts";

/** G1: seconds after the first, second and every further failure in a row, for time-outs and for truncated output. */
const LADDER_S = [60, 300, 900] as const;

/** G8: how near two summaries are in size that came to the same. */
const SAME_SIZE_SHARE = 0.02;

/** Seconds of cooldown for a failure that has no ladder (G1). */
const fixedCooldownS = (failure: Exclude<SummaryFailure, "timeout" | "truncated">): number => {
  switch (failure) {
    case "malformed":
    case "empty":
    case "network":
      return 30;
    case "refused":
    case "transient":
    case "overloaded":
    case "too_long":
    case "invalid_view":
      return 60;
    // Nothing that the next minute could mend: like missing configuration.
    case "configuration":
    case "authentication":
    case "quota":
      return 600;
    // A strike instead (G3): a wait does not make the rows larger.
    case "would_grow":
      return 0;
    default:
      return failure satisfies never;
  }
};

/** One more compaction without effect (G3). What blocks then, or goes on to, blocks for a full new window (G4). */
const struck = (state: GuardState): GuardState => ({ ...state, strikes: state.strikes + 1, probation: null });

const tried = (state: GuardState): GuardState => ({
  ...state,
  turn: { ...state.turn, attempts: state.turn.attempts + 1 },
});

/**
 * What a failed summary leaves behind (G1), and a strike where it would have grown the view (G3), unless somebody had asked for it (G9).
 * @returns the new state, and how long no automatic compaction is tried, in seconds; 0 for no wait
 */
export const afterFailure = (
  before: GuardState,
  failure: SummaryFailure,
  reason: CompactionReason,
): { readonly state: GuardState; readonly cooldownSeconds: number } => {
  const state = tried(before);
  const { failures } = state.cooldown;
  const cooling = (counted: GuardState["cooldown"]["failures"]): GuardState => ({
    ...state,
    cooldown: { active: true, until: null, reason: failure, failures: counted },
  });
  if (failure === "timeout" || failure === "truncated") {
    const cooldownSeconds = LADDER_S[Math.min(failures[failure], LADDER_S.length - 1)] ?? LADDER_S[0];
    return { state: cooling({ ...failures, [failure]: failures[failure] + 1 }), cooldownSeconds };
  }
  if (failure !== "would_grow") return { state: cooling(failures), cooldownSeconds: fixedCooldownS(failure) };
  if (isForced(reason)) return { state, cooldownSeconds: 0 };
  // An overflow passes a block by (G6), and does not put off the probe that is to end it.
  const kept = isAutomatic(reason) ? null : state.probation;
  return { state: { ...struck(state), probation: kept }, cooldownSeconds: 0 };
};

/** After a cut that found nothing to cut (C5): a strike (G3), unless it was an overflow or somebody asked for it (G6, G9). */
export const afterNothing = (state: GuardState, reason: CompactionReason): GuardState =>
  isAutomatic(reason) ? struck(state) : state;

/** After a summary that was left out as not worth it: counted apart, never a strike, and no failure (G5). */
export const afterSkip = (state: GuardState): GuardState => ({ ...state, skips: state.skips + 1 });

/** Whether two generations came to the same (G8). */
const isSame = (before: CompactionResult, now: CompactionResult): boolean =>
  before.coveredHash === now.coveredHash ||
  Math.abs(now.summaryTokens - before.summaryTokens) <= SAME_SIZE_SHARE * before.summaryTokens;

/**
 * After a commit: the cooldown ends (G1), and its first reading is awaited (G7). Strikes stay until that reading (G3). Where the generation
 * before came to the same and no reading was under the trigger since, automatic compaction pauses (G8).
 */
export const afterSuccess = (
  state: GuardState,
  commit: { readonly generation: number; readonly newestSeq: number; readonly result: CompactionResult },
): GuardState => {
  const isStuck = state.result !== null && state.reading !== "under" && isSame(state.result, commit.result);
  return {
    ...state,
    cooldown: NO_GUARDS.cooldown,
    sameResult: state.sameResult || isStuck,
    probation: isStuck ? null : state.probation,
    generation: commit.generation,
    reading: "awaiting",
    result: commit.result,
    newestSeq: commit.newestSeq,
    turn: { compactions: state.turn.compactions + 1, attempts: state.turn.attempts + 1 },
  };
};

/**
 * After a pass of micro-compaction: its summary was made, so the cooldown ends (G1). It is no answer to a full window, so nothing is
 * judged by its reading, nothing is compared with it, and no compaction at the trigger has to wait for it (G3, G7, G8).
 */
export const afterMicro = (state: GuardState, commit: { readonly generation: number }): GuardState => ({
  ...state,
  cooldown: NO_GUARDS.cooldown,
  generation: commit.generation,
});

/** A compaction that somebody asked for ends the cooldown, whatever becomes of it (G9). The counts of failures in a row stay. */
export const beforeForced = (state: GuardState): GuardState => ({
  ...state,
  cooldown: { ...state.cooldown, active: false, until: null, reason: null },
});

/**
 * After an answer of the model: judges the generation that its request was rendered from, once (G3). Under the trigger, everything that
 * counted against compaction is forgotten; at or over it, one that is blocked is so for a full new window (G4). A reading of another
 * generation (an undone one, R4) ends the wait and judges nothing.
 */
export const afterReading = (
  state: GuardState,
  read: { readonly generation: number; readonly reading: number; readonly triggerTokens: number },
): GuardState => {
  const isUnder = read.reading < read.triggerTokens;
  if (state.reading === null) return state;
  if (state.reading !== "awaiting") return isUnder ? { ...state, reading: "under" } : state;
  const waited: GuardState = { ...state, reading: isUnder ? "under" : "over" };
  if (read.generation !== state.generation) return waited;
  return isUnder ? { ...waited, strikes: 0, sameResult: false, probation: null, skips: 0 } : struck(waited);
};

/** After an answer whose provider counted nothing: it ends the wait (G7), and says nothing of the generation's effect (G3, E4). */
export const afterUncounted = (state: GuardState): GuardState =>
  state.reading === "awaiting" ? { ...state, reading: "over" } : state;

/** As the database has set or left the probation of a blocked session (G4). */
export const afterProbation = (state: GuardState, probation: Probation | null): GuardState =>
  isBlocked(state) ? { ...state, probation } : state;
