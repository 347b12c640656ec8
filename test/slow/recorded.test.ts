/** Recorded sessions of other systems, imported and then gone on with: the provider accepts what the view makes of them. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { pagesOf, recordedSessions, sampleSessions } from "../support/sessions.ts";

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform();
}, 120_000);
afterAll(() => platform.close());

const all = [...sampleSessions(), ...recordedSessions()];

it.each(all.map((session) => [session.name, session] as const))(
  "%s is imported, and its next turn is valid (C3, V5, V6)",
  async (_name, recorded) => {
    const call = callerOf(platform.url, await makeTenant(platform.database));
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    for (const page of pagesOf(recorded))
      expect((await call("POST", `/v1/sessions/${session}/import`, page)).status).toBe(200);
    platform.simulator.reset();
    platform.simulator.enqueue({ reply: { content: "Going on." } });
    const { body } = await call("POST", `/v1/sessions/${session}/turns`, { input: "Go on, please." });
    expect(body).toMatchObject({ status: "completed", output_text: "Going on." });
  },
);
