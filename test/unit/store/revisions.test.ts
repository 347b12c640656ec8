import { describe, expect, it } from "vitest";
import { newId, seq } from "../../../src/protocol/ids.ts";
import { beginTurn } from "../../../src/store/begin.ts";
import { requestCompaction, voidCompaction } from "../../../src/store/compactions.ts";
import { eraseSession } from "../../../src/store/erasures.ts";
import { LeaseLost } from "../../../src/store/errors.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import type { LoadedSession } from "../../../src/store/loaded-session.ts";
import { finishMaintenance } from "../../../src/store/maintenance.ts";
import { takeMaintenanceLease } from "../../../src/store/maintenance-lease.ts";
import { pageOf } from "../../../src/store/pages.ts";
import { findCompaction, listCompactions } from "../../../src/store/receipts.ts";
import { commitRevision, recordSummaryFailure } from "../../../src/store/revisions.ts";
import { storeAssistant, storeResults } from "../../../src/store/steps.ts";
import { database, db, fixture, useOwnStore } from "../../support/own-store.ts";
import {
  change,
  compaction,
  EMPTY,
  finishOf,
  generation,
  guardRecord,
  makeSession,
  NO_TOTALS,
  recordOf,
  start,
  takeOver,
  textRow,
  turnOf,
} from "../../support/store.ts";

useOwnStore();

const head = async () =>
  (
    await database.sql(
      `select revision::int, calibration, cooldown_reason, cooldown_until > hango_now() as cooling, strikes, summary_timeouts, force_compaction,
        thinking_floor::int, next_event::int, lease_holder from session_heads where session_id = $1`,
      [fixture.sessionId],
    )
  )[0];
const counted = async (table: string) =>
  (await database.sql(`select count(*)::int as n from ${table} where session_id = $1`, [fixture.sessionId]))[0]?.n;
const logSum = () =>
  database.sql(
    "select count(*)::int as n, md5(string_agg(m::text, ',' order by seq)) as sum from messages m where session_id = $1",
    [fixture.sessionId],
  );
const finish = (session: LoadedSession) => storeFinish(db, session, finishOf(session));

/** A session of turns of two rows each. */
const turns = async (count: number) => {
  for (let turn = 0; turn < count; turn++) await finish(await start(db, fixture));
};

