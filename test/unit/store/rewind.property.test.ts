/** R3 over random histories of a session: turns, compactions, hidden rows, rewinds, retries and voids, in PostgreSQL. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isUserOriginated } from "../../../src/context/ask.ts";
import { newId, type Seq, seq, type TenantId } from "../../../src/protocol/ids.ts";
import { voidCompaction } from "../../../src/store/compactions.ts";
import type { Db } from "../../../src/store/db.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import type { LoadedSession } from "../../../src/store/loaded-session.ts";
import type { StoredRange } from "../../../src/store/ranges.ts";
import { loadForReading } from "../../../src/store/reading.ts";
import { beginReplacing } from "../../../src/store/replace.ts";
import { commitRevision } from "../../../src/store/revisions.ts";
import { storeRewind } from "../../../src/store/rewind.ts";
import { lookAtUndo, type UndoTarget } from "../../../src/store/undoing.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";
import {
  begun,
  change,
  compaction,
  connectTo,
  EMPTY,
  type Fixture,
  finishOf,
  generation,
  makeSession,
  recordOf,
  start,
  textRow,
} from "../../support/store.ts";

let database: TestDatabase;
let db: Db;

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
  db = connectTo(database);
});
afterAll(() => database.close());

type Op =
  | { readonly op: "turn"; readonly midway: "nothing" | "compact" | "hide"; readonly share: number }
  | { readonly op: "rewind"; readonly turns: number }
  | { readonly op: "retry"; readonly midway: "nothing" | "compact"; readonly share: number }
  | { readonly op: "void"; readonly pick: number };

/** Of the rows that are shown, in tenths. */
const share = fc.integer({ min: 0, max: 10 }).map((tenths) => tenths / 10);
const op: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant("turn" as const),
      midway: fc.constantFrom("nothing" as const, "compact" as const, "compact" as const, "hide" as const),
      share,
    }),
  },
  { weight: 3, arbitrary: fc.record({ op: fc.constant("rewind" as const), turns: fc.integer({ min: 1, max: 4 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      op: fc.constant("retry" as const),
      midway: fc.constantFrom("nothing" as const, "compact" as const),
      share,
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("void" as const), pick: fc.nat(20) }) },
);

const inRanges = (ranges: readonly StoredRange[], at: number): boolean =>
  ranges.some(({ from, to }) => from <= at && at <= to);
const single = (at: number): StoredRange => ({ from: seq(at), to: seq(at) });
/** In this test a summary is the list of the seqs that it tells of. */
const told = (summary: string | undefined): readonly number[] => JSON.parse(summary ?? "[]");

interface World {
  readonly fixture: Fixture;
  readonly tenantId: TenantId;
  /** Seqs that nobody has undone, and those of them that a turn begins with. */
  readonly live: number[];
  readonly starts: Set<number>;
  rows: number;
}

const newWorld = async (): Promise<World> => {
  const fixture = await makeSession(database);
  const [row] = await database.sql("select tenant_id from sessions where id = $1", [fixture.sessionId]);
  return { fixture, tenantId: row?.tenant_id as TenantId, live: [], starts: new Set(), rows: 0 };
};

/** Changes the view in the middle of a turn, as a compaction or a truncation would. */
const changeView = async (session: LoadedSession, midway: "compact" | "hide", part: number): Promise<void> => {
  const { view, rows } = session;
  const chosen = rows.slice(0, Math.ceil(part * rows.length)).map((row) => row.seq);
  const base = view?.generation ?? null;
  const current = view ?? EMPTY;
  if (chosen.length === 0) return;
  const input = session.inputSeq;
  const record = { ...recordOf(session), thinkingFloor: session.thinkingFloor };
  const next = { ...current, revision: current.revision + 1, thinkingFloor: seq(session.thinkingFloor) };
  const from = { attemptId: newId("cmp"), base: { revision: current.revision, generation: base?.number ?? 0 }, record };
  if (midway === "hide") {
    const hidden = [...current.hidden, ...chosen.filter((at) => at !== input).map(single)];
    expect(await commitRevision(db, session, change(session, { ...from, view: { ...next, hidden } }))).toBe(true);
    return;
  }
  const pinned = input !== null && chosen.includes(input) ? { seq: input, text: "pinned" } : null;
  const made = generation(session.nextGeneration, {
    base: base?.number ?? 0,
    covered: [...(base?.covered ?? []), ...chosen.map(single)],
    summary: JSON.stringify([...told(base?.summary), ...chosen]),
    pinned,
  });
  const done = await commitRevision(
    db,
    session,
    change(session, { ...from, view: { ...next, generation: made }, compaction: compaction() }),
  );
  expect(done).toBe(true);
};

const goOn = async (
  world: World,
  session: LoadedSession,
  midway: "nothing" | "compact" | "hide",
  part: number,
): Promise<void> => {
  const input = session.inputSeq as Seq;
  if (midway !== "nothing") await changeView(session, midway, part);
  const floor = { thinkingFloor: session.thinkingFloor };
  const finish = finishOf(session);
  await storeFinish(db, session, {
    ...finish,
    record: { ...finish.record, ...floor },
    closing: { ...finish.closing, ...floor },
  });
  world.live.push(input, input + 1);
  world.starts.add(input);
  world.rows += 2;
};

const forget = ({ live, starts }: World, from: number): void => {
  while ((live.at(-1) ?? 0) >= from) starts.delete(live.pop() as number);
};

const undo = async (world: World, target: UndoTarget) => {
  const { look } = await lookAtUndo(db, world.tenantId, { id: world.fixture.sessionId }, target);
  if (look?.undone == null) return undefined;
  const { at, undone } = look;
  return {
    look,
    undone,
    undoing: {
      at,
      start: undone.start,
      attemptId: newId("cmp"),
      todos: null,
      clipTokens: 500,
      reason: "rewind" as const,
    },
  };
};

const run = async (world: World, step: Op): Promise<void> => {
  const { fixture, tenantId, live, starts } = world;
  switch (step.op) {
    case "turn":
      return goOn(world, await start(db, fixture), step.midway, step.share);
    case "rewind": {
      const wanted = [...starts].sort((a, b) => a - b).at(-step.turns);
      const found = await undo(world, { turns: step.turns });
      if (found === undefined) return expect(live).toEqual([]);
      // Fewer turns than asked for are all there are.
      expect(found.undone.start).toBe(wanted ?? live[0]);
      expect((await storeRewind(db, tenantId, found.undoing, null, {})).kind).toBe("rewound");
      expect((await storeRewind(db, tenantId, found.undoing, null, {})).kind).toBe("rewound");
      return forget(world, found.undone.start);
    }
    case "retry": {
      const found = await undo(world, { turns: 1 });
      if (found === undefined) return;
      const runId = newId("run");
      const input = textRow("user", "again", runId);
      const turn = {
        session: { id: fixture.sessionId },
        tenantId,
        keyId: null,
        runId,
        idempotencyKey: null,
        requestHash: "",
        startedAt: "2026-01-01T00:00:00.000Z",
        limits: null,
        options: {},
        input,
        undoing: found.undoing,
      };
      const session = begun(await beginReplacing(db, turn));
      forget(world, found.undone.start);
      expect(begun(await beginReplacing(db, turn)).view).toEqual(session.view);
      return goOn(world, session, step.midway, step.share);
    }
    case "void": {
      const made = await database.sql(
        "select generation::int from compactions where session_id = $1 and voided_at is null order by 1",
        [fixture.sessionId],
      );
      const picked = made[step.pick % Math.max(made.length, 1)];
      if (picked === undefined) return;
      const outcome = await voidCompaction(
        db,
        tenantId,
        { id: fixture.sessionId },
        Number(picked.generation),
        newId("cmp"),
      );
      return expect(outcome.kind).toBe("voided");
    }
    default:
      return step satisfies never;
  }
};

/** What the model is told of, in the summary or in full, with what is hidden from it, is what nobody has undone: each row once. */
const check = async ({ fixture, tenantId, live, rows }: World): Promise<void> => {
  const session = await loadForReading(db, tenantId, { id: fixture.sessionId }, null);
  const summarised = told(session?.view?.generation?.summary);
  const kept = (session?.rows ?? []).map((row) => row.seq as number);
  const seen = new Set([...summarised, ...kept]);
  expect([...summarised, ...kept].length).toBe(seen.size);
  const hidden = live.filter((at) => !seen.has(at));
  const hides = session?.view?.hidden ?? [];
  expect(hidden.filter((at) => !inRanges(hides, at))).toEqual([]);
  expect([...seen, ...hidden].sort((a, b) => a - b)).toEqual(live);
  expect(hides.flatMap(({ from, to }) => [from, to]).filter((at) => !live.includes(at))).toEqual([]);
  const pinned = session?.view?.generation?.pinned;
  if (pinned != null) expect(live).toContain(pinned.seq);
  const [count] = await database.sql("select count(*)::int as n from messages where session_id = $1", [
    fixture.sessionId,
  ]);
  expect(count?.n).toBe(rows);
};

describe("random histories", () => {
  it("show exactly what was not undone after every step, across compactions, and never anything undone again (R3, R4, V3, M6)", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(op, { minLength: 12, maxLength: 24, size: "max" }), async (steps) => {
        const world = await newWorld();
        for (const step of steps) {
          await run(world, step);
          await check(world);
        }
      }),
      { numRuns: 20 },
    );
  }, 240_000);

  it("rewinding three turns leaves the same turns with compactions as without (R3)", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(share, { minLength: 3, maxLength: 8 }), async (shares) => {
        const [plain, compacted] = [await newWorld(), await newWorld()];
        for (const part of shares) {
          await run(plain, { op: "turn", midway: "nothing", share: 0 });
          await run(compacted, { op: "turn", midway: "compact", share: part });
        }
        for (const world of [plain, compacted]) {
          await run(world, { op: "rewind", turns: 3 });
          await check(world);
        }
        expect(compacted.live).toEqual(plain.live);
      }),
      { numRuns: 6 },
    );
  }, 240_000);
});

