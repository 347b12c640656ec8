import { describe, expect, it } from "vitest";
import { afterFailure, afterSuccess } from "../../../src/context/guards/after.ts";
import { decideGuards } from "../../../src/context/guards/decide.ts";
import { type GuardState, type LearnedWith, NO_GUARDS } from "../../../src/context/guards/state.ts";
import { EMPTY_VIEW, type ViewState } from "../../../src/context/view-state.ts";
import { type RunId, seq } from "../../../src/protocol/ids.ts";
import type { StoredGuards } from "../../../src/store/guards.ts";
import { guardRecordOf, guardsOf, guardsToStore } from "../../../src/turns/stored-guards.ts";

const [ONE, TWO] = ["run_1", "run_2"] as [RunId, RunId];
const NOW: LearnedWith = { model: "m", provider: "p", summariser: "s" };
const UNTIL = "2026-01-01T00:01:00.000Z";

/** As the store has it after a write of a run, cooldown and probation as their own statements left them. */
const stored = (state: GuardState, runId: RunId, change: Partial<StoredGuards> = {}): StoredGuards => {
  const { onProbation: _, budget, ...record } = guardRecordOf(state);
  const times = { cooldownUntil: null, cooldownActive: false, probationAt: null, probationDue: false };
  return { ...record, ...times, budget: { runId, ...budget }, ...change };
};

describe("the guards between two Workers", () => {
  const result = { coveredHash: "a", summaryTokens: 10 };
  const committed = afterSuccess({ ...NO_GUARDS, learnedWith: NOW }, { generation: 3, newestSeq: 30, result });
  const state = afterFailure(committed, "timeout", "tool").state;

  it("are the same after they were stored, for the run that goes on (M4, G1, G8)", () => {
    const times = { cooldownUntil: UNTIL, cooldownActive: true };
    expect(guardsOf(stored(state, ONE, times), ONE, 3, NOW)).toEqual({
      isNewModel: false,
      guards: { ...state, cooldown: { ...state.cooldown, until: UNTIL } },
    });
  });

  it("count a turn's attempts for whichever Worker goes on with it, and for no other turn (M4)", () => {
    const spent = { ...state, turn: { compactions: 1, attempts: 3 } };
    const facts = { reason: "overflow", reading: null, triggerTokens: 1 } as const;
    const of = (runId: RunId) => decideGuards(guardsOf(stored(spent, ONE), runId, 3, NOW).guards, facts).kind;
    expect([of(ONE), of(TWO)]).toEqual(["blocked", "go"]);
  });

  it("know what is over by the database's word (G1, G4)", () => {
    const waiting = { ...state, strikes: 2 };
    const over = stored(waiting, ONE, { cooldownUntil: UNTIL, probationAt: UNTIL, probationDue: true });
    const { guards } = guardsOf(over, TWO, 0, NOW);
    expect([guards.cooldown.active, guards.probation]).toEqual([false, { at: UNTIL, due: true }]);
  });

  it("do not wait for a generation that the view does not show (R4), nor keep what another model taught them (G10)", () => {
    expect(guardsOf(stored(committed, ONE), ONE, 2, NOW).guards).toMatchObject({ reading: null, result: null });
    const now = { ...NOW, model: "other" };
    expect(guardsOf(stored({ ...committed, strikes: 2 }, ONE), ONE, 3, now)).toMatchObject({
      isNewModel: true,
      guards: { strikes: 0, reading: null, learnedWith: now },
    });
  });

  it("name the model before until what was clipped is shown whole to the new one, whoever goes on (G10)", () => {
    const clipped = { ...EMPTY_VIEW, clippedBefore: seq(9) };
    const before = { ...NOW, model: "before" };
    const named = (live: { view: ViewState; stored: ViewState }) => guardsToStore(state, live, before).learnedWith;
    expect(named({ view: EMPTY_VIEW, stored: clipped })).toEqual(before);
    expect(named({ view: EMPTY_VIEW, stored: EMPTY_VIEW })).toEqual(NOW);
  });

  it("are cleared of a cooldown or a probation by a write exactly where they have none", () => {
    expect(guardRecordOf(state)).toMatchObject({ cooldownReason: "timeout", onProbation: false });
    const probation = { at: UNTIL, due: false };
    expect(guardRecordOf({ ...committed, probation })).toMatchObject({ cooldownReason: null, onProbation: true });
  });
});