describe("a committed revision (M1, M2, M3)", () => {
  it("becomes the view of the next begin, whole, and leaves the log as it was (M6)", async () => {
    await turns(2);
    const session = await start(db, fixture);
    const before = await logSum();
    const view = {
      revision: 1,
      generation: generation(1, {
        covered: [
          { from: seq(1), to: seq(2) },
          { from: seq(4), to: seq(4) },
        ],
        sections: '{"b":1,"a":"\\u0000"}',
        pinned: { seq: seq(1), text: "the ask\n`$&`" },
      }),
      clippedBefore: seq(3),
      clipTokens: 400,
      thinkingFloor: seq(6),
      demoted: ["toolu_1", 'toolu_"2"'],
      skills: '[{"callId":"toolu_3","name":"refunds","seq":4,"shown":"marker"}]',
      hidden: [{ from: seq(3), to: seq(3) }],
      volatileHash: "vol",
    };
    expect(await commitRevision(db, session, change(session, { view, compaction: compaction() }))).toBe(true);
    expect(await logSum()).toEqual(before);
    await finish(session);
    const next = await start(db, fixture);
    expect(next).toMatchObject({ view, nextGeneration: 2, thinkingFloor: 6 });
    expect(next.rows.map((row) => row.seq)).toEqual([5, 6, 7]);
  });

  it("changes nothing when the lease was lost (M2)", async () => {
    const late = await start(db, fixture);
    await recordSummaryFailure(db, late, { reason: "timeout", cooldownSeconds: 900, record: recordOf(late) });
    await database.advanceClock(200);
    await takeOver(db, late);
    const before = await head();
    const usage = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 };
    const record = {
      ...recordOf(late, [
        {
          n: late.nextEvent,
          type: "context.compacted",
          data: "{}",
          messageSeq: null,
          createdAt: "2026-01-01T00:00:01.000Z",
        },
      ]),
      usage: [{ id: newId("usg"), purpose: "summarize" as const, model: "m", usage, costUsd: 1 }],
      guards: guardRecord({ strikes: 1 }),
      calibration: { factor: 2 },
    };
    const committed = change(late, { compaction: compaction(), record });
    expect(await commitRevision(db, late, committed)).toBe(false);
    await expect(recordSummaryFailure(db, late, { reason: "empty", cooldownSeconds: 30, record })).rejects.toThrow(
      LeaseLost,
    );
    expect(await head()).toEqual(before);
    expect(await counted("compactions")).toBe(0);
    expect(await counted("view_revisions")).toBe(0);
    expect(await counted("usage_records")).toBe(0);
  });

  it("changes nothing when the view is no longer what it was made from (M2)", async () => {
    const session = await start(db, fixture);
    expect(await commitRevision(db, session, change(session, { compaction: compaction() }))).toBe(true);
    const before = await head();
    const stale = change(session, { attemptId: "other", compaction: compaction() });
    expect(await commitRevision(db, session, stale)).toBe(false);
    const wrongGeneration = change(session, {
      attemptId: "third",
      base: { revision: 1, generation: 0 },
      view: { ...EMPTY, revision: 2 },
    });
    expect(await commitRevision(db, session, wrongGeneration)).toBe(false);
    expect(await head()).toEqual(before);
    expect(await counted("compactions")).toBe(1);
    expect(await counted("view_revisions")).toBe(1);
  });

  it("is stored once when its answer is lost (M3)", async () => {
    const session = await start(db, fixture);
    const usage = { inputTokens: 7, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 };
    const record = {
      ...recordOf(session, [
        {
          n: session.nextEvent,
          type: "context.compacted",
          data: "{}",
          messageSeq: null,
          createdAt: "2026-01-01T00:00:01.000Z",
        },
      ]),
      usage: [{ id: newId("usg"), purpose: "summarize" as const, model: "m", usage, costUsd: 1 }],
    };
    database.dropNextAnswer();
    expect(await commitRevision(db, session, change(session, { compaction: compaction(), record }))).toBe(true);
    expect(db.roundTrips.counted).toBe(3);
    expect(await head()).toMatchObject({ revision: 1, next_event: session.nextEvent + 1 });
    expect([await counted("compactions"), await counted("view_revisions"), await counted("usage_records")]).toEqual([
      1, 1, 1,
    ]);
    expect(await counted("run_events")).toBe(2);
    // A run that dies now is gone on with from here.
    const [run] = await database.sql(
      "select input_tokens::int, output_tokens::int, cost_usd::float from runs where id = $1",
      [session.lease.holder],
    );
    expect(run).toEqual({ input_tokens: usage.inputTokens, output_tokens: usage.outputTokens, cost_usd: 1 });
  });

  it("clears a cooldown only with its reason, and keeps guards and calibration (G1, G6, E4)", async () => {
    const session = await start(db, fixture);
    await recordSummaryFailure(db, session, {
      reason: "timeout",
      cooldownSeconds: 60,
      record: { ...recordOf(session), guards: guardRecord({ cooldownReason: "timeout", summaryTimeouts: 1 }) },
    });
    const kept = change(session, { record: { ...recordOf(session), calibration: { factor: 1.2 } } });
    expect(await commitRevision(db, session, kept)).toBe(true);
    expect(await head()).toMatchObject({
      cooling: true,
      cooldown_reason: "timeout",
      summary_timeouts: 1,
      calibration: { factor: 1.2 },
    });
    const cleared = change(session, {
      attemptId: "second",
      base: { revision: 1, generation: 0 },
      view: { ...EMPTY, revision: 2 },
      record: { ...recordOf(session), calibration: null, guards: guardRecord() },
    });
    expect(await commitRevision(db, session, cleared)).toBe(true);
    expect(await head()).toMatchObject({
      cooling: null,
      cooldown_reason: null,
      summary_timeouts: 0,
      calibration: null,
    });
  });

  it("refuses the number of a generation that exists, loudly: it would be another's history", async () => {
    const session = await start(db, fixture);
    await commitRevision(db, session, change(session, { compaction: compaction() }));
    const again = change(session, {
      attemptId: "second",
      base: { revision: 1, generation: 1 },
      view: { ...EMPTY, revision: 2, generation: generation(1, { covered: [{ from: seq(1), to: seq(9) }] }) },
      compaction: compaction(),
    });
    await expect(commitRevision(db, session, again)).rejects.toThrow();
    expect(await head()).toMatchObject({ revision: 1 });
  });
});

