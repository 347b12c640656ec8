/** The guards in words, for people: the context endpoint, stream events, logs. Never the text of an error: that is of one call and goes stale. */
import { ATTEMPTS_PER_TURN, type Guard, type GuardState, isBlocked, PROBATION_SECONDS } from "./state.ts";

const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/** A small number as a word. */
const word = (count: number): string => NUMBERS[count] ?? String(count);

const failureWords = ({ cooldown: { reason, failures } }: GuardState): string => {
  if (reason === null) return "a summary failed";
  const inRow = reason === "timeout" ? failures.timeout : reason === "truncated" ? failures.truncated : 1;
  const kind = reason.replaceAll("_", " ");
  return inRow > 1 ? `${word(inRow)} summaries failed in a row (${kind})` : `a summary failed (${kind})`;
};

const pausedUntil = (until: string | null): string =>
  `automatic compaction is paused${until === null ? "" : ` until ${until}`}`;

/** Paused until a probe (G4), and why. */
const blockedWords = ({ probation }: GuardState, because: string): string => {
  if (probation === null)
    return `${pausedUntil(null)} because ${because}; ${PROBATION_SECONDS} s after the next call that needs it, it is tried once`;
  if (!probation.due) return `${pausedUntil(probation.at)} because ${because}`;
  return `${pausedUntil(null)} because ${because}; the next call that needs it may try once`;
};

/** A guard in words: what it does, until when, and why. */
export const guardWords = (guard: Guard, state: GuardState): string => {
  switch (guard) {
    case "cooldown":
      return `${pausedUntil(state.cooldown.until)} because ${failureWords(state)}`;
    case "effectiveness":
      return blockedWords(
        state,
        `${word(state.strikes)} compactions in a row did not bring the prompt under the trigger`,
      );
    case "same_result":
      return blockedWords(
        state,
        "the last two compactions came to the same result, with no prompt under the trigger between them",
      );
    case "wait_one_response":
      return "automatic compaction waits for the model's next answer, which measures the last compaction";
    case "budget":
      return state.turn.attempts >= ATTEMPTS_PER_TURN
        ? `this turn has tried to compact ${word(state.turn.attempts)} times, the most it may`
        : "this turn has compacted already, and the provider's count is under the trigger";
    default:
      return guard satisfies never;
  }
};

/** A summary that was left out, in words (G5). */
export const SKIPPED_WORDS =
  "what could be summarised is under a tenth of the trigger, and the last compaction did not help: the oldest turns are left out instead";

/** What automatic compaction stands at, in one word: the first guard that holds it back. */
export type CompactionStatus = "on" | "cooldown" | "waiting_for_reading" | "same_result" | "ineffective";

/** One guard that holds automatic compaction back, for the context endpoint. */
export interface GuardReport {
  readonly status: Exclude<CompactionStatus, "on">;
  readonly words: string;
  /** RFC 3339; null where no time ends it, or where the time is set by the next call that it blocks. */
  readonly until: string | null;
  /** What else ends it. */
  readonly ends: string;
}

const PROBE_ENDS =
  "one try when the time is over; a prompt under the trigger after any compaction, a rewind or another model ends it at once; a compaction that is asked for does not wait for it";

/** Every guard that is on between two turns, in the order in which they are asked; none where automatic compaction is on. */
export const reportGuards = (state: GuardState): readonly GuardReport[] => {
  const reports: GuardReport[] = [];
  if (state.cooldown.active) {
    reports.push({
      status: "cooldown",
      words: guardWords("cooldown", state),
      until: state.cooldown.until,
      ends: "the time, a compaction that is asked for, or another provider",
    });
  }
  if (state.reading === "awaiting") {
    reports.push({
      status: "waiting_for_reading",
      words: guardWords("wait_one_response", state),
      until: null,
      ends: "the model's next answer",
    });
  }
  if (isBlocked(state)) {
    const guard = state.sameResult ? "same_result" : "effectiveness";
    reports.push({
      status: state.sameResult ? "same_result" : "ineffective",
      words: guardWords(guard, state),
      until: state.probation?.at ?? null,
      ends: PROBE_ENDS,
    });
  }
  return reports;
};
