/** Whether a compaction may be tried now (section 7): state and facts in, decision and reason out. */
import type { CompactionReason } from "../reasons.ts";
import { ATTEMPTS_PER_TURN, type Guard, type GuardState, isBlocked } from "./state.ts";
import { guardWords } from "./words.ts";

/** What is known when a compaction is asked for. */
export interface GuardFacts {
  readonly reason: CompactionReason;
  /** The provider's count of the newest request of this turn, null before the first answer. */
  readonly reading: number | null;
  readonly triggerTokens: number;
}

/** What ends a block (G4): a reading or the clock by itself; a probation that is to be set first; a probe that may be had. */
export type Relief = "wait" | "arm" | "probe";

export type GuardDecision =
  | { readonly kind: "go" }
  | { readonly kind: "blocked"; readonly guard: Guard; readonly relief: Relief; readonly words: string };

/** Whether hango compacts of its own accord: neither somebody asked for it nor did the provider prove that it must be. */
export const isAutomatic = (reason: CompactionReason): boolean => reason === "threshold";

/** Whether somebody asked for it (G9). */
export const isForced = (reason: CompactionReason): boolean => reason === "manual" || reason === "tool";

const blockedBy = (state: GuardState, facts: GuardFacts): Guard | undefined => {
  const { turn, cooldown } = state;
  if (turn.attempts >= ATTEMPTS_PER_TURN) return "budget";
  // Asked for (G9), or proven by the provider (G6): neither waits. The overflow ladder tries once by itself (section 8).
  if (!isAutomatic(facts.reason)) return undefined;
  if (cooldown.active) return "cooldown";
  if (state.reading === "awaiting") return "wait_one_response";
  const atTrigger = facts.reading !== null && facts.reading >= facts.triggerTokens;
  if (turn.compactions > 0 && !atTrigger) return "budget";
  if (!isBlocked(state)) return undefined;
  return state.sameResult ? "same_result" : "effectiveness";
};

const reliefOf = (guard: Guard, { probation }: GuardState): Relief => {
  if (guard !== "same_result" && guard !== "effectiveness") return "wait";
  if (probation === null) return "arm";
  return probation.due ? "probe" : "wait";
};

/** Whether a compaction may be tried (G1, G3, G4, G6, G7, G8, G9, M4). A probe still has to be granted, which the database does once. */
export const decideGuards = (state: GuardState, facts: GuardFacts): GuardDecision => {
  const guard = blockedBy(state, facts);
  return guard === undefined
    ? { kind: "go" }
    : { kind: "blocked", guard, relief: reliefOf(guard, state), words: guardWords(guard, state) };
};

/** G5: a slice of less than this share of the trigger is not worth a summary. */
const FEASIBLE_SHARE = 0.1;

/**
 * Whether the summariser is to be left out and the view truncated (G5): compactions have been without effect, and what could be covered is
 * too little to change that. Never where somebody asked, or the provider proved that the prompt is too long.
 * @param sliceTokens what would be covered
 */
export const isInfeasible = (state: GuardState, facts: GuardFacts & { readonly sliceTokens: number }): boolean =>
  isAutomatic(facts.reason) && state.strikes >= 1 && facts.sliceTokens < FEASIBLE_SHARE * facts.triggerTokens;