describe("what a failed summary leaves behind (G1)", () => {
  it("is a cooldown by the database's clock, told at the next begin until it is over", async () => {
    const session = await start(db, fixture);
    const guards = guardRecord({ cooldownReason: "timeout", summaryTimeouts: 1 });
    const record = { ...recordOf(session), guards, forceTaken: true as const };
    await recordSummaryFailure(db, session, { reason: "timeout", cooldownSeconds: 60, record });
    await finish(session);
    const soon = await start(db, fixture);
    expect(soon.guards).toMatchObject({
      cooldownActive: true,
      cooldownReason: "timeout",
      cooldownUntil: expect.stringMatching(/^\d{4}-/),
      summaryTimeouts: 1,
    });
    await finish(soon);
    await database.advanceClock(61);
    expect((await start(db, fixture)).guards).toMatchObject({ cooldownActive: false, cooldownReason: "timeout" });
  });
});

describe("a reading (G3, E4)", () => {
  it("rides on the answer that it is of, and the first for a generation stays", async () => {
    const session = await start(db, fixture);
    await commitRevision(db, session, change(session, { compaction: compaction() }));
    const trips = db.roundTrips.counted;
    const reading = (tokens: number) => ({
      ...recordOf(session),
      calibration: { tokens },
      guards: guardRecord({ strikes: 1 }),
      reading: { generation: 1, tokens },
    });
    const row = textRow("assistant", "calling", session.lease.holder, ["toolu_1"]);
    await storeAssistant(db, session, { row, seq: seq(2) }, NO_TOTALS, reading(900));
    const results = { row: textRow("tool", "result", session.lease.holder), seq: seq(3) };
    await storeResults(db, session, results, seq(4), recordOf(session));
    const message = { row: textRow("assistant", "done", session.lease.holder), seq: seq(4) };
    await storeFinish(db, session, finishOf(session, { message, base: seq(5), record: reading(950) }));
    expect(db.roundTrips.counted - trips).toBe(3);
    expect(
      await database.sql("select tokens_read from compactions where session_id = $1", [fixture.sessionId]),
    ).toEqual([{ tokens_read: 900 }]);
    expect(await head()).toMatchObject({ calibration: { tokens: 950 }, strikes: 1 });
    expect(await database.sql("select compactions from sessions where id = $1", [fixture.sessionId])).toEqual([
      { compactions: 1 },
    ]);
  });
});

describe("a compaction that is asked for (G9)", () => {
  it("reaches the run under way with its next results, or the next begin, until it was tried", async () => {
    expect(await requestCompaction(db, await tenant(), { id: fixture.sessionId }, "x")).toBe(false);
    const session = await start(db, fixture);
    expect(session.forceCompaction).toBe(null);
    expect(await requestCompaction(db, await tenant(), { id: fixture.sessionId }, "the money")).toBe(true);
    const row = textRow("assistant", "calling", session.lease.holder, ["toolu_1"]);
    await storeAssistant(db, session, { row, seq: seq(2) }, NO_TOTALS, recordOf(session));
    const results = { row: textRow("tool", "result", session.lease.holder), seq: seq(3) };
    expect(await storeResults(db, session, results, seq(4), recordOf(session))).toMatchObject({
      forceCompaction: "the money",
    });
    await storeFinish(
      db,
      session,
      finishOf(session, {
        message: { row: textRow("assistant", "done", session.lease.holder), seq: seq(4) },
        base: seq(5),
      }),
    );
    const next = await start(db, fixture);
    expect(next.forceCompaction).toBe("the money");
    await commitRevision(db, next, change(next, { record: { ...recordOf(next), forceTaken: true } }));
    expect(await head()).toMatchObject({ force_compaction: null });
  });
});

const tenant = async () => {
  const [row] = await database.sql("select tenant_id from sessions where id = $1", [fixture.sessionId]);
  return String(row?.tenant_id) as LoadedSession["tenantId"];
};

/** Three generations, each of its own turn, each made from the one before. */
const threeGenerations = async () => {
  await turns(1);
  for (const number of [1, 2, 3]) {
    const session = await start(db, fixture);
    const covered = [{ from: seq(1), to: seq(2 * number) }];
    const view = { ...EMPTY, revision: number, generation: generation(number, { covered }) };
    const base = { revision: number - 1, generation: number - 1 };
    expect(
      await commitRevision(
        db,
        session,
        change(session, { attemptId: newId("msg"), base, view, compaction: compaction() }),
      ),
    ).toBe(true);
    await finish(session);
  }
};

