import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newId, seq } from "../../../src/protocol/ids.ts";
import type { Db } from "../../../src/store/db.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import type { LoadedSession } from "../../../src/store/loaded-session.ts";
import type { LoadLimits } from "../../../src/store/loading.ts";
import { formatRanges, parseRanges } from "../../../src/store/ranges.ts";
import { commitRevision } from "../../../src/store/revisions.ts";
import { storeAssistant } from "../../../src/store/steps.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";
import {
  change,
  compaction,
  connectTo,
  EMPTY,
  type Fixture,
  finishOf,
  generation,
  makeSession,
  NO_TOTALS,
  recordOf,
  start,
  takeOver,
  textRow,
} from "../../support/store.ts";

let database: TestDatabase;
let db: Db;

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
  db = connectTo(database);
});
afterAll(() => database.close());

/** A log of so many rows of 100 tokens and 1,000 bytes: user, assistant with a call, results, assistant, and again. */
const fill = async (fixture: Fixture, rows: number): Promise<void> => {
  await database.sql(
    `insert into messages (session_id, seq, id, role, origin, content, calls, tokens, bytes)
     select $1, n, 'row_' || $1 || n, case when n % 2 = 1 then 'user' else 'assistant' end,
       (array['assistant', 'user', 'assistant', 'tool'])[n % 4 + 1], to_json(array[json_build_object('type', 'text', 'text', repeat('x', 960))]),
       case when n % 4 = 2 then array['toolu_' || n] else '{}' end, 100, 1000
     from generate_series(1, $2::int) n`,
    [fixture.sessionId, rows],
  );
  await database.sql("update session_heads set next_seq = $2::bigint + 1 where session_id = $1", [
    fixture.sessionId,
    rows,
  ]);
};

const made = async (rows: number): Promise<Fixture> => {
  const fixture = await makeSession(database);
  await fill(fixture, rows);
  return fixture;
};

/** Loads one and a half times the window, in tokens. */
const limits = (windowTokens: number, changes: Partial<LoadLimits> = {}): LoadLimits => ({
  configured: {},
  builtIn: {},
  otherwise: windowTokens,
  maxBytes: 1_000_000_000,
  ...changes,
});

const seqs = (session: LoadedSession) => session.rows.map((row) => Number(row.seq));
const range = (from: number, to: number) => ({ from: seq(from), to: seq(to) });

