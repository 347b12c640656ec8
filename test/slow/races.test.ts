/**
 * What two Workers do to one session at the same moment, every pair in both orders, on a real PostgreSQL. The second sees the head as the first
 * left it, and all other rows as they were before (READ COMMITTED): nothing may be decided on those.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newId, type RunId, seq, type TenantId } from "../../src/protocol/ids.ts";
import { beginTurn } from "../../src/store/begin.ts";
import type { OnBusy } from "../../src/store/begin-request.ts";
import { cancelRun } from "../../src/store/cancel.ts";
import type { Db } from "../../src/store/db.ts";
import { LeaseLost } from "../../src/store/errors.ts";
import { storeFinish } from "../../src/store/finish.ts";
import { failGivenUp } from "../../src/store/give-up.ts";
import type { LoadedSession } from "../../src/store/loaded-session.ts";
import { takeMaintenanceLease } from "../../src/store/maintenance-lease.ts";
import { answerCalls, storeHandOver, storeWait } from "../../src/store/pause.ts";
import { storeAssistant, storeResults } from "../../src/store/steps.ts";
import { strandedRuns, takeRun } from "../../src/store/take.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { meeting } from "../support/in-order.ts";
import {
  connectTo,
  type Fixture,
  finishOf,
  makeSession,
  NO_TOTALS,
  recordOf,
  start,
  taken,
  textRow,
  turnOf,
} from "../support/store.ts";

let database: TestDatabase;
let db: Db;

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
  db = connectTo(database);
});
afterAll(() => database.close());

/** A session in some state, and what is known of it. */
interface World {
  readonly fixture: Fixture;
  readonly tenantId: TenantId;
  /** The run that was begun first, if one was. */
  readonly first: LoadedSession | null;
  readonly queued: RunId | null;
  /** Texts that were accepted: each is in the log once when all is over. */
  readonly accepted: Set<string>;
  /** Runs that somebody may have ended on purpose. */
  readonly endable: Set<string>;
}

const pause = { totals: NO_TOTALS, spentMs: 1, overheadMs: 1, dbRoundTrips: 1, todos: [] };

const bring = async (world: World, onBusy: OnBusy, background = false): Promise<RunId> => {
  const runId = newId("run");
  const text = `${onBusy} ${runId}`;
  const turn = turnOf(world.fixture, { runId, onBusy, background, input: textRow("user", text, runId) });
  const { kind } = await beginTurn(connectTo(database), turn);
  if (kind === "started" || kind === "queued" || kind === "joined") world.accepted.add(text);
  return runId;
};

const expire = (world: World) =>
  database.sql("update session_heads set lease_expires_at = hango_now() where session_id = $1 and lease_holder <> ''", [
    world.fixture.sessionId,
  ]);

const waitForCaller = async (session: LoadedSession): Promise<void> => {
  const row = textRow("assistant", "calling", session.lease.holder, ["toolu_1"]);
  await storeAssistant(db, session, { row, seq: seq(session.nextSeq) }, NO_TOTALS, recordOf(session));
  await storeWait(db, session, { ...pause, record: recordOf(session), answers: new Map(), waitSeconds: 600 });
};

const maintain = async (world: World): Promise<void> => {
  const { fixture, tenantId } = world;
  const run = { session: { id: fixture.sessionId }, runId: newId("run"), startedAt: "2026-01-01T00:00:00.000Z" };
  await takeMaintenanceLease(connectTo(database), { ...run, tenantId, keyId: null, limits: null });
};

