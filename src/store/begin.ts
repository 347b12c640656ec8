/**
 * `turns/begin` in one round trip, authentication included (architecture section 2). Each statement is tied to the one before
 * through the database, not through the Worker, so the batch may be sent again when its answer was lost.
 */
import { type SQL, sql } from "drizzle-orm";
import { type KeyId, type RunId, type Seq, type SessionId, seq, type TenantId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import type { Db, Row } from "./db.ts";
import { type Lease, leaseExpiry } from "./lease.ts";
import { type LoadLimits, loadedOf, loadStatements } from "./loading.ts";
import { flag, number, numberOrNull, text, textOrNull } from "./rows.ts";
import { SESSION_COLUMNS, type SettledSession, settledSession } from "./settled-session.ts";

/** How a caller names a session: our id, or their own key. */
export type SessionRef = { readonly id: string } | { readonly key: string };

/** Who asks: the holder of a key, who is authenticated by the same statements, or somebody whom the caller has authenticated. */
export type Caller =
  /** SHA-256 of the API key's secret. */
  { readonly keyHash: string } | { readonly tenantId: TenantId; readonly keyId: KeyId | null };

interface BeginRun {
  readonly caller: Caller;
  readonly session: SessionRef;
  readonly runId: RunId;
  readonly trigger: "api" | "maintenance";
  readonly idempotencyKey: string | null;
  readonly requestHash: string | null;
  /** The turn's input; null for a run that works on what is there. */
  readonly input: NewRow | null;
  /** When the run started, RFC 3339: the time of its first event. */
  readonly startedAt: string;
  /** How far back rows are read; null for all of them. */
  readonly limits: LoadLimits | null;
}

export interface BeginTurn extends Pick<BeginRun, "session" | "runId" | "idempotencyKey" | "startedAt" | "limits"> {
  /** SHA-256 of the API key's secret. */
  readonly keyHash: string;
  readonly requestHash: string;
  readonly input: NewRow;
}

/** A session as a run sees it, and what makes it that run's. */
export interface LoadedSession extends SettledSession {
  readonly lease: Lease;
  readonly keyId: KeyId | null;
  /** Where the turn's own input stands; null where the run has none. */
  readonly inputSeq: Seq | null;
}

export type BeginOutcome =
  | { readonly kind: "started"; readonly session: LoadedSession }
  | { readonly kind: "unauthenticated" }
  | { readonly kind: "forbidden"; readonly reason: "scope" | "tenant_suspended" }
  | { readonly kind: "session_not_found" }
  | { readonly kind: "busy"; readonly runId: RunId; readonly retryAfterSeconds: number }
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

const statements = (run: BeginRun): readonly SQL[] => {
  const { runId, input, idempotencyKey } = run;
  const from = scope(run);
  const key = keyOf(run.caller);
  const mine = sql`h.lease_holder = ${runId}`;
  const rows = sql.raw(input === null ? "0" : "1");
  return [
    sql`with found as (select s.id, s.tenant_id from ${from})
      update session_heads h set lease_holder = ${runId}, lease_epoch = h.lease_epoch + 1, lease_expires_at = ${leaseExpiry},
        next_seq = h.next_seq + ${rows}, next_event = h.next_event + ${RESERVED_EVENTS}
      from found where h.session_id = found.id and (h.lease_holder is null or h.lease_expires_at <= hango_now())
        and not exists (select 1 from runs r where r.id = ${runId} or (r.tenant_id = found.tenant_id and r.idempotency_key = ${idempotencyKey}))`,
    sql`insert into runs (id, tenant_id, session_id, key_id, status, trigger, model, idempotency_key, request_hash, input_seq)
      select ${runId}, s.tenant_id, s.id, k.id, 'running', ${run.trigger}, s.model, ${idempotencyKey}, ${run.requestHash},
        ${input === null ? sql`null` : sql`h.next_seq - 1`}
      from ${from} and ${mine} on conflict do nothing`,
    ...(input === null ? [] : [insertInput(runId, input, sql`${from} and ${mine}`)]),
    sql`update session_heads h set lease_holder = null, lease_expires_at = null, next_seq = h.next_seq - ${rows}
      where ${mine} and h.session_id in (select s.id from ${from}) and not exists (select 1 from runs r where r.id = ${runId})`,
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
        ${sql.raw(SESSION_COLUMNS)}, h.lease_epoch,
        greatest(1, ceil(extract(epoch from h.lease_expires_at - hango_now())))::int as retry_after,
        r.id as run_id, r.request_hash, r.input_seq
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
  if (runId === null || holder !== run.runId || view === undefined) {
    // No holder: the session was released between our attempt and our look at it. The caller may come back at once.
    if (holder === null) return { kind: "busy", runId: run.runId, retryAfterSeconds: 1 };
    return { kind: "busy", runId: holder, retryAfterSeconds: Math.min(number(head, "retry_after"), 10) };
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
    },
  };
};

/**
 * Authenticates, takes the session's lease, records the run and its input, and loads what the run needs.
 * @throws StoreUnavailable
 */
export const beginTurn = async (db: Db, turn: BeginTurn): Promise<BeginOutcome> => {
  const { keyHash, ...rest } = turn;
  return begin(db, { ...rest, caller: { keyHash }, trigger: "api" });
};

const begin = async (db: Db, run: BeginRun): Promise<BeginOutcome> =>
  read(run, await db.batch(statements(run), { name: "begin", repeatable: true }));

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
  const nothing = { idempotencyKey: null, requestHash: null, input: null };
  const outcome = await begin(db, { ...rest, ...nothing, caller: { tenantId, keyId }, trigger: "maintenance" });
  switch (outcome.kind) {
    case "started":
    case "session_not_found":
    case "busy":
      return outcome;
    case "unauthenticated":
    case "forbidden":
    case "replay":
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