describe("un-compact (R4)", () => {
  it("voids a generation and those based on it, and the view falls back to its base", async () => {
    await threeGenerations();
    const before = await logSum();
    const trips = db.roundTrips.counted;
    expect(await voidCompaction(db, await tenant(), { id: fixture.sessionId }, 2, newId("msg"))).toEqual({
      kind: "voided",
      generations: [2, 3],
      revision: 4,
    });
    expect(db.roundTrips.counted - trips).toBe(1);
    const records = await listCompactions(
      db,
      await tenant(),
      { id: fixture.sessionId },
      pageOf({ limit: 10, order: "asc", cursor: null }),
    );
    expect(records.map((record) => [record.generation, record.voidedAt !== null])).toEqual([
      [1, false],
      [2, true],
      [3, true],
    ]);
    const session = await start(db, fixture);
    expect(session).toMatchObject({
      view: { revision: 4, generation: { number: 1 } },
      nextGeneration: 4,
      thinkingFloor: 9,
    });
    expect(session.rows.map((row) => row.seq)).toEqual([3, 4, 5, 6, 7, 8, 9]);
    expect((await logSum())[0]?.n).toBe(Number(before[0]?.n) + 1);
  });

  it("goes on with a number that was never used", async () => {
    await threeGenerations();
    await voidCompaction(db, await tenant(), { id: fixture.sessionId }, 3, newId("msg"));
    const session = await start(db, fixture);
    const view = { ...EMPTY, revision: 5, generation: generation(session.nextGeneration, { base: 2 }) };
    const base = { revision: 4, generation: 2 };
    expect(await commitRevision(db, session, change(session, { base, view, compaction: compaction() }))).toBe(true);
    await finish(session);
    expect((await start(db, fixture)).view?.generation).toMatchObject({ number: 4, base: 2 });
  });

  it("of the first leaves none, and of one not shown leaves the view alone", async () => {
    await threeGenerations();
    await voidCompaction(db, await tenant(), { id: fixture.sessionId }, 3, newId("msg"));
    expect(await voidCompaction(db, await tenant(), { id: fixture.sessionId }, 3, newId("msg"))).toEqual({
      kind: "voided",
      generations: [3],
      revision: 4,
    });
    expect(await voidCompaction(db, await tenant(), { id: fixture.sessionId }, 1, newId("msg"))).toEqual({
      kind: "voided",
      generations: [1, 2, 3],
      revision: 5,
    });
    const session = await start(db, fixture);
    expect(session.view?.generation).toBe(null);
    expect(session.rows).toHaveLength(9);
  });

  it("is done once when its answer is lost (M3), and not at all during a run or for another tenant", async () => {
    await threeGenerations();
    const session = await start(db, fixture);
    expect(await voidCompaction(db, await tenant(), { id: fixture.sessionId }, 3, newId("msg"))).toMatchObject({
      kind: "busy",
      runId: session.lease.holder,
    });
    await finish(session);
    const other = await makeSession(database);
    const [row] = await database.sql("select tenant_id from sessions where id = $1", [other.sessionId]);
    expect(
      await voidCompaction(
        db,
        String(row?.tenant_id) as LoadedSession["tenantId"],
        { id: fixture.sessionId },
        3,
        newId("msg"),
      ),
    ).toEqual({ kind: "not_found" });
    expect(await voidCompaction(db, await tenant(), { id: fixture.sessionId }, 4, newId("msg"))).toEqual({
      kind: "not_found",
    });
    expect(await counted("view_revisions")).toBe(3);
    database.dropNextAnswer();
    expect(await voidCompaction(db, await tenant(), { id: fixture.sessionId }, 3, newId("msg"))).toEqual({
      kind: "voided",
      generations: [3],
      revision: 4,
    });
    expect(await counted("view_revisions")).toBe(4);
  });
});

describe("receipts", () => {
  it("say everything that was recorded", async () => {
    const session = await start(db, fixture);
    await commitRevision(db, session, change(session, { attemptId: "att", compaction: compaction() }));
    expect(await findCompaction(db, session.tenantId, { id: fixture.sessionId }, 1)).toEqual({
      ...compaction(),
      sessionId: fixture.sessionId,
      attemptId: "att",
      runId: session.lease.holder,
      generation: 1,
      base: 0,
      covered: [{ from: 1, to: 2 }],
      added: [{ from: 1, to: 2 }],
      dropped: { messages: { user: 1, event: 0, assistant: 0, tool: 0, injected: 0 }, toolCalls: 0, media: 0 },
      pinnedSeq: null,
      historyPath: "/conversation_history/s.md",
      prefixVersion: 1,
      tokensRead: null,
      createdAt: expect.any(String),
      voidedAt: null,
    });
    expect(await findCompaction(db, session.tenantId, { id: fixture.sessionId }, 2)).toBe(undefined);
  });

  it.each([
    ["compactions", "update compactions set summary = '' where session_id = $1"],
    ["compactions", "update compactions set sections = '[]' where session_id = $1"],
    ["compactions", "update compactions set tokens_read = 6 where session_id = $1"],
    ["compactions", "update compactions set voided_at = null where session_id = $1"],
    ["compactions", "delete from compactions where session_id = $1"],
    ["view_revisions", "update view_revisions set reason = '' where session_id = $1"],
    ["view_revisions", "delete from view_revisions where session_id = $1"],
  ])("of %s are refused: %s", async (table, statement) => {
    const session = await start(db, fixture);
    await commitRevision(db, session, change(session, { compaction: compaction() }));
    await database.sql("update compactions set tokens_read = 5, voided_at = hango_now() where session_id = $1", [
      fixture.sessionId,
    ]);
    await expect(database.sql(statement, [fixture.sessionId])).rejects.toThrow(`${table} is append-only`);
    await expect(database.sql(`truncate ${table}`)).rejects.toThrow(`${table} is append-only`);
  });
});

