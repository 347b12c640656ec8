/** Who may take a run up, and what a cancel and a commit do to each other, on a real PostgreSQL with many connections. */
import { describe, expect, it } from "vitest";
import { newId, type RunId, seq } from "../../../src/protocol/ids.ts";
import { beginTurn, storeQueuedTurn } from "../../../src/store/begin.ts";
import type { BeginTurn } from "../../../src/store/begin-request.ts";
import { cancelRun } from "../../../src/store/cancel.ts";
import { LeaseLost } from "../../../src/store/errors.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import { failGivenUp } from "../../../src/store/give-up.ts";
import { answerCalls, storeHandOver, storeWait } from "../../../src/store/pause.ts";
import { commitRevision } from "../../../src/store/revisions.ts";
import { storeAssistant } from "../../../src/store/steps.ts";
import { strandedRuns, takeRun } from "../../../src/store/take.ts";
import { database, db, fixture, nextSession, useOwnStore } from "../../support/own-store.ts";
import {
  change,
  compaction,
  connectTo,
  finishOf,
  makeSession,
  NO_TOTALS,
  recordOf,
  start,
  taken,
  takeOver,
  taking,
  textRow,
  turnOf,
} from "../../support/store.ts";

useOwnStore();

const head = async () =>
  (await database.sql("select * from session_heads where session_id = $1", [fixture.sessionId]))[0];
const runs = () =>
  database.sql("select id, status from runs where session_id = $1 order by position", [fixture.sessionId]);
const log = async () =>
  (
    await database.sql(
      "select seq::int, content->0->>'text' as text from messages where session_id = $1 order by seq",
      [fixture.sessionId],
    )
  ).map(({ seq: at, text }) => `${at} ${text}`);
const queued = async (text: string, changes: Partial<BeginTurn> = {}): Promise<RunId> => {
  const runId = newId("run");
  const turn = turnOf(fixture, { runId, input: textRow("user", text, runId), onBusy: "queue", ...changes });
  const outcome = await beginTurn(db, turn);
  if (outcome.kind !== "queued") throw new Error(`not queued: ${outcome.kind}`);
  return runId;
};
const paused = { totals: NO_TOTALS, spentMs: 10, overheadMs: 5, dbRoundTrips: 3, todos: [] };

describe("a queued run", () => {
  it("is taken in its order, by one of many takers, when the session is free", async () => {
    const first = await start(db, fixture);
    const second = await queued("second");
    const third = await queued("third");
    expect((await takeRun(db, taking(first, { runId: second }))).kind).toBe("not_next");
    const end = await storeFinish(db, first, finishOf(first));
    expect(end).toMatchObject({ kind: "finished", next: second });
    expect(await takeRun(db, taking(first, { runId: third }))).toMatchObject({ kind: "not_next", next: second });
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () => takeRun(connectTo(database), taking(first, { runId: second }))),
    );
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual([...Array.from({ length: 19 }, () => "held"), "taken"]);
    expect(await log()).toEqual(["1 hello", "2 done", "3 second"]);
    expect(await runs()).toEqual([
      { id: first.lease.holder, status: "completed" },
      { id: second, status: "running" },
      { id: third, status: "queued" },
    ]);
  });

  it("taken twice with one token, an answer lost, is one take", async () => {
    const runId = await queued("only", { background: true });
    const session = await start(db, await makeSession(database));
    const take = { ...taking(session, { runId }), tenantId: (await tenantOf()) as typeof session.tenantId };
    database.dropNextAnswer();
    const first = taken(await takeRun(db, take));
    expect(first).toMatchObject({ lease: { epoch: 1 }, inputSeq: 1, nextSeq: 2, run: { attempts: 1 } });
    expect(taken(await takeRun(db, take)).lease).toEqual(first.lease);
    expect((await takeRun(db, { ...take, token: newId("run") })).kind).toBe("held");
    expect(await log()).toEqual(["1 only"]);
  });

  it("of 50 that come at once loses none and keeps one order", async () => {
    const first = await start(db, fixture);
    await Promise.all(
      Array.from({ length: 50 }, async (_, n) => {
        const runId = newId("run");
        const input = textRow("user", `turn ${n}`, runId);
        return beginTurn(connectTo(database), turnOf(fixture, { runId, input, onBusy: "queue" }));
      }),
    );
    const order = (await runs()).slice(1).map(({ id }) => String(id) as RunId);
    expect(order).toHaveLength(50);
    let end = await storeFinish(db, first, finishOf(first));
    for (const expected of order) {
      expect(end).toMatchObject({ next: expected });
      const next = taken(await takeRun(db, taking(first, { runId: expected })));
      end = await storeFinish(db, next, finishOf(next));
    }
    expect(end).toMatchObject({ next: null });
    expect(await log()).toHaveLength(102);
  });

  it("cannot be overtaken by a new turn, and is found by the sweeper when its message was lost", async () => {
    const runId = await queued("first", { background: true });
    expect(await beginTurn(db, turnOf(fixture))).toMatchObject({ kind: "busy", runId });
    expect((await strandedRuns(db, 1_000)).map((run) => run.runId)).toContain(runId);
  });

  it("that nobody can run is failed, its input in the log, and the next one may start", async () => {
    const runId = await queued("poison", { background: true });
    const next = await queued("next", { background: true });
    const tenantId = (await tenantOf()) as Parameters<typeof failGivenUp>[1];
    expect(await failGivenUp(db, tenantId, next, null)).toEqual({ tenantId, sessionId: fixture.sessionId, runId });
    expect(await log()).toEqual(["1 next"]);
    expect(await failGivenUp(db, tenantId, runId, null)).toBeNull();
    expect(await log()).toEqual(["1 next", "2 poison"]);
    expect((await runs()).map(({ status }) => status)).toEqual(["failed", "failed"]);
    expect(await failGivenUp(db, tenantId, runId, null)).toBeNull();
    const events = await database.sql("select type from run_events where session_id = $1 order by n", [
      fixture.sessionId,
    ]);
    expect(events.map(({ type }) => type)).toEqual(["run.failed", "session.idle", "run.failed", "session.idle"]);
    await start(db, fixture);
  });

  it("of a suspended tenant is not taken", async () => {
    const runId = await queued("first", { background: true });
    const tenantId = (await tenantOf()) as Parameters<typeof failGivenUp>[1];
    await database.sql("update tenants set status = 'suspended' where id = $1", [tenantId]);
    const take = { tenantId, runId, token: newId("run"), startedAt: "2026-01-01T00:00:00.000Z", limits: null };
    expect((await takeRun(db, take)).kind).toBe("not_next");
  });
});

