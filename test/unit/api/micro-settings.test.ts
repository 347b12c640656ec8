import { describe, expect, it } from "vitest";
import { z } from "zod";
import { contextSettings } from "../../../src/api/context-settings.ts";
import { invalidInput } from "../../../src/api/error-response.ts";
import { type parseConfig, variableProblems } from "../../../src/config.ts";
import { microSettingsOf, readSettings } from "../../../src/turns/settings.ts";

const body = z.strictObject({ context: contextSettings.optional() });

const refusal = (micro: unknown): string | null => {
  const parsed = body.safeParse({ context: { micro_compaction: micro } });
  return parsed.success ? null : invalidInput(parsed.error).message;
};

const at = "context.micro_compaction";

describe("context.micro_compaction of a session (section 11)", () => {
  it("is off, on as the deployment has it, or on with numbers of its own", () => {
    for (const good of [false, {}, { every_n_turns: 1 }, { every_n_turns: 5, defrag_tokens: 4_000 }])
      expect(refusal(good)).toBeNull();
  });

  it.each([
    [{ every_n_turns: 0 }, `${at}.every_n_turns: too small: expected number to be >=1`],
    [{ every_n_turns: -3 }, `${at}.every_n_turns: too small: expected number to be >=1`],
    [{ every_n_turns: 1.5 }, `${at}.every_n_turns: expected int, received number`],
    [{ every_n_turns: true }, `${at}.every_n_turns: expected number, received boolean`],
    [{ every_n_turns: "2" }, `${at}.every_n_turns: expected number, received string`],
    [{ defrag_tokens: 0 }, `${at}.defrag_tokens: too small: expected number to be >=200`],
    [{ everyNTurns: 1 }, `${at}.everyNTurns: unknown field`],
  ])("%j is refused, never rounded or clamped", (given, message) => {
    expect(refusal(given)?.toLowerCase()).toBe(message.toLowerCase());
  });

  it.each([true, 1, "on", null])("%j is neither off nor how it is on", (given) => {
    expect(refusal(given)).toMatch(/^context\.micro_compaction: expected .*object/);
  });
});

describe("HANGO_MICRO_COMPACTION (section 11)", () => {
  it.each([
    ["HANGO_MICRO_COMPACTION", "yes", "true, false, 1 or 0"],
    ["HANGO_MICRO_COMPACTION_EVERY_N_TURNS", "0", "a whole number from 1 to 1000"],
    ["HANGO_MICRO_COMPACTION_EVERY_N_TURNS", "-1", "a whole number from 1 to 1000"],
    ["HANGO_MICRO_COMPACTION_EVERY_N_TURNS", "2.5", "a whole number from 1 to 1000"],
    ["HANGO_MICRO_COMPACTION_EVERY_N_TURNS", "true", "a whole number from 1 to 1000"],
    ["HANGO_MICRO_COMPACTION_DEFRAG_TOKENS", "199", "a whole number from 200 to 100000"],
  ])("%s=%s is a problem at start-up, named with what is allowed", (name, value, allowed) => {
    const [problem, ...more] = variableProblems({ [name]: value });
    expect([problem?.startsWith(name), problem?.includes(allowed), more]).toEqual([true, true, []]);
  });
});

describe("how a session is compacted between its turns", () => {
  const config = (on: boolean): Pick<ReturnType<typeof parseConfig>, "context"> => ({
    context: {
      summarizerModel: undefined,
      triggerFrac: 0.85,
      keepFrac: 0.1,
      toolArgMaxTokens: 500,
      microCompaction: { on, everyNTurns: 3, defragTokens: 2_500 },
    },
  });
  const settings = (micro?: unknown, on = false) =>
    microSettingsOf(readSettings(micro === undefined ? {} : { context: { micro_compaction: micro } }), config(on));

  it("is not, by default", () => {
    expect(settings()).toBeNull();
  });

  it("is as the session says, else as the deployment does", () => {
    expect(settings(undefined, true)).toEqual({ everyNTurns: 3, defragTokens: 2_500 });
    expect(settings(false, true)).toBeNull();
    expect(settings({})).toEqual({ everyNTurns: 3, defragTokens: 2_500 });
    expect(settings({ every_n_turns: 7 })).toEqual({ everyNTurns: 7, defragTokens: 2_500 });
  });
});
