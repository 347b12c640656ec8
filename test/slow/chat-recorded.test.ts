/**
 * Recorded sessions of other systems, imported into sessions over chat completions and gone on with in a small window: neither a plain server nor a strict
 * template refuses anything of what the view makes of them (R8).
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { pagesOf, recordedSessions, sampleSessions } from "../support/sessions.ts";

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform({ chat: true });
}, 120_000);
afterAll(() => platform.close());

const WINDOW = 30_000;

const MODELS = [
  ["a plain server", "openai", false, sampleSessions()],
  ["a strict template", "llama.cpp", true, recordedSessions()],
] as const;

describe.each(MODELS)("on %s", (_what, server, strict, sessions) => {
  it.each(sessions.map((recorded) => [recorded.name, recorded] as const))(
    "%s goes on, through a compaction where it is long",
    async (_name, recorded) => {
      const call = callerOf(platform.url, await makeTenant(platform.database));
      platform.simulator.reset();
      // The server's window is no matter here: recorded sessions have bulky media and results.
      platform.simulator.setModels({ recorded: { server, strictTemplate: strict, tokenFactor: 1 } });
      const context = { max_input_tokens: WINDOW, strict_alternation: strict };
      const { body: session } = await call("POST", "/v1/sessions", {
        model: "openai/recorded",
        max_tokens: 1_000,
        context,
      });
      for (const page of pagesOf(recorded))
        expect((await call("POST", `/v1/sessions/${session.id}/import`, page)).status).toBe(200);
      for (const input of ["Go on, please.", "And then?"]) {
        platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "Going on." } });
        const { body } = await call("POST", `/v1/sessions/${session.id}/turns`, {
          input,
          // What is too much to load is compacted in the background, which holds the session (V7).
          on_busy: "queue",
        });
        const run = async () => (await call("GET", `/v1/runs/${body.id}`)).body;
        await expect.poll(async () => (await run()).finished_at, { timeout: 60_000, interval: 50 }).not.toBeNull();
        const { status, error } = await run();
        expect([status, error?.message]).toEqual(["completed", undefined]);
      }
      const refused = platform.simulator.requests.filter(({ status }) => status !== 200);
      expect(refused.map(({ status, error }) => `${status} ${error}`)).toEqual([]);
    },
  );
});
