import { describe, expect, it } from "vitest";
import {
  afterFailure,
  afterNothing,
  afterProbation,
  afterReading,
  afterSkip,
  afterSuccess,
  beforeForced,
} from "../../../src/context/guards/after.ts";
import { decideGuards, type GuardFacts, isInfeasible } from "../../../src/context/guards/decide.ts";
import {
  ATTEMPTS_PER_TURN,
  atTime,
  atTurnStart,
  forModel,
  forView,
  type GuardState,
  type LearnedWith,
  NO_GUARDS,
  PROBATION_SECONDS,
  STRIKES_TO_BLOCK,
} from "../../../src/context/guards/state.ts";
import { reportGuards } from "../../../src/context/guards/words.ts";
import type { CompactionReason, SummaryFailure } from "../../../src/context/reasons.ts";

const TRIGGER = 1_000;
const AT = "2026-01-01T00:05:00.000Z";

const facts = (change: Partial<GuardFacts> = {}): GuardFacts => ({
  reason: "threshold",
  reading: null,
  triggerTokens: TRIGGER,
  ...change,
});
const guardOf = (state: GuardState, change: Partial<GuardFacts> = {}): string => {
  const decision = decideGuards(state, facts(change));
  return decision.kind === "go" ? "go" : `${decision.guard}: ${decision.relief}`;
};
const fail = (state: GuardState, failure: SummaryFailure, reason: CompactionReason = "threshold") =>
  afterFailure(state, failure, reason);

/** The cooldowns of failures in a row. */
const cooldowns = (...failures: readonly SummaryFailure[]): readonly number[] => {
  let state = NO_GUARDS;
  return failures.map((failure) => {
    const outcome = fail(state, failure);
    state = outcome.state;
    return outcome.cooldownSeconds;
  });
};

const RESULT = { coveredHash: "a", summaryTokens: 1_000 };
const commit = (state: GuardState, generation: number, result = { ...RESULT, coveredHash: `of ${generation}` }) =>
  afterSuccess(state, { generation, newestSeq: 40 * generation, result });
const committed = commit(NO_GUARDS, 1);
const read = (state: GuardState, reading: number, generation = state.generation) =>
  afterReading(state, { generation, reading, triggerTokens: TRIGGER });
const noTimes = { cooldownActive: false, probationDue: false };
const nextTurn = (state: GuardState, times = noTimes) => atTurnStart(atTime(state, times));

describe("the cooldown (G1)", () => {
  it("waits 60, 300 and 900 s after time-outs and after truncated summaries, each on its own counter", () => {
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
  ] as const)("waits the same after every failure of kind %s: %i s", (failure, seconds) => {
    expect(cooldowns(failure, failure, failure)).toEqual([seconds, seconds, seconds]);
  });

  it("blocks while the database says that it is on, and not after", () => {
    const { state } = fail(NO_GUARDS, "too_long");
    expect([
      guardOf(state),
      guardOf(nextTurn(state, { ...noTimes, cooldownActive: true })),
      guardOf(nextTurn(state)),
    ]).toEqual(["cooldown: wait", "cooldown: wait", "go"]);
  });

  it("is reset by a success, counters included", () => {
    const { state } = fail(NO_GUARDS, "timeout");
    const reset = commit(state, 1);
    expect(reset.cooldown).toEqual(NO_GUARDS.cooldown);
    expect(fail(reset, "timeout").cooldownSeconds).toBe(60);
  });
});

