/** A tenant with a session, made by SQL, and turns begun on it: what the store's tests start from. */
import { newId, type RunId, type SessionId, seq } from "../../src/protocol/ids.ts";
import type { NewRow } from "../../src/protocol/messages.ts";
import { beginTurn } from "../../src/store/begin.ts";
import type { BeginOutcome, BeginTurn } from "../../src/store/begin-request.ts";
import { connect, type Db } from "../../src/store/db.ts";
import type { FinishTurn } from "../../src/store/finish.ts";
import type { GuardRecord } from "../../src/store/guards.ts";
import type { LoadedSession } from "../../src/store/loaded-session.ts";
import type { NewRevision, StoredReceipt } from "../../src/store/revisions.ts";
import type { RunTotals, StepRecord } from "../../src/store/statements.ts";
import { type TakeOutcome, type TakeRun, takeRun } from "../../src/store/take.ts";
import type { StoredGeneration, StoredView } from "../../src/store/view.ts";
import { noopTracer } from "../../src/telemetry/tracer.ts";
import { newRow } from "../../src/turns/rows.ts";
import type { TestDatabase } from "./database.ts";

export const connectTo = (database: TestDatabase): Db =>
  connect({ databaseUrl: database.connectionString, fetchEndpoint: database.url, timeoutMs: 10_000 }, noopTracer);

export interface Fixture {
  readonly sessionId: SessionId;
  readonly keyHash: string;
}

/** A tenant, a key with all scopes, and an idle session. */
export const makeSession = async (database: TestDatabase): Promise<Fixture> => {
  const tenant = newId("tnt");
  const sessionId = newId("ses");
  const keyHash = newId("key");
  await database.sql("insert into tenants (id, name) values ($1, 'test')", [tenant]);
  await database.sql(
    "insert into api_keys (id, tenant_id, hash, prefix, scopes) values ($1, $2, $3, 'hango_', '{read,write,content,admin}')",
    [newId("key"), tenant, keyHash],
  );
  await database.sql(
    "insert into sessions (id, tenant_id, key, model, created_with) values ($1, $2, $3, 'claude-sonnet-5-5', '')",
    [sessionId, tenant, `key of ${sessionId}`],
  );
  await database.sql("insert into session_heads (session_id) values ($1)", [sessionId]);
  return { sessionId, keyHash };
};

export const textRow = (
  origin: NewRow["origin"],
  text: string,
  runId: RunId | null,
  calls: readonly string[] = [],
): NewRow => newRow({ id: newId("msg"), origin, content: JSON.stringify([{ type: "text", text }]), calls, runId });

export const turnOf = (fixture: Fixture, changes: Partial<BeginTurn> = {}): BeginTurn => {
  const runId = changes.runId ?? newId("run");
  return {
    keyHash: fixture.keyHash,
    session: { id: fixture.sessionId },
    runId,
    idempotencyKey: null,
    requestHash: "hash",
    input: textRow("user", "hello", runId),
    startedAt: "2026-01-01T00:00:00.000Z",
    limits: null,
    trigger: "api",
    onBusy: "reject",
    background: false,
    options: {},
    callbackUrl: null,
    triggerId: null,
    deliveryId: null,
    ...changes,
  };
};

export const begun = (outcome: BeginOutcome): LoadedSession => {
  if (outcome.kind !== "started") throw new Error(`the turn did not start: ${outcome.kind}`);
  return outcome.session;
};

export const start = async (db: Db, fixture: Fixture, changes: Partial<BeginTurn> = {}): Promise<LoadedSession> =>
  begun(await beginTurn(db, turnOf(fixture, changes)));

export const taking = (session: LoadedSession, changes: Partial<TakeRun> = {}): TakeRun => ({
  tenantId: session.tenantId,
  runId: session.lease.holder,
  token: newId("run"),
  startedAt: "2026-01-01T00:01:00.000Z",
  limits: null,
  ...changes,
});

export const taken = (outcome: TakeOutcome): LoadedSession => {
  if (outcome.kind !== "taken") throw new Error(`the run was not taken: ${outcome.kind}`);
  return outcome.session;
};

