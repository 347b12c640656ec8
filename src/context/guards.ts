/**
 * Whether a compaction may be tried now, and what its outcome leaves behind (section 7). The state is JSON and lives with the session;
 * times do too, so that only the database's clock counts: these functions say how long, never until when.
 */
import type { CompactionReason, SummaryFailure } from "./reasons.ts";

export interface GuardState {
  /** G1. Whether it is still on is the database's answer, given when the session is loaded. */
  readonly cooldown: {
    readonly active: boolean;
    readonly reason: SummaryFailure | null;
    /** How many in a row, per class that has a ladder of its own. */
    readonly failures: { readonly timeout: number; readonly truncated: number };
  };
  /** Compactions without effect since the last that had one (G3). */
  readonly strikes: number;
  /** The newest generation whose commit these guards have seen; 0 for none. */
  readonly generation: number;
  /** Whether that generation still waits for its first reading (G7). */
  readonly awaitingReading: boolean;
  /** The newest seq of the log at that commit: with none newer there is nothing to cut (C5). */
  readonly newestSeq: number;
  /** M4. */
  readonly compactionsThisTurn: number;
}

export const NO_GUARDS: GuardState = {
  cooldown: { active: false, reason: null, failures: { timeout: 0, truncated: 0 } },
  strikes: 0,
  generation: 0,
  awaitingReading: false,
  newestSeq: 0,
  compactionsThisTurn: 0,
};

/** G3: how many compactions without effect stop further ones. */
const STRIKES_TO_BLOCK = 2;

/** M4. */
const COMPACTIONS_PER_TURN = 3;

/** G1: seconds after the first, second and every further failure in a row. */
const LADDER_S = [60, 300, 900] as const;

/** What is known when a compaction is asked for. */
export interface GuardFacts {
  readonly reason: CompactionReason;
  /** The provider's count of the newest request of this turn, null before the first answer. */
  readonly reading: number | null;
  readonly triggerTokens: number;
}

export type Guard = "cooldown" | "effectiveness" | "wait_one_response" | "budget";

export type GuardDecision =
  | { readonly kind: "go" }
  | { readonly kind: "blocked"; readonly guard: Guard; readonly words: string };

/** A guard in words, for people (the context endpoint, logs, stream events). */
export const guardWords = (guard: Guard, state: GuardState): string => {
  switch (guard) {
    case "cooldown":
      return state.cooldown.reason === null
        ? "waiting after a summary that failed"
        : `waiting after a summary that failed (${state.cooldown.reason.replaceAll("_", " ")})`;
    case "effectiveness":
      return `the last ${state.strikes} compactions did not bring the context under its trigger`;
    case "wait_one_response":
      return "the last compaction has not been measured yet: waiting for the model's next answer";
    case "budget":
      return state.compactionsThisTurn >= COMPACTIONS_PER_TURN
        ? `this turn has compacted ${state.compactionsThisTurn} times, the most it may`
        : "this turn has compacted already, and the provider's count is under the trigger";
    default:
      return guard satisfies never;
  }
};

const isAutomatic = (reason: CompactionReason): boolean => reason === "threshold";

const blockedBy = (state: GuardState, facts: GuardFacts): Guard | undefined => {
  if (state.compactionsThisTurn >= COMPACTIONS_PER_TURN) return "budget";
  // Asked for (G9), or proven by the provider: neither waits. The overflow ladder tries once by itself (section 8).
  if (!isAutomatic(facts.reason)) return undefined;
  if (state.cooldown.active) return "cooldown";
  if (state.strikes >= STRIKES_TO_BLOCK) return "effectiveness";
  if (state.awaitingReading) return "wait_one_response";
  const atTrigger = facts.reading !== null && facts.reading >= facts.triggerTokens;
  return state.compactionsThisTurn > 0 && !atTrigger ? "budget" : undefined;
};

/** Whether a compaction may be tried (G1, G3, G7, G9, M4). */
export const decideGuards = (state: GuardState, facts: GuardFacts): GuardDecision => {
  const guard = blockedBy(state, facts);
  return guard === undefined ? { kind: "go" } : { kind: "blocked", guard, words: guardWords(guard, state) };
};

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

/**
 * What a failed summary leaves behind (G1), and a strike where it would have grown the view (G3).
 * @returns the new state, and how long no automatic compaction is tried, in seconds; 0 for no wait
 */
export const afterFailure = (
  state: GuardState,
  failure: SummaryFailure,
): { readonly state: GuardState; readonly cooldownSeconds: number } => {
  const { failures } = state.cooldown;
  if (failure === "timeout" || failure === "truncated") {
    const cooldownSeconds = LADDER_S[Math.min(failures[failure], LADDER_S.length - 1)] ?? LADDER_S[0];
    const counted = { ...failures, [failure]: failures[failure] + 1 };
    return { state: { ...state, cooldown: { active: true, reason: failure, failures: counted } }, cooldownSeconds };
  }
  if (failure === "would_grow") return { state: { ...state, strikes: state.strikes + 1 }, cooldownSeconds: 0 };
  return {
    state: { ...state, cooldown: { active: true, reason: failure, failures } },
    cooldownSeconds: fixedCooldownS(failure),
  };
};

/** After a cut that found nothing to cut (C5): a strike (G3), unless somebody asked for it (G9). */
export const afterNothing = (state: GuardState, reason: CompactionReason): GuardState =>
  isAutomatic(reason) ? { ...state, strikes: state.strikes + 1 } : state;

/** After a commit: the cooldown ends, and its first reading is awaited (G1, G7). Strikes stay until that reading (G3). */
export const afterSuccess = (
  state: GuardState,
  commit: { readonly generation: number; readonly newestSeq: number },
): GuardState => ({
  ...state,
  cooldown: NO_GUARDS.cooldown,
  generation: commit.generation,
  awaitingReading: true,
  newestSeq: commit.newestSeq,
  compactionsThisTurn: state.compactionsThisTurn + 1,
});

/** A compaction that somebody asked for ends the cooldown, whatever becomes of it (G9). */
export const beforeForced = (state: GuardState): GuardState => ({
  ...state,
  cooldown: { ...state.cooldown, active: false, reason: null },
});

/**
 * After an answer of the model: judges the generation that its request was rendered from, once (G3). A reading of another generation
 * (an undone one, R4) ends the wait and judges nothing.
 */
export const afterReading = (
  state: GuardState,
  read: { readonly generation: number; readonly reading: number; readonly triggerTokens: number },
): GuardState => {
  if (!state.awaitingReading) return state;
  const waited = { ...state, awaitingReading: false };
  if (read.generation !== state.generation) return waited;
  return { ...waited, strikes: read.reading >= read.triggerTokens ? state.strikes + 1 : 0 };
};

/** At the start of a turn: M4 counts anew, and the database says whether the cooldown is over. */
export const atTurnStart = (state: GuardState, cooldownActive: boolean): GuardState => ({
  ...state,
  cooldown: { ...state.cooldown, active: cooldownActive },
  compactionsThisTurn: 0,
});

/**
 * As the view has it: a generation that it does not show any more (R4) will not be measured, so nobody waits for its reading.
 * @param generation that the view shows; 0 for none
 */
export const forView = (state: GuardState, generation: number): GuardState =>
  state.generation === generation ? state : { ...state, awaitingReading: false };
