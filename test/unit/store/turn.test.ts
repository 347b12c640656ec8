import { describe, expect, it } from "vitest";
import { newId, seq } from "../../../src/protocol/ids.ts";
import { beginTurn } from "../../../src/store/begin.ts";
import { LeaseLost } from "../../../src/store/errors.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import { takeMaintenanceLease } from "../../../src/store/maintenance-lease.ts";
import { storeAssistant, storeProgress, storeResults } from "../../../src/store/steps.ts";
import { takeRun } from "../../../src/store/take.ts";
import { database, db, fixture, useOwnStore } from "../../support/own-store.ts";
import {
  begun,
  connectTo,
  finishOf,
  join,
  makeSession,
  NO_TOTALS,
  recordOf,
  start,
  takeOver,
  taking,
  textRow,
  turnOf,
} from "../../support/store.ts";

useOwnStore();

const log = () =>
  database.sql(
    "select seq::int, role, origin, content->0->>'text' as text from messages where session_id = $1 order by seq",
    [fixture.sessionId],
  );
const head = async () =>
  (await database.sql("select * from session_heads where session_id = $1", [fixture.sessionId]))[0];
const runs = () => database.sql("select id, status from runs where session_id = $1 order by id", [fixture.sessionId]);

describe("a turn in the store", () => {
  it("begins and finishes in one round trip each, authentication included", async () => {
    const session = await start(db, fixture);
    await storeFinish(db, session, finishOf(session));
    expect(db.roundTrips).toEqual({ counted: 2, apart: 0 });
    expect(await log()).toEqual([
      { seq: 1, role: "user", origin: "user", text: "hello" },
      { seq: 2, role: "assistant", origin: "assistant", text: "done" },
    ]);
    expect(await head()).toMatchObject({ next_seq: "3", lease_holder: null, lease_epoch: "1", open_batch_seq: null });
    const [totals] = await database.sql(
      "select turns, input_tokens::int, cost_usd::float, last_input_tokens from sessions where id = $1",
      [fixture.sessionId],
    );
    expect(totals).toEqual({ turns: 1, input_tokens: 10, cost_usd: 0.25, last_input_tokens: 10 });
  });

  it("is found by the caller's own key as well", async () => {
    const session = await start(db, fixture, { session: { key: `key of ${fixture.sessionId}` } });
    expect(session.sessionId).toBe(fixture.sessionId);
  });

  it("keeps JSON as it was written: key order, duplicates, NUL escapes, numbers beyond 2^53 (V9)", async () => {
    const content =
      '[ {"type":"text", "2":1.0,"1":12345678901234567890, "text":"a\\u0000b \\ud83d\\ude00 😀","text":"again"} ]';
    const runId = newId("run");
    const session = await start(db, fixture, { runId, input: { ...textRow("user", "", runId), content } });
    expect(session.rows.map((row) => row.content)).toEqual([content]);
  });

  it.each([
    ["an unknown key", { keyHash: "nothing" }, "unauthenticated"],
    ["a session that does not exist", { session: { id: "ses_none" } }, "session_not_found"],
    ["another tenant's session", {}, "session_not_found"],
  ])("does not begin for %s", async (name, changes, kind) => {
    const other = await makeSession(database);
    const turn = turnOf(fixture, name.startsWith("another") ? { session: { id: other.sessionId } } : changes);
    expect((await beginTurn(db, turn)).kind).toBe(kind);
    expect(await runs()).toEqual([]);
  });

  it.each([
    ["revoked", "update api_keys set revoked_at = hango_now() where hash = $1", { kind: "unauthenticated" }],
    ["expired", "update api_keys set expires_at = hango_now() where hash = $1", { kind: "unauthenticated" }],
    [
      "without the scope",
      "update api_keys set scopes = '{read}' where hash = $1",
      { kind: "forbidden", reason: "scope" },
    ],
    [
      "of a suspended tenant",
      "update tenants set status = 'suspended' where id = (select tenant_id from api_keys where hash = $1)",
      { kind: "forbidden", reason: "tenant_suspended" },
    ],
  ])("does not begin with a key %s", async (_name, change, outcome) => {
    await database.sql(change, [fixture.keyHash]);
    expect(await beginTurn(db, turnOf(fixture))).toEqual(outcome);
    expect(await log()).toEqual([]);
  });
});

