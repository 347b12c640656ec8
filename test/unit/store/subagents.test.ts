/** The sessions of subagents in the store: one for a call, taken up by whoever holds its parent, ended and counted with it. */
import { beforeEach, describe, expect, it } from "vitest";
import { newId, type RunId, type SessionId, type UsageId } from "../../../src/protocol/ids.ts";
import { LeaseLost } from "../../../src/store/errors.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import { failGivenUp } from "../../../src/store/give-up.ts";
import type { LoadedSession } from "../../../src/store/loaded-session.ts";
import { storeHandOver } from "../../../src/store/pause.ts";
import { storeAssistant } from "../../../src/store/steps.ts";
import { type StartSubagent, startSubagent } from "../../../src/store/subagents.ts";
import { strandedRuns, takeRun } from "../../../src/store/take.ts";
import { subagentIds } from "../../../src/turns/subagents.ts";
import { database, db, fixture, useOwnStore } from "../../support/own-store.ts";
import {
  connectTo,
  finishOf,
  NO_TOTALS,
  recordOf,
  start,
  taken,
  takeOver,
  taking,
  textRow,
} from "../../support/store.ts";

let parent: LoadedSession;

useOwnStore();
beforeEach(async () => {
  parent = await start(db, fixture);
});

const CALL = "toolu_1";
const paused = { totals: NO_TOTALS, spentMs: 10, overheadMs: 5, dbRoundTrips: 3, todos: [] };

const starting = async (of: LoadedSession, changes: Partial<StartSubagent> = {}): Promise<StartSubagent> => {
  const callId = changes.callId ?? CALL;
  const ids = await subagentIds(of.lease.holder, callId);
  return {
    parent: of,
    callId,
    ids,
    type: "general-purpose",
    title: "a task",
    model: of.model,
    system: "You do a task.",
    tools: [],
    settings: {},
    input: { ...textRow("user", "do it", ids.runId), id: ids.inputId },
    token: newId("run"),
    startedAt: "2026-01-01T00:00:00.000Z",
    limits: null,
    ...changes,
  };
};
const begin = async (of: LoadedSession, changes: Partial<StartSubagent> = {}): Promise<LoadedSession> =>
  taken((await startSubagent(db, await starting(of, changes))).take);
const kindOf = async (of: LoadedSession): Promise<string> => (await startSubagent(db, await starting(of))).take.kind;

/** One model call of a run, with what it used. */
const step = (of: LoadedSession, outputTokens = 5) => {
  const usage = { ...NO_TOTALS.usage, outputTokens };
  const record = {
    ...recordOf(of),
    usage: [{ id: newId("usg") as UsageId, purpose: "subagent" as const, model: of.model, usage, costUsd: 0.25 }],
  };
  const row = textRow("assistant", "step", of.lease.holder);
  const place = { row, seq: of.nextSeq as Parameters<typeof storeAssistant>[2]["seq"] };
  return storeAssistant(db, of, place, { ...NO_TOTALS, usage }, record);
};
const runOf = async (id: RunId) =>
  (await database.sql("select status, output_tokens::int, cost_usd::float from runs where id = $1", [id]))[0];
const head = async (id: SessionId) =>
  (await database.sql("select lease_holder, lease_epoch::int from session_heads where session_id = $1", [id]))[0];
const events = async (id: SessionId) =>
  (await database.sql("select type from run_events where session_id = $1 order by n", [id])).map(({ type }) => type);

describe("a call", () => {
  it("has one subagent: twenty starts at once make one session, one run, one message, and one of them holds it", async () => {
    const starts = await Promise.all(
      Array.from({ length: 20 }, async () => startSubagent(connectTo(database), await starting(parent))),
    );
    expect(starts.map(({ take }) => take.kind).sort()).toEqual([...Array.from({ length: 19 }, () => "held"), "taken"]);
    const { ids } = await starting(parent);
    const counts = await database.sql(
      `select (select count(*)::int from sessions where parent_session_id = $1) as sessions, (select count(*)::int from runs where session_id = $2) as runs,
        (select count(*)::int from messages where session_id = $2) as messages, (select count(*)::int from inputs where session_id = $2) as inputs`,
      [fixture.sessionId, ids.sessionId],
    );
    expect(counts).toEqual([{ sessions: 1, runs: 1, messages: 1, inputs: 0 }]);
  });

  it("sent twice with one token, its answer lost, is one start", async () => {
    const request = await starting(parent);
    const [first, second] = [await startSubagent(db, request), await startSubagent(db, request)];
    expect(taken(second.take).lease).toEqual(taken(first.take).lease);
    expect((await head(request.ids.sessionId))?.lease_epoch).toBe(1);
  });

  it("of a run that lost its session makes nothing and takes nothing", async () => {
    await database.advanceClock(181);
    expect(await kindOf(parent)).toBe("over");
    expect(await database.sql("select id from sessions where parent_session_id = $1", [fixture.sessionId])).toEqual([]);
    const next = await takeOver(db, parent);
    const child = await begin(next);
    expect(await kindOf(parent)).not.toBe("taken");
    expect((await head(child.sessionId))?.lease_epoch).toBe(1);
  });
});

