/** The guards as columns, and the single statements that decide over them, against a real PostgreSQL. */
import { describe, expect, it } from "vitest";
import { MIGRATIONS_DIR, migrate, readMigrations } from "../../../src/local/migrate.ts";
import { newId } from "../../../src/protocol/ids.ts";
import { LeaseLost } from "../../../src/store/errors.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import type { LoadedSession } from "../../../src/store/loaded-session.ts";
import { storeHandOver } from "../../../src/store/pause.ts";
import { armProbation, takeProbe } from "../../../src/store/probation.ts";
import { commitRevision, recordSummaryFailure } from "../../../src/store/revisions.ts";
import { testDatabase } from "../../support/database.ts";
import { database, db, fixture, useOwnStore } from "../../support/own-store.ts";
import {
  change,
  compaction,
  connectTo,
  finishOf,
  guardRecord,
  NO_TOTALS,
  recordOf,
  start,
  takeOver,
} from "../../support/store.ts";

const WINDOW_S = 300;

useOwnStore();

/** The whole head as text, but for the lease. */
const head = async () =>
  (
    await database.sql(
      `select (to_jsonb(h) - 'lease_holder' - 'lease_epoch' - 'lease_expires_at' - 'lease_token' - 'lease_taken_at')::text as head
       from session_heads h where session_id = $1`,
      [fixture.sessionId],
    )
  )[0]?.head;
const finish = (session: LoadedSession, guards = guardRecord()) =>
  storeFinish(db, session, finishOf(session, { record: { ...recordOf(session), guards } }));
const BLOCKED = guardRecord({ strikes: 2, onProbation: true });

/** A session whose probation is set. */
const armed = async (): Promise<LoadedSession> => {
  const session = await start(db, fixture);
  expect((await armProbation(db, session, WINDOW_S)).due).toBe(false);
  return session;
};

describe("the columns of the guards", () => {
  it("come back with the next begin as they were written, in its one round trip (G1, G3, G5, G7, G8, G10)", async () => {
    const guards = guardRecord({
      cooldownReason: "truncated",
      summaryTimeouts: 1,
      summaryTruncations: 2,
      strikes: 3,
      pause: "same_result",
      onProbation: true,
      skips: 4,
      generation: 5,
      reading: "over",
      result: { coveredHash: "hash", summaryTokens: 600 },
      settledSeq: 7,
      budget: { compactions: 1, attempts: 2 },
      learnedWith: { model: "a", provider: "b", summariser: "c" },
    });
    const session = await start(db, fixture);
    await recordSummaryFailure(db, session, {
      reason: "truncated",
      cooldownSeconds: 60,
      record: { ...recordOf(session), guards },
    });
    await armProbation(db, session, WINDOW_S);
    await finish(session, guards);
    const trips = db.roundTrips.counted;
    const { onProbation: _, budget, ...same } = guards;
    expect((await start(db, fixture)).guards).toEqual({
      ...same,
      budget: { runId: session.lease.holder, ...budget },
      cooldownActive: true,
      cooldownUntil: expect.any(String),
      probationAt: expect.any(String),
      probationDue: false,
    });
    expect(db.roundTrips.counted - trips).toBe(1);
  });

  it("hold what a turn has tried for whichever Worker goes on with it (M4)", async () => {
    const session = await start(db, fixture);
    const guards = guardRecord({ budget: { compactions: 1, attempts: 3 } });
    await storeHandOver(db, session, {
      totals: NO_TOTALS,
      spentMs: 1,
      overheadMs: 1,
      dbRoundTrips: 1,
      todos: [],
      record: { ...recordOf(session), guards },
    });
    const other = await takeOver(db, session);
    expect(other.guards.budget).toEqual({ runId: session.lease.holder, compactions: 1, attempts: 3 });
  });

  it("are left alone by a worker that has lost its session, whatever it writes (M2)", async () => {
    const late = await armed();
    await database.advanceClock(200);
    await takeOver(db, late);
    await database.advanceClock(200);
    const before = await head();
    const record = { ...recordOf(late), guards: guardRecord({ strikes: 9 }) };
    expect(await commitRevision(db, late, change(late, { compaction: compaction(), record }))).toBe(false);
    for (const write of [
      () => recordSummaryFailure(db, late, { reason: "empty", cooldownSeconds: 30, record }),
      () => armProbation(db, late, WINDOW_S),
      () => takeProbe(db, late, newId("cmp"), WINDOW_S),
      () => finish(late, guardRecord({ strikes: 9 })),
    ])
      await expect(write()).rejects.toThrow(LeaseLost);
    expect(await head()).toEqual(before);
  });
});

