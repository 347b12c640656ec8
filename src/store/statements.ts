/**
 * The statements that a run's writes are made of. Each repeats the lease, ids are chosen by the Worker and conflicts on them are
 * passed over, so a batch that is sent twice stores nothing twice (M2, M3).
 */
import { type SQL, sql } from "drizzle-orm";
import type { KeyId, Seq, SessionId, TenantId, UsageId } from "../protocol/ids.ts";
import type { NewRow, Usage } from "../protocol/messages.ts";
import type { Row } from "./db.ts";
import { LeaseLost } from "./errors.ts";
import { GUARD_TIMES, type GuardRecord, guardChanges } from "./guards.ts";
import { type Lease, leaseHeld, renewedExpiry } from "./lease.ts";
import { MESSAGE_COLUMNS, messageValues } from "./row-values.ts";
import { LOG_COLUMNS } from "./rows.ts";

/** A durable event, its number chosen by the lease holder, the only writer of its session's events. */
export interface NewEvent {
  readonly n: number;
  readonly type: string;
  /** JSON text of an object. */
  readonly data: string;
  readonly messageSeq: Seq | null;
  /** RFC 3339. */
  readonly createdAt: string;
}

export interface NewUsage {
  readonly id: UsageId;
  readonly purpose: "turn" | "summarize" | "subagent";
  readonly model: string;
  readonly usage: Usage;
  readonly costUsd: number | null;
}

/** What was used, over any number of calls. */
export interface Used {
  readonly usage: Usage;
  /** In USD at list price; null where no call had one. */
  readonly costUsd: number | null;
}

/** What a run has used, over all its own calls: its subagents' are added when it ends. */
export interface RunTotals extends Used {
  readonly steps: number;
}

/** Who the rows are written for. */
export interface RunIdentity {
  readonly lease: Lease;
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
  /** Null where no caller's key stands behind the run. */
  readonly keyId: KeyId | null;
  readonly user: string | null;
}

/** Everything a step may store besides its message. */
export interface StepRecord {
  readonly events: readonly NewEvent[];
  readonly usage: readonly NewUsage[];
  readonly nextEvent: number;
  readonly thinkingFloor: number;
  /** What was learned of estimates and readings (E4), stored as JSON; null drops it, absent leaves it. */
  readonly calibration?: object | null;
  /** The guards of compaction (context section 7); absent leaves them. */
  readonly guards?: GuardRecord;
  /** Prompt size of the first answered call with a generation, in tokens; a later one is passed over (G3). */
  readonly reading?: { readonly generation: number; readonly tokens: number };
  /** Takes down the flag of a compaction that was asked for: it has been tried (G9). */
  readonly forceTaken?: true;
}

export interface PlacedRow {
  readonly row: NewRow;
  readonly seq: Seq;
}

/** What a record changes in the head besides the lease. */
const headChanges = (run: RunIdentity, { calibration, guards, forceTaken }: StepRecord): readonly SQL[] => [
  ...(calibration === undefined
    ? []
    : [sql`calibration = ${calibration === null ? null : JSON.stringify(calibration)}::json`]),
  ...(guards === undefined ? [] : guardChanges(run.lease.holder, guards)),
  ...(forceTaken === undefined ? [] : [sql`force_compaction = null`]),
];

export const touchLease = (
  run: RunIdentity,
  record: StepRecord,
  changes: readonly SQL[],
  condition: SQL = sql`true`,
): SQL =>
  sql`update session_heads h set ${sql.join(
    [
      sql`lease_expires_at = ${renewedExpiry}, next_event = ${record.nextEvent}::bigint, thinking_floor = ${record.thinkingFloor}::bigint`,
      ...headChanges(run, record),
      ...changes,
    ],
    sql`, `,
  )} where ${leaseHeld(run.lease)} and ${condition}`;

export const storeReading = (run: RunIdentity, { reading }: StepRecord): readonly SQL[] =>
  reading === undefined
    ? []
    : [
        sql`update compactions c set tokens_read = ${reading.tokens}::int from session_heads h where c.session_id = h.session_id
          and c.generation = ${reading.generation}::bigint and c.tokens_read is null and ${leaseHeld(run.lease)}`,
      ];

export const insertMessage = (run: RunIdentity, { row, seq }: PlacedRow): SQL =>
  sql`insert into messages (session_id, seq, ${MESSAGE_COLUMNS}, run_id) select h.session_id, ${seq}, ${messageValues(row)}, ${row.runId}
    from session_heads h where ${leaseHeld(run.lease)} on conflict (id) do nothing`;