describe("batches sent twice", () => {
  it("store nothing twice when the first answer was lost (M3)", async () => {
    database.dropNextAnswer();
    const session = await start(db, fixture);
    expect(session).toMatchObject({ nextSeq: 2, lease: { epoch: 1 } });

    const call = textRow("assistant", "calling", session.lease.holder, ["toolu_1"]);
    const usage = { id: newId("usg"), purpose: "turn", model: "m", usage: NO_TOTALS.usage, costUsd: 1 } as const;
    database.dropNextAnswer();
    await storeAssistant(db, session, { row: call, seq: seq(2) }, NO_TOTALS, { ...recordOf(session), usage: [usage] });

    await join(db, fixture, textRow("user", "meanwhile", null));
    const results = textRow("tool", "result", session.lease.holder);
    database.dropNextAnswer();
    const after = await storeResults(db, session, { row: results, seq: seq(3) }, seq(4), recordOf(session));
    expect(after.moved.map((row) => [row.seq, row.content])).toEqual([[4, '[{"type":"text","text":"meanwhile"}]']]);
    expect(after.nextSeq).toBe(5);

    database.dropNextAnswer();
    const finish = finishOf(session, {
      message: { row: textRow("assistant", "done", session.lease.holder), seq: seq(5) },
      base: seq(6),
    });
    expect((await storeFinish(db, session, finish)).kind).toBe("finished");

    expect((await log()).map(({ seq, text }) => [seq, text])).toEqual([
      [1, "hello"],
      [2, "calling"],
      [3, "result"],
      [4, "meanwhile"],
      [5, "done"],
    ]);
    expect(
      await database.sql("select turns, input_tokens::int from sessions where id = $1", [fixture.sessionId]),
    ).toEqual([{ turns: 1, input_tokens: 10 }]);
    expect(
      await database.sql("select count(*)::int as n from usage_records where session_id = $1", [fixture.sessionId]),
    ).toEqual([{ n: 1 }]);
    expect(
      await database.sql("select count(*)::int as n from run_events where session_id = $1", [fixture.sessionId]),
    ).toEqual([{ n: 2 }]);
    expect(await head()).toMatchObject({ next_seq: "6", lease_epoch: "1", lease_holder: null });
  });
});

