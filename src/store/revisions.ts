/** Recording what changed in the view, and what a compaction that failed leaves behind (context sections 6 and 7). */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, WebhookDeliveryId } from "../protocol/ids.ts";
import type { Usage } from "../protocol/messages.ts";
import type { Db } from "./db.ts";
import { leaseHeld } from "./lease.ts";
import { tellOfCompaction, toldIds } from "./outbox.ts";
import { formatRanges } from "./ranges.ts";
import { flag } from "./rows.ts";
import {
  countUsage,
  insertEvents,
  type RunIdentity,
  requireHeld,
  type StepRecord,
  selectHeld,
  touchLease,
} from "./statements.ts";
import type { StoredGeneration, StoredView } from "./view.ts";

/** What is known of a compaction beside what the view needs. */
export interface StoredReceipt {
  readonly reason: string;
  /** SHA-256 of what is covered. */
  readonly coveredHash: string;
  readonly promptVersion: number;
  /** Estimates of the request, in tokens. */
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  /** Messages that the model no longer sees. */
  readonly evicted: number;
  readonly historySizeBytes: number | null;
  readonly historySha256: string | null;
  /** Null where no model was asked; then there is no usage either. */
  readonly model: string | null;
  readonly usage: Usage | null;
  readonly costUsd: number | null;
}

export interface NewRevision {
  /** Chosen by the Worker, once for a change: a commit that is sent twice stores one (M3). */
  readonly attemptId: string;
  /** What the change was made from: 0 for a view that was never changed, 0 for no generation. */
  readonly base: { readonly revision: number; readonly generation: number };
  /** The view after the change; its revision is the one after the base. */
  readonly view: StoredView;
  readonly reason: string;
  /** The receipt, where `view.generation` is new. */
  readonly compaction: StoredReceipt | null;
  /** Events, usage, guards and calibration that belong to the change. */
  readonly record: StepRecord;
}

/** SQL over `session_heads h`: under which condition a change is stored, and the run that makes it. */
export interface ChangeWriter {
  readonly condition: SQL;
  /** Null for work that is no run. */
  readonly runId: RunId | null;
}

export const insertCompaction = (
  { condition, runId }: ChangeWriter,
  change: Pick<NewRevision, "attemptId">,
  generation: StoredGeneration,
  receipt: StoredReceipt,
): SQL => {
  const { pinned, history } = generation;
  return sql`insert into compactions (session_id, generation, base_generation, attempt_id, run_id, covered, covered_hash, pinned_seq, pinned_text,
      reason, summary, sections, prompt_version, prefix_version, tokens_before, tokens_after, evicted, history_path, history_bytes, history_sha256,
      model, usage, cost_usd)
    select h.session_id, ${generation.number}::bigint, ${generation.base}::bigint, ${change.attemptId}, ${runId},
      ${formatRanges(generation.covered)}::int8multirange, ${receipt.coveredHash}, ${pinned?.seq ?? null}::bigint, ${pinned?.text ?? null},
      ${receipt.reason}, ${generation.summary}, ${generation.sections}::json, ${receipt.promptVersion}::int, ${generation.prefixVersion}::int,
      ${receipt.tokensBefore}::int, ${receipt.tokensAfter}::int, ${receipt.evicted}::int, ${history.kind === "file" ? history.path : null},
      ${receipt.historySizeBytes}::bigint, ${receipt.historySha256}, ${receipt.model},
      ${receipt.usage === null ? null : JSON.stringify(receipt.usage)}::jsonb, ${receipt.costUsd}::numeric
    from session_heads h where ${condition} on conflict (attempt_id) do nothing`;
};

export const insertRevision = (
  { condition }: ChangeWriter,
  { attemptId, view, reason }: Pick<NewRevision, "attemptId" | "view" | "reason">,
): SQL =>
  sql`insert into view_revisions (session_id, revision, attempt_id, generation, clipped_before, clip_tokens, thinking_floor, demoted, skills, hidden,
      volatile_hash, reason)
    select h.session_id, ${view.revision}::bigint, ${attemptId}, ${view.generation?.number ?? 0}::bigint, ${view.clippedBefore}::bigint,
      ${view.clipTokens}::int, ${view.thinkingFloor}::bigint, ${sql.param([...view.demoted])}::text[], ${view.skills}::json,
      ${formatRanges(view.hidden)}::int8multirange, ${view.volatileHash}, ${reason}
    from session_heads h where ${condition} on conflict (attempt_id) do nothing`;