describe("what begins a turn (R2)", () => {
  const space = fc.constantFrom(
    "",
    " ",
    "\t\n\v\f\r",
    "\u00a0\u1680\u2003\u2028\u202f\u205f\u3000\ufeff",
    "\u200b",
    "\u180e",
    "\u0085",
  );
  const words = fc.oneof(
    space,
    fc.constantFrom("hi", "\u0000", "\\u0000", "\\", '"', "🐙"),
    fc.string({ unit: "binary", maxLength: 4 }).map((text) => text.toWellFormed()),
  );
  const block = fc.oneof(
    fc.array(words, { maxLength: 4 }).map((parts) => ({ type: "text", text: parts.join("") })),
    fc.record({ type: fc.constant("tool_result"), tool_use_id: fc.constant("toolu_1"), content: words }),
    fc.constant({ type: "image", source: { type: "url", url: "https://example.com/a.png" } }),
  );

  it("is the same to PostgreSQL as to the Worker, for every content", async () => {
    const cases = fc.sample(
      fc.record({
        origin: fc.constantFrom(
          "user" as const,
          "event" as const,
          "tool" as const,
          "assistant" as const,
          "injected" as const,
        ),
        content: fc.array(block, { minLength: 1, maxLength: 3 }),
      }),
      1_500,
    );
    const contents = cases.map(({ content }) => JSON.stringify(content));
    const answers = await database.sql(
      "select hango_user_originated(c.origin, c.content::json) as asked from unnest($1::text[], string_to_array($2, chr(10))) with ordinality c (origin, content, n) order by n",
      [`{${cases.map(({ origin }) => origin).join(",")}}`, contents.join("\n")],
    );
    const wanted = cases.map(({ origin }, at) =>
      isUserOriginated({ ...textRow(origin, "", null), seq: seq(1), content: contents[at] ?? "" }),
    );
    expect(answers.map(({ asked }) => asked)).toEqual(wanted);
    expect(new Set(wanted)).toEqual(new Set([true, false]));
  });
});