describe("effectiveness (G3)", () => {
  it("blocks automatic compaction after two generations that stayed at or over the trigger", () => {
    const once = read(committed, TRIGGER);
    const twice = read(commit(nextTurn(once), 2, { coveredHash: "b", summaryTokens: 2_000 }), TRIGGER + 5);
    expect([once.strikes, guardOf(nextTurn(once)), twice.strikes, guardOf(nextTurn(twice))]).toEqual([
      1,
      "go",
      STRIKES_TO_BLOCK,
      "effectiveness: arm",
    ]);
  });

  it("forgets strikes when a generation brings the context under the trigger", () => {
    const struck = { ...committed, strikes: 3, skips: 2, sameResult: true, probation: { at: AT, due: false } };
    expect(read(struck, TRIGGER - 1)).toMatchObject({ strikes: 0, skips: 0, sameResult: false, probation: null });
  });

  it("judges a generation by its first reading only", () => {
    const judged = read(committed, TRIGGER);
    expect([read(judged, TRIGGER + 1).strikes, read(judged, TRIGGER - 1).strikes]).toEqual([1, 1]);
  });

  it("ends the wait but judges nothing by a reading of another generation (R4)", () => {
    expect(read(committed, TRIGGER + 1, 0)).toEqual({ ...committed, reading: "over" });
  });

  it("strikes for a summary that would grow the view, and for a cut that finds nothing", () => {
    const grown = fail(NO_GUARDS, "would_grow");
    expect([grown.cooldownSeconds, grown.state.strikes, afterNothing(grown.state, "threshold").strikes]).toEqual([
      0, 1, 2,
    ]);
  });

  it.each(["manual", "tool"] as const)("does not strike for a compaction that was asked for: %s (G9)", (reason) => {
    expect(afterNothing(NO_GUARDS, reason)).toEqual(NO_GUARDS);
    expect(fail(NO_GUARDS, "would_grow", reason).state.strikes).toBe(0);
  });
});

describe("probation (G4)", () => {
  const blocked: GuardState = { ...NO_GUARDS, strikes: STRIKES_TO_BLOCK };

  it("is 300 s long, set by the first evaluation that is blocked, waited for, and then gives a probe", () => {
    const armed = afterProbation(blocked, { at: AT, due: false });
    expect([
      PROBATION_SECONDS,
      guardOf(blocked),
      guardOf(armed),
      guardOf(nextTurn(armed)),
      guardOf(nextTurn(armed, { ...noTimes, probationDue: true })),
    ]).toEqual([300, "effectiveness: arm", "effectiveness: wait", "effectiveness: wait", "effectiveness: probe"]);
  });

  it("that a probe did not end by its effect begins anew, in full", () => {
    const probed = commit(afterProbation(blocked, { at: AT, due: false }), 5);
    const ineffective = read(probed, TRIGGER);
    expect([ineffective.strikes, ineffective.probation, guardOf(nextTurn(ineffective))]).toEqual([
      3,
      null,
      "effectiveness: arm",
    ]);
    expect(guardOf(nextTurn(read(probed, TRIGGER - 1)))).toBe("go");
  });

  it("begins anew where the probe's summary would have grown the view, and stands where it failed otherwise (G1)", () => {
    const granted = afterProbation(blocked, { at: AT, due: false });
    expect(fail(granted, "would_grow").state.probation).toBe(null);
    const failed = fail(granted, "timeout").state;
    expect([failed.probation, guardOf(failed)]).toEqual([{ at: AT, due: false }, "cooldown: wait"]);
    expect(guardOf(nextTurn(failed, { ...noTimes, probationDue: true }))).toBe("effectiveness: probe");
  });

  it("is not put off by an overflow that the provider proves meanwhile (G6)", () => {
    const armed = afterProbation(blocked, { at: AT, due: false });
    expect(fail(armed, "would_grow", "overflow").state.probation).toEqual({ at: AT, due: false });
    expect(afterNothing(armed, "overflow")).toEqual(armed);
  });

  it("is not asked for while the last compaction waits to be measured, or after a failure (G1, G7)", () => {
    const due = { ...blocked, probation: { at: AT, due: true } };
    expect(guardOf({ ...due, reading: "awaiting" })).toBe("wait_one_response: wait");
    expect(guardOf({ ...due, cooldown: { ...due.cooldown, active: true, reason: "empty" } })).toBe("cooldown: wait");
  });
});

describe("feasibility (G5)", () => {
  const struck = { ...NO_GUARDS, strikes: 1 };
  const infeasible = (state: GuardState, sliceTokens: number, reason: CompactionReason = "threshold") =>
    isInfeasible(state, { ...facts({ reason }), sliceTokens });

  it("leaves the summary out with a strike and a slice under a tenth of the trigger, not without one of both", () => {
    expect([infeasible(struck, 99), infeasible(struck, 100), infeasible(NO_GUARDS, 99)]).toEqual([true, false, false]);
  });

  it.each(["manual", "tool", "overflow"] as const)("does not leave it out for %s (G6, G9)", (reason) => {
    expect(infeasible(struck, 1, reason)).toBe(false);
  });

  it("is counted apart: no strike, no cooldown, no reason, no attempt", () => {
    expect(afterSkip(struck)).toEqual({ ...struck, skips: 1 });
  });
});

