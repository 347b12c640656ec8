/** On the recorded sessions with a summariser that fails, no session is wedged. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { collect, defaultFolders } from "../../src/local/replay/collect.ts";
import { planSession } from "../../src/local/replay/session.ts";
import { type Lane, startLane } from "./lane.ts";
import { LONGEST_WAIT_SECONDS, type RecordedResult, replayFailing, tableOf } from "./recorded.ts";

/** Larger recordings are left out: what they have more of is text, not ways to be wedged. */
const MAX_BYTES = Number(process.env.HANGO_HARNESS_MAX_KB ?? 96) * 1024;
/** A window that takes longer to fill than this is left out for the same reason, in tokens. */
const MAX_WINDOW = 60_000;
const LANES = 3;

let lanes: readonly Lane[] = [];
beforeAll(async () => {
  lanes = await Promise.all(Array.from({ length: LANES }, startLane));
});
afterAll(() => Promise.all(lanes.map((lane) => lane.close())));

describe("recorded sessions with a summariser that fails in every way", () => {
  test("none is wedged: each compacts within the longest cooldown and one probation after it is good again (G1, G4)", async () => {
    const { sources, tooLarge } = await collect(defaultFolders(), MAX_BYTES);
    const planned = sources.map((source) => planSession(source, "claude-sonnet-5"));
    const left = planned
      .filter(({ windowTokens }) => windowTokens <= MAX_WINDOW)
      .map((plan, index) => ({ plan, index }));
    const leftOut = planned.length - left.length;
    const results: RecordedResult[] = [];
    const startedCpu = process.cpuUsage();
    const work = async (lane: Lane): Promise<void> => {
      for (let next = left.shift(); next !== undefined; next = left.shift())
        results.push(await replayFailing(next.plan, lane, next.index));
    };
    await Promise.all(lanes.map(work));
    const { user, system } = process.cpuUsage(startedCpu);
    console.log(`${Math.round((user + system) / 1e6)} s of processor time`);
    console.log(`${tableOf(results)}\nleft out: ${tooLarge.length} large recordings, ${leftOut} large windows`);
    expect(results.length).toBeGreaterThan(0);
    for (const result of results) {
      expect(result.logKept, `${result.name}: the log (M6)`).toBe(true);
      expect(result.seconds, `${result.name} is wedged`).not.toBeNull();
      expect(result.seconds ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(LONGEST_WAIT_SECONDS);
      expect(result.failed.size + result.blocked.size, `${result.name} never needed a summary`).toBeGreaterThan(0);
    }
  });
});
