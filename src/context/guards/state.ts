/**
 * What the guards of compaction remember (section 7). It lives in columns of the session's head. Times are the database's: the functions
 * beside this file say how long something lasts, never until when; what is over was found out in SQL when the session was loaded.
 */
import type { SummaryFailure } from "../reasons.ts";

/** What the readings since the newest commit say: none yet, all at or over the trigger, or one under it. */
export type ReadingSince = "awaiting" | "over" | "under";

/** G4: when automatic compaction that is blocked gets another try. */
export interface Probation {
  /** RFC 3339, by the database's clock. */
  readonly at: string;
  /** It has passed: one probe may be had. */
  readonly due: boolean;
}

/** What a generation came to, by which the next one is compared with it (G8). */
export interface CompactionResult {
  readonly coveredHash: string;
  readonly summaryTokens: number;
}

/** Whose word it was that the guards have learned from (G10). */
export interface LearnedWith {
  readonly model: string;
  readonly provider: string;
  readonly summariser: string;
}

/** What may hold a compaction back. */
export type Guard = "budget" | "cooldown" | "wait_one_response" | "same_result" | "effectiveness";

export interface GuardState {
  /** G1. */
  readonly cooldown: {
    /** By the database's clock. */
    readonly active: boolean;
    /** RFC 3339; null without one. */
    readonly until: string | null;
    /** Why there is, or was, a cooldown; null after a success. */
    readonly reason: SummaryFailure | null;
    /** How many in a row, per class that has a ladder of its own. */
    readonly failures: { readonly timeout: number; readonly truncated: number };
  };
  /** Compactions without effect since the last that had one (G3). */
  readonly strikes: number;
  /** G8: the newest two came to the same. */
  readonly sameResult: boolean;
  /** Null until an evaluation was blocked (G4). */
  readonly probation: Probation | null;
  /** How often a summary was left out because its slice was too small, since the last reading under the trigger (G5). */
  readonly skips: number;
  /** The newest generation whose commit these guards have seen; 0 for none. */
  readonly generation: number;
  /** Null where there is no commit to judge (G3, G7, G8). */
  readonly reading: ReadingSince | null;
  /** Null where there is none to compare with (G8). */
  readonly result: CompactionResult | null;
  /** The newest seq of the log at that commit: with none newer there is nothing to cut (C5). */
  readonly newestSeq: number;
  /** M4: committed in this turn, and tried; both are kept for whichever Worker goes on with it. */
  readonly turn: { readonly compactions: number; readonly attempts: number };
  /** Null before the first turn. */
  readonly learnedWith: LearnedWith | null;
}

const NO_COOLDOWN: GuardState["cooldown"] = {
  active: false,
  until: null,
  reason: null,
  failures: { timeout: 0, truncated: 0 },
};

export const NO_GUARDS: GuardState = {
  cooldown: NO_COOLDOWN,
  strikes: 0,
  sameResult: false,
  probation: null,
  skips: 0,
  generation: 0,
  reading: null,
  result: null,
  newestSeq: 0,
  turn: { compactions: 0, attempts: 0 },
  learnedWith: null,
};

/** G3: how many compactions without effect stop further ones. */
export const STRIKES_TO_BLOCK = 2;

/** M4: attempts in one turn. */
export const ATTEMPTS_PER_TURN = 3;

/** G4: how long automatic compaction stays blocked before it is tried again, in seconds. */
export const PROBATION_SECONDS = 300;

/** Whether compactions without effect block further ones: by count (G3), or because two came to the same (G8). */
export const isBlocked = ({ strikes, sameResult }: GuardState): boolean => strikes >= STRIKES_TO_BLOCK || sameResult;

/** What the database's clock says of a state. */
export interface GuardTimes {
  readonly cooldownActive: boolean;
  readonly probationDue: boolean;
}

/** The state, with what is over by the database's clock. */
export const atTime = (state: GuardState, { cooldownActive, probationDue }: GuardTimes): GuardState => ({
  ...state,
  cooldown: { ...state.cooldown, active: cooldownActive && state.cooldown.reason !== null },
  probation: state.probation === null ? null : { ...state.probation, due: probationDue },
});

/** At the start of a turn that no Worker has worked on before: M4 counts anew. */
export const atTurnStart = (state: GuardState): GuardState => ({ ...state, turn: NO_GUARDS.turn });

/**
 * As the view has it: a generation that it does not show any more (R4) will not be measured, so nobody waits for its reading, and nothing
 * is compared with it.
 * @param generation that the view shows; 0 for none
 */
export const forView = (state: GuardState, generation: number): GuardState =>
  state.generation === generation
    ? state
    : { ...state, reading: state.reading === "awaiting" ? null : state.reading, result: null };

/**
 * What is left of the guards with another model (G10): strikes, probation and what is compared go, since they speak of another window and
 * another tokenizer; with another provider the cooldown goes too. The count of generations stays, as the generation itself does. The
 * calibration knows its model itself. A summariser that was not configured rightly gets a new try when it is another one.
 * @param now what the session is set to
 * @returns the state, and whether the model is another, for which what is clipped is to be shown whole again
 */
export const forModel = (
  state: GuardState,
  now: LearnedWith,
): { readonly state: GuardState; readonly isNewModel: boolean } => {
  const before = state.learnedWith;
  if (before === null) return { state: { ...state, learnedWith: now }, isNewModel: false };
  const isNewModel = before.model !== now.model;
  const isMended = before.summariser !== now.summariser && state.cooldown.reason === "configuration";
  const kept: GuardState = isNewModel
    ? { ...NO_GUARDS, cooldown: state.cooldown, generation: state.generation, turn: state.turn }
    : state;
  const cooldown = before.provider !== now.provider || isMended ? NO_COOLDOWN : kept.cooldown;
  return { state: { ...kept, cooldown, learnedWith: now }, isNewModel };
};