describe("what a turn reads (V7)", () => {
  it("is the newest rows within the budget of tokens, and it tells what stayed out", async () => {
    const fixture = await made(40);
    // 1.5 windows of 1,000 tokens: the input and 14 rows; the oldest of them holds results, whose call would stay out.
    const session = await start(db, fixture, { limits: limits(1_000) });
    expect(seqs(session)).toEqual([28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41]);
    expect(session.unloaded).toEqual([range(1, 27)]);
  });

  it("is bounded by bytes as well", async () => {
    const fixture = await made(40);
    const session = await start(db, fixture, { limits: limits(1_000_000, { maxBytes: 8_500 }) });
    expect(seqs(session)).toEqual([33, 34, 35, 36, 37, 38, 39, 40, 41]);
    expect(session.unloaded).toEqual([range(1, 32)]);
  });

  it("is everything that fits, and everything where no limit is given", async () => {
    const fixture = await made(8);
    const small = await start(db, fixture, { limits: limits(1_000) });
    expect([seqs(small), small.unloaded]).toEqual([[1, 2, 3, 4, 5, 6, 7, 8, 9], []]);
    const long = await made(2_000);
    const all = await start(db, long);
    expect([all.rows.length, all.unloaded]).toEqual([2_001, []]);
  });

  it("never begins with results whose calls stay out (C7)", async () => {
    for (let windowTokens = 200; windowTokens <= 700; windowTokens += 50) {
      const session = await start(db, await made(16), { limits: limits(windowTokens) });
      expect(session.rows[0]?.origin).not.toBe("tool");
      expect(session.rows.at(-1)?.seq).toBe(session.inputSeq);
      expect(session.unloaded).toEqual([range(1, Number(session.rows[0]?.seq) - 1)]);
    }
  });

  it("holds the input and a dead run's open batch whatever they cost (M7)", async () => {
    const fixture = await made(8);
    const dead = await start(db, fixture);
    const row = textRow("assistant", "calling", dead.lease.holder, ["toolu_dead"]);
    await storeAssistant(db, dead, { row, seq: seq(10) }, NO_TOTALS, recordOf(dead));
    await database.advanceClock(200);
    const session = await takeOver(db, dead, { limits: limits(1, { maxBytes: 1 }) });
    expect(session).toMatchObject({ openBatchSeq: 10, inputSeq: 9 });
    expect(seqs(session)).toEqual([9, 10]);
    expect(session.unloaded).toEqual([range(1, 8)]);
  });

  it("leaves out what is covered, hidden or rewound, reads the holes, and counts only what it reads (V3)", async () => {
    const fixture = await made(40);
    const session = await start(db, fixture);
    const view = {
      ...EMPTY,
      revision: 1,
      generation: generation(1, { covered: [range(1, 4), range(6, 9), range(11, 20)] }),
      hidden: [range(22, 25)],
    };
    await commitRevision(db, session, change(session, { view, compaction: compaction() }));
    await storeFinish(db, session, finishOf(session));
    await database.sql("update session_heads set rewound = '{[31,36)}' where session_id = $1", [fixture.sessionId]);
    const next = await start(db, fixture, { limits: limits(100_000) });
    expect(seqs(next)).toEqual([5, 10, 21, 26, 27, 28, 29, 30, 36, 37, 38, 39, 40, 41, 42, 43]);
    expect(next.unloaded).toEqual([]);
    await storeFinish(db, next, finishOf(next));
    // Five rows of few tokens, then eleven of 100.
    const tight = await start(db, fixture, { limits: limits(800) });
    expect(seqs(tight)).toEqual([21, 26, 27, 28, 29, 30, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45]);
    expect(tight.unloaded).toEqual([range(5, 5), range(10, 10)]);
  });

  it.each([
    ["the session's own", { max_input_tokens: 100 }, { configured: { "claude-sonnet-5-5": 200 } }, 400, 100],
    ["the configuration's", {}, { configured: { "claude-sonnet-5-5": 200 } }, 400, 200],
    ["the provider's", {}, {}, 400, 400],
    ["the built-in", {}, { builtIn: { "claude-sonnet-5-5": 600 } }, null, 600],
    ["the default", {}, { builtIn: { "claude-sonnet": 600 } }, null, 800],
  ])("goes by %s window (E7)", async (_name, context, changes, fetched, expected) => {
    const fixture = await made(40);
    await database.sql("update sessions set settings = jsonb_build_object('context', $2::jsonb) where id = $1", [
      fixture.sessionId,
      JSON.stringify(context),
    ]);
    await database.sql("delete from model_profiles");
    if (fetched !== null) {
      await database.sql(
        "insert into model_profiles (model, max_input_tokens, max_output_tokens) values ('claude-sonnet-5-5', $1, 5)",
        [fetched],
      );
    }
    const session = await start(db, fixture, { limits: limits(800, changes) });
    expect(session.modelLimits).toEqual(fetched === null ? null : { maxInputTokens: fetched, maxOutputTokens: 5 });
    const loaded = session.rows.reduce((sum, row) => sum + row.tokens, 0);
    expect(loaded).toBeLessThanOrEqual(1.5 * expected);
    expect(loaded).toBeGreaterThan(Math.max(1.5 * expected - 220, 0));
  });

  it("finds a dated model's window by its name without the date", async () => {
    const fixture = await made(40);
    await database.sql("delete from model_profiles");
    await database.sql("update sessions set model = 'claude-haiku-4-5-20251001' where id = $1", [fixture.sessionId]);
    const session = await start(db, fixture, { limits: limits(100, { builtIn: { "claude-haiku-4-5": 1_000 } }) });
    expect(session.rows).toHaveLength(14);
  });
});