export const insertEvents = (
  run: RunIdentity,
  events: readonly NewEvent[],
  condition: SQL = sql`true`,
): readonly SQL[] =>
  events.length === 0
    ? []
    : [
        sql`insert into run_events (session_id, n, run_id, type, data, message_seq, created_at)
    select h.session_id, e.n, ${run.lease.holder}, e.type, e.data::json, e.message_seq, e.created_at
    from session_heads h, (values ${sql.join(
      events.map(
        (event) =>
          sql`(${event.n}::bigint, ${event.type}::text, ${event.data}::text, ${event.messageSeq}::bigint, ${event.createdAt}::timestamptz)`,
      ),
      sql`, `,
    )}) as e (n, type, data, message_seq, created_at) where ${leaseHeld(run.lease)} and ${condition} on conflict do nothing`,
      ];

export const insertUsage = (
  run: RunIdentity,
  records: readonly NewUsage[],
  condition: SQL = sql`true`,
): readonly SQL[] =>
  records.map(
    ({ id, purpose, model, usage, costUsd }) =>
      sql`insert into usage_records (id, tenant_id, session_id, run_id, key_id, user_id, purpose, model,
      input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd)
    select ${id}, ${run.tenantId}, h.session_id, ${run.lease.holder}, ${run.keyId}, ${run.user}, ${purpose}, ${model},
      ${usage.inputTokens}::int, ${usage.outputTokens}::int, ${usage.cacheReadTokens}::int, ${usage.cacheWriteTokens}::int, ${costUsd}::numeric
    from session_heads h where ${leaseHeld(run.lease)} and ${condition} on conflict (id) do nothing`,
  );

/**
 * The same where the run's totals are not written along: what a call on the way used is added to them, so that a run that another Worker goes on
 * with has it. Sent again it adds nothing.
 */
export const countUsage = (run: RunIdentity, records: readonly NewUsage[], condition?: SQL): readonly SQL[] =>
  insertUsage(run, records, condition).map(
    (insert) =>
      sql`with u as (${insert} returning run_id, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd)
      update runs r set input_tokens = r.input_tokens + u.input_tokens, output_tokens = r.output_tokens + u.output_tokens,
        cache_read_tokens = r.cache_read_tokens + u.cache_read_tokens, cache_write_tokens = r.cache_write_tokens + u.cache_write_tokens,
        cost_usd = case when u.cost_usd is null then r.cost_usd else coalesce(r.cost_usd, 0) + u.cost_usd end
      from u where r.id = u.run_id`,
  );

const setTotals = (totals: RunTotals): SQL =>
  sql`steps = ${totals.steps}::int, input_tokens = ${totals.usage.inputTokens}::bigint, output_tokens = ${totals.usage.outputTokens}::bigint,
    cache_read_tokens = ${totals.usage.cacheReadTokens}::bigint, cache_write_tokens = ${totals.usage.cacheWriteTokens}::bigint,
    cost_usd = ${totals.costUsd}::numeric, draft = null`;

export const updateTotals = (run: RunIdentity, totals: RunTotals): SQL =>
  sql`update runs r set ${setTotals(totals)} from session_heads h where r.id = ${run.lease.holder} and ${leaseHeld(run.lease)}`;

export const storeTodos = (run: RunIdentity, todos: readonly unknown[]): SQL =>
  sql`update sessions s set todos = ${JSON.stringify(todos)}::jsonb from session_heads h where s.id = h.session_id and ${leaseHeld(run.lease)}`;

/**
 * Moves what was brought to this run while it was on into the log, in order of arrival, from `base` on; then the head counts on from the last
 * row (M5). Inputs of queued runs stay: their runs bring them.
 */
export const moveInputs = (run: RunIdentity, base: Seq): readonly SQL[] => [
  sql`with moved as (
      delete from inputs i using session_heads h where i.session_id = h.session_id and i.run_id is null and ${leaseHeld(run.lease)}
      returning i.session_id, i.id, i.origin, i.content, i.media, i.tokens, i.bytes, i.position)
    insert into messages (session_id, seq, id, role, origin, content, media, tokens, bytes, run_id)
    select session_id, ${base}::bigint - 1 + row_number() over (order by position), id, 'user', origin, content, media, tokens, bytes, ${run.lease.holder}
    from moved on conflict (id) do nothing`,
  sql`update session_heads h set next_seq = greatest(h.next_seq, (select max(m.seq) + 1 from messages m where m.session_id = h.session_id))
    where ${leaseHeld(run.lease)}`,
];

export const selectHeld = (run: RunIdentity): SQL =>
  sql`select ${leaseHeld(run.lease)} as held, h.next_seq, h.force_compaction, h.cancel_requested_at is not null as cancelled, ${GUARD_TIMES}
    from session_heads h where h.session_id = ${run.sessionId}`;

export const selectFrom = (run: RunIdentity, base: Seq): SQL =>
  sql`select ${sql.raw(LOG_COLUMNS)} from messages m where m.session_id = ${run.sessionId} and m.seq >= ${base} order by m.seq`;

export const requireHeld = (row: Row | undefined): Row => {
  // Null where nobody holds the session.
  if (row?.["held"] !== true) throw new LeaseLost();
  return row;
};
