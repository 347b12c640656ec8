/**
 * What a pass of micro-compaction stores (context section 11). A pass holds no lease, so that it is in nobody's way while a model is asked:
 * it begins by taking its turn, and everything it stores is on the condition that the session is idle and as it was then (M2).
 */
import { type SQL, sql } from "drizzle-orm";
import type { SessionId, TenantId, WebhookDeliveryId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import { type GuardRecord, guardChanges } from "./guards.ts";
import { tellOfCompaction, toldIds } from "./outbox.ts";
import { insertCompaction, insertRevision, type NewRevision, type StoredReceipt } from "./revisions.ts";
import { flag, number, text } from "./rows.ts";
import type { NewUsage } from "./statements.ts";
import { asLookedAt, type LookedAt } from "./undoing.ts";

/** What the passes of a session have done so far. */
export interface MicroTotals {
  readonly passes: number;
  /** By our estimates, in tokens: what each pass took out of the view, less what its summary put there. */
  readonly tokensSaved: number;
}

/** A pass that may go on: nobody has held the session since `at`, as far as `epoch` says. */
export interface MicroClaim {
  readonly tenantId: TenantId;
  readonly at: LookedAt;
  /** The lease's: whoever takes the session raises it. */
  readonly epoch: number;
  /** The end user whose session it is, for the usage. */
  readonly user: string | null;
}

export interface ClaimedPass {
  readonly claim: MicroClaim;
  /** As the last pass left it; parsed JSON. */
  readonly state: unknown;
  readonly totals: MicroTotals;
}

const ofTenant = (tenantId: TenantId): SQL =>
  sql`exists (select 1 from sessions s where s.id = h.session_id and s.tenant_id = ${tenantId})`;

/** SQL condition over `session_heads h`: idle, as it was looked at, and held by nobody since. */
const asClaimed = ({ tenantId, at, epoch }: MicroClaim): SQL =>
  sql`h.session_id = ${at.sessionId} and h.lease_epoch = ${epoch}::bigint and ${asLookedAt(at)} and ${ofTenant(tenantId)}`;

const totalsOf = (sessionId: SessionId): SQL =>
  sql`(select json_build_object('passes', count(*), 'saved', coalesce(sum(c.tokens_before - c.tokens_after), 0))::text
    from compactions c where c.session_id = ${sessionId} and c.reason = 'micro' and c.voided_at is null)`;

const readTotals = (row: Row): MicroTotals => {
  const { passes, saved }: { passes: number; saved: number } = JSON.parse(text(row, "totals"));
  return { passes, tokensSaved: saved };
};

/**
 * Takes a session's turn for a pass, if one is due and the session is idle and as it was looked at. From now on the turns are counted anew,
 * whatever becomes of the pass: one that finds nothing moves the cadence along too, and a message that comes twice makes one pass.
 * @returns null where no pass is due, or the session is busy or has changed
 * @throws StoreUnavailable
 */
export const claimMicroPass = async (
  db: Db,
  { tenantId, at, user }: Omit<MicroClaim, "epoch">,
  everyNTurns: number,
): Promise<ClaimedPass | null> => {
  const [rows] = await db.batch(
    [
      sql`update session_heads h set micro_turns = 0 where h.session_id = ${at.sessionId} and h.micro_turns >= ${everyNTurns}::int
        and ${asLookedAt(at)} and ${ofTenant(tenantId)}
        returning h.lease_epoch, h.micro_state::text as micro_state, ${totalsOf(at.sessionId)} as totals`,
    ],
    { name: "claim micro pass", repeatable: true },
  );
  const row = rows?.[0];
  if (row === undefined) return null;
  return {
    claim: { tenantId, at, user, epoch: number(row, "lease_epoch") },
    state: JSON.parse(text(row, "micro_state")),
    totals: readTotals(row),
  };
};

/** What was paid for is counted, also of a pass that came too late; sent again it adds nothing. */
const countCalls = ({ tenantId, at, user }: MicroClaim, usage: readonly NewUsage[]): readonly SQL[] =>
  usage.map(
    (call) =>
      sql`with u as (insert into usage_records (id, tenant_id, session_id, user_id, purpose, model, input_tokens, output_tokens,
          cache_read_tokens, cache_write_tokens, cost_usd)
        select ${call.id}, s.tenant_id, s.id, ${user}, ${call.purpose}, ${call.model}, ${call.usage.inputTokens}::int,
          ${call.usage.outputTokens}::int, ${call.usage.cacheReadTokens}::int, ${call.usage.cacheWriteTokens}::int, ${call.costUsd}::numeric
        from sessions s where s.id = ${at.sessionId} and s.tenant_id = ${tenantId} on conflict (id) do nothing
        returning session_id, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd)
      update sessions s set input_tokens = s.input_tokens + u.input_tokens, output_tokens = s.output_tokens + u.output_tokens,
        cache_read_tokens = s.cache_read_tokens + u.cache_read_tokens, cache_write_tokens = s.cache_write_tokens + u.cache_write_tokens,
        cost_usd = s.cost_usd + coalesce(u.cost_usd, 0)
      from u where s.id = u.session_id`,
  );

export interface MicroCommit {
  /** The change, on the view that was looked at. */
  readonly change: Pick<NewRevision, "attemptId" | "view" | "reason">;
  readonly receipt: StoredReceipt;
  readonly guards: GuardRecord;
  /** JSON; null for none (E4). */
  readonly calibration: object | null;
  readonly state: object;
  readonly usage: readonly NewUsage[];
}

/**
 * Stores a pass: its generation, its revision, and what it leaves behind, all of it or nothing, in one round trip. A turn that begins at
 * the same time waits for the head's lock and then sees the new view, or came first: then nothing is stored but what the pass has used (M2).
 * Sent again it stores nothing twice (M3).
 * @param onTold given what is to be sent to the tenant's receivers about it
 * @returns the totals with this pass; null when it came too late
 * @throws StoreUnavailable
 */
export const commitMicroPass = async (
  db: Db,
  claim: MicroClaim,
  { change, receipt, guards, calibration, state, usage }: MicroCommit,
  onTold: (deliveries: readonly WebhookDeliveryId[]) => void,
): Promise<MicroTotals | null> => {
  const { at, tenantId } = claim;
  const { attemptId, view } = change;
  if (view.generation === null) throw new Error("a pass without a generation");
  const condition = sql`${asClaimed(claim)} and coalesce((select v.generation from view_revisions v
    where v.session_id = h.session_id and v.revision = h.revision), 0) = ${view.generation.base}::bigint`;
  const writer = { condition, runId: null };
  const stored = sql`exists (select 1 from view_revisions v where v.session_id = ${at.sessionId} and v.attempt_id = ${attemptId})`;
  const changes = [
    sql`revision = ${view.revision}::bigint, thinking_floor = greatest(h.thinking_floor, ${view.thinkingFloor}::bigint),
      micro_state = ${JSON.stringify(state)}::jsonb, calibration = ${calibration === null ? null : JSON.stringify(calibration)}::json`,
    ...guardChanges(null, guards),
  ];
  const results = await db.batch(
    [
      sql`select 1 from session_heads h where ${condition} for update`,
      insertCompaction(writer, change, view.generation, receipt),
      insertRevision(writer, change),
      sql`with shown as (update session_heads h set ${sql.join(changes, sql`, `)} where ${condition} and ${stored} returning h.session_id)
        update sessions s set compactions = s.compactions + 1 from shown where s.id = shown.session_id`,
      ...countCalls(claim, usage),
      tellOfCompaction(tenantId, attemptId),
      sql`select ${stored} as stored, ${totalsOf(at.sessionId)} as totals`,
    ],
    { name: "commit micro pass", repeatable: true },
  );
  const answer = results.at(-1)?.[0];
  if (answer === undefined || !flag(answer, "stored")) return null;
  onTold(toldIds(results.at(-2)));
  return readTotals(answer);
};

export interface MicroFailure {
  readonly reason: string;
  /** How long no summary is tried, in seconds from now by the database's clock (G1); null for a failure that sets no cooldown. */
  readonly cooldownSeconds: number | null;
  readonly guards: GuardRecord;
  readonly state: object;
  readonly usage: readonly NewUsage[];
}

/**
 * Stores what a failed pass leaves behind, unless it came too late: then only what it has used (M2). The view stays as it is.
 * @returns false when it came too late
 * @throws StoreUnavailable
 */
export const storeMicroFailure = async (
  db: Db,
  claim: MicroClaim,
  { reason, cooldownSeconds, guards, state, usage }: MicroFailure,
): Promise<boolean> => {
  const changes = [
    sql`micro_state = ${JSON.stringify(state)}::jsonb`,
    ...guardChanges(null, guards),
    ...(cooldownSeconds === null
      ? []
      : [
          sql`cooldown_until = hango_now() + make_interval(secs => ${cooldownSeconds}::double precision), cooldown_reason = ${reason}`,
        ]),
  ];
  const [rows] = await db.batch(
    [
      sql`update session_heads h set ${sql.join(changes, sql`, `)} where ${asClaimed(claim)} returning h.session_id`,
      ...countCalls(claim, usage),
    ],
    { name: "store micro failure", repeatable: true },
  );
  return rows !== undefined && rows.length > 0;
};

/** Sizes of one generation of a session, by our estimates. */
export interface GenerationSizes {
  readonly isMicro: boolean;
  readonly before: number;
  readonly after: number;
}

export interface StoredMicro {
  readonly turns: number;
  /** Parsed JSON. */
  readonly state: unknown;
  /** Oldest first, voided ones left out; the newest so many. */
  readonly generations: readonly GenerationSizes[];
}

/** Generations that are read for a report: of a session with more, the oldest are left out. */
const REPORTED_GENERATIONS = 5_000;

/** SQL: the two statements of a report. @param session condition over `sessions s` */
export const microStatements = (session: SQL): readonly [SQL, SQL] => [
  sql`select h.micro_turns, h.micro_state::text as micro_state from session_heads h join sessions s on s.id = h.session_id where ${session}`,
  sql`select c.reason = 'micro' as is_micro, c.tokens_before, c.tokens_after from compactions c join sessions s on s.id = c.session_id
    where ${session} and c.voided_at is null order by c.generation desc limit ${REPORTED_GENERATIONS}`,
];

/** @param head the row of the first statement @param rows of the second */
export const storedMicro = (head: Row, rows: readonly Row[]): StoredMicro => ({
  turns: number(head, "micro_turns"),
  state: JSON.parse(text(head, "micro_state")),
  generations: rows
    .map((row) => ({
      isMicro: flag(row, "is_micro"),
      before: number(row, "tokens_before"),
      after: number(row, "tokens_after"),
    }))
    .reverse(),
});
