import { describe, expect, it } from "vitest";
import {
  afterAbsorbed,
  afterDefragFailed,
  afterDefragged,
  afterExchangeFailed,
  anchorOf,
  isDefragDue,
  NO_MICRO,
  parseMicroState,
} from "../../../src/context/micro-state.ts";

const SETTINGS = { everyNTurns: 1, defragTokens: 2_000 };
const exchange = { firstSeq: 4, lastSeq: 7 };

describe("an exchange that fails (section 11)", () => {
  it("is passed over after the third time, and no sooner", () => {
    const first = afterExchangeFailed(NO_MICRO, exchange);
    const second = afterExchangeFailed(first, exchange);
    const third = afterExchangeFailed(second, exchange);
    expect([first, second, third]).toEqual([
      { ...NO_MICRO, failing: { seq: 4, failures: 1 } },
      { ...NO_MICRO, failing: { seq: 4, failures: 2 } },
      { ...NO_MICRO, failing: null, floor: 8 },
    ]);
  });

  it("is counted from one again when another was tried, or one was absorbed", () => {
    const twice = afterExchangeFailed(afterExchangeFailed(NO_MICRO, exchange), exchange);
    const other = { firstSeq: 9, lastSeq: 9 };
    expect(afterExchangeFailed(twice, other).failing).toEqual({ seq: 9, failures: 1 });
    expect(afterAbsorbed(twice, null, 1).failing).toBeNull();
  });
});

describe("a defrag (section 11)", () => {
  it("is due for what the passes wrote, never for the words of a full compaction that they build on", () => {
    const full = { number: 5, summaryTokens: 9_000 };
    expect([anchorOf(NO_MICRO, full), isDefragDue(NO_MICRO, full, SETTINGS)]).toEqual([9_000, false]);
    const state = afterAbsorbed(NO_MICRO, full, 6);
    expect(state).toEqual({ ...NO_MICRO, generation: 6, anchorTokens: 9_000 });
    expect(isDefragDue(state, { number: 6, summaryTokens: 11_000 }, SETTINGS)).toBe(false);
    expect(isDefragDue(state, { number: 6, summaryTokens: 11_001 }, SETTINGS)).toBe(true);
  });

  it("is not due again at once, however little it brought: the passes go on", () => {
    const state = afterDefragged(NO_MICRO, { generation: 7, summaryTokens: 2_900 }, SETTINGS);
    expect(isDefragDue(state, { number: 7, summaryTokens: 2_900 }, SETTINGS)).toBe(false);
    expect(isDefragDue(state, { number: 7, summaryTokens: 3_901 }, SETTINGS)).toBe(true);
    const short = afterDefragged(NO_MICRO, { generation: 7, summaryTokens: 600 }, SETTINGS);
    expect(isDefragDue(short, { number: 7, summaryTokens: 2_001 }, SETTINGS)).toBe(true);
  });

  it("that fails three times is put off", () => {
    const base = { number: 7, summaryTokens: 2_500 };
    const states = [1, 2, 3].reduce((state) => afterDefragFailed(state, base), { ...NO_MICRO, generation: 7 });
    expect([states.failing, isDefragDue(states, base, SETTINGS)]).toEqual([null, false]);
    expect(isDefragDue(states, { ...base, summaryTokens: 4_501 }, SETTINGS)).toBe(true);
  });
});

describe("the state as it is stored", () => {
  it("comes back as it was, and from anything else as in the beginning", () => {
    const state = { floor: 8, failing: { seq: 9, failures: 2 }, generation: 4, anchorTokens: 100 };
    expect(parseMicroState(JSON.parse(JSON.stringify(state)))).toEqual(state);
    for (const broken of [{}, null, [], "x", { floor: -1, failing: { seq: "4" }, generation: 0.5, anchorTokens: null }])
      expect(parseMicroState(broken)).toEqual(NO_MICRO);
  });
});
