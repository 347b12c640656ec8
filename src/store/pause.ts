/** A run that stops in the middle: it waits for its caller's tool results, or another Worker is to go on with it. One round trip each. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, TenantId, WebhookDeliveryId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import { leaseHeld } from "./lease.ts";
import type { StoredAnswer } from "./loaded-session.ts";
import { tellOfRun, toldIds } from "./outbox.ts";
import { flag, text, timeOrNull } from "./rows.ts";
import { findRunStatement, type RunRecord, runRecord } from "./runs.ts";
import {
  insertEvents,
  insertUsage,
  type RunIdentity,
  type RunTotals,
  requireHeld,
  type StepRecord,
  storeTodos,
  touchLease,
  updateTotals,
} from "./statements.ts";

export interface Pause {
  readonly totals: RunTotals;
  /** Time that the run took so far of the turn's limit, in ms, all its parts together. */
  readonly spentMs: number;
  readonly overheadMs: number;
  readonly dbRoundTrips: number;
  readonly todos: readonly unknown[];
  readonly record: StepRecord;
}

const keep = (run: RunIdentity, pause: Pause, set: SQL): readonly SQL[] => [
  ...insertUsage(run, pause.record.usage),
  ...insertEvents(run, pause.record.events),
  updateTotals(run, pause.totals),
  storeTodos(run, pause.todos),
  sql`update runs r set ${set}, spent_ms = ${pause.spentMs}::int, overhead_ms = ${pause.overheadMs}::int, db_round_trips = ${pause.dbRoundTrips}::int
    from session_heads h where r.id = ${run.lease.holder} and ${leaseHeld(run.lease)}`,
];

const insertAnswers = (answers: ReadonlyMap<string, StoredAnswer>, runId: string, condition: SQL): readonly SQL[] =>
  [...answers].map(
    ([callId, { content, isError }]) =>
      sql`insert into tool_answers (run_id, tool_use_id, content, is_error)
        select ${runId}, ${callId}, ${content}::json, ${isError} where ${condition} on conflict do nothing`,
  );

/**
 * Leaves the run for another Worker: it keeps its session, and whoever takes it up goes on from the last stored step.
 * @param answers results of the open batch that are there already, by call: what a tool did is not done again, and not forgotten
 * @throws LeaseLost, StoreUnavailable
 */
export const storeHandOver = async (
  db: Db,
  run: RunIdentity,
  pause: Pause,
  answers: ReadonlyMap<string, StoredAnswer> = new Map(),
): Promise<void> => {
  const ours = sql`exists (select 1 from session_heads h where ${leaseHeld(run.lease)})`;
  const held = sql`h.session_id = ${run.sessionId} and h.lease_epoch = ${run.lease.epoch} and h.lease_holder = ${run.lease.holder}`;
  const results = await db.batch(
    [
      touchLease(run, pause.record, []),
      ...insertAnswers(answers, run.lease.holder, ours),
      ...keep(run, pause, sql`handed_over = true`),
      sql`update session_heads h set lease_expires_at = hango_now(), lease_token = null where ${leaseHeld(run.lease)}`,
      sql`select ${held} and r.handed_over as held from session_heads h join runs r on r.id = ${run.lease.holder} where h.session_id = ${run.sessionId}`,
    ],
    { name: "hand over", repeatable: true },
  );
  requireHeld(results.at(-1)?.[0]);
};

export interface WaitForCaller extends Pause {
  /** Results of the batch that are there already, by call. */
  readonly answers: ReadonlyMap<string, StoredAnswer>;
  /** How long the caller has, in seconds. */
  readonly waitSeconds: number;
}

/**
 * Ends the run's hold on its session until its caller has answered: nothing else may run there meanwhile, and no sweeper takes it for dead.
 * @param onTold given what is to be sent to the tenant's receivers about it
 * @returns when the caller's time is over, RFC 3339
 * @throws LeaseLost, StoreUnavailable
 */
export const storeWait = async (
  db: Db,
  run: RunIdentity,
  wait: WaitForCaller,
  onTold?: (deliveries: readonly WebhookDeliveryId[]) => void,
): Promise<string> => {
  const { holder, epoch } = run.lease;
  const held = sql`exists (select 1 from session_heads h where ${leaseHeld(run.lease)})`;
  const results = await db.batch(
    [
      touchLease(run, wait.record, []),
      ...insertAnswers(wait.answers, holder, held),
      ...keep(run, wait, sql`status = 'requires_action'`),
      sql`update session_heads h set lease_holder = null, lease_expires_at = null, lease_taken_at = null, lease_token = null,
          waiting_run_id = ${holder}, waiting_until = hango_now() + make_interval(secs => ${wait.waitSeconds}::double precision)
        where ${leaseHeld(run.lease)}`,
      tellOfRun(run.tenantId, holder),
      sql`select coalesce(h.waiting_run_id = ${holder} and h.lease_epoch = ${epoch}, false) as held, h.waiting_until
        from session_heads h where h.session_id = ${run.sessionId}`,
    ],
    { name: "wait for caller", repeatable: true },
  );
  const row = requireHeld(results.at(-1)?.[0]);
  onTold?.(toldIds(results.at(-2)));
  return timeOrNull(row, "waiting_until") ?? "";
};

