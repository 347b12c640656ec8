/** What a pass of micro-compaction stores, over a real PostgreSQL: when one is due, what one changes, and what a late one does not (section 11). */
import { beforeEach, describe, expect, it } from "vitest";
import { newId, seq } from "../../../src/protocol/ids.ts";
import { beginTurn } from "../../../src/store/begin.ts";
import { voidCompaction } from "../../../src/store/compactions.ts";
import { eraseSession } from "../../../src/store/erasures.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import { takeMaintenanceLease } from "../../../src/store/maintenance-lease.ts";
import {
  type ClaimedPass,
  claimMicroPass,
  commitMicroPass,
  type MicroCommit,
  storeMicroFailure,
} from "../../../src/store/micro.ts";
import { formatRanges } from "../../../src/store/ranges.ts";
import { loadForReading, loadForReport, type ReadSession } from "../../../src/store/reading.ts";
import { findCompaction } from "../../../src/store/receipts.ts";
import { commitRevision } from "../../../src/store/revisions.ts";
import { database, db, fixture, nextSession, useOwnStore } from "../../support/own-store.ts";
import {
  change,
  compaction,
  connectTo,
  EMPTY,
  finishOf,
  generation,
  guardRecord,
  recordOf,
  start,
  textRow,
  turnOf,
} from "../../support/store.ts";

let tenantId: ReadSession["tenantId"];

useOwnStore();
beforeEach(async () => {
  const [row] = await database.sql("select tenant_id from sessions where id = $1", [fixture.sessionId]);
  tenantId = row?.["tenant_id"] as typeof tenantId;
});

/** A turn of two rows. @returns whether a pass is due after it */
const turn = async (every: number | null = 1, changes = {}): Promise<boolean> => {
  const session = await start(db, fixture);
  const outcome = await storeFinish(db, session, finishOf(session, { microEveryNTurns: every, ...changes }));
  if (outcome.kind !== "finished") throw new Error(outcome.kind);
  return outcome.microDue;
};

const read = async (): Promise<ReadSession> => {
  const session = await loadForReading(db, tenantId, { id: fixture.sessionId }, null);
  if (session === undefined) throw new Error("no session");
  return session;
};

const claim = async (every = 1, session?: ReadSession): Promise<ClaimedPass | null> => {
  const { sessionId, nextSeq, view, rewound } = session ?? (await read());
  const at = { sessionId, nextSeq, revision: view?.revision ?? 0, rewound: formatRanges(rewound) };
  return claimMicroPass(db, { tenantId, at, user: null }, every);
};

const claimed = async (every = 1): Promise<ClaimedPass> => {
  const pass = await claim(every);
  if (pass === null) throw new Error("no pass is due");
  return pass;
};

const USAGE = { inputTokens: 900, outputTokens: 90, cacheReadTokens: 0, cacheWriteTokens: 0 };

/** The first pass of a session, or the next one. */
const commitOf = (number = 1, changes: Partial<MicroCommit> = {}): MicroCommit => ({
  change: {
    attemptId: newId("cmp"),
    reason: "micro",
    view: {
      ...EMPTY,
      revision: number,
      thinkingFloor: seq(5),
      generation: generation(number, { covered: [{ from: seq(2), to: seq(2) }] }),
    },
  },
  receipt: compaction({ reason: "micro", evicted: 1 }),
  guards: guardRecord({ generation: number }),
  calibration: { factor: 2 },
  state: { floor: 0, failing: null, generation: number, anchorTokens: 0 },
  usage: [{ id: newId("usg"), purpose: "summarize", model: "m", usage: USAGE, costUsd: 0.5 }],
  ...changes,
});

const nobody = () => undefined;
const commit = (pass: ClaimedPass, of = commitOf()) => commitMicroPass(db, pass.claim, of, nobody);