describe("the lease", () => {
  it("is won by one of 20 racers; the others are told who holds it and nothing of theirs is stored", async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () => beginTurn(connectTo(database), turnOf(fixture))),
    );
    const started = outcomes.filter((outcome) => outcome.kind === "started");
    expect(started).toHaveLength(1);
    const winner = begun(started[0] ?? { kind: "unauthenticated" });
    const losers = outcomes.filter((outcome) => outcome.kind === "busy");
    expect(losers).toHaveLength(19);
    expect(new Set(losers.map((loser) => loser.runId))).toEqual(new Set([winner.lease.holder]));
    expect(await runs()).toEqual([{ id: winner.lease.holder, status: "running" }]);
    expect(await log()).toHaveLength(1);
    expect(await head()).toMatchObject({ next_seq: "2", lease_epoch: "1" });
  });

  it("makes one run of 50 equal requests with one idempotency key", async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, () => beginTurn(connectTo(database), turnOf(fixture, { idempotencyKey: "once" }))),
    );
    const [{ id } = {}] = await runs();
    expect(outcomes.filter((outcome) => outcome.kind === "started")).toHaveLength(1);
    expect(
      outcomes.filter((outcome) => outcome.kind === "replay" && outcome.sameRequest && outcome.runId === id),
    ).toHaveLength(49);
    expect(await log()).toHaveLength(1);
  });

  it("leaves no gap and no lease when the key was used by a run that is over", async () => {
    const session = await start(db, fixture, { idempotencyKey: "used" });
    await storeFinish(db, session, finishOf(session));
    expect(await beginTurn(db, turnOf(fixture, { idempotencyKey: "used", requestHash: "other" }))).toMatchObject({
      kind: "replay",
      runId: session.lease.holder,
      sameRequest: false,
    });
    expect(await head()).toMatchObject({ next_seq: "3", lease_holder: null, lease_epoch: "1" });
  });

  it("expires after 180 s by the database's clock; the run goes on in another Worker, and nobody else begins before it (M2)", async () => {
    const first = await start(db, fixture);
    await database.advanceClock(179);
    expect(await beginTurn(db, turnOf(fixture))).toMatchObject({ kind: "busy", stranded: null });
    expect((await takeRun(db, taking(first))).kind).toBe("held");
    await database.advanceClock(2);
    expect(await beginTurn(db, turnOf(fixture))).toMatchObject({
      kind: "busy",
      runId: first.lease.holder,
      stranded: { sessionId: fixture.sessionId },
    });
    const second = await takeOver(db, first);
    expect(second).toMatchObject({ nextSeq: 2, lease: { holder: first.lease.holder, epoch: 2 }, run: { attempts: 2 } });
    expect(await runs()).toEqual([{ id: first.lease.holder, status: "running" }]);
    const events = await database.sql("select type from run_events where session_id = $1 order by n", [
      fixture.sessionId,
    ]);
    expect(events).toEqual([{ type: "run.started" }]);
  });

  it("is renewed by progress up to 15 minutes after it was taken, and not beyond", async () => {
    const session = await start(db, fixture);
    for (let minute = 2; minute <= 14; minute += 2) {
      await database.advanceClock(120);
      await storeProgress(db, session, "text");
    }
    await database.advanceClock(61);
    await expect(storeProgress(db, session, "text")).rejects.toThrow(LeaseLost);
  });

  it("lets a late holder change nothing, at any of its writes (M2)", async () => {
    const late = await start(db, fixture);
    await database.advanceClock(200);
    const owner = await takeOver(db, late);
    const before = [await log(), await head(), await runs()];
    const row = textRow("assistant", "late", late.lease.holder);
    await expect(storeAssistant(db, late, { row, seq: seq(2) }, NO_TOTALS, recordOf(late))).rejects.toThrow(LeaseLost);
    await expect(storeResults(db, late, { row, seq: seq(3) }, seq(4), recordOf(late))).rejects.toThrow(LeaseLost);
    await expect(storeProgress(db, late, "draft")).rejects.toThrow(LeaseLost);
    await expect(storeFinish(db, late, finishOf(late))).rejects.toThrow(LeaseLost);
    expect([await log(), await head(), await runs()]).toEqual(before);
    expect((await storeFinish(db, owner, finishOf(owner))).kind).toBe("finished");
  });

  it("lets a holder whose lease has run out write nothing, even when nobody took over", async () => {
    const session = await start(db, fixture);
    await database.advanceClock(181);
    await expect(storeFinish(db, session, finishOf(session))).rejects.toThrow(LeaseLost);
    expect(await log()).toHaveLength(1);
  });

  it("is renewed by every step, and by progress no sooner than 30 s after the last renewal, counted apart", async () => {
    const session = await start(db, fixture);
    const remaining = async () =>
      Number(
        (
          await database.sql(
            "select extract(epoch from lease_expires_at - hango_now())::int as s from session_heads where session_id = $1",
            [fixture.sessionId],
          )
        )[0]?.s,
      );
    await database.advanceClock(20);
    await storeProgress(db, session, "a");
    expect(await remaining()).toBeCloseTo(160, -1);
    await database.advanceClock(20);
    await storeProgress(db, session, "ab");
    expect(await remaining()).toBeCloseTo(180, -1);
    expect(db.roundTrips).toEqual({ counted: 1, apart: 2 });
    expect(await database.sql("select draft from runs where id = $1", [session.lease.holder])).toEqual([
      { draft: "ab" },
    ]);
  });
});

