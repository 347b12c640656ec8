/**
 * The suite over random sessions, the same for `npm test` and `npm run test:deep`. It prints its seed; to see a failing session again,
 * run its file with `SEED=... REPLAY=...` as the failure says, which also makes the session smaller. `RUNS` sets how many there are.
 */

import { beforeAll, describe, expect, it } from "vitest";
import type { MicroSettings } from "../../src/context/micro-state.ts";
import { type Broken, type Checked, checkSessions, shrunk, summary } from "./check-sessions.ts";
import { MICRO_PROPERTIES } from "./micro-properties.ts";
import { SESSION_PROPERTIES } from "./session-properties.ts";

export interface SuiteOptions {
  readonly seed: number;
  readonly runs: number;
  readonly maxTurns: number;
  /** Longest time for all sessions together. */
  readonly limitMs: number;
  /** Compacts between turns as well (section 11). */
  readonly micro?: MicroSettings;
}

/** Longest search for a smaller session. */
const SHRINK_MS = 60_000;

const numberFrom = (name: string): number | undefined => {
  const text = process.env[name];
  return text === undefined || text === "" ? undefined : Number(text);
};

const inWords = ({ words, path }: Broken, seed: number): string => `${words} (SEED=${seed} REPLAY=${path})`;

export const describeSessions = (options: SuiteOptions): void => {
  const seed = numberFrom("SEED") ?? options.seed;
  const runs = numberFrom("RUNS") ?? options.runs;
  const path = process.env["REPLAY"];
  const { maxTurns, micro = null } = options;
  const properties = micro === null ? SESSION_PROPERTIES : [...SESSION_PROPERTIES, ...MICRO_PROPERTIES];

  describe(`any session, through any number of compactions${micro === null ? "" : ", and passes between its turns"}`, () => {
    let checked: Checked;

    beforeAll(async () => {
      checked = await checkSessions(properties, { seed, runs, maxTurns, path, micro });
      console.log(summary(checked));
      const broken = checked.broken[0];
      const property = properties.find(({ name }) => name === broken?.property);
      if (path === undefined || property === undefined) return;
      const smallest = await shrunk(property, { seed, maxTurns, path, limitMs: SHRINK_MS, micro });
      console.log(`${property.name}: ${smallest?.words}\n${JSON.stringify(smallest?.plan, null, 2)}`);
    }, options.limitMs + SHRINK_MS);

    it("ends each turn well or with a typed error (ladder step 6)", () => {
      const untyped = checked.broken.filter(({ property }) => properties.every(({ name }) => name !== property));
      expect(untyped.map((broken) => inWords(broken, seed))).toEqual([]);
      expect(checked.tally.sessions).toBe(path === undefined ? runs : 1);
    });

    it.each(properties.map(({ name }) => name))("%s", (name) => {
      const broken = checked.broken.filter(({ property }) => property === name);
      expect(broken.slice(0, 5).map((each) => inWords(each, seed))).toEqual([]);
    });
  });
};
