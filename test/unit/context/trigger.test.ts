import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Projection } from "../../../src/context/calibration.ts";
import {
  budgets,
  decideTrigger,
  fittingMaxTokens,
  scaledBudget,
  type Trigger,
  type TriggerInput,
  type WindowProfile,
} from "../../../src/context/trigger.ts";

const CURRENT: WindowProfile = { maxInputTokens: 1_000_000, outputInWindow: false, maxMediaItems: 600, known: true };
const OLDER: WindowProfile = { maxInputTokens: 200_000, outputInWindow: true, maxMediaItems: 100, known: true };
const SETTINGS = { triggerFrac: 0.85, keepFrac: 0.1, maxTokens: 32_000 };

describe("budgets of a window (E7)", () => {
  it("follow from the window alone where the answer is outside it", () => {
    expect(budgets(CURRENT, SETTINGS)).toEqual({
      windowTokens: 1_000_000,
      reserveTokens: 0,
      triggerTokens: 850_000,
      hardLimitTokens: 1_000_000,
      keepTokens: 250_000,
      keep: { kind: "share", frac: 0.1 },
      offloadTokens: 20_000,
      maxMediaItems: 600,
    });
  });

  it("keep room for the answer where it counts inside, at most a tenth", () => {
    const { windowTokens, reserveTokens, triggerTokens } = budgets(OLDER, SETTINGS);
    expect({ windowTokens, reserveTokens, triggerTokens }).toEqual({
      windowTokens: 180_000,
      reserveTokens: 20_000,
      triggerTokens: 153_000,
    });
    expect(budgets(OLDER, { ...SETTINGS, maxTokens: 4_000 }).reserveTokens).toBe(4_000);
  });

  it("trigger an unknown model at 170,000 tokens and keep its last 6 messages", () => {
    const { triggerTokens, keep } = budgets({ ...OLDER, known: false }, { ...SETTINGS, triggerFrac: 0.5 });
    expect({ triggerTokens, keep }).toEqual({ triggerTokens: 170_000, keep: { kind: "messages", count: 6 } });
  });

  it("all change with the window", () => {
    const small = budgets({ ...CURRENT, maxInputTokens: 10_000 }, SETTINGS);
    expect([small.triggerTokens, small.keepTokens, small.offloadTokens]).toEqual([8_500, 2_500, 1_000]);
    expect([scaledBudget(4_096, 10_000), scaledBudget(4_096, 1_000_000)]).toEqual([500, 4_096]);
  });

  it("lower max_tokens to what the prompt leaves free, never below the reserve", () => {
    expect([
      fittingMaxTokens(CURRENT, 32_000, 990_000),
      fittingMaxTokens(OLDER, 32_000, 100_000),
      fittingMaxTokens(OLDER, 32_000, 175_000),
      fittingMaxTokens(OLDER, 4_000, 199_000),
      fittingMaxTokens(OLDER, 32_000, 180_000),
    ]).toEqual([32_000, 32_000, 25_000, 4_000, 20_000]);
  });

  it("always leave room between the trigger and the hard limit, and for prompt and answer together", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1_000, max: 2_000_000 }),
        fc.boolean(),
        fc.integer({ min: 1, max: 200_000 }),
        (maxInputTokens, outputInWindow, maxTokens) => {
          const profile = { ...CURRENT, maxInputTokens, outputInWindow };
          const own = budgets(profile, { ...SETTINGS, maxTokens });
          expect(own.triggerTokens).toBeLessThan(own.hardLimitTokens);
          expect(own.keepTokens).toBeLessThan(own.triggerTokens);
          const answer = fittingMaxTokens(profile, maxTokens, own.hardLimitTokens);
          if (outputInWindow) expect(own.hardLimitTokens + answer).toBeLessThanOrEqual(maxInputTokens);
        },
      ),
    );
  });
});

const BUDGETS = budgets(CURRENT, SETTINGS);
const decide = (tokens: number, basis: Projection["basis"], more: Partial<TriggerInput> = {}): Trigger =>
  decideTrigger({
    projection: { tokens, basis },
    budgets: BUDGETS,
    bytes: 1_000,
    mediaItems: 0,
    maxBytes: 8_000_000,
    canCount: true,
    ...more,
  });

describe("the trigger: counted when close (E5)", () => {
  it("also where the request is as near to the window's end, over which it would be refused", () => {
    const small = budgets({ ...CURRENT, maxInputTokens: 10_000 }, { ...SETTINGS, triggerFrac: 0.5 });
    const facts = { budgets: small, bytes: 1, mediaItems: 0, maxBytes: 8_000_000, canCount: true };
    const sizes = [6_000, 9_499, 9_500, 9_990, 10_500, 10_501];
    expect(sizes.map((tokens) => decideTrigger({ ...facts, projection: { tokens, basis: "reading" } }).kind)).toEqual([
      "over",
      "over",
      "close",
      "close",
      "close",
      "over",
    ]);
  });

  it("asks for a count within 15 % of the trigger, and not beyond where the window's end is far", () => {
    const far = { budgets: { ...BUDGETS, hardLimitTokens: 2_000_000 } };
    const sizes = [700_000, 722_500, 850_000, 977_500, 980_000];
    expect(sizes.map((tokens) => decide(tokens, "reading", far).kind)).toEqual([
      ...["under", "close", "close", "close", "over"],
    ]);
  });

  it("asks for a count without a reading from 60 % of the trigger on", () => {
    const sizes = [1_000, 510_000, 510_001, 2_000_000];
    expect(sizes.map((tokens) => decide(tokens, "estimate").kind)).toEqual(["under", "under", "close", "close"]);
  });

  it("takes a count for final", () => {
    expect([decide(849_999, "count"), decide(850_000, "count")]).toEqual([
      { kind: "under" },
      { kind: "over", budget: "tokens" },
    ]);
  });

  it("lets the projection decide where nobody can count", () => {
    const own = { canCount: false };
    expect([
      decide(849_999, "reading", own).kind,
      decide(850_000, "reading", own).kind,
      decide(849_999, "estimate", own).kind,
    ]).toEqual(["under", "over", "under"]);
  });
});

describe("the trigger: three budgets (E6)", () => {
  it("each begin the ladder for their own reason", () => {
    expect([
      decide(10, "reading", { bytes: 8_000_001 }),
      decide(10, "reading", { mediaItems: 601 }),
      decide(1_100_000, "reading"),
      decide(10, "reading", { bytes: 8_000_000, mediaItems: 600 }),
    ]).toEqual([
      { kind: "over", budget: "bytes" },
      { kind: "over", budget: "media" },
      { kind: "over", budget: "tokens" },
      { kind: "under" },
    ]);
  });

  it("ask for no count where bytes or media have decided", () => {
    expect(decide(850_000, "reading", { mediaItems: 601 })).toEqual({ kind: "over", budget: "media" });
  });
});
