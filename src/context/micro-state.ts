/**
 * What micro-compaction remembers of a session between its passes (section 11), and what each outcome makes of it. JSON that lives with
 * the session; a full compaction empties it.
 */
import { isRecord } from "../protocol/is-record.ts";

/** How a session has it; a session that does not have it on has none. */
export interface MicroSettings {
  /** A pass after every so many normally finished turns; at least 1. */
  readonly everyNTurns: number;
  /** How much the rolling summary may grow before it is written anew, in tokens. */
  readonly defragTokens: number;
}

/** Section 11: an exchange that failed so often is passed over, and so is a defrag. */
export const MAX_FAILURES = 3;

export interface MicroState {
  /** Exchanges that begin before this seq are passed over: one of them failed too often. */
  readonly floor: number;
  /** The exchange that failed last, by its first seq (0: the defrag), and how often in a row. */
  readonly failing: { readonly seq: number; readonly failures: number } | null;
  /** The newest generation that a pass made; 0 for none. */
  readonly generation: number;
  /** Size of the summary in that generation that is not this chain's to shorten further, in tokens: growth counts from here. */
  readonly anchorTokens: number;
}

export const NO_MICRO: MicroState = { floor: 0, failing: null, generation: 0, anchorTokens: 0 };

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value >= 0;

/** The state as it was stored. What is unreadable is as it was in the beginning: an exchange may then be tried three times more. */
export const parseMicroState = (stored: unknown): MicroState => {
  if (!isRecord(stored)) return NO_MICRO;
  const { floor, failing, generation, anchorTokens } = stored;
  const failed = isRecord(failing) && isCount(failing["seq"]) && isCount(failing["failures"]);
  return {
    floor: isCount(floor) ? floor : NO_MICRO.floor,
    failing: failed ? { seq: Number(failing["seq"]), failures: Number(failing["failures"]) } : null,
    generation: isCount(generation) ? generation : NO_MICRO.generation,
    anchorTokens: isCount(anchorTokens) ? anchorTokens : NO_MICRO.anchorTokens,
  };
};

/** The generation that a pass builds on: its number and the size of its summary in tokens; null for none. */
export interface MicroBase {
  readonly number: number;
  readonly summaryTokens: number;
}

/**
 * From where the growth of the rolling summary counts. A base that no pass made (a full compaction's, one that a void or a rewind fell back
 * to) is taken over whole: its words are never what a defrag is due for (section 11).
 */
export const anchorOf = (state: MicroState, base: MicroBase | null): number =>
  base === null ? 0 : state.generation === base.number ? state.anchorTokens : base.summaryTokens;

/** Whether the rolling summary has grown by so much that it is to be written anew (section 11). */
export const isDefragDue = (state: MicroState, base: MicroBase | null, { defragTokens }: MicroSettings): boolean =>
  base !== null && base.summaryTokens - anchorOf(state, base) > defragTokens;

/** After a pass that absorbed an exchange. */
export const afterAbsorbed = (state: MicroState, base: MicroBase | null, generation: number): MicroState => ({
  ...state,
  failing: null,
  generation,
  anchorTokens: anchorOf(state, base),
});

/**
 * After a defrag: the next one is due when the summary has grown again, by half of what is allowed at the least, so that one that could
 * not be made short is not written anew in every pass.
 */
export const afterDefragged = (
  state: MicroState,
  made: { readonly generation: number; readonly summaryTokens: number },
  { defragTokens }: MicroSettings,
): MicroState => ({
  ...state,
  failing: null,
  generation: made.generation,
  anchorTokens: Math.max(0, Math.floor(made.summaryTokens - defragTokens / 2)),
});

const failuresOf = ({ failing }: MicroState, seq: number): number => (failing?.seq === seq ? failing.failures : 0) + 1;

/** After an exchange failed: the third time it is passed over for good, so that none can stall the passes after it (section 11). */
export const afterExchangeFailed = (
  state: MicroState,
  exchange: { readonly firstSeq: number; readonly lastSeq: number },
): MicroState => {
  const failures = failuresOf(state, exchange.firstSeq);
  return failures >= MAX_FAILURES
    ? { ...state, failing: null, floor: exchange.lastSeq + 1 }
    : { ...state, failing: { seq: exchange.firstSeq, failures } };
};

/** The seq under which a failing defrag is counted: no row has it. */
const DEFRAG = 0;

/** After a defrag failed: the third time it is put off until the summary has grown by as much again. */
export const afterDefragFailed = (state: MicroState, base: MicroBase): MicroState => {
  const failures = failuresOf(state, DEFRAG);
  return failures >= MAX_FAILURES
    ? { ...state, failing: null, generation: base.number, anchorTokens: base.summaryTokens }
    : { ...state, failing: { seq: DEFRAG, failures } };
};
