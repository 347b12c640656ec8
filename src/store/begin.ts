/**
 * `turns/begin` in one round trip, authentication included (architecture section 2). Each statement is tied to the one before
 * through the database, not through the Worker, so the batch may be sent again when its answer was lost.
 */
import { type SQL, sql } from "drizzle-orm";
import { type KeyId, type RunId, type SessionId, seq, type TenantId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import type { BeginOutcome, BeginRun, BeginTurn, Caller, EnqueueTurn } from "./begin-request.ts";
import { interruptStatements } from "./cancel.ts";
import type { Db, Row } from "./db.ts";
import { countDead, DEAD_COLUMNS } from "./dead-runs.ts";
import { isJoined, joinColumn, joinedBefore, joinOf, joinStatements } from "./join.ts";
import { busyRun, leaseExpiry, leaseLive, RELEASED, retryAfter, sessionBusy, unclaimed } from "./lease.ts";
import { newRunFacts } from "./loaded-session.ts";
import { loadedOf, loadStatements } from "./loading.ts";
import { MESSAGE_COLUMNS, messageValues } from "./row-values.ts";
import { flag, number, numberOrNull, text, textOrNull } from "./rows.ts";
import { type SessionRef, sessionNamed } from "./session-ref.ts";
import { SESSION_COLUMNS, settledSession } from "./settled-session.ts";
import { insertQueued, queuesWhere } from "./waiting-input.ts";

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
const scope = ({ caller, session, trigger }: Pick<BeginRun, "caller" | "session" | "trigger">): SQL => {
  const key = keyOf(caller);
  return sql`${key.from}
    join tenants t on t.id = k.tenant_id and t.status = 'active'
    join sessions s on s.tenant_id = k.tenant_id and ${sessionNamed(session)}
    join session_heads h on h.session_id = s.id
    where ${key.valid} and 'write' = any(k.scopes) and ${trigger === "maintenance" ? sql`true` : sql`s.depth = 0`}`;
};

/** Two event numbers are reserved by every begin: the end of a run found dead, and the start of the new one. */
const RESERVED_EVENTS = 2;

const insertInput = (runId: RunId, input: NewRow, held: SQL): SQL =>
  sql`insert into messages (session_id, seq, ${MESSAGE_COLUMNS}, run_id) select r.session_id, r.input_seq, ${messageValues(input)}, r.id
    from runs r where r.id = ${runId} and exists (select 1 from ${held}) on conflict (id) do nothing`;

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
    ...(queues === null || input === null ? [] : [insertQueued(runId, input, from)]),
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
        returning ${DEAD_COLUMNS}, h.next_event),
      counted as (${countDead})
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
  if (run.trigger !== "maintenance" && number(head, "depth") > 0) return { kind: "subagent" };
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
  const [rows] = await db.batch(
    [sql`select s.tenant_id, s.id from ${scope({ caller: { keyHash }, session, trigger: "api" })}`],
    {
      name: "find session",
      repeatable: true,
    },
  );
  const row = rows?.[0];
  return row === undefined
    ? undefined
    : { tenantId: text(row, "tenant_id") as TenantId, sessionId: text(row, "id") as SessionId };
};