describe("a proven overflow (G6)", () => {
  it("ignores cooldown, strikes, the same result and the wait, and clears none of them", () => {
    const held: GuardState = {
      ...committed,
      cooldown: { ...NO_GUARDS.cooldown, active: true, reason: "timeout" },
      strikes: 2,
      sameResult: true,
    };
    expect(guardOf({ ...held, turn: NO_GUARDS.turn }, { reason: "overflow" })).toBe("go");
    const failed = fail(held, "empty", "overflow").state;
    expect([failed.strikes, failed.sameResult, failed.cooldown.active]).toEqual([2, true, true]);
  });
});

describe("waiting for one response (G7)", () => {
  it("does not compact again before the new view was measured", () => {
    const next = nextTurn(committed);
    expect([guardOf(next), guardOf(read(next, TRIGGER + 1))]).toEqual(["wait_one_response: wait", "go"]);
  });

  it("does not wait for a generation that was voided and will not be measured any more (R4)", () => {
    const next = (shown: number) => guardOf(nextTurn(forView(committed, shown)));
    expect([next(1), next(0)]).toEqual(["wait_one_response: wait", "go"]);
  });

  it.each(["overflow", "manual", "tool"] as const)("does not hold back a compaction for %s", (reason) => {
    expect(guardOf(committed, { reason })).toBe("go");
  });
});

describe("the same result (G8)", () => {
  const second = (result: typeof RESULT, between: (state: GuardState) => GuardState = (state) => state) =>
    nextTurn(read(commit(nextTurn(between(commit(NO_GUARDS, 1, RESULT))), 2, result), TRIGGER));

  it.each([
    ["covers the same", { coveredHash: "a", summaryTokens: 5_000 }, true],
    ["has a summary of 2 % more", { coveredHash: "b", summaryTokens: 1_020 }, true],
    ["has a summary of 2 % less", { coveredHash: "b", summaryTokens: 980 }, true],
    ["has a summary of over 2 % more", { coveredHash: "b", summaryTokens: 1_021 }, false],
    ["has a summary of over 2 % less", { coveredHash: "b", summaryTokens: 979 }, false],
  ] as const)("pauses automatic compaction where the second of two %s: %#", (_name, result, pauses) => {
    const state = second(result, (first) => read(first, TRIGGER));
    expect(state.sameResult).toBe(pauses);
    expect(second(result).sameResult).toBe(pauses);
    expect(guardOf(state)).toBe(pauses ? "same_result: arm" : "effectiveness: arm");
  });

  it("does not where a reading between them was under the trigger, the first or a later one", () => {
    expect(second(RESULT, (first) => read(first, TRIGGER - 1)).sameResult).toBe(false);
    expect(second(RESULT, (first) => read(read(first, TRIGGER), TRIGGER - 1)).sameResult).toBe(false);
  });

  it("does not compare with a generation that was taken back (R4)", () => {
    expect(second(RESULT, (first) => forView(first, 0)).sameResult).toBe(false);
  });

  it("ends by a probe that brings the prompt under the trigger, and not by one that does not (G4)", () => {
    const paused: GuardState = { ...commit(NO_GUARDS, 2), sameResult: true };
    expect(read(paused, TRIGGER - 1).sameResult).toBe(false);
    expect(read(paused, TRIGGER)).toMatchObject({ sameResult: true, probation: null });
  });
});

describe("compactions in one turn (M4)", () => {
  it("compacts again in the same turn only with a reading at or over the trigger", () => {
    const measured = read(committed, TRIGGER);
    expect([
      guardOf(measured, { reading: null }),
      guardOf(measured, { reading: TRIGGER - 1 }),
      guardOf(measured, { reading: TRIGGER }),
    ]).toEqual(["budget: wait", "budget: wait", "go"]);
  });

  it.each(["threshold", "overflow", "manual", "tool"] as const)("stops after three attempts, %s too", (reason) => {
    const three = { ...NO_GUARDS, turn: { compactions: 1, attempts: ATTEMPTS_PER_TURN } };
    expect(guardOf(three, { reason, reading: TRIGGER })).toBe("budget: wait");
    expect(guardOf(atTurnStart(three), { reason })).toBe("go");
  });

  it("counts what was made and what failed", () => {
    const failed = fail(committed, "empty", "tool").state;
    expect(failed.turn).toEqual({ compactions: 1, attempts: 2 });
  });
});

