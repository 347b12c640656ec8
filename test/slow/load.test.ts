/** The load of `npm run bench -- load`, small: sessions at once, each log right to the message. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { driveLoad } from "../../src/local/bench/load-drive.ts";
import { makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform();
}, 120_000);
afterAll(() => platform.close());

it("12 sessions of 3 turns, 6 at a time: no error, no message lost or doubled, times of every turn", async () => {
  const target = {
    url: platform.url,
    requests: platform.simulator.requests,
    keyOf: async () => (await makeTenant(platform.database)).key,
  };
  const { turns, faults } = await driveLoad(target, { sessions: 12, turns: 3, atOnce: 6 });
  expect(faults).toEqual([]);
  expect(turns).toHaveLength(36);
  expect(turns.filter(({ overheadMs, clientMs }) => !(overheadMs >= 0 && clientMs > 0))).toEqual([]);
  // Three turns and a tool's second call of each session.
  expect(platform.simulator.requests.filter(({ path }) => path === "/v1/messages")).toHaveLength(48);
}, 60_000);