describe("input that arrives during a run (M5)", () => {
  it("waits until the results are stored and stands after them", async () => {
    const session = await start(db, fixture);
    await storeAssistant(
      db,
      session,
      { row: textRow("assistant", "calling", session.lease.holder, ["toolu_1"]), seq: seq(2) },
      NO_TOTALS,
      recordOf(session),
    );
    expect(await join(db, fixture, textRow("user", "first", null))).toBe("joined");
    expect(await join(db, fixture, textRow("event", "second", null))).toBe("joined");
    expect(await log()).toHaveLength(2);
    const { moved } = await storeResults(
      db,
      session,
      { row: textRow("tool", "result", session.lease.holder), seq: seq(3) },
      seq(4),
      recordOf(session),
    );
    expect(moved.map((row) => [row.seq, row.origin, row.runId])).toEqual([
      [4, "user", session.lease.holder],
      [5, "event", session.lease.holder],
    ]);
    expect((await log()).map(({ text }) => text)).toEqual(["hello", "calling", "result", "first", "second"]);
  });

  it("keeps a completed turn open, because it has not been answered", async () => {
    const session = await start(db, fixture);
    await join(db, fixture, textRow("user", "one more thing", null));
    const outcome = await storeFinish(db, session, finishOf(session));
    expect(outcome).toMatchObject({ kind: "more_input", nextSeq: 4, moved: [{ seq: 3 }] });
    expect(await head()).toMatchObject({ lease_holder: session.lease.holder });
    expect(await runs()).toEqual([{ id: session.lease.holder, status: "running" }]);
    expect(await database.sql("select turns from sessions where id = $1", [fixture.sessionId])).toEqual([{ turns: 0 }]);
    const again = finishOf(session, {
      message: { row: textRow("assistant", "that too", session.lease.holder), seq: seq(4) },
      base: seq(5),
    });
    expect((await storeFinish(db, session, again)).kind).toBe("finished");
    expect((await log()).map(({ text }) => text)).toEqual(["hello", "done", "one more thing", "that too"]);
  });

  it("is not lost when the run fails: it is in the log for the next turn", async () => {
    const session = await start(db, fixture);
    await join(db, fixture, textRow("user", "still here", null));
    const error = { type: "api_error", code: "provider_error", message: "no", retryable: true };
    const failed = finishOf(session, {
      status: "failed",
      error,
      message: null,
      base: seq(session.nextSeq),
      stopReason: null,
    });
    expect((await storeFinish(db, session, failed)).kind).toBe("finished");
    expect((await start(db, fixture)).rows.map((row) => row.content)).toEqual([
      '[{"type":"text","text":"hello"}]',
      '[{"type":"text","text":"still here"}]',
      '[{"type":"text","text":"hello"}]',
    ]);
  });

  it("begins a turn of its own when none is on, and waits for one when only work between turns is", async () => {
    expect(await join(db, fixture, textRow("user", "anyone?", null))).toBe("started");
    const other = await makeSession(database);
    const [row] = await database.sql("select tenant_id from sessions where id = $1", [other.sessionId]);
    const maintenance = await takeMaintenanceLease(db, {
      tenantId: String(row?.tenant_id) as Parameters<typeof takeMaintenanceLease>[1]["tenantId"],
      keyId: null,
      session: { id: other.sessionId },
      runId: newId("run"),
      startedAt: "2026-01-01T00:00:00.000Z",
      limits: null,
    });
    expect(maintenance.kind).toBe("started");
    expect(await join(db, other, textRow("user", "anyone?", null))).toBe("queued");
  });

  it("waits for a run whose Worker died: that goes on, and takes it up", async () => {
    const session = await start(db, fixture);
    await database.advanceClock(200);
    expect(await join(db, fixture, textRow("user", "still there?", null))).toBe("joined");
    const next = await takeOver(db, session);
    expect(await storeFinish(db, next, finishOf(next))).toMatchObject({ kind: "more_input", moved: [{ seq: 3 }] });
  });
});

describe("a batch whose run died (M7)", () => {
  it("is closed at the seq that was kept for it, by whoever goes on with the run", async () => {
    const dead = await start(db, fixture);
    await storeAssistant(
      db,
      dead,
      { row: textRow("assistant", "calling", dead.lease.holder, ["toolu_1", "toolu_2"]), seq: seq(2) },
      NO_TOTALS,
      recordOf(dead),
    );
    await database.advanceClock(200);
    const next = await takeOver(db, dead);
    expect(next).toMatchObject({ openBatchSeq: 2, nextSeq: 4 });
    expect(next.rows.map((row) => [row.seq, row.calls])).toEqual([
      [1, []],
      [2, ["toolu_1", "toolu_2"]],
    ]);
    await storeResults(
      db,
      next,
      { row: textRow("tool", "closed", next.lease.holder), seq: seq(3) },
      seq(4),
      recordOf(next),
    );
    expect((await log()).map(({ seq, text }) => [seq, text])).toEqual([
      [1, "hello"],
      [2, "calling"],
      [3, "closed"],
    ]);
    expect(await head()).toMatchObject({ open_batch_seq: null, next_seq: "4" });
  });
});

describe("the log", () => {
  it.each([
    ["an update", "update messages set content = '[]' where session_id = $1"],
    ["a delete", "delete from messages where session_id = $1"],
    ["an update that changes nothing", "update messages set seq = seq where session_id = $1"],
  ])("refuses %s", async (_name, statement) => {
    const session = await start(db, fixture);
    await expect(database.sql(statement, [session.sessionId])).rejects.toThrow(/append-only/);
    expect(await log()).toHaveLength(1);
  });

  it("refuses to be truncated", async () => {
    await expect(database.sql("truncate messages")).rejects.toThrow(/append-only/);
  });

  it("lets rows go with the session that is being erased, and no other's", async () => {
    const other = await makeSession(database);
    await start(db, fixture);
    await start(db, other);
    const erase = (sessionId: string) =>
      database.backend.transaction(
        [
          { query: "select set_config('hango.erasing', $1, true)", params: [fixture.sessionId] },
          { query: "delete from messages where session_id = $1", params: [sessionId] },
        ],
        {},
      );
    await expect(erase(other.sessionId)).rejects.toThrow(/append-only/);
    await erase(fixture.sessionId);
    expect(await log()).toEqual([]);
  });
});