/**
 * Stores a change of the view, with its generation if it is a compaction, and makes it the current one: all of it or nothing, in one
 * round trip, on the condition that the lease is held and the view is still what the change was made from (M2). Sent again it stores
 * nothing twice, and answers as the first time.
 * @param onTold given what is to be sent to the tenant's receivers about it
 * @returns false when the run is late: then nothing was stored, no counter, no cooldown, no usage
 * @throws StoreUnavailable
 */
export const commitRevision = async (
  db: Db,
  run: RunIdentity,
  change: NewRevision,
  onTold?: (deliveries: readonly WebhookDeliveryId[]) => void,
): Promise<boolean> => {
  const { attemptId, base, view, compaction, record } = change;
  const stored = sql`exists (select 1 from view_revisions v where v.session_id = ${run.sessionId} and v.attempt_id = ${attemptId})`;
  const unchanged = sql`h.revision = ${base.revision}::bigint and coalesce((select v.generation from view_revisions v
    where v.session_id = h.session_id and v.revision = h.revision), 0) = ${base.generation}::bigint`;
  const held = sql`${leaseHeld(run.lease)} and h.cancel_requested_at is null and ${unchanged}`;
  // What micro-compaction remembers is about a view that is no more (section 11).
  const micro = compaction === null ? [] : [sql`micro_turns = 0, micro_state = '{}'`];
  const writer: ChangeWriter = { condition: held, runId: run.lease.holder };
  const results = await db.batch(
    [
      // A cancel or a take-over that comes first is seen by all statements, one that comes later waits: exactly one of them wins (M2).
      sql`select 1 from session_heads h where ${held} for update`,
      ...(compaction === null || view.generation === null
        ? []
        : [insertCompaction(writer, change, view.generation, compaction)]),
      insertRevision(writer, change),
      touchLease(run, record, [sql`revision = ${view.revision}::bigint`, ...micro], sql`${unchanged} and ${stored}`),
      ...countUsage(run, record.usage, stored),
      ...insertEvents(run, record.events, stored),
      ...(compaction === null ? [] : [tellOfCompaction(run.tenantId, attemptId)]),
      sql`select ${stored} as stored`,
    ],
    { name: "commit revision", repeatable: true },
  );
  const answer = results.at(-1)?.[0];
  if (compaction !== null) onTold?.(toldIds(results.at(-2)));
  return answer !== undefined && flag(answer, "stored");
};

export interface SummaryFailureRecord {
  /** The class of the failure, shown to whoever asks why nothing is compacted. */
  readonly reason: string;
  /** How long no summary is tried, in seconds from now by the database's clock (G1); null for a failure that sets no cooldown. */
  readonly cooldownSeconds: number | null;
  /** Events, usage and guards that belong to the failure. */
  readonly record: StepRecord;
}

/**
 * Stores what a failed summary leaves behind: the one place for all of them (G1). The view stays as it is.
 * @throws LeaseLost, StoreUnavailable
 */
export const recordSummaryFailure = async (db: Db, run: RunIdentity, failure: SummaryFailureRecord): Promise<void> => {
  const { reason, cooldownSeconds, record } = failure;
  const cooldown =
    cooldownSeconds === null
      ? []
      : [
          sql`cooldown_until = hango_now() + make_interval(secs => ${cooldownSeconds}::double precision)`,
          sql`cooldown_reason = ${reason}`,
        ];
  // What is set here is not cleared by the same statement, whatever the record says.
  const guards =
    record.guards === undefined || cooldownSeconds === null
      ? record.guards
      : { ...record.guards, cooldownReason: reason };
  const results = await db.batch(
    [
      touchLease(run, guards === undefined ? record : { ...record, guards }, cooldown),
      ...countUsage(run, record.usage),
      ...insertEvents(run, record.events),
      selectHeld(run),
    ],
    { name: "record summary failure", repeatable: true },
  );
  requireHeld(results.at(-1)?.[0]);
};
