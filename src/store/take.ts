/**
 * Taking up a run that is stored: one that was queued, was handed over, whose Worker died, or whose caller has sent what it waited for. One round
 * trip, as a begin. Whatever the reason, the run goes on from its last stored step.
 */
import { type SQL, sql } from "drizzle-orm";
import { type KeyId, type RunId, type SessionId, seq, type TenantId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import { countDead, DEAD_COLUMNS } from "./dead-runs.ts";
import { busyRun, CANCEL_GRACE_SECONDS, type Lease, leaseExpiry, leaseHeld, RELEASED, unclaimed } from "./lease.ts";
import type { LoadedSession, StoredAnswer } from "./loaded-session.ts";
import { type LoadLimits, loadedOf, loadStatements } from "./loading.ts";
import { flag, number, numberOrNull, text, textOrNull, time } from "./rows.ts";
import { isOver, type RunStatus, type RunTrigger } from "./runs.ts";
import { SESSION_COLUMNS, settledSession } from "./settled-session.ts";
import type { Used } from "./statements.ts";
import { endOrphans, subagentUse } from "./subagent-ends.ts";

export interface TakeRun {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  /** Chosen by the Worker for this take: sent twice, it is one. */
  readonly token: string;
  /** RFC 3339: the time of the event that the run has started. */
  readonly startedAt: string;
  readonly limits: LoadLimits | null;
  /** For a subagent's run, which no one else may take up: the hold on its parent by whoever makes the call. */
  readonly parent?: Lease;
}

export type TakeOutcome =
  | { readonly kind: "taken"; readonly session: LoadedSession; readonly firstStart: boolean }
  /** The run has ended, or there is none. */
  | { readonly kind: "over" }
  /** A Worker is at work on it. */
  | { readonly kind: "held" }
  /** It waits for its caller's tool results. */
  | { readonly kind: "waiting" }
  /** Another run comes first: one that is on, or was queued before. */
  | { readonly kind: "not_next"; readonly sessionId: SessionId; readonly next: RunId | null };

/** SQL: the session that this take has taken; empty when it took none. */
const TAKEN: SQL = sql`current_setting('hango.taken')`;
/** SQL: the same, but empty for a take that is sent again. */
const FRESH: SQL = sql`current_setting('hango.freshly_taken')`;

/** SQL condition over `runs r` and `session_heads h`: the run may be taken now. */
const takeable: SQL = sql`(
  (r.status = 'queued' and ${unclaimed} and not exists (select 1 from runs q where q.session_id = r.session_id and q.status = 'queued'
    and q.id <> r.id and (q.interrupts > r.interrupts or (q.interrupts = r.interrupts and q.position < r.position))))
  or (r.status = 'running' and h.lease_holder = r.id and (h.lease_expires_at <= hango_now()
    or h.cancel_requested_at <= hango_now() - make_interval(secs => ${sql.raw(String(CANCEL_GRACE_SECONDS))})))
  or (r.status = 'requires_action' and h.waiting_run_id = r.id and (h.waiting_until <= hango_now() or h.cancel_requested_at is not null)))`;

/**
 * SQL condition over `session_heads h`: a subagent whose Worker held the parent before, and holds it no longer: whatever its own lease says, the call
 * is made by another now.
 */
const leftByParent = (parent: Lease): SQL =>
  sql`h.lease_taken_at < (select h.lease_taken_at from session_heads h where ${leaseHeld(parent)})`;

/** SQL: the statements of a take, for batches that do more. Their rows are read by `takenOf`. */
export const takeStatements = ({ tenantId, runId, token, startedAt, limits, parent }: TakeRun): readonly SQL[] => {
  const own =
    parent === undefined
      ? sql`r.trigger not in ('maintenance', 'subagent')`
      : sql`r.trigger = 'subagent' and exists (select 1 from session_heads h where ${leaseHeld(parent)})`;
  const free =
    parent === undefined ? takeable : sql`(${takeable} or (r.status = 'running' and ${leftByParent(parent)}))`;
  const found = sql`runs r join session_heads h on h.session_id = r.session_id
    join tenants t on t.id = r.tenant_id and t.status = 'active' where r.id = ${runId} and r.tenant_id = ${tenantId} and ${own}`;
  return [
    // The head is locked by the first statement, so that the ones below see what it decided on.
    sql`select set_config('hango.taken', coalesce((select h.session_id from ${found} and (h.lease_token = ${token} or ${free}) for update of h), ''), true)`,
    // Looked at again under the lock: what was takeable may have been taken while the lock was waited for.
    sql`select set_config('hango.freshly_taken', coalesce((select h.session_id from ${found} and h.session_id = ${TAKEN}
        and h.lease_token is distinct from ${token} and ${free}), ''), true)`,
    sql`update session_heads h set lease_holder = ${runId}, lease_epoch = h.lease_epoch + 1, lease_expires_at = ${leaseExpiry},
        lease_taken_at = hango_now(), lease_token = ${token},
        cancel_requested_at = case when ${runId} in (h.lease_holder, h.waiting_run_id) then h.cancel_requested_at end,
        waiting_run_id = null, waiting_until = case when r.status = 'requires_action' then h.waiting_until end,
        next_seq = h.next_seq + (select count(*) from inputs i where i.run_id = ${runId} and r.status = 'queued'),
        next_event = h.next_event + 1
      from runs r where r.id = ${runId} and h.session_id = ${FRESH}`,
    sql`update runs r set attempts = r.attempts + case when r.status = 'running' and not r.handed_over then 1 else 0 end,
        input_seq = case when r.status = 'queued' and exists (select 1 from inputs i where i.run_id = r.id) then h.next_seq - 1 else r.input_seq end,
        status = 'running', handed_over = false, draft = null, started_at = coalesce(r.started_at, hango_now())
      from session_heads h where r.id = ${runId} and h.session_id = r.session_id and h.session_id = ${FRESH}`,
    sql`with moved as (delete from inputs i where i.run_id = ${runId} and i.session_id = ${FRESH}
        returning i.session_id, i.id, i.origin, i.content, i.media, i.tokens, i.bytes)
      insert into messages (session_id, seq, id, role, origin, content, media, tokens, bytes, run_id)
      select m.session_id, r.input_seq, m.id, 'user', m.origin, m.content, m.media, m.tokens, m.bytes, r.id
      from moved m join runs r on r.id = ${runId} on conflict (id) do nothing`,
    sql`insert into run_events (session_id, n, run_id, type, data, message_seq, created_at)
      select h.session_id, h.next_event - 1, r.id, 'run.started', '{}', r.input_seq, ${startedAt}::timestamptz
      from session_heads h join runs r on r.id = ${runId} where h.session_id = ${FRESH}
        and not exists (select 1 from run_events e where e.session_id = h.session_id and e.run_id = r.id and e.type = 'run.started')
      on conflict do nothing`,
    sql`select r.status, r.key_id, r.trigger, r.input_seq, r.options::text as options, r.steps, r.input_tokens, r.output_tokens, r.cache_read_tokens,
        r.cache_write_tokens, r.cost_usd, r.spent_ms, r.overhead_ms, r.db_round_trips, r.attempts, r.created_at, r.started_at, ${sql.raw(SESSION_COLUMNS)}, h.lease_epoch,
        h.cancel_requested_at is not null as cancelled, coalesce(h.waiting_until <= hango_now(), false) as overdue,
        h.lease_token = ${token} as ours, ${busyRun} as busy_run, coalesce(h.lease_holder = r.id and h.lease_expires_at > hango_now(), false) as held,
        exists (select 1 from run_events e where e.session_id = h.session_id and e.run_id = r.id and e.n = h.next_event - 1) as first_start,
        ${subagentUse(runId)} as subagents
      from runs r join sessions s on s.id = r.session_id join session_heads h on h.session_id = s.id
      where r.id = ${runId} and r.tenant_id = ${tenantId}`,
    sql`select a.tool_use_id, a.content::text as content, a.is_error from tool_answers a where a.run_id = ${runId}`,
    ...loadStatements(runId, limits),
  ];
};

/** Reads `subagentUse`. */
const usedOf = (json: string | null): Used | null => {
  if (json === null) return null;
  const [input, output, cacheRead, cacheWrite, cost] = JSON.parse(json) as readonly (number | null)[];
  return {
    usage: {
      inputTokens: input ?? 0,
      outputTokens: output ?? 0,
      cacheReadTokens: cacheRead ?? 0,
      cacheWriteTokens: cacheWrite ?? 0,
    },
    costUsd: cost ?? null,
  };
};

const answersOf = (rows: readonly Row[]): ReadonlyMap<string, StoredAnswer> =>
  new Map(
    rows.map((row) => [text(row, "tool_use_id"), { content: text(row, "content"), isError: flag(row, "is_error") }]),
  );

/** What a batch that ends with `takeStatements` came to. */
export const takenOf = (
  take: Pick<TakeRun, "tenantId" | "runId">,
  results: readonly (readonly Row[])[],
): TakeOutcome => {
  const row = results.at(-4)?.[0];
  const view = results.at(-2)?.[0];
  if (row === undefined) return { kind: "over" };
  const status = text(row, "status") as RunStatus;
  const sessionId = text(row, "session_id") as SessionId;
  if (row.ours !== true || view === undefined) {
    if (isOver(status)) return { kind: "over" };
    if (flag(row, "held")) return { kind: "held" };
    if (status === "requires_action") return { kind: "waiting" };
    return { kind: "not_next", sessionId, next: textOrNull(row, "busy_run") as RunId | null };
  }
  const loaded = loadedOf(view, results.at(-1) ?? []);
  const inputSeq = numberOrNull(row, "input_seq");
  return {
    kind: "taken",
    firstStart: flag(row, "first_start"),
    session: {
      ...settledSession(row, take.tenantId, loaded),
      lease: { sessionId, holder: take.runId, epoch: number(row, "lease_epoch") },
      keyId: textOrNull(row, "key_id") as KeyId | null,
      inputSeq: inputSeq === null ? null : seq(inputSeq),
      run: {
        trigger: text(row, "trigger") as RunTrigger,
        options: JSON.parse(text(row, "options")),
        totals: {
          steps: number(row, "steps"),
          usage: {
            inputTokens: number(row, "input_tokens"),
            outputTokens: number(row, "output_tokens"),
            cacheReadTokens: number(row, "cache_read_tokens"),
            cacheWriteTokens: number(row, "cache_write_tokens"),
          },
          costUsd: numberOrNull(row, "cost_usd"),
        },
        subagents: usedOf(textOrNull(row, "subagents")),
        spentMs: number(row, "spent_ms"),
        overheadMs: numberOrNull(row, "overhead_ms") ?? 0,
        dbRoundTrips: numberOrNull(row, "db_round_trips") ?? 0,
        attempts: number(row, "attempts"),
        createdAt: time(row, "created_at"),
        startedAt: time(row, "started_at"),
        cancelled: flag(row, "cancelled"),
        overdue: flag(row, "overdue"),
        answers: answersOf(results.at(-3) ?? []),
      },
    },
  };
};

/**
 * Takes the lease for a stored run, if it is its turn, and loads what it goes on with.
 * @throws StoreUnavailable
 */
export const takeRun = async (db: Db, take: TakeRun): Promise<TakeOutcome> =>
  takenOf(take, await db.batch(takeStatements(take), { name: "take run", repeatable: true }));

export interface StrandedRun {
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
  readonly runId: RunId;
}

/** What work between turns is recorded with whose Worker died. */
const STOPPED = {
  type: "api_error",
  code: "run_interrupted",
  message: "The work stopped before it was finished; it is done again when it is needed.",
  retryable: true,
};

/**
 * SQL: ends what work between turns left behind when its Worker died: it is not continued. A run that took the session over from it did not
 * record its end.
 */
const endDeadMaintenance: readonly SQL[] = [
  sql`update session_heads h set ${RELEASED} from runs r where r.id = h.lease_holder and r.trigger = 'maintenance'
    and h.lease_expires_at <= hango_now()`,
  sql`with dead as (update runs r set status = 'failed', finished_at = hango_now(), error = ${JSON.stringify(STOPPED)}::jsonb
      where r.trigger = 'maintenance' and r.status = 'running'
        and not exists (select 1 from session_heads h where h.session_id = r.session_id and h.lease_holder = r.id)
      returning ${DEAD_COLUMNS})
    ${countDead}`,
];

/**
 * Runs that no Worker is at work on and that could go on: their Worker died or handed them over, the caller's time for results is over, a cancel
 * is not heeded, or they are the first of their session's queue. Oldest first. Those of suspended tenants stay, and keep nobody else's waiting. Work
 * between turns whose Worker died is ended on the way, and so are subagents whose parent has ended: as long as it has not, it goes on with them itself.
 * @throws StoreUnavailable
 */
export const strandedRuns = async (db: Db, limit: number): Promise<readonly StrandedRun[]> => {
  const results = await db.batch(
    [
      ...endDeadMaintenance,
      endOrphans,
      sql`select r.tenant_id, r.session_id, r.id from runs r join session_heads h on h.session_id = r.session_id
          join tenants t on t.id = r.tenant_id and t.status = 'active'
        where r.status in ('queued', 'running', 'requires_action') and r.trigger not in ('maintenance', 'subagent') and ${takeable}
        order by r.position limit ${limit}`,
    ],
    { name: "stranded runs", repeatable: true },
  );
  return (results.at(-1) ?? []).map((row) => ({
    tenantId: text(row, "tenant_id") as TenantId,
    sessionId: text(row, "session_id") as SessionId,
    runId: text(row, "id") as RunId,
  }));
};
