/**
 * `turns/begin` in one round trip, authentication included (architecture section 2). Each statement is tied to the one before
 * through the database, not through the Worker, so the batch may be sent again when its answer was lost.
 */
import { type SQL, sql } from "drizzle-orm";
import { type KeyId, type RunId, type Seq, type SessionId, seq, type TenantId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import { interruptStatements } from "./cancel.ts";
import type { Db, Row } from "./db.ts";
import { isJoined, joinColumn, joinedBefore, joinOf, joinStatements, runIsOn } from "./join.ts";
import { busyRun, type Lease, leaseExpiry, leaseLive, RELEASED, retryAfter, sessionBusy, unclaimed } from "./lease.ts";
import { type LoadLimits, loadedOf, loadStatements } from "./loading.ts";
import { flag, number, numberOrNull, text, textOrNull } from "./rows.ts";
import type { RunTrigger } from "./runs.ts";
import { SESSION_COLUMNS, type SettledSession, settledSession } from "./settled-session.ts";
import type { RunTotals } from "./statements.ts";

/** How a caller names a session: our id, or their own key. */
export type SessionRef = { readonly id: string } | { readonly key: string };

/** Who asks: the holder of a key, who is authenticated by the same statements, or somebody whom the caller has authenticated. */
export type Caller =
  /** SHA-256 of the API key's secret. */
  { readonly keyHash: string } | { readonly tenantId: TenantId; readonly keyId: KeyId | null };

/** What becomes of a turn whose session is busy (api.md). `join` puts the input into the turn that is on (M5). */
export type OnBusy = "reject" | "queue" | "interrupt" | "join";

export interface BeginRun {
  readonly caller: Caller;
  readonly session: SessionRef;
  readonly runId: RunId;
  readonly trigger: RunTrigger;
  readonly idempotencyKey: string | null;
  readonly requestHash: string | null;
  /** The turn's input; null for a run that works on what is there. */
  readonly input: NewRow | null;
  /** When the run started, RFC 3339: the time of its first event. */
  readonly startedAt: string;
  /** How far back rows are read; null for all of them. */
  readonly limits: LoadLimits | null;
  readonly onBusy: OnBusy;
  /** Stored to be run by the queue, also where the session is idle. */
  readonly background: boolean;
  readonly options: RunOptions;
  readonly callbackUrl: string | null;
  readonly triggerId: string | null;
  readonly deliveryId: string | null;
  /** SQL condition over `session_heads h`, without which the run does not begin. */
  readonly only?: SQL;
  /** SQL that takes effect with the begin, before the view is read. */
  readonly also?: readonly SQL[];
}

/** What a request asks of its run alone; stored as `runs.options`. */
export interface RunOptions {
  /** Most model calls. */
  readonly maxSteps?: number;
  /** Most that the turn may cost, in USD at list price. */
  readonly maxUsd?: number;
}

export type BeginTurn = Omit<BeginRun, "caller" | "input" | "requestHash"> & {
  /** SHA-256 of the API key's secret. */
  readonly keyHash: string;
  readonly requestHash: string;
  readonly input: NewRow;
};

/** A turn that nobody waits for in the request that brings it. */
export type EnqueueTurn = Omit<BeginRun, "caller" | "input" | "startedAt" | "limits" | "background"> & {
  readonly tenantId: TenantId;
  readonly keyId: KeyId | null;
  readonly input: NewRow;
};

/** A session as a run sees it, and what makes it that run's. */
export interface LoadedSession extends SettledSession {
  readonly lease: Lease;
  readonly keyId: KeyId | null;
  /** Where the turn's own input stands; null where the run has none. */
  readonly inputSeq: Seq | null;
  readonly run: RunFacts;
}

/** What a run brings along, of its request and of what was done of it before. */
export interface RunFacts {
  readonly trigger: RunTrigger;
  readonly options: RunOptions;
  /** What its earlier parts used. */
  readonly totals: RunTotals;
  /** Time that its earlier parts took of the turn's limit, in ms. */
  readonly spentMs: number;
  /** Round trips and time of its earlier parts, as they counted them. */
  readonly overheadMs: number;
  readonly dbRoundTrips: number;
  /** Starts, the first included; a hand-over is none. */
  readonly attempts: number;
  /** RFC 3339. */
  readonly createdAt: string;
  readonly startedAt: string;
  /** A hard cancel was asked for. */
  readonly cancelled: boolean;
  /** The time for the caller's tool results is over. */
  readonly overdue: boolean;
  /** Results of an open batch that came before the others, by call. */
  readonly answers: ReadonlyMap<string, StoredAnswer>;
}

/** A result that waits for the others of its batch. */
export interface StoredAnswer {
  /** JSON text of the result's content: a string, or blocks. */
  readonly content: string;
  readonly isError: boolean;
}

export type BeginOutcome =
  | { readonly kind: "started"; readonly session: LoadedSession }
  | { readonly kind: "unauthenticated" }
  | { readonly kind: "forbidden"; readonly reason: "scope" | "tenant_suspended" }
  | { readonly kind: "session_not_found" }
  | {
      readonly kind: "busy";
      readonly runId: RunId;
      readonly retryAfterSeconds: number;
      /** Of a run that is on, or could go on, and that no Worker is at work on: somebody is to send for it. */
      readonly stranded: { readonly tenantId: TenantId; readonly sessionId: SessionId } | null;
    }
  /** Stored; the queue runs it. `cancelled` is the run that was told to stop for it. */
  | { readonly kind: "queued"; readonly runId: RunId; readonly sessionId: SessionId; readonly tenantId: TenantId }
  /** The input goes into the log with the next step of this run (M5). */
  | { readonly kind: "joined"; readonly runId: RunId; readonly sessionId: SessionId; readonly tenantId: TenantId }
  /** The idempotency key was used before: by the same request (then `runId` is its run), or by another. */
  | { readonly kind: "replay"; readonly runId: RunId; readonly tenantId: TenantId; readonly sameRequest: boolean };

const sessionNamed = (session: SessionRef): SQL =>
  "id" in session ? sql`s.id = ${session.id}` : sql`s.key = ${session.key}`;

/** SQL: the key `k` that asks, with its tenant and scopes, and the condition under which it may. */
const keyOf = (caller: Caller): { readonly from: SQL; readonly valid: SQL } =>
  "keyHash" in caller
    ? {
        from: sql`api_keys k`,
        valid: sql`k.hash = ${caller.keyHash} and k.revoked_at is null and (k.expires_at is null or k.expires_at > hango_now())`,
      }
    : {
        from: sql`(select ${caller.keyId}::text as id, ${caller.tenantId}::text as tenant_id, '{write}'::text[] as scopes) k`,
        valid: sql`true`,
      };

/** SQL: the session, found through the key that asks for it, so that no statement can reach another tenant's. */
const scope = ({ caller, session }: Pick<BeginRun, "caller" | "session">): SQL => {
  const key = keyOf(caller);
  return sql`${key.from}
    join tenants t on t.id = k.tenant_id and t.status = 'active'
    join sessions s on s.tenant_id = k.tenant_id and ${sessionNamed(session)}
    join session_heads h on h.session_id = s.id
    where ${key.valid} and 'write' = any(k.scopes)`;
};

/** Two event numbers are reserved by every begin: the end of a run found dead, and the start of the new one. */
const RESERVED_EVENTS = 2;

const insertInput = (runId: RunId, input: NewRow, held: SQL): SQL =>
  sql`insert into messages (session_id, seq, id, role, origin, content, media, calls, tokens, bytes, run_id)
    select r.session_id, r.input_seq, ${input.id}, ${input.role}, ${input.origin}, ${input.content}::json,
      ${sql.param([...input.media])}::text[], ${sql.param([...input.calls])}::text[], ${input.tokens}::int, ${input.bytes}::int, r.id
    from runs r where r.id = ${runId} and exists (select 1 from ${held}) on conflict (id) do nothing`;

const insertQueued = ({ runId, input }: BeginRun, from: SQL): SQL => {
  if (input === null) return sql`select 1 where false`;
  return sql`insert into inputs (id, session_id, run_id, origin, content, media, tokens, bytes)
    select ${input.id}, r.session_id, r.id, ${input.origin}, ${input.content}::json, ${sql.param([...input.media])}::text[], ${input.tokens}::int,
      ${input.bytes}::int
    from runs r where r.id = ${runId} and r.status = 'queued' and exists (select 1 from ${from}) on conflict (id) do nothing`;
};

/** SQL condition over `session_heads h`: the run is stored as queued, where it does not start at once; null for never. */
const queuesWhere = ({ onBusy, background }: BeginRun): SQL | null => {
  switch (onBusy) {
    case "queue":
    case "interrupt":
      return sql`true`;
    case "join":
      return sql`not ${runIsOn}`;
    case "reject":
      return background ? sql`not ${sessionBusy}` : null;
    default:
      return onBusy satisfies never;
  }
};

const statements = (run: BeginRun): readonly SQL[] => {
  const { runId, input, idempotencyKey, onBusy, background } = run;
  const from = scope(run);
  const key = keyOf(run.caller);
  const mine = sql`h.lease_holder = ${runId}`;
  const rows = sql.raw(input === null ? "0" : "1");
  const queues = queuesWhere(run);
  // Work between turns keeps no order with turns that wait.
  const free = input === null ? unclaimed : sql`not ${sessionBusy}`;
  const options = JSON.stringify(run.options);
  const joining = input === null ? null : { ...run, input };
  const joined = (tenantId: SQL) => (joining === null ? sql`false` : joinedBefore(joining, tenantId));
  return [
    ...(background
      ? []
      : [
          sql`with found as (select s.id, s.tenant_id from ${from})
      update session_heads h set lease_holder = ${runId}, lease_epoch = h.lease_epoch + 1, lease_expires_at = ${leaseExpiry},
        lease_taken_at = hango_now(), lease_token = ${runId}, cancel_requested_at = null, waiting_until = null,
        next_seq = h.next_seq + ${rows}, next_event = h.next_event + ${RESERVED_EVENTS}
      from found where h.session_id = found.id and ${free} and ${run.only ?? sql`true`}
        and not exists (select 1 from runs r where r.id = ${runId} or (r.tenant_id = found.tenant_id and r.idempotency_key = ${idempotencyKey}))
        and not ${joined(sql`found.tenant_id`)}`,
        ]),
    sql`insert into runs (id, tenant_id, session_id, key_id, status, trigger, model, idempotency_key, request_hash, input_seq, started_at,
        interrupts, options, callback_url, trigger_id, delivery_id)
      select ${runId}, s.tenant_id, s.id, k.id, case when ${mine} then 'running' else 'queued' end, ${run.trigger}, s.model, ${idempotencyKey},
        ${run.requestHash}, ${input === null ? sql`null` : sql`case when ${mine} then h.next_seq - 1 end`},
        case when ${mine} then hango_now() end, ${onBusy === "interrupt"}, ${options}::jsonb, ${run.callbackUrl}, ${run.triggerId}, ${run.deliveryId}
      from ${from} and (${mine} or ${queues ?? sql`false`}) and not ${joined(sql`s.tenant_id`)} on conflict do nothing`,
    ...(input === null ? [] : [insertInput(runId, input, sql`${from} and ${mine}`)]),
    ...(queues === null ? [] : [insertQueued(run, from)]),
    ...(onBusy === "interrupt" ? interruptStatements(runId, from) : []),
    ...(onBusy === "join" && joining !== null
      ? joinStatements(
          joining,
          sql`${from} and not (coalesce(${mine}, false)) and not exists (select 1 from runs r where r.tenant_id = s.tenant_id
          and (r.id = ${runId} or r.idempotency_key = ${idempotencyKey}))`,
        )
      : []),
    sql`update session_heads h set ${RELEASED}, next_seq = h.next_seq - ${rows}
      where ${mine} and h.session_id in (select s.id from ${from}) and not exists (select 1 from runs r where r.id = ${runId})`,
    ...(run.also ?? []),
    sql`with dead as (
        update runs r set status = 'failed', finished_at = hango_now(), draft = null, error = ${JSON.stringify(INTERRUPTED)}::jsonb
        from session_heads h where ${mine} and h.session_id in (select s.id from ${from})
          and r.session_id = h.session_id and r.status = 'running' and r.id <> ${runId}
        returning r.session_id, r.id, h.next_event)
      insert into run_events (session_id, n, run_id, type, data)
      select dead.session_id, dead.next_event - 2, dead.id, 'run.failed', ${JSON.stringify({ error: INTERRUPTED })}::json from dead
      on conflict do nothing`,
    sql`insert into run_events (session_id, n, run_id, type, data, message_seq, created_at)
      select h.session_id, h.next_event - 1, ${runId}, 'run.started', '{}', r.input_seq, ${run.startedAt}::timestamptz
      from session_heads h join runs r on r.id = ${runId} where ${mine} and h.session_id in (select s.id from ${from}) on conflict do nothing`,
    sql`select k.id as key_id, k.tenant_id, 'write' = any(k.scopes) as may_write, t.status = 'active' as active,
        ${sql.raw(SESSION_COLUMNS)}, h.lease_epoch, ${retryAfter} as retry_after, ${busyRun} as busy_run, coalesce(${leaseLive}, false) as live, s.last_run_id,
        r.id as run_id, r.status as run_status, r.request_hash, r.input_seq,
        ${input === null || onBusy !== "join" ? sql`false` : isJoined(input)} as joined, ${joinColumn(joining)} as joined_before
      from ${key.from} join tenants t on t.id = k.tenant_id
        left join sessions s on s.tenant_id = k.tenant_id and ${sessionNamed(run.session)}
        left join session_heads h on h.session_id = s.id
        left join runs r on r.tenant_id = k.tenant_id and (r.id = ${runId} or r.idempotency_key = ${idempotencyKey})
      where ${key.valid}`,
    ...loadStatements(runId, run.limits),
  ];
};

/** What a run that stopped answering is recorded with when the next one takes its session over. */
const INTERRUPTED = {
  type: "api_error",
  code: "run_interrupted",
  message: "The run stopped before it was finished; a later turn took the session over.",
  retryable: true,
};

const read = (run: BeginRun, results: readonly (readonly Row[])[]): BeginOutcome => {
  const head = results.at(-3)?.[0];
  const view = results.at(-2)?.[0];
  if (head === undefined) return { kind: "unauthenticated" };
  if (!flag(head, "active")) return { kind: "forbidden", reason: "tenant_suspended" };
  if (!flag(head, "may_write")) return { kind: "forbidden", reason: "scope" };
  const tenantId = text(head, "tenant_id") as TenantId;
  const sessionId = textOrNull(head, "session_id") as SessionId | null;
  const runId = textOrNull(head, "run_id") as RunId | null;
  const holder = textOrNull(head, "lease_holder") as RunId | null;
  if (sessionId === null) return { kind: "session_not_found" };
  if (runId !== null && runId !== run.runId) {
    return { kind: "replay", runId, tenantId, sameRequest: text(head, "request_hash") === run.requestHash };
  }
  const before = runId === null ? joinOf(head, "joined_before") : null;
  if (before !== null) {
    return {
      kind: "replay",
      runId: before.runId as RunId,
      tenantId,
      sameRequest: before.requestHash === run.requestHash,
    };
  }
  if (runId === null && flag(head, "joined")) {
    const joined = textOrNull(head, "busy_run") ?? textOrNull(head, "last_run_id");
    if (joined !== null) return { kind: "joined", runId: joined as RunId, sessionId, tenantId };
  }
  if (runId !== null && text(head, "run_status") === "queued") return { kind: "queued", runId, sessionId, tenantId };
  if (runId === null || holder !== run.runId || view === undefined) {
    // None: the session was released between our attempt and our look at it. The caller may come back at once.
    const busy = textOrNull(head, "busy_run") as RunId | null;
    const stranded = busy === null || flag(head, "live") ? null : { tenantId, sessionId };
    return { kind: "busy", runId: busy ?? run.runId, retryAfterSeconds: number(head, "retry_after"), stranded };
  }
  const loaded = loadedOf(view, results.at(-1) ?? []);
  const inputSeq = numberOrNull(head, "input_seq");
  return {
    kind: "started",
    session: {
      ...settledSession(head, tenantId, loaded),
      lease: { sessionId, holder: run.runId, epoch: number(head, "lease_epoch") },
      keyId: textOrNull(head, "key_id") as KeyId | null,
      inputSeq: inputSeq === null ? null : seq(inputSeq),
      run: newRunFacts(run.trigger, run.options, run.startedAt),
    },
  };
};

/** What a run has behind it that starts now: nothing. @param startedAt RFC 3339 */
export const newRunFacts = (trigger: RunTrigger, options: RunOptions, startedAt: string): RunFacts => ({
  trigger,
  options,
  createdAt: startedAt,
  startedAt,
  totals: {
    steps: 0,
    usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
    costUsd: null,
  },
  spentMs: 0,
  overheadMs: 0,
  dbRoundTrips: 0,
  attempts: 1,
  cancelled: false,
  overdue: false,
  answers: new Map(),
});

/**
 * Authenticates, takes the session's lease, records the run and its input, and loads what the run needs; where the session is busy, does what
 * the request wants then.
 * @throws StoreUnavailable
 */
export const beginTurn = async (db: Db, turn: BeginTurn): Promise<BeginOutcome> => {
  const { keyHash, ...rest } = turn;
  return begin(db, { ...rest, caller: { keyHash } });
};

/**
 * Stores a turn for the queue to run, on behalf of a tenant who is known.
 * @throws StoreUnavailable
 */
export const storeQueuedTurn = async (db: Db, turn: EnqueueTurn): Promise<BeginOutcome> => {
  const { tenantId, keyId, ...rest } = turn;
  const nothing = { startedAt: new Date(0).toISOString(), limits: null };
  return begin(db, { ...rest, ...nothing, background: true, caller: { tenantId, keyId } });
};

/** Any of the begins. @throws StoreUnavailable */
export const begin = async (db: Db, run: BeginRun): Promise<BeginOutcome> =>
  read(run, await db.batch(statements(run), { name: "begin", repeatable: true }));

/** What work between turns has none of. */
const NO_TURN = {
  idempotencyKey: null,
  requestHash: null,
  input: null,
  onBusy: "reject",
  background: false,
  options: {},
  callbackUrl: null,
  triggerId: null,
  deliveryId: null,
} as const;

/** A run without an input of its own: it works on the session's view. */
export interface MaintenanceRun extends Pick<BeginRun, "session" | "runId" | "startedAt" | "limits"> {
  readonly tenantId: TenantId;
  /** Whose request it is; null for nobody's. */
  readonly keyId: KeyId | null;
}

export type MaintenanceOutcome = Extract<BeginOutcome, { readonly kind: "started" | "session_not_found" | "busy" }>;

/**
 * Takes the session's lease for work between turns, as a turn takes it: with a run of its own, and everything loaded that a turn loads.
 * @throws StoreUnavailable
 */
export const takeMaintenanceLease = async (db: Db, run: MaintenanceRun): Promise<MaintenanceOutcome> => {
  const { tenantId, keyId, ...rest } = run;
  const outcome = await begin(db, { ...rest, ...NO_TURN, caller: { tenantId, keyId }, trigger: "maintenance" });
  switch (outcome.kind) {
    case "started":
    case "session_not_found":
    case "busy":
      return outcome;
    case "unauthenticated":
    case "forbidden":
    case "replay":
    case "queued":
    case "joined":
      // The tenant is gone or suspended, or the id of the run is somebody else's: there is no session to work on.
      return { kind: "session_not_found" };
    default:
      return outcome satisfies never;
  }
};

/**
 * The session that a key may write to, found as `beginTurn` finds it: for what must be stored before the turn begins.
 * @returns undefined whenever `beginTurn` would refuse for the key or the session
 * @throws StoreUnavailable
 */
export const findOwnSession = async (
  db: Db,
  keyHash: string,
  session: SessionRef,
): Promise<{ readonly tenantId: TenantId; readonly sessionId: SessionId } | undefined> => {
  const [rows] = await db.batch([sql`select s.tenant_id, s.id from ${scope({ caller: { keyHash }, session })}`], {
    name: "find session",
    repeatable: true,
  });
  const row = rows?.[0];
  return row === undefined
    ? undefined
    : { tenantId: text(row, "tenant_id") as TenantId, sessionId: text(row, "id") as SessionId };
};