const STATES: Readonly<Record<string, (world: World) => Promise<Partial<World> | undefined>>> = {
  idle: async () => undefined,
  running: async ({ fixture }) => ({ first: await start(db, fixture) }),
  "running, one queued": async (world) => ({
    first: await start(db, world.fixture),
    queued: await bring(world, "queue"),
  }),
  "one queued": async (world) => ({ queued: await bring(world, "queue", true) }),
  "handed over, one queued": async (world) => {
    const first = await start(db, world.fixture);
    await storeHandOver(db, first, { ...pause, record: recordOf(first) });
    return { first, queued: await bring(world, "queue") };
  },
  "handed over": async ({ fixture }) => {
    const first = await start(db, fixture);
    await storeHandOver(db, first, { ...pause, record: recordOf(first) });
    return { first };
  },
  waiting: async ({ fixture }) => {
    const first = await start(db, fixture);
    await waitForCaller(first);
    return { first };
  },
  "waiting, one queued": async (world) => {
    const first = await start(db, world.fixture);
    const queued = await bring(world, "queue");
    await waitForCaller(first);
    return { first, queued };
  },
  maintained: async (world) => {
    await maintain(world);
    return undefined;
  },
  "maintained by a dead Worker, one queued": async (world) => {
    await maintain(world);
    const queued = await bring(world, "queue");
    await expire(world);
    return { queued };
  },
};

const take = async ({ tenantId }: World, runId: RunId | undefined | null) => {
  if (runId === undefined || runId === null) return;
  const token = newId("run");
  await takeRun(connectTo(database), { tenantId, runId, token, startedAt: "2026-01-01T00:01:00.000Z", limits: null });
};

const ACTS: Readonly<Record<string, (world: World) => Promise<unknown>>> = {
  reject: (world) => bring(world, "reject"),
  queue: (world) => bring(world, "queue"),
  interrupt: (world) => bring(world, "interrupt"),
  join: (world) => bring(world, "join"),
  maintain,
  "take the first": (world) => take(world, world.first?.lease.holder),
  "take the queued": (world) => take(world, world.queued),
  finish: async ({ first }) => first && storeFinish(connectTo(database), first, finishOf(first)),
  "hand over": async ({ first }) =>
    first && storeHandOver(connectTo(database), first, { ...pause, record: recordOf(first) }),
  wait: async ({ first }) => first && waitForCaller(first),
  answer: async ({ first, tenantId }) =>
    first &&
    answerCalls(
      connectTo(database),
      tenantId,
      first.lease.holder,
      new Map([["toolu_1", { content: '"yes"', isError: false }]]),
    ),
  "cancel the first": async ({ first, tenantId }) =>
    first && cancelRun(connectTo(database), tenantId, first.lease.holder),
  "cancel the queued": async (world) => {
    if (world.queued === null) return;
    world.endable.add(world.queued);
    await cancelRun(connectTo(database), world.tenantId, world.queued);
  },
  "give up the first": async (world) => {
    if (world.first === null) return;
    world.endable.add(world.first.lease.holder);
    await failGivenUp(connectTo(database), world.tenantId, world.first.lease.holder, null);
  },
  "give up the queued": async (world) => {
    if (world.queued === null) return;
    world.endable.add(world.queued);
    await failGivenUp(connectTo(database), world.tenantId, world.queued, null);
  },
};

/** Acts that need a run of that kind, and the states that have none. */
const lacks = (state: string, act: string): boolean =>
  (/queued/.test(act) && !/queued/.test(state)) ||
  (/first|finish|hand over|wait|answer/.test(act) && !/running|handed|waiting/.test(state)) ||
  (act === "answer" && !/waiting/.test(state)) ||
  (/finish|hand over|^wait/.test(act) && !/running/.test(state));

/** What only the Worker that holds the run does: it does one at a time. */
const OF_ITS_WORKER = /^(finish|hand over|wait)$/;

/** The acts that are possible in a state. */
const actsIn = (state: string): readonly string[] => Object.keys(ACTS).filter((act) => !lacks(state, act));

const makeWorld = async (prepare: (typeof STATES)[string]): Promise<World> => {
  const fixture = await makeSession(database);
  const [row] = await database.sql("select tenant_id from sessions where id = $1", [fixture.sessionId]);
  const base: World = {
    fixture,
    tenantId: String(row?.["tenant_id"]) as TenantId,
    first: null,
    queued: null,
    accepted: new Set(),
    endable: new Set(),
  };
  return { ...base, ...(await prepare(base)) };
};