describe("probation (G4)", () => {
  it("is set once: a later evaluation, or another Worker after a restart, does not move it", async () => {
    const session = await start(db, fixture);
    const first = await armProbation(db, session, WINDOW_S);
    await finish(session, BLOCKED);
    await database.advanceClock(100);
    const next = await start(connectTo(database), fixture);
    expect(next.guards).toMatchObject({ probationAt: first.at, probationDue: false });
    expect(await armProbation(db, next, WINDOW_S)).toEqual(first);
  });

  it("gives no probe before it has passed, and one when it has: two Workers that ask at once do not both have it", async () => {
    const session = await armed();
    await finish(session, BLOCKED);
    await database.advanceClock(WINDOW_S - 5);
    const next = await start(db, fixture);
    expect((await takeProbe(db, next, newId("cmp"), WINDOW_S)).isGranted).toBe(false);
    await database.advanceClock(10);
    const workers = [connectTo(database), connectTo(database), connectTo(database), connectTo(database)];
    const answers = await Promise.all(workers.map((worker) => takeProbe(worker, next, newId("cmp"), WINDOW_S)));
    expect(answers.filter(({ isGranted }) => isGranted)).toHaveLength(1);
    expect(new Set(answers.map(({ probation }) => probation.at)).size).toBe(1);
  });

  it("is granted to whoever asked when the answer was lost, once", async () => {
    const session = await armed();
    await database.advanceClock(100);
    await finish(session, BLOCKED);
    await database.advanceClock(WINDOW_S);
    const next = await start(db, fixture);
    const attempt = newId("cmp");
    database.dropNextAnswer();
    const { isGranted, probation } = await takeProbe(db, next, attempt, WINDOW_S);
    expect([isGranted, probation.due]).toEqual([true, false]);
    expect((await takeProbe(db, next, newId("cmp"), WINDOW_S)).isGranted).toBe(false);
  });

  it("whose Worker dies before its attempt gives the next probe after one more window, not earlier and not never", async () => {
    const session = await armed();
    await finish(session, BLOCKED);
    await database.advanceClock(WINDOW_S);
    const doomed = await start(db, fixture);
    expect((await takeProbe(db, doomed, newId("cmp"), WINDOW_S)).isGranted).toBe(true);
    await database.advanceClock(200);
    const other = await takeOver(db, doomed);
    expect(other.guards.probationDue).toBe(false);
    expect((await takeProbe(db, other, newId("cmp"), WINDOW_S)).isGranted).toBe(false);
    await finish(other, BLOCKED);
    await database.advanceClock(100);
    const next = await start(db, fixture);
    expect(next.guards.probationDue).toBe(true);
    expect((await takeProbe(db, next, newId("cmp"), WINDOW_S)).isGranted).toBe(true);
  });

  it("ends with the strikes that it is of", async () => {
    const session = await armed();
    await finish(session);
    expect((await start(db, fixture)).guards).toMatchObject({ probationAt: null, strikes: 0 });
  });
});

describe("the migration to columns", () => {
  it("moves what the document held, and drops it", async () => {
    const empty = await testDatabase({ kind: "postgres", empty: true });
    try {
      const all = await readMigrations(MIGRATIONS_DIR);
      const at = all.findIndex(({ tag }) => tag.endsWith("_guards"));
      await empty.backend.session((session) => migrate(session, all.slice(0, at)));
      await empty.sql("insert into tenants (id, name) values ('t', 'test')");
      const state = {
        cooldown: { active: true, reason: "timeout", failures: { timeout: 2, truncated: 1 } },
        strikes: 1,
        generation: 4,
        awaitingReading: true,
        newestSeq: 40,
        compactionsThisTurn: 1,
      };
      for (const [id, guards, calibration] of [
        ["full", JSON.stringify(state), '{"model": "claude-opus-5", "factor": 1, "pairs": 0, "baseline": null}'],
        ["empty", "{}", null],
      ] as const) {
        await empty.sql(
          "insert into sessions (id, tenant_id, model, created_with) values ($1, 't', 'claude-opus-5', '')",
          [id],
        );
        await empty.sql("insert into session_heads (session_id, guard_state, calibration) values ($1, $2, $3)", [
          id,
          guards,
          calibration,
        ]);
      }
      await empty.backend.session((session) => migrate(session, all));
      expect(
        await empty.sql(
          `select session_id, summary_timeouts, summary_truncations, strikes, guarded_generation::int, guarded_reading, settled_seq::int,
             guards_model, guards_provider, probation_at, compaction_pause from session_heads order by session_id desc`,
        ),
      ).toEqual([
        {
          session_id: "full",
          summary_timeouts: 2,
          summary_truncations: 1,
          strikes: 1,
          guarded_generation: 4,
          guarded_reading: "awaiting",
          settled_seq: 40,
          guards_model: "claude-opus-5",
          guards_provider: "anthropic",
          probation_at: null,
          compaction_pause: null,
        },
        {
          session_id: "empty",
          summary_timeouts: 0,
          summary_truncations: 0,
          strikes: 0,
          guarded_generation: 0,
          guarded_reading: null,
          settled_seq: 0,
          guards_model: null,
          guards_provider: null,
          probation_at: null,
          compaction_pause: null,
        },
      ]);
      await expect(empty.sql("select guard_state from session_heads")).rejects.toThrow("guard_state");
    } finally {
      await empty.close();
    }
  });
});