const tenantOf = async () =>
  String((await database.sql("select tenant_id from sessions where id = $1", [fixture.sessionId]))[0]?.tenant_id);

describe("a run that was begun", () => {
  it("keeps its session when it is handed over; the next Worker counts on, and it is no attempt", async () => {
    const session = await start(db, fixture);
    await storeHandOver(db, session, { ...paused, record: recordOf(session) });
    expect((await beginTurn(db, turnOf(fixture))).kind).toBe("busy");
    const next = await takeOver(db, session);
    expect(next.run).toMatchObject({ attempts: 1, spentMs: 10, overheadMs: 5, dbRoundTrips: 3, totals: NO_TOTALS });
    expect(next.lease).toEqual({ ...session.lease, epoch: 2 });
    await expect(storeHandOver(db, session, { ...paused, record: recordOf(session) })).rejects.toThrow(LeaseLost);
  });

  it("waits for its caller without a lease: not swept, not begun over, and goes on with the last result", async () => {
    const session = await start(db, fixture);
    const row = textRow("assistant", "calling", session.lease.holder, ["toolu_1", "toolu_2"]);
    await storeAssistant(db, session, { row, seq: seq(2) }, NO_TOTALS, recordOf(session));
    const own = new Map([["toolu_1", { content: '"kept"', isError: false }]]);
    await storeWait(db, session, { ...paused, record: recordOf(session), answers: own, waitSeconds: 60 });
    expect(await head()).toMatchObject({
      lease_holder: null,
      waiting_run_id: session.lease.holder,
      open_batch_seq: "2",
    });
    expect((await takeRun(db, taking(session))).kind).toBe("waiting");
    expect((await strandedRuns(db, 1_000)).map((run) => run.runId)).not.toContain(session.lease.holder);
    expect(await beginTurn(db, turnOf(fixture))).toMatchObject({ kind: "busy", runId: session.lease.holder });
    const answers = new Map([
      ["toolu_1", { content: '"mine"', isError: true }],
      ["toolu_2", { content: '"yours"', isError: false }],
    ]);
    expect(await answerCalls(db, session.tenantId, session.lease.holder, answers)).toMatchObject({
      kind: "accepted",
      missing: [],
    });
    const next = await takeOver(db, session);
    expect(Object.fromEntries(next.run.answers)).toEqual({
      toolu_1: { content: '"kept"', isError: false },
      toolu_2: { content: '"yours"', isError: false },
    });
    expect(next).toMatchObject({ openBatchSeq: 2, run: { attempts: 1, overdue: false } });
  });

  it("is taken up when its caller's time is over, and says so", async () => {
    const session = await start(db, fixture);
    const row = textRow("assistant", "calling", session.lease.holder, ["toolu_1"]);
    await storeAssistant(db, session, { row, seq: seq(2) }, NO_TOTALS, recordOf(session));
    await storeWait(db, session, { ...paused, record: recordOf(session), answers: new Map(), waitSeconds: 60 });
    await database.advanceClock(61);
    const late = new Map([["toolu_1", { content: '"late"', isError: false }]]);
    expect((await answerCalls(db, session.tenantId, session.lease.holder, late)).kind).toBe("overdue");
    expect((await takeOver(db, session)).run).toMatchObject({ overdue: true, attempts: 1 });
  });
});