/** Brings input to the run that is on. @returns what became of it */
export const join = async (db: Db, fixture: Fixture, input: NewRow): Promise<BeginOutcome["kind"]> =>
  (await beginTurn(db, turnOf(fixture, { input, onBusy: "join" }))).kind;

/** Another Worker takes the same run up. */
export const takeOver = async (
  db: Db,
  session: LoadedSession,
  changes: Partial<TakeRun> = {},
): Promise<LoadedSession> => taken(await takeRun(db, taking(session, changes)));

export const NO_TOTALS: RunTotals = {
  steps: 1,
  usage: { inputTokens: 10, outputTokens: 5, cacheReadTokens: 0, cacheWriteTokens: 0 },
  costUsd: 0.25,
};

/** Guards that have seen nothing. */
export const guardRecord = (changes: Partial<GuardRecord> = {}): GuardRecord => ({
  cooldownReason: null,
  summaryTimeouts: 0,
  summaryTruncations: 0,
  strikes: 0,
  pause: null,
  onProbation: false,
  skips: 0,
  generation: 0,
  reading: null,
  result: null,
  settledSeq: 0,
  budget: { compactions: 0, attempts: 0 },
  learnedWith: null,
  ...changes,
});

export const recordOf = (session: LoadedSession, events: StepRecord["events"] = []): StepRecord => ({
  events,
  usage: [],
  nextEvent: session.nextEvent + events.length,
  thinkingFloor: 1,
});

export const finishOf = (session: LoadedSession, changes: Partial<FinishTurn> = {}): FinishTurn => ({
  status: "completed",
  stopReason: "end_turn",
  outputText: "done",
  error: null,
  message: { row: textRow("assistant", "done", session.lease.holder), seq: seq(session.nextSeq) },
  base: seq(session.nextSeq + 1),
  totals: NO_TOTALS,
  lastInputTokens: 10,
  todos: [],
  microEveryNTurns: null,
  dbRoundTrips: 2,
  overheadMs: 1,
  record: recordOf(session),
  closing: recordOf(session, [
    {
      n: session.nextEvent,
      type: "run.completed",
      data: "{}",
      messageSeq: null,
      createdAt: "2026-01-01T00:00:01.000Z",
    },
  ]),
  ...changes,
});

/** A view before its first change, as a revision would store it. */
export const EMPTY: StoredView = {
  revision: 0,
  generation: null,
  clippedBefore: seq(1),
  clipTokens: 500,
  thinkingFloor: seq(1),
  demoted: [],
  skills: "[]",
  hidden: [],
  volatileHash: null,
};

export const generation = (number: number, changes: Partial<StoredGeneration> = {}): StoredGeneration => ({
  number,
  base: number - 1,
  covered: [{ from: seq(1), to: seq(2) }],
  summary: `summary ${number}`,
  sections: "{}",
  pinned: null,
  history: { kind: "file", path: "/conversation_history/s.md" },
  prefixVersion: 1,
  ...changes,
});

export const compaction = (changes: Partial<StoredReceipt> = {}): StoredReceipt => ({
  reason: "threshold",
  coveredHash: "hash",
  promptVersion: 1,
  tokensBefore: 1000,
  tokensAfter: 100,
  evicted: 2,
  historySizeBytes: 10,
  historySha256: "sha",
  model: "claude-sonnet-5-5",
  usage: { inputTokens: 900, outputTokens: 90, cacheReadTokens: 0, cacheWriteTokens: 0 },
  costUsd: 0.5,
  ...changes,
});

/** The first revision of a session: with a receipt its first generation, unless the view says otherwise. */
export const change = (session: LoadedSession, changes: Partial<NewRevision> = {}): NewRevision => ({
  attemptId: `attempt of ${session.lease.holder}`,
  base: { revision: 0, generation: 0 },
  view: { ...EMPTY, revision: 1, generation: (changes.compaction ?? null) === null ? null : generation(1) },
  reason: "test",
  compaction: null,
  record: recordOf(session),
  ...changes,
});