const head = async () =>
  (
    await database.sql(
      `select revision::int, thinking_floor::int, micro_turns, micro_state, strikes, guarded_generation::int, calibration, cooldown_reason,
        cooldown_until > hango_now() as cooling, lease_holder from session_heads where session_id = $1`,
      [fixture.sessionId],
    )
  )[0];
const session = async () =>
  (
    await database.sql("select compactions, turns, input_tokens::int, cost_usd from sessions where id = $1", [
      fixture.sessionId,
    ])
  )[0];
const counted = async (table: string) =>
  (await database.sql(`select count(*)::int as n from ${table} where session_id = $1`, [fixture.sessionId]))[0]?.["n"];
const logSum = () =>
  database.sql(
    "select count(*)::int as n, md5(string_agg(m::text, ',' order by seq)) as sum from messages m where session_id = $1",
    [fixture.sessionId],
  );

describe("the cadence (section 11)", () => {
  it("counts normally finished turns where it is on, and is due after so many, in the finish itself", async () => {
    expect([await turn(3), await turn(3), await turn(3)]).toEqual([false, false, true]);
    expect(db.roundTrips.counted).toBe(6);
  });

  it("counts nothing where it is off, and no turn that was stopped", async () => {
    expect([await turn(null), await turn(null, { status: "failed" })]).toEqual([false, false]);
    expect(await head()).toMatchObject({ micro_turns: 0 });
  });

  it("is counted per invocation: a pass that finds nothing moves it along, a message that comes twice is one pass", async () => {
    await turn(2);
    expect(await claim(2)).toBeNull();
    await turn(2);
    expect(await claim(2)).not.toBeNull();
    expect(await claim(2)).toBeNull();
    expect([await turn(2), await turn(2)]).toEqual([false, true]);
  });

  it("a finish that is sent twice counts one turn (M3)", async () => {
    const begun = await start(db, fixture);
    const finish = finishOf(begun, { microEveryNTurns: 1 });
    database.dropNextAnswer();
    expect(await storeFinish(db, begun, finish)).toMatchObject({ kind: "finished", microDue: true });
    expect(await head()).toMatchObject({ micro_turns: 1 });
  });

  it("a pass is not begun while the session is busy, has changed, or is another tenant's", async () => {
    await turn();
    const before = await read();
    const other = { ...before, tenantId: newId("tnt") };
    const at = { sessionId: other.sessionId, nextSeq: other.nextSeq, revision: 0, rewound: "{}" };
    expect(await claimMicroPass(db, { tenantId: other.tenantId, at, user: null }, 1)).toBeNull();
    const running = await start(db, fixture);
    expect(await claim(1, before)).toBeNull();
    await storeFinish(db, running, finishOf(running));
    expect([await claim(1, before), (await claim()) === null]).toEqual([null, false]);
  });
});

describe("a pass that is in time (M1, M2, M3)", () => {
  it("becomes the view of the next turn, is counted once, and leaves the log as it was (M6)", async () => {
    await turn();
    await turn();
    const before = await logSum();
    const pass = await claimed();
    const made = commitOf();
    database.dropNextAnswer();
    expect(await commit(pass, made)).toEqual({ passes: 1, tokensSaved: 900 });
    expect(await logSum()).toEqual(before);
    expect(await head()).toMatchObject({
      revision: 1,
      thinking_floor: 5,
      micro_turns: 0,
      micro_state: { generation: 1 },
      guarded_generation: 1,
      calibration: { factor: 2 },
      lease_holder: null,
    });
    expect(await session()).toMatchObject({ compactions: 1, turns: 2, input_tokens: 920, cost_usd: "1.00" });
    expect([await counted("usage_records"), await counted("compactions"), await counted("view_revisions")]).toEqual([
      1, 1, 1,
    ]);
    const next = await start(db, fixture);
    expect(next.view).toEqual(made.change.view);
    expect(next.rows.map((row) => row.seq)).toEqual([1, 3, 4, 5]);
    expect(await findCompaction(db, tenantId, { id: fixture.sessionId }, 1)).toMatchObject({
      reason: "micro",
      runId: null,
      dropped: { messages: { user: 0, assistant: 1 } },
    });
  });

  it("holds no lease: a turn begins at once while a model is asked, and the session is idle", async () => {
    await turn();
    await turn();
    await claimed();
    expect((await beginTurn(db, turnOf(fixture))).kind).toBe("started");
  });

  it("adds up over a session, voided passes left out", async () => {
    for (let number = 1; number <= 3; number++) {
      await turn();
      await commit(await claimed(), commitOf(number));
    }
    const report = () => loadForReport(db, tenantId, { id: fixture.sessionId }, null);
    expect((await report())?.micro.generations).toEqual(
      Array.from({ length: 3 }, () => ({ isMicro: true, before: 1000, after: 100 })),
    );
    await voidCompaction(db, tenantId, { id: fixture.sessionId }, 3, newId("cmp"));
    expect((await report())?.micro.generations).toHaveLength(2);
    await turn();
    expect((await claimed()).totals).toEqual({ passes: 2, tokensSaved: 1_800 });
  });
});