/** Ends a run that was taken, as a Worker would, whatever it finds. */
const complete = async (session: LoadedSession): Promise<void> => {
  let { nextSeq } = session;
  if (session.openBatchSeq !== null) {
    const row = textRow("tool", "results", session.lease.holder);
    const place = { row, seq: seq(session.openBatchSeq + 1) };
    nextSeq = (await storeResults(db, session, place, seq(nextSeq), recordOf(session))).nextSeq;
  }
  for (let tries = 0; tries < 5; tries++) {
    const end = await storeFinish(db, session, finishOf({ ...session, nextSeq }));
    if (end.kind === "finished") return;
    nextSeq = end.nextSeq;
  }
  throw new Error("the run does not end");
};

/** Lets every Worker die, and the sweeper and the consumers do the rest. */
const drain = async (world: World): Promise<void> => {
  const { sessionId } = world.fixture;
  for (let round = 0; round < 10; round++) {
    await expire(world);
    await database.sql(
      "update session_heads set waiting_until = hango_now() where session_id = $1 and waiting_run_id <> ''",
      [sessionId],
    );
    const stranded = (await strandedRuns(db, 10_000)).filter((run) => run.sessionId === sessionId);
    if (stranded.length === 0) return;
    expect(stranded).toHaveLength(1);
    for (const { tenantId, runId } of stranded) {
      const asked = { tenantId, runId, token: newId("run"), startedAt: "2026-01-01T00:02:00.000Z", limits: null };
      await complete(taken(await takeRun(db, asked)));
    }
  }
};

const check = async (world: World): Promise<void> => {
  const { sessionId } = world.fixture;
  const runs = await database.sql(
    "select id, status, trigger, error->>'code' as code, cancel_requested_at from runs where session_id = $1",
    [sessionId],
  );
  const open = runs.filter(({ status }) => !["completed", "failed", "cancelled"].includes(String(status)));
  expect(open, "runs that nobody can end").toEqual([]);
  const failed = runs.filter(
    ({ id, status, trigger }) => status === "failed" && trigger !== "maintenance" && !world.endable.has(String(id)),
  );
  expect(failed, "runs that somebody else ended").toEqual([]);
  const [head] = await database.sql(
    `select lease_holder, waiting_run_id, open_batch_seq, next_seq > (select coalesce(max(seq), 0) from messages m where m.session_id = h.session_id) as seqs,
      next_event > (select coalesce(max(n), 0) from run_events e where e.session_id = h.session_id) as events,
      (select count(*)::int from inputs i where i.session_id = h.session_id) as inputs from session_heads h where session_id = $1`,
    [sessionId],
  );
  expect(head).toEqual({
    lease_holder: null,
    waiting_run_id: null,
    open_batch_seq: null,
    seqs: true,
    events: true,
    inputs: 0,
  });
  const log = (
    await database.sql("select content->0->>'text' as text from messages where session_id = $1", [sessionId])
  ).map(({ text }) => text);
  for (const text of world.accepted) {
    const times = log.filter((found) => found === text).length;
    const ended = [...world.endable].some((id) => text.endsWith(id));
    if (ended ? times > 1 : times !== 1) expect.fail(`${text} is ${times} times in the log`);
  }
};

const ignoreLost = (results: readonly PromiseSettledResult<unknown>[]): void => {
  for (const result of results)
    if (result.status === "rejected" && !(result.reason instanceof LeaseLost)) throw result.reason;
};

describe.each(Object.keys(STATES))("of a session that is %s", (state) => {
  it.each(actsIn(state))(
    "%s comes before each other act: nothing is lost, doubled or stuck (M2, M5)",
    async (one) => {
      const problems: string[] = [];
      for (const other of actsIn(state)) {
        if (OF_ITS_WORKER.test(one) && OF_ITS_WORKER.test(other)) continue;
        const world = await makeWorld(STATES[state] ?? (async () => undefined));
        const works = [one, other].map((name) => () => Promise.resolve(ACTS[name]?.(world)));
        try {
          ignoreLost(await meeting(database, world.fixture.sessionId, works));
          await drain(world);
          await check(world);
        } catch (error) {
          problems.push(`${one}, then ${other}: ${error instanceof Error ? error.message : String(error)}`);
        }
      }
      expect(problems).toEqual([]);
    },
    60_000,
  );
});
