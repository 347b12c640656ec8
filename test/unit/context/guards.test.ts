import { describe, expect, it } from "vitest";
import {
  afterFailure,
  afterNothing,
  afterReading,
  afterSuccess,
  atTurnStart,
  beforeForced,
  decideGuards,
  forView,
  type GuardFacts,
  type GuardState,
  NO_GUARDS,
} from "../../../src/context/guards.ts";
import type { SummaryFailure } from "../../../src/context/reasons.ts";

const TRIGGER = 1_000;
const facts = (change: Partial<GuardFacts> = {}): GuardFacts => ({
  reason: "threshold",
  reading: null,
  triggerTokens: TRIGGER,
  ...change,
});
const guardOf = (state: GuardState, change: Partial<GuardFacts> = {}): string => {
  const decision = decideGuards(state, facts(change));
  return decision.kind === "go" ? "go" : decision.guard;
};

/** The cooldowns of failures in a row. */
const cooldowns = (...failures: readonly SummaryFailure[]): readonly number[] => {
  let state = NO_GUARDS;
  return failures.map((failure) => {
    const outcome = afterFailure(state, failure);
    state = outcome.state;
    return outcome.cooldownSeconds;
  });
};

const committed = afterSuccess(NO_GUARDS, { generation: 1, newestSeq: 40 });
const read = (state: GuardState, reading: number, generation = state.generation) =>
  afterReading(state, { generation, reading, triggerTokens: TRIGGER });

describe("the cooldown (G1)", () => {
  it("waits longer after every time-out and every truncated summary, each on its own counter", () => {
    expect(cooldowns("timeout", "truncated", "timeout", "truncated", "timeout", "truncated", "timeout")).toEqual([
      60, 60, 300, 300, 900, 900, 900,
    ]);
  });

  it.each([
    ["malformed", 30],
    ["empty", 30],
    ["network", 30],
    ["transient", 60],
    ["refused", 60],
    ["overloaded", 60],
    ["too_long", 60],
    ["invalid_view", 60],
    ["configuration", 600],
    ["authentication", 600],
    ["quota", 600],
  ] as const)("waits the same after every failure of kind %s", (failure, seconds) => {
    expect(cooldowns(failure, failure, failure)).toEqual([seconds, seconds, seconds]);
  });

  it("blocks while the database says it is on, and says why", () => {
    const { state } = afterFailure(NO_GUARDS, "too_long");
    expect(decideGuards(state, facts())).toEqual({
      kind: "blocked",
      guard: "cooldown",
      words: "waiting after a summary that failed (too long)",
    });
    expect([guardOf(atTurnStart(state, true)), guardOf(atTurnStart(state, false))]).toEqual(["cooldown", "go"]);
  });

  it("is reset by a success, counters included", () => {
    const { state } = afterFailure(NO_GUARDS, "timeout");
    const reset = afterSuccess(state, { generation: 1, newestSeq: 9 });
    expect(reset.cooldown).toEqual(NO_GUARDS.cooldown);
    expect(afterFailure(reset, "timeout").cooldownSeconds).toBe(60);
  });

  it("does not outlive being stored as JSON", () => {
    const { state } = afterFailure(committed, "timeout");
    expect(JSON.parse(JSON.stringify(state))).toEqual(state);
  });
});

describe("effectiveness (G3)", () => {
  it("blocks automatic compaction after two generations that stayed at or over the trigger", () => {
    const once = read(committed, TRIGGER);
    const twice = read(afterSuccess(atTurnStart(once, false), { generation: 2, newestSeq: 80 }), TRIGGER + 5);
    expect([
      once.strikes,
      guardOf(atTurnStart(once, false)),
      twice.strikes,
      guardOf(atTurnStart(twice, false)),
    ]).toEqual([1, "go", 2, "effectiveness"]);
  });

  it("forgets strikes when a generation brings the context under the trigger", () => {
    const struck = { ...committed, strikes: 1 };
    expect(read(struck, TRIGGER - 1).strikes).toBe(0);
  });

  it("judges a generation by its first reading only", () => {
    const judged = read(committed, TRIGGER - 1);
    expect(read(read(judged, TRIGGER + 1), TRIGGER + 2)).toEqual(judged);
  });

  it("ends the wait but judges nothing by a reading of another generation (R4)", () => {
    expect(read(committed, TRIGGER + 1, 0)).toEqual({ ...committed, awaitingReading: false });
  });

  it("strikes for a summary that would grow the view, and for a cut that finds nothing", () => {
    const grown = afterFailure(NO_GUARDS, "would_grow");
    expect([grown.cooldownSeconds, grown.state.strikes, afterNothing(grown.state, "threshold").strikes]).toEqual([
      0, 1, 2,
    ]);
  });

  it("does not strike when a user asks for a compaction that finds nothing (G9)", () => {
    expect([afterNothing(NO_GUARDS, "manual"), afterNothing(NO_GUARDS, "tool")]).toEqual([NO_GUARDS, NO_GUARDS]);
  });
});

describe("waiting for one response (G7)", () => {
  it("does not compact again before the new view was measured", () => {
    const next = atTurnStart(committed, false);
    expect([guardOf(next), guardOf(read(next, TRIGGER + 1))]).toEqual(["wait_one_response", "go"]);
  });

  it("does not wait for a generation that was voided and will not be measured any more (R4)", () => {
    const next = (shown: number) => guardOf(atTurnStart(forView(committed, shown), false));
    expect([next(1), next(0)]).toEqual(["wait_one_response", "go"]);
  });

  it.each(["overflow", "manual", "tool"] as const)("does not hold back a compaction for %s", (reason) => {
    expect(guardOf(committed, { reason })).toBe("go");
  });
});

describe("compactions in one turn (M4)", () => {
  it("compacts again in the same turn only with a reading at or over the trigger", () => {
    const measured = read(committed, TRIGGER);
    expect([
      guardOf(measured, { reading: null }),
      guardOf(measured, { reading: TRIGGER - 1 }),
      guardOf(measured, { reading: TRIGGER }),
    ]).toEqual(["budget", "budget", "go"]);
  });

  it.each(["threshold", "overflow", "manual", "tool"] as const)("stops after three, %s too", (reason) => {
    const three = { ...committed, awaitingReading: false, compactionsThisTurn: 3 };
    expect(guardOf(three, { reason, reading: TRIGGER })).toBe("budget");
    expect(guardOf(atTurnStart(three, false), { reason })).toBe("go");
  });
});

describe("force (G9)", () => {
  it("skips strikes and the cooldown, and ends the cooldown but not the count of failures", () => {
    const { state } = afterFailure({ ...NO_GUARDS, strikes: 2 }, "timeout");
    expect([guardOf(state, { reason: "manual" }), guardOf(state, { reason: "tool" })]).toEqual(["go", "go"]);
    const forced = beforeForced(state);
    expect(forced.cooldown).toEqual({ active: false, reason: null, failures: { timeout: 1, truncated: 0 } });
  });
});