it("generations and revisions go with their session when it is erased", async () => {
  await threeGenerations();
  expect(await eraseSession(db, await tenant(), { id: fixture.sessionId })).toMatchObject({
    sessionId: fixture.sessionId,
  });
  expect([await counted("compactions"), await counted("view_revisions"), await counted("messages")]).toEqual([0, 0, 0]);
});

describe("work between turns", () => {
  const maintain = async () =>
    takeMaintenanceLease(db, {
      tenantId: await tenant(),
      keyId: null,
      session: { id: fixture.sessionId },
      runId: newId("run"),
      startedAt: "2026-01-01T00:00:00.000Z",
      limits: null,
    });

  it("takes the lease like a turn, appends nothing, and gives it back with its counters", async () => {
    await turns(1);
    const before = await logSum();
    const outcome = await maintain();
    if (outcome.kind !== "started") throw new Error(outcome.kind);
    const { session } = outcome;
    expect(session).toMatchObject({ inputSeq: null, keyId: null, nextSeq: 3 });
    expect(session.rows.map((row) => row.seq)).toEqual([1, 2]);
    expect((await beginTurn(db, turnOf(fixture))).kind).toBe("busy");
    expect((await maintain()).kind).toBe("busy");
    expect(await commitRevision(db, session, change(session, { compaction: compaction() }))).toBe(true);
    await database.sql(
      "insert into inputs (id, session_id, origin, content, tokens, bytes) values ($1, $2, 'user', '[]', 1, 2)",
      [newId("inp"), session.sessionId],
    );
    database.dropNextAnswer();
    const end = await finishMaintenance(db, session, {
      error: null,
      isCancelled: false,
      base: seq(session.nextSeq),
      totals: NO_TOTALS,
      compactions: 1,
      dbRoundTrips: 3,
      overheadMs: 1,
      record: recordOf(session),
    });
    expect(end.moved).toBe(1);
    expect(
      await database.sql("select compactions, turns, input_tokens::int from sessions where id = $1", [
        fixture.sessionId,
      ]),
    ).toEqual([{ compactions: 1, turns: 1, input_tokens: 20 }]);
    expect(await database.sql("select status, trigger from runs where id = $1", [session.lease.holder])).toEqual([
      { status: "completed", trigger: "maintenance" },
    ]);
    expect((await logSum())[0]?.n).toBe(Number(before[0]?.n) + 1);
    const next = await start(db, fixture);
    expect(next.view?.generation?.number).toBe(1);
    expect(next.rows.map((row) => row.seq)).toEqual([3, 4]);
  });

  it("ends late with nothing, and finds no session of another tenant", async () => {
    const outcome = await maintain();
    if (outcome.kind !== "started") throw new Error(outcome.kind);
    await database.advanceClock(200);
    const owner = await start(db, fixture);
    const { session } = outcome;
    const end = {
      error: null,
      isCancelled: false,
      base: seq(session.nextSeq),
      totals: NO_TOTALS,
      compactions: 1,
      dbRoundTrips: 3,
      overheadMs: 1,
      record: recordOf(session),
    };
    await expect(finishMaintenance(db, session, end)).rejects.toThrow(LeaseLost);
    expect((await head())?.lease_holder).toBe(owner.lease.holder);
    const other = await makeSession(database);
    const [row] = await database.sql("select tenant_id from sessions where id = $1", [other.sessionId]);
    const stranger = String(row?.tenant_id) as LoadedSession["tenantId"];
    expect(
      await takeMaintenanceLease(db, {
        tenantId: stranger,
        keyId: null,
        session: { id: fixture.sessionId },
        runId: newId("run"),
        startedAt: "2026-01-01T00:00:00.000Z",
        limits: null,
      }),
    ).toEqual({ kind: "session_not_found" });
  });
});
