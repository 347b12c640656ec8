/** Between the guards as they are stored and the state that their rules take (context section 7). */
import type { LiveView } from "../context/compact.ts";
import {
  atTime,
  atTurnStart,
  forModel,
  forView,
  type GuardState,
  type LearnedWith,
  NO_GUARDS,
} from "../context/guards/state.ts";
import type { SummaryFailure } from "../context/ports.ts";
import type { RunId } from "../protocol/ids.ts";
import type { GuardRecord, StoredGuards } from "../store/guards.ts";

/** @param runId whose turn it is: what another one has tried does not count against it (M4) */
const stateOf = (stored: StoredGuards, runId: RunId): GuardState => {
  const { budget } = stored;
  const state: GuardState = {
    ...NO_GUARDS,
    cooldown: {
      active: stored.cooldownActive,
      until: stored.cooldownUntil,
      reason: stored.cooldownReason as SummaryFailure | null,
      failures: { timeout: stored.summaryTimeouts, truncated: stored.summaryTruncations },
    },
    strikes: stored.strikes,
    sameResult: stored.pause === "same_result",
    probation: stored.probationAt === null ? null : { at: stored.probationAt, due: stored.probationDue },
    skips: stored.skips,
    generation: stored.generation,
    reading: stored.reading,
    result: stored.result,
    newestSeq: stored.settledSeq,
    learnedWith: stored.learnedWith,
  };
  const { compactions, attempts } = budget ?? NO_GUARDS.turn;
  return atTime(budget?.runId === runId ? { ...state, turn: { compactions, attempts } } : atTurnStart(state), stored);
};

/**
 * The guards of a run that begins or goes on.
 * @param generation that the view shows; 0 for none
 * @param now what the session is set to (G10)
 */
export const guardsOf = (
  stored: StoredGuards,
  runId: RunId,
  generation: number,
  now: LearnedWith,
): { readonly guards: GuardState; readonly isNewModel: boolean } => {
  const { state, isNewModel } = forModel(stateOf(stored, runId), now);
  return { guards: forView(state, generation), isNewModel };
};

/**
 * The guards of a run, as they may be stored now: as long as its view owes another model what was clipped (G10), the head still names the
 * model before, so that whoever goes on with the run shows it whole.
 */
export const guardsToStore = (
  guards: GuardState,
  live: Pick<LiveView, "view" | "stored">,
  before: StoredGuards["learnedWith"],
): GuardState => (live.view.clippedBefore === live.stored.clippedBefore ? guards : { ...guards, learnedWith: before });

/** The guards as a write of the run stores them. */
export const guardRecordOf = (state: GuardState): GuardRecord => ({
  cooldownReason: state.cooldown.reason,
  summaryTimeouts: state.cooldown.failures.timeout,
  summaryTruncations: state.cooldown.failures.truncated,
  strikes: state.strikes,
  pause: state.sameResult ? "same_result" : null,
  onProbation: state.probation !== null,
  skips: state.skips,
  generation: state.generation,
  reading: state.reading,
  result: state.result,
  settledSeq: state.newestSeq,
  budget: state.turn,
  learnedWith: state.learnedWith,
});
