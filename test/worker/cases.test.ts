/** Every case of `test/fixtures/cases` through the built Worker; what is expected of it is data, and nothing of that may be unknown. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { CHECKS } from "../support/case-expectations.ts";
import { CASE_KEYS, type Case, runCase, SUMMARIZER, SUMMARIZER_WINDOW } from "../support/case-run.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";

const CASES: readonly Case[] = JSON.parse(
  readFileSync(join(import.meta.dirname, "../fixtures/cases/compaction.json"), "utf8"),
);

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform({
    variables: {
      HANGO_PROVIDER_MAX_RETRIES: "0",
      HANGO_MODEL_PROFILES: JSON.stringify({ [SUMMARIZER]: { max_input_tokens: SUMMARIZER_WINDOW } }),
    },
  });
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

describe.each(CASES)("$id ($rules)", (given) => {
  it(given.about, async () => {
    expect(Object.keys(given).filter((key) => !CASE_KEYS.includes(key))).toEqual([]);
    expect(Object.keys(given.expect).filter((key) => !(key in CHECKS))).toEqual([]);
    const run = { ...(await runCase(platform, given)), platform };
    for (const [key, wanted] of Object.entries(given.expect)) await CHECKS[key]?.(run, wanted as never);
    const next = given.expect.then_turn;
    if (typeof next !== "string") return;
    const answer = await run.session.untouched(() => run.session.turn(next));
    expect([answer.status, answer.body.status === "completed"]).toEqual([200, given.expect.then_ok]);
  }, 60_000);
});