/** What has come first, each in its own way. */
const FIRST: Readonly<Record<string, () => Promise<unknown>>> = {
  "a turn that is on": () => start(db, fixture),
  "a turn that has ended": () => turn(),
  "a turn that waits in the queue": () => beginTurn(db, turnOf(fixture, { onBusy: "queue", background: true })),
  "another pass": async () => {
    await database.sql("update session_heads set micro_turns = 9 where session_id = $1", [fixture.sessionId]);
    await commit(await claimed());
  },
  "a compaction that holds the session": () =>
    takeMaintenanceLease(db, {
      tenantId,
      keyId: null,
      session: { id: fixture.sessionId },
      runId: newId("run"),
      startedAt: "2026-01-01T00:00:00.000Z",
      limits: null,
    }),
};

describe("a pass that is late (M2)", () => {
  it.each(Object.keys(FIRST))("changes nothing: %s came first", async (name) => {
    await turn();
    await turn();
    const pass = await claimed();
    await FIRST[name]?.();
    const before = [
      await head(),
      await counted("compactions"),
      await counted("view_revisions"),
      (await session())?.["compactions"],
    ];
    expect(await commit(pass)).toBeNull();
    const failure = {
      reason: "timeout",
      cooldownSeconds: 60,
      guards: guardRecord({ cooldownReason: "timeout", strikes: 9 }),
      state: { floor: 9 },
      usage: [],
    };
    expect(await storeMicroFailure(db, pass.claim, failure)).toBe(false);
    expect([
      await head(),
      await counted("compactions"),
      await counted("view_revisions"),
      (await session())?.["compactions"],
    ]).toEqual(before);
  });

  it("is paid for all the same, once", async () => {
    await turn();
    const pass = await claimed();
    await turn();
    const made = commitOf();
    expect([await commit(pass, made), await commit(pass, made)]).toEqual([null, null]);
    expect([await counted("usage_records"), (await session())?.["input_tokens"]]).toEqual([1, 920]);
  });

  it("a turn and a pass at the same moment: whoever comes second sees the first, never both (8 races)", async () => {
    const outcomes = new Set<string>();
    for (let race = 0; race < 8; race++) {
      await nextSession();
      const [row] = await database.sql("select tenant_id from sessions where id = $1", [fixture.sessionId]);
      tenantId = row?.["tenant_id"] as typeof tenantId;
      await turn();
      await turn();
      const pass = await claimed();
      const [begun, stored] = await Promise.all([
        beginTurn(connectTo(database), turnOf(fixture)),
        commitMicroPass(connectTo(database), pass.claim, commitOf(), nobody),
      ]);
      if (begun.kind !== "started") throw new Error(begun.kind);
      // The turn's view is the one that is stored: with the pass, or without it for good.
      expect([begun.session.view?.revision ?? 0, (await head())?.["revision"]]).toEqual(
        stored === null ? [0, 0] : [1, 1],
      );
      outcomes.add(stored === null ? "turn" : "pass");
    }
    expect(outcomes.size).toBeGreaterThanOrEqual(1);
  });

  it("two passes at the same moment: one is stored", async () => {
    await turn();
    const pass = await claimed();
    const stored = await Promise.all(
      Array.from({ length: 6 }, () => commitMicroPass(connectTo(database), pass.claim, commitOf(), nobody)),
    );
    expect(stored.filter((made) => made !== null)).toHaveLength(1);
    expect([await counted("compactions"), (await session())?.["compactions"]]).toEqual([1, 1]);
  });

  it("does not build on a generation that the view does not show", async () => {
    await turn();
    const pass = await claimed();
    const base = commitOf();
    const view = { ...base.change.view, generation: generation(2, { base: 1 }) };
    expect(await commit(pass, { ...base, change: { ...base.change, view } })).toBeNull();
    expect(await counted("compactions")).toBe(0);
  });

  it("writes nothing for a session that was erased meanwhile", async () => {
    await turn();
    const pass = await claimed();
    expect(await eraseSession(db, tenantId, { id: fixture.sessionId })).toBeDefined();
    expect(await commit(pass)).toBeNull();
    expect([await counted("compactions"), await counted("usage_records")]).toEqual([0, 0]);
  });
});

