/** R3 through the built Worker: whatever is done to a session, no request has a word of what was undone, and no tool finds it in the history. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CompactingSession, compactingSession, prose } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform({ variables: { HANGO_PROVIDER_MAX_RETRIES: "0" } });
}, 120_000);
afterAll(() => platform.close());

type Op =
  | { readonly op: "turn" | "compact" | "void" | "retry" | "look" }
  | { readonly op: "rewind"; readonly turns: number };

const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ op: "turn" as const }) },
  { weight: 3, arbitrary: fc.constant({ op: "compact" as const }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant("rewind" as const), turns: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 1, arbitrary: fc.constant({ op: "void" as const }) },
  { weight: 1, arbitrary: fc.constant({ op: "retry" as const }) },
  { weight: 2, arbitrary: fc.constant({ op: "look" as const }) },
);

interface World {
  readonly session: CompactingSession;
  /** A word of its own for each turn: those that stand, and those that were undone. */
  readonly live: string[];
  readonly undone: string[];
  count: number;
}

const word = (world: World): string => `walrus${world.count++}x`;

/** A turn whose question and answer have a word that is nowhere else. */
const turn = async (world: World): Promise<void> => {
  const { session, live } = world;
  const own = word(world);
  await session.scripted(
    `Question ${own}: ${prose(150, world.count)}`,
    `Answer ${own}: ${prose(150, world.count + 1)}`,
  );
  live.push(own);
};

/** A turn in which the model reads the history file from its beginning and searches it for what is undone. */
const look = async (world: World): Promise<void> => {
  const { session, live } = world;
  const own = word(world);
  const path = `/conversation_history/${session.id}.md`;
  await session.scripted(
    `Look ${own}`,
    [
      { type: "tool_use", id: `toolu_r${own}`, name: "read_file", input: { file_path: path, limit: 60 } },
      {
        type: "tool_use",
        id: `toolu_g${own}`,
        name: "grep",
        input: { pattern: "walrus", path, output_mode: "content" },
      },
    ],
    `Seen ${own}`,
  );
  live.push(own);
};

const run = async (world: World, step: Op): Promise<void> => {
  const { session, live, undone } = world;
  const post = (what: string, body: object = {}) => session.call("POST", `/v1/sessions/${session.id}/${what}`, body);
  switch (step.op) {
    case "turn":
      return turn(world);
    case "look":
      return look(world);
    case "compact":
      expect((await post("compact")).status).toBe(200);
      return;
    case "void": {
      const made = await session.generations();
      const newest = made.at(-1);
      if (newest !== undefined) expect((await post(`compactions/${newest.generation}/void`)).status).toBe(200);
      return;
    }
    case "rewind": {
      const turns = Math.min(step.turns, live.length);
      const { status } = await post("rewind", { turns: Math.max(turns, 1) });
      expect(status).toBe(turns === 0 ? 409 : 200);
      if (turns > 0) undone.push(...live.splice(-turns));
      return;
    }
    case "retry": {
      const { status, body } = await post("retry");
      expect([status, body.error?.code]).toEqual(live.length === 0 ? [409, "nothing_to_undo"] : [200, undefined]);
      return;
    }
    default:
      return step satisfies never;
  }
};

describe("a session whose turns are undone, compacted, voided and run again at random", () => {
  it("never shows the model a word of what was undone, in a request or in the history (R3)", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(op, { minLength: 8, maxLength: 18 }), async (steps) => {
        platform.simulator.reset();
        const session = await compactingSession(platform, { windowTokens: 12_000 });
        const world: World = { session, live: [], undone: [], count: 0 };
        for (const step of [...steps, { op: "look" as const }]) {
          const before = platform.simulator.requests.length;
          await session.untouched(() => run(world, step));
          // Requests of summaries among them.
          const sent = platform.simulator.requests.slice(before).map(({ bodyText }) => bodyText);
          expect(world.undone.filter((each) => sent.some((body) => body.includes(each)))).toEqual([]);
        }
        expect(session.rejections()).toEqual([]);
      }),
      { numRuns: 8, endOnFailure: true },
    );
  }, 180_000);
});