interface Plan {
  readonly "Shared Hit Blocks": number;
  readonly "Shared Read Blocks": number;
}

/** Blocks of 8 KB that a statement touches, in its functions too. */
const blocksOf = async (statement: string, params: readonly (string | number)[]): Promise<number> => {
  let blocks = 0;
  // The first run of a connection reads the catalogue as well.
  for (let run = 0; run < 3; run++) {
    const [row] = await database.sql(`explain (analyze, buffers, format json) ${statement}`, params);
    const [explained] = (row?.["QUERY PLAN"] ?? []) as { readonly Plan: Plan }[];
    if (explained === undefined) throw new Error("no plan");
    blocks = explained.Plan["Shared Hit Blocks"] + explained.Plan["Shared Read Blocks"];
  }
  return blocks;
};

describe("the cost of reading", () => {
  it("is the same for a log of 1,000 and of 100,000 messages: rows, bytes and blocks, also where most of it is covered or hidden", async () => {
    const measure = async (length: number, view: "none" | "covered" | "hidden") => {
      const fixture = await made(length);
      const old = [range(1, length - 100)];
      if (view !== "none") {
        const session = await start(db, fixture, { limits: limits(1) });
        const changed =
          view === "covered"
            ? { view: { ...EMPTY, revision: 1, generation: generation(1, { covered: old }) }, compaction: compaction() }
            : { view: { ...EMPTY, revision: 1, hidden: old } };
        await commitRevision(db, session, change(session, { ...changed, attemptId: newId("msg") }));
        await storeFinish(db, session, finishOf(session));
      }
      const next = await database.sql("select next_seq::int as next from session_heads where session_id = $1", [
        fixture.sessionId,
      ]);
      const end = Number(next[0]?.next);
      const seqs = `{[${view === "none" ? 1 : length - 99},${end})}`;
      const blocks = [
        await blocksOf("select hango_load_from($1, $2::int8multirange, $3, 30000, 1000000)", [
          fixture.sessionId,
          seqs,
          end,
        ]),
        await blocksOf("select * from hango_rows($1, $2::int8multirange)", [
          fixture.sessionId,
          `{[${length - 99},${end})}`,
        ]),
      ];
      const trips = database.requests();
      const session = await start(db, fixture, { limits: limits(20_000, { maxBytes: 8_000_000 }) });
      return {
        rows: session.rows.length,
        bytes: JSON.stringify(session.rows.map((row) => row.content)).length,
        unloaded: session.unloaded.map((each) => Number(each.to) - length),
        trips: database.requests() - trips,
        blocks,
      };
    };
    for (const view of ["none", "covered", "hidden"] as const) {
      const [short, long] = [await measure(1_000, view), await measure(100_000, view)];
      expect({ ...long, blocks: 0 }).toEqual({ ...short, blocks: 0 });
      expect(short.trips).toBe(1);
      // The index of the longer log is a level deeper.
      const [find = 0, read = 0] = short.blocks;
      expect(long.blocks[0]).toBeLessThanOrEqual(find * 1.1 + 4);
      expect(long.blocks[1]).toBeLessThanOrEqual(read * 1.1 + 4);
    }
  }, 120_000);
});

describe("ranges", () => {
  it("are written inclusive and read as PostgreSQL writes them", async () => {
    const ranges = [range(1, 4), range(6, 6), range(9, 12)];
    const [row] = await database.sql("select $1::int8multirange::text as ranges", [formatRanges(ranges)]);
    expect(row).toEqual({ ranges: "{[1,5),[6,7),[9,13)}" });
    expect(parseRanges(String(row?.ranges))).toEqual(ranges);
    expect([formatRanges([]), parseRanges("{}")]).toEqual(["{}", []]);
  });
});