export type AnswerOutcome =
  | { readonly kind: "not_found" }
  /** The run does not wait for results. */
  | { readonly kind: "not_waiting"; readonly run: RunRecord }
  | { readonly kind: "overdue"; readonly run: RunRecord }
  | {
      readonly kind: "unknown_calls";
      readonly run: RunRecord;
      readonly unknown: readonly string[];
      readonly open: readonly string[];
    }
  | {
      readonly kind: "accepted";
      readonly run: RunRecord;
      /** Calls that still have no result; none where the run is to be taken up, or was already. */
      readonly missing: readonly string[];
    };

/** SQL condition over `session_heads h`: the caller of this run may still answer. */
const awaits = (tenantId: TenantId, runId: RunId): SQL =>
  sql`h.session_id = (select r.session_id from runs r where r.id = ${runId} and r.tenant_id = ${tenantId}) and h.waiting_run_id = ${runId}
    and h.waiting_until > hango_now() and h.cancel_requested_at is null`;

/** SQL over `session_heads h`: the ids of the calls whose results are not in the log. */
const OPEN_CALLS: SQL = sql`(select m.calls from messages m where m.session_id = h.session_id and m.seq = h.open_batch_seq)`;

/**
 * Keeps results that a caller sends for the calls of its tools. The first result of a call counts; the same one may be sent again, also when the
 * run has gone on. With the last one the run is left to whichever Worker takes it up.
 * @throws StoreUnavailable
 */
export const answerCalls = async (
  db: Db,
  tenantId: TenantId,
  runId: RunId,
  answers: ReadonlyMap<string, StoredAnswer>,
): Promise<AnswerOutcome> => {
  const given = sql`${sql.param([...answers.keys()])}::text[]`;
  const waiting = awaits(tenantId, runId);
  const accepted = sql`exists (select 1 from session_heads h where ${waiting} and ${given} <@ ${OPEN_CALLS})`;
  const kept = sql`(select coalesce(array_agg(a.tool_use_id), '{}') from tool_answers a where a.run_id = ${runId})`;
  const results = await db.batch(
    [
      // Whatever the head says yet: of two callers who bring the last results at once, the second sees those of the first.
      sql`select 1 from session_heads h where h.session_id = (select r.session_id from runs r where r.id = ${runId} and r.tenant_id = ${tenantId}) for update`,
      ...insertAnswers(answers, runId, accepted),
      sql`update runs r set status = 'running', handed_over = true from session_heads h
        where r.id = ${runId} and ${waiting} and ${OPEN_CALLS} <@ ${kept}`,
      sql`update session_heads h set lease_holder = ${runId}, lease_expires_at = hango_now(), waiting_run_id = null, waiting_until = null
        where ${waiting} and ${OPEN_CALLS} <@ ${kept}`,
      sql`select coalesce(h.waiting_run_id = ${runId}, false) as waiting, coalesce(h.waiting_until <= hango_now(), false) as overdue,
          to_json(coalesce(${OPEN_CALLS}, '{}'))::text as open, to_json(${kept})::text as kept,
          coalesce((select json_agg(c) from messages m, unnest(m.calls) c where m.session_id = h.session_id and m.run_id = ${runId}
            and m.calls && ${given} and m.seq is distinct from h.open_batch_seq), '[]')::text as logged
        from session_heads h where h.session_id = (select r.session_id from runs r where r.id = ${runId} and r.tenant_id = ${tenantId})`,
      findRunStatement(tenantId, runId),
    ],
    { name: "answer calls", repeatable: true },
  );
  const head = results.at(-2)?.[0];
  const row = results.at(-1)?.[0];
  if (head === undefined || row === undefined) return { kind: "not_found" };
  const run = runRecord(row);
  const ids = (name: string): readonly string[] => JSON.parse(text(head, name));
  const open = ids("open");
  const known = new Set([...ids("kept"), ...ids("logged")]);
  if ([...answers.keys()].every((id) => known.has(id)))
    return { kind: "accepted", run, missing: flag(head, "waiting") ? open.filter((id) => !known.has(id)) : [] };
  if (!flag(head, "waiting")) return { kind: "not_waiting", run };
  if (flag(head, "overdue")) return { kind: "overdue", run };
  const unknown = [...answers.keys()].filter((id) => !open.includes(id));
  return unknown.length > 0 ? { kind: "unknown_calls", run, unknown, open } : { kind: "not_waiting", run };
};