describe("a pass that failed", () => {
  it("leaves its count, its cooldown and its cost, and nothing of the view", async () => {
    await turn();
    const pass = await claimed();
    const [usage] = commitOf().usage;
    const failure = {
      reason: "timeout",
      cooldownSeconds: 60,
      guards: guardRecord({ cooldownReason: "timeout", summaryTimeouts: 1 }),
      state: { failing: { seq: 2, failures: 1 } },
      usage: usage === undefined ? [] : [usage],
    };
    database.dropNextAnswer();
    expect(await storeMicroFailure(db, pass.claim, failure)).toBe(true);
    expect(await head()).toMatchObject({
      revision: 0,
      cooldown_reason: "timeout",
      cooling: true,
      micro_state: { failing: { seq: 2, failures: 1 } },
    });
    expect(await counted("usage_records")).toBe(1);
  });
});

describe("a compaction of another kind (section 11)", () => {
  it("resets what the passes remember: cadence, failures, what was passed over", async () => {
    await turn(5);
    await database.sql("update session_heads set micro_state = '{\"floor\": 7}' where session_id = $1", [
      fixture.sessionId,
    ]);
    const running = await start(db, fixture);
    expect(await commitRevision(db, running, change(running, { compaction: compaction() }))).toBe(true);
    expect(await head()).toMatchObject({ micro_turns: 0, micro_state: {} });
  });

  it("a change of the view that is no compaction does not", async () => {
    await turn(5);
    const running = await start(db, fixture);
    expect(await commitRevision(db, running, change(running))).toBe(true);
    expect(await head()).toMatchObject({ micro_turns: 1 });
  });

  it("covers what a pass left in view, and the chain keeps every row in one place (V3)", async () => {
    await turn();
    await turn();
    await commit(await claimed());
    const running = await start(db, fixture);
    const covered = [{ from: seq(1), to: seq(4) }];
    const view = { ...EMPTY, revision: 2, generation: generation(2, { base: 1, covered }) };
    const full = change(running, { base: { revision: 1, generation: 1 }, view, compaction: compaction() });
    expect(await commitRevision(db, running, full)).toBe(true);
    await storeFinish(
      db,
      running,
      finishOf(running, {
        message: { row: textRow("assistant", "done", running.lease.holder), seq: seq(6) },
        record: recordOf(running),
      }),
    );
    expect((await start(db, fixture)).rows.map((row) => row.seq)).toEqual([5, 6, 7]);
  });
});
