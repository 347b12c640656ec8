import { describe, expect, it } from "vitest";
import { costUsd } from "../../../src/models/prices.ts";
import { profileFor } from "../../../src/models/profiles.ts";

const none = new Map();
const usage = (changes = {}) => ({
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  ...changes,
});
const cost = (model: string, changes: object) => costUsd(profileFor(model, none).prices, usage(changes));

describe("a model's profile (E7)", () => {
  it("comes from the table", () => {
    expect(profileFor("claude-opus-5-5", none)).toEqual({
      model: "claude-opus-5-5",
      maxInputTokens: 1_000_000,
      maxOutputTokens: 128_000,
      outputInWindow: false,
      thinkingBound: true,
      maxMediaItems: 600,
      prices: { input: 4, output: 20, cacheWrite: 5, cacheRead: 0.2 },
      known: true,
    });
  });

  it.each(["claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-haiku-4-5-latest"])("knows %s", (model) => {
    expect(profileFor(model, none)).toEqual({
      model,
      maxInputTokens: 200_000,
      maxOutputTokens: 64_000,
      outputInWindow: true,
      thinkingBound: false,
      maxMediaItems: 100,
      prices: { input: 1, output: 5, cacheWrite: 1.25, cacheRead: 0.1 },
      known: true,
    });
  });

  it.each(["my-model", "constructor", "__proto__", ""])(
    "of the unknown %j has the documented default: 0.85 of the window is 170,000 tokens",
    (model) => {
      const profile = profileFor(model, none);
      expect(profile).toMatchObject({ maxOutputTokens: 32_000, prices: null, known: false });
      expect(profile.maxInputTokens * 0.85).toBe(170_000);
    },
  );

  it("is overridden by the configuration, by exact name", () => {
    const overrides = new Map([
      ["claude-opus-5-5", { maxInputTokens: 200_000 }],
      ["my-model", { maxInputTokens: 8_000 }],
      ["other", { maxInputTokens: 32_000, maxOutputTokens: 4_000 }],
    ]);
    const limits = (model: string) => {
      const { maxInputTokens, maxOutputTokens, known } = profileFor(model, overrides);
      return [maxInputTokens, maxOutputTokens, known];
    };
    expect(limits("claude-opus-5-5")).toEqual([200_000, 128_000, true]);
    expect(limits("my-model")).toEqual([8_000, 8_000, true]);
    expect(limits("other")).toEqual([32_000, 4_000, true]);
    expect(limits("claude-opus-5-5-20260101")).toEqual([1_000_000, 128_000, true]);
  });
});

describe("a call's list price in USD", () => {
  it.each([
    ["claude-sonnet-5-5", { inputTokens: 1_000_000 }, 2],
    ["claude-sonnet-5-5", { outputTokens: 1_000_000 }, 10],
    ["claude-sonnet-5-5", { cacheWriteTokens: 1_000_000 }, 2.5],
    ["claude-sonnet-5-5", { cacheReadTokens: 1_000_000 }, 0.1],
    ["claude-haiku-5-5", {}, 0],
    ["claude-haiku-5-5", { inputTokens: 100_000 }, 0.01],
    // 100,000 below at 0.10, 100,000 above at 0.50; the answer is above too.
    ["claude-haiku-5-5", { inputTokens: 200_000, outputTokens: 10_000 }, 0.01 + 0.05 + 0.025],
    // The answer crosses the size: 1,000 at 0.50 and 1,000 at 2.50.
    ["claude-haiku-5-5", { inputTokens: 99_000, outputTokens: 2_000 }, 0.0099 + 0.0005 + 0.0025],
    // Read from the cache up to 90,000, written up to 110,000, new from there.
    [
      "claude-haiku-5-5",
      { cacheReadTokens: 90_000, cacheWriteTokens: 20_000, inputTokens: 1_000 },
      0.0009 + 0.00125 + 0.00625 + 0.0005,
    ],
  ])("of %s for %j is %d", (model, changes, expected) => {
    expect(cost(model, changes)).toBeCloseTo(expected, 10);
  });

  it("is null where the price is not known", () => {
    expect(cost("my-model", { inputTokens: 1 })).toBeNull();
  });
});