describe("a hard cancel and the commit of a compaction (M2)", () => {
  it("meet in one row: exactly one of them comes first, whoever is faster", async () => {
    for (let round = 0; round < 20; round++) {
      await nextSession();
      const session = await start(db, fixture);
      const commit = () => commitRevision(connectTo(database), session, change(session, { compaction: compaction() }));
      const cancel = () => cancelRun(connectTo(database), session.tenantId, session.lease.holder);
      const [stored] =
        round % 2 === 0 ? await Promise.all([commit(), cancel()]) : (await Promise.all([cancel(), commit()])).reverse();
      const state = await head();
      const [{ n } = { n: 0 }] = await database.sql(
        "select count(*)::int as n from compactions where session_id = $1",
        [fixture.sessionId],
      );
      expect([n, state?.revision, stored]).toEqual(stored === true ? [1, "1", true] : [0, "0", false]);
      expect(state?.cancel_requested_at).not.toBeNull();
    }
  });

  it("a commit after the cancel changes nothing; what the run did before stays, and it can close itself", async () => {
    const session = await start(db, fixture);
    const cancelled = await cancelRun(db, session.tenantId, session.lease.holder);
    expect(cancelled).toMatchObject({ needsWorker: true, run: { status: "running" } });
    expect(await commitRevision(db, session, change(session, { compaction: compaction() }))).toBe(false);
    expect(await head()).toMatchObject({ revision: "0" });
    const row = textRow("assistant", "calling", session.lease.holder, ["toolu_1"]);
    expect(await storeAssistant(db, session, { row, seq: seq(2) }, NO_TOTALS, recordOf(session))).toBe(true);
    const end = finishOf(session, { status: "cancelled", message: null, base: seq(4) });
    expect((await storeFinish(db, session, end)).kind).toBe("finished");
    expect(await runs()).toEqual([{ id: session.lease.holder, status: "cancelled" }]);
    expect(await head()).toMatchObject({ cancel_requested_at: null, lease_holder: null });
  });

  it("is gone with the run that it was for", async () => {
    const session = await start(db, fixture);
    await cancelRun(db, session.tenantId, session.lease.holder);
    await storeFinish(db, session, finishOf(session));
    const next = await start(db, fixture);
    expect(next.run.cancelled).toBe(false);
    expect(await commitRevision(db, next, change(next, { compaction: compaction() }))).toBe(true);
  });
});

describe("a cancelled run whose Workers die", () => {
  it("counts each start, and is recorded as cancelled when it is given up", async () => {
    const session = await start(db, fixture);
    await cancelRun(db, session.tenantId, session.lease.holder);
    const attempts: number[] = [];
    for (let died = 0; died < 4; died++) {
      await database.advanceClock(200);
      attempts.push((await takeOver(db, session)).run.attempts);
    }
    expect(attempts).toEqual([2, 3, 4, 5]);
    await database.advanceClock(200);
    await failGivenUp(db, session.tenantId, session.lease.holder, null);
    const found = await database.sql("select status, error from runs where id = $1", [session.lease.holder]);
    expect(found).toEqual([{ status: "cancelled", error: null }]);
    const events = await database.sql("select type from run_events where run_id = $1 order by n desc limit 2", [
      session.lease.holder,
    ]);
    expect(events.map(({ type }) => type)).toEqual(["session.idle", "run.cancelled"]);
    expect(await head()).toMatchObject({ lease_holder: null, cancel_requested_at: null });
  });
});

describe("a turn that was enqueued for somebody", () => {
  it("is stored once for its event, whoever else asks", async () => {
    const tenantId = (await tenantOf()) as Parameters<typeof failGivenUp>[1];
    const { keyHash: _, startedAt: __, limits: ___, background: ____, ...rest } = turnOf(fixture);
    const enqueue = (runId: RunId) =>
      storeQueuedTurn(connectTo(database), {
        ...rest,
        tenantId,
        keyId: null,
        runId,
        trigger: "trigger",
        onBusy: "queue",
        idempotencyKey: "event 1",
        input: textRow("event", "payload", runId),
      });
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => enqueue(newId("run"))));
    expect(outcomes.filter(({ kind }) => kind === "queued")).toHaveLength(1);
    expect(outcomes.filter(({ kind }) => kind === "replay")).toHaveLength(19);
    expect(await runs()).toHaveLength(1);
  });
});
