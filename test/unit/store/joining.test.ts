/** Input for a turn that is on, and what becomes of what a run leaves behind, on a real PostgreSQL. */
import { beforeEach, describe, expect, it } from "vitest";
import { newId, type RunId, seq, type TenantId } from "../../../src/protocol/ids.ts";
import { beginTurn } from "../../../src/store/begin.ts";
import type { BeginTurn } from "../../../src/store/begin-request.ts";
import { LeaseLost } from "../../../src/store/errors.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import { failGivenUp } from "../../../src/store/give-up.ts";
import { storeHandOver, storeWait } from "../../../src/store/pause.ts";
import { checkCancel, storeAssistant, storeResults } from "../../../src/store/steps.ts";
import { strandedRuns } from "../../../src/store/take.ts";
import { database, db, fixture, nextSession, useOwnStore } from "../../support/own-store.ts";
import {
  connectTo,
  finishOf,
  join,
  NO_TOTALS,
  recordOf,
  start,
  takeOver,
  textRow,
  turnOf,
} from "../../support/store.ts";

useOwnStore();
let tenantId: TenantId;

beforeEach(async () => {
  const [row] = await database.sql("select tenant_id from sessions where id = $1", [fixture.sessionId]);
  tenantId = String(row?.["tenant_id"]) as TenantId;
});

const inputs = async () =>
  (
    await database.sql("select content->0->>'text' as text from inputs where session_id = $1 order by position", [
      fixture.sessionId,
    ])
  ).map(({ text }) => text);
const log = async () =>
  (
    await database.sql("select content->0->>'text' as text from messages where session_id = $1 order by seq", [
      fixture.sessionId,
    ])
  ).map(({ text }) => text);
/** One request, as often as it is sent: each time with ids of its own. */
const request = (text: string, changes: Partial<BeginTurn> = {}) => {
  const runId = newId("run");
  const input = textRow("user", text, runId);
  return beginTurn(
    connectTo(database),
    turnOf(fixture, { runId, input, onBusy: "join", idempotencyKey: "k", ...changes }),
  );
};
const paused = { totals: NO_TOTALS, spentMs: 1, overheadMs: 1, dbRoundTrips: 1, todos: [] };

describe("a request that joins a turn, with an idempotency key", () => {
  it("brings its input once, however often it is sent, at once or later, and names the run that it joined", async () => {
    const session = await start(db, fixture);
    const runId = session.lease.holder;
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => request("more")));
    expect(outcomes.filter(({ kind }) => kind === "joined")).toHaveLength(1);
    expect(outcomes.filter(({ kind }) => kind === "replay")).toHaveLength(7);
    expect(await inputs()).toEqual(["more"]);
    expect(await request("more")).toMatchObject({ kind: "replay", runId, sameRequest: true });
    expect(await request("other", { requestHash: "other" })).toMatchObject({ kind: "replay", sameRequest: false });
    const end = await storeFinish(db, session, finishOf(session));
    expect(end.kind).toBe("more_input");
    expect(await request("more")).toMatchObject({ kind: "replay", runId });
    await storeFinish(db, session, finishOf({ ...session, nextSeq: 4 }));
    // The session is idle: the same request begins nothing.
    expect(await request("more")).toMatchObject({ kind: "replay", runId });
    expect(await request("more", { onBusy: "queue", background: true })).toMatchObject({ kind: "replay", runId });
    expect(await log()).toEqual(["hello", "done", "more", "done"]);
    await start(db, fixture);
  });

  it("that began the turn is not joined to it when it is sent again", async () => {
    const first = await request("begin");
    expect(first.kind).toBe("started");
    expect(await request("begin")).toMatchObject({ kind: "replay", sameRequest: true });
    expect(await inputs()).toEqual([]);
  });

  it("whose answer was lost joins once", async () => {
    await start(db, fixture);
    database.dropNextAnswer();
    expect((await request("more")).kind).toBe("joined");
    expect(await inputs()).toEqual(["more"]);
  });

  it("leaves no claim where nothing was joined", async () => {
    expect((await request("begin")).kind).toBe("started");
    expect(await database.sql("select key from idempotency_keys where tenant_id = $1", [tenantId])).toEqual([]);
  });
});