describe("force (G9)", () => {
  it.each(["manual", "tool"] as const)("%s skips strikes, the pause and the cooldown", (reason) => {
    const { state } = fail({ ...NO_GUARDS, strikes: 2, sameResult: true }, "timeout");
    expect(guardOf(state, { reason })).toBe("go");
  });

  it("ends the cooldown but not the count of failures in a row", () => {
    const { state } = fail(NO_GUARDS, "timeout");
    expect(beforeForced(state).cooldown).toEqual({ ...NO_GUARDS.cooldown, failures: { timeout: 1, truncated: 0 } });
  });
});

describe("another model (G10)", () => {
  const with_ = (change: Partial<LearnedWith> = {}): LearnedWith => ({
    model: "a",
    provider: "anthropic",
    summariser: "a",
    ...change,
  });
  const known = (reason: SummaryFailure = "timeout"): GuardState => ({
    ...fail(committed, reason).state,
    strikes: 2,
    sameResult: true,
    probation: { at: AT, due: false },
    skips: 3,
    learnedWith: with_(),
  });

  it("clears strikes, probation, what is compared and what is awaited; the generation and the cooldown stay", () => {
    const state = known();
    const now = with_({ model: "b" });
    expect(forModel(state, now)).toEqual({
      isNewModel: true,
      state: {
        ...NO_GUARDS,
        generation: 1,
        cooldown: state.cooldown,
        turn: state.turn,
        learnedWith: now,
      },
    });
  });

  it("of another provider clears the cooldown too", () => {
    expect(forModel(known(), with_({ model: "b", provider: "openai" })).state.cooldown).toEqual(NO_GUARDS.cooldown);
  });

  it("that only writes the summaries clears a cooldown for missing configuration, and nothing else", () => {
    const now = with_({ summariser: "c" });
    expect(forModel(known("timeout"), now).state).toEqual({ ...known("timeout"), learnedWith: now });
    const mended = { ...known("configuration"), cooldown: NO_GUARDS.cooldown, learnedWith: now };
    expect(forModel(known("configuration"), now)).toEqual({ isNewModel: false, state: mended });
  });

  it("is not seen in a session that has learned nothing, or in the same model", () => {
    expect(forModel(committed, with_())).toEqual({ isNewModel: false, state: { ...committed, learnedWith: with_() } });
    expect(forModel(known(), with_())).toEqual({ isNewModel: false, state: known() });
  });
});

describe("the guards in words", () => {
  const probation = { at: AT, due: false };

  it("say what is paused, until when, and why, the first that counts first", () => {
    const state: GuardState = {
      ...committed,
      cooldown: { active: true, until: AT, reason: "timeout", failures: { timeout: 2, truncated: 0 } },
      strikes: 2,
      probation,
    };
    expect(reportGuards(state).map(({ status, words, until }) => [status, words, until])).toEqual([
      ["cooldown", `automatic compaction is paused until ${AT} because two summaries failed in a row (timeout)`, AT],
      [
        "waiting_for_reading",
        "automatic compaction waits for the model's next answer, which measures the last compaction",
        null,
      ],
      [
        "ineffective",
        `automatic compaction is paused until ${AT} because two compactions in a row did not bring the prompt under the trigger`,
        AT,
      ],
    ]);
  });

  it("name the same result as a status of its own (G8)", () => {
    const [report] = reportGuards({ ...NO_GUARDS, sameResult: true, strikes: 2, probation });
    expect([report?.status, report?.words]).toEqual([
      "same_result",
      `automatic compaction is paused until ${AT} because the last two compactions came to the same result, with no prompt under the trigger between them`,
    ]);
  });

  it("say what comes before and after the time of a probation (G4)", () => {
    const words = (change: Partial<GuardState>) => reportGuards({ ...NO_GUARDS, strikes: 2, ...change })[0]?.words;
    expect([words({}), words({ probation: { at: AT, due: true } })]).toEqual([
      "automatic compaction is paused because two compactions in a row did not bring the prompt under the trigger; 300 s after the next call that needs it, it is tried once",
      "automatic compaction is paused because two compactions in a row did not bring the prompt under the trigger; the next call that needs it may try once",
    ]);
  });

  it("say nothing where nothing is on", () => {
    expect(reportGuards({ ...NO_GUARDS, strikes: 1, reading: "over" })).toEqual([]);
  });
});