describe("a subagent's run", () => {
  it("is taken over by whoever takes its parent over, while its own lease lives: the Worker before stores nothing more", async () => {
    const child = await begin(parent);
    await database.advanceClock(170);
    await step(child);
    await database.advanceClock(15);
    const next = await takeOver(db, parent);
    const again = await begin(next);
    expect([again.lease.epoch, again.run.attempts, again.run.totals.usage.outputTokens]).toEqual([2, 2, 5]);
    expect(next.run.subagents?.usage.outputTokens).toBe(5);
    await expect(step(child)).rejects.toThrow(LeaseLost);
  });

  it("that was handed over is gone on with, which counts as no attempt", async () => {
    const child = await begin(parent);
    await storeHandOver(db, child, { ...paused, record: recordOf(child) });
    expect((await begin(parent)).run.attempts).toBe(1);
  });

  it("that has ended is found as it ended, and not run again", async () => {
    const child = await begin(parent);
    await storeFinish(db, child, finishOf(child, { outputText: "the answer" }));
    const { take, before } = await startSubagent(db, await starting(parent));
    expect([take.kind, before?.status, before?.outputText]).toEqual(["over", "completed", "the answer"]);
  });

  it("is taken up by no queue message, and sent for by no sweeper: its parent goes on with it", async () => {
    const child = await begin(parent);
    await database.advanceClock(400);
    const stranded = await strandedRuns(db, 100);
    expect(stranded.map(({ runId }) => runId)).toContain(parent.lease.holder);
    expect(stranded.map(({ runId }) => runId)).not.toContain(child.lease.holder);
    expect((await takeRun(db, taking(child))).kind).toBe("not_next");
    expect((await runOf(child.lease.holder))?.status).toBe("running");
  });
});

describe("what subagents used", () => {
  it("is added to their parent's totals once, at its end, at every depth, also of those that did not come to an end", async () => {
    const child = await begin(parent);
    await step(child, 7);
    const grandchild = await begin(child);
    expect(grandchild.depth).toBe(2);
    expect(grandchild.rootSessionId).toBe(fixture.sessionId);
    await step(grandchild, 100);
    await storeFinish(db, parent, finishOf(parent, { subagents: true, status: "failed", error: null }));
    const used = { output_tokens: NO_TOTALS.usage.outputTokens + 107, cost_usd: 0.75 };
    expect(await runOf(parent.lease.holder)).toEqual({ status: "failed", ...used });
    const [session] = await database.sql("select output_tokens::int, cost_usd::float from sessions where id = $1", [
      fixture.sessionId,
    ]);
    expect(session).toEqual(used);
    for (const { sessionId, lease } of [child, grandchild]) {
      expect((await runOf(lease.holder))?.status).toBe("cancelled");
      expect((await head(sessionId))?.lease_holder).toBe(null);
      expect((await events(sessionId)).slice(-2)).toEqual(["run.cancelled", "session.idle"]);
    }
    await expect(step(child)).rejects.toThrow(LeaseLost);
  });

  it("is counted where the parent is given up, too", async () => {
    const child = await begin(parent);
    await step(child, 7);
    await database.advanceClock(181);
    await failGivenUp(db, parent.tenantId, parent.lease.holder, null);
    expect(await runOf(parent.lease.holder)).toEqual({ status: "failed", output_tokens: 7, cost_usd: 0.25 });
    expect((await runOf(child.lease.holder))?.status).toBe("cancelled");
  });
});

it("a subagent without a parent that is on is ended by the sweeper", async () => {
  const child = await begin(parent);
  await database.sql("update runs set status = 'failed' where id = $1", [parent.lease.holder]);
  await strandedRuns(db, 100);
  expect((await runOf(child.lease.holder))?.status).toBe("cancelled");
  expect((await head(child.sessionId))?.lease_holder).toBe(null);
});