describe("a run that waits for its caller", () => {
  it("is joined by input, which comes after its batch", async () => {
    const session = await start(db, fixture);
    const row = textRow("assistant", "calling", session.lease.holder, ["toolu_1"]);
    await storeAssistant(db, session, { row, seq: seq(2) }, NO_TOTALS, recordOf(session));
    await storeWait(db, session, { ...paused, record: recordOf(session), answers: new Map(), waitSeconds: 60 });
    expect(await join(db, fixture, textRow("user", "meanwhile", null))).toBe("joined");
    expect(await inputs()).toEqual(["meanwhile"]);
  });
});

describe("a run that is left in the middle of a batch", () => {
  it("keeps the results that are there for whoever goes on with it", async () => {
    const session = await start(db, fixture);
    const row = textRow("assistant", "calling", session.lease.holder, ["toolu_1", "toolu_2"]);
    await storeAssistant(db, session, { row, seq: seq(2) }, NO_TOTALS, recordOf(session));
    const there = new Map([["toolu_1", { content: '"did it"', isError: false }]]);
    await storeHandOver(db, session, { ...paused, record: recordOf(session) }, there);
    const next = await takeOver(db, session);
    expect(Object.fromEntries(next.run.answers)).toEqual({ toolu_1: { content: '"did it"', isError: false } });
  });

  it("has its todos as the last stored batch left them, also when its Worker died", async () => {
    const session = await start(db, fixture);
    const row = textRow("assistant", "calling", session.lease.holder, ["toolu_1"]);
    await storeAssistant(db, session, { row, seq: seq(2) }, NO_TOTALS, recordOf(session));
    const place = { row: textRow("tool", "results", session.lease.holder), seq: seq(3) };
    const todos = [{ content: "one", status: "pending" }];
    await storeResults(db, session, place, seq(4), recordOf(session), todos);
    await database.sql("update session_heads set lease_expires_at = hango_now() where session_id = $1", [
      fixture.sessionId,
    ]);
    expect((await takeOver(db, session)).todos).toEqual(todos);
  });
});

describe("a run that is given up", () => {
  it("leaves what was brought to it in the log, each in its place, and counts for its session what it used", async () => {
    const session = await start(db, fixture);
    for (const text of ["one", "two"]) await join(db, fixture, textRow("user", text, null));
    await storeHandOver(db, session, { ...paused, record: recordOf(session) });
    await failGivenUp(db, tenantId, session.lease.holder, null);
    await failGivenUp(db, tenantId, session.lease.holder, null);
    expect(await log()).toEqual(["hello", "one", "two"]);
    expect(await inputs()).toEqual([]);
    const [row] = await database.sql(
      "select turns, input_tokens::int, cost_usd::float, last_run_id from sessions where id = $1",
      [fixture.sessionId],
    );
    expect(row).toMatchObject({ input_tokens: 10, cost_usd: 0.25, last_run_id: session.lease.holder });
    expect(Number(row?.["turns"])).toBe(1);
    await start(db, fixture);
  });

  it("is lost for a Worker that still works on it, which is told so by every write", async () => {
    const session = await start(db, fixture);
    await database.sql("update session_heads set lease_expires_at = hango_now() where session_id = $1", [
      fixture.sessionId,
    ]);
    await failGivenUp(db, tenantId, session.lease.holder, null);
    await expect(checkCancel(db, session)).rejects.toThrow(LeaseLost);
    await expect(storeFinish(db, session, finishOf(session))).rejects.toThrow(LeaseLost);
    const row = textRow("assistant", "late", session.lease.holder);
    await expect(storeAssistant(db, session, { row, seq: seq(2) }, NO_TOTALS, recordOf(session))).rejects.toThrow(
      LeaseLost,
    );
  });
});

describe("the sweeper", () => {
  it("is not kept from other tenants' runs by those of a suspended one", async () => {
    const queue = async (): Promise<RunId> => {
      const runId = newId("run");
      await beginTurn(
        db,
        turnOf(fixture, { runId, onBusy: "queue", background: true, input: textRow("user", "queued", runId) }),
      );
      return runId;
    };
    const suspended = await queue();
    await database.sql("update tenants set status = 'suspended' where id = $1", [tenantId]);
    await nextSession();
    const other = await queue();
    const found = (await strandedRuns(db, 10_000)).map(({ runId }) => runId);
    expect(found).toContain(other);
    expect(found).not.toContain(suspended);
  });
});
