/** The receipts of a session's generations: what each covers, cost and dropped. Without content. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { Origin, Usage } from "../protocol/messages.ts";
import type { Db, Row } from "./db.ts";
import type { Page } from "./pages.ts";
import { parseRanges, type StoredRange } from "./ranges.ts";
import type { StoredReceipt } from "./revisions.ts";
import { number, numberOrNull, text, textOrNull, time, timeOrNull } from "./rows.ts";
import type { SessionRef } from "./session-ref.ts";
import { refers } from "./session-ref.ts";

/** What a compaction took out of the model's sight, counted by kind. */
export interface DroppedByKind {
  /** Messages by where they came from. */
  readonly messages: Readonly<Record<Origin, number>>;
  readonly toolCalls: number;
  /** Images and documents that are kept apart from their message. */
  readonly media: number;
}

export interface CompactionRecord extends StoredReceipt {
  readonly sessionId: SessionId;
  readonly generation: number;
  /** The generation that it was made from; 0 for none. */
  readonly base: number;
  readonly attemptId: string;
  readonly runId: RunId | null;
  readonly covered: readonly StoredRange[];
  /** What it covers and its base does not: also the section of the history file. */
  readonly added: readonly StoredRange[];
  readonly dropped: DroppedByKind;
  readonly pinnedSeq: number | null;
  /** Null where the history file could not be written (M1). */
  readonly historyPath: string | null;
  readonly prefixVersion: number;
  /** Prompt size of the first answered call with it, in tokens; null until there is one. */
  readonly tokensRead: number | null;
  readonly createdAt: string;
  readonly voidedAt: string | null;
}

const ORIGINS: readonly Origin[] = ["user", "event", "assistant", "tool", "injected"];

const COUNTS = sql.raw(
  [
    ...ORIGINS.map((origin) => `count(*) filter (where m.origin = '${origin}') as n_${origin}`),
    "coalesce(sum(cardinality(m.calls)), 0) as n_calls",
    "coalesce(sum(cardinality(m.media)), 0) as n_media",
  ].join(", "),
);

const COLUMNS = sql.raw(
  "c.session_id, c.generation, c.base_generation, c.attempt_id, c.run_id, c.covered::text as covered, a.seqs::text as added, d.*, c.covered_hash, " +
    "c.reason, c.prompt_version, c.prefix_version, c.pinned_seq, c.tokens_before, c.tokens_after, c.tokens_read, c.evicted, c.history_path, " +
    "c.history_bytes, c.history_sha256, c.model, c.usage::text as usage, c.cost_usd, c.created_at, c.voided_at",
);

/** SQL: generations `c`, what each added `a`, and the counts `d` of the rows that it added, each range read by the primary key. */
const counted = (generations: SQL): SQL =>
  sql`${generations} left join compactions b on b.session_id = c.session_id and b.generation = c.base_generation,
    lateral (select c.covered - coalesce(b.covered, '{}') as seqs) a,
    lateral (select ${COUNTS} from unnest(a.seqs) p join messages m on m.session_id = c.session_id and m.seq >= lower(p) and m.seq < upper(p)) d`;

const record = (row: Row): CompactionRecord => {
  const usage = textOrNull(row, "usage");
  const messages = Object.fromEntries(ORIGINS.map((origin) => [origin, number(row, `n_${origin}`)]));
  return {
    sessionId: text(row, "session_id") as SessionId,
    generation: number(row, "generation"),
    base: number(row, "base_generation"),
    attemptId: text(row, "attempt_id"),
    runId: textOrNull(row, "run_id") as RunId | null,
    covered: parseRanges(text(row, "covered")),
    added: parseRanges(text(row, "added")),
    dropped: {
      messages: messages as DroppedByKind["messages"],
      toolCalls: number(row, "n_calls"),
      media: number(row, "n_media"),
    },
    pinnedSeq: numberOrNull(row, "pinned_seq"),
    historyPath: textOrNull(row, "history_path"),
    reason: text(row, "reason"),
    coveredHash: text(row, "covered_hash"),
    promptVersion: number(row, "prompt_version"),
    prefixVersion: number(row, "prefix_version"),
    tokensBefore: number(row, "tokens_before"),
    tokensAfter: number(row, "tokens_after"),
    tokensRead: numberOrNull(row, "tokens_read"),
    evicted: number(row, "evicted"),
    historySizeBytes: numberOrNull(row, "history_bytes"),
    historySha256: textOrNull(row, "history_sha256"),
    model: textOrNull(row, "model"),
    usage: usage === null ? null : (JSON.parse(usage) as Usage),
    costUsd: numberOrNull(row, "cost_usd"),
    createdAt: time(row, "created_at"),
    voidedAt: timeOrNull(row, "voided_at"),
  };
};

const ofSession = (tenantId: TenantId, ref: SessionRef): SQL =>
  sql`compactions c join sessions s on s.id = c.session_id and ${refers(tenantId, ref)}`;

/** A page of a session's generations, voided ones included, by their numbers. @throws StoreUnavailable */
export const listCompactions = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  page: Page,
): Promise<readonly CompactionRecord[]> => {
  const [rows] = await db.batch(
    [
      sql`select ${COLUMNS} from ${counted(ofSession(tenantId, ref))} where ${page.after(sql`c.generation`)}
        order by ${page.order(sql`c.generation`)} limit ${page.limit}`,
    ],
    { name: "list compactions", repeatable: true },
  );
  return (rows ?? []).map(record);
};

/** @returns undefined when the tenant has no such session, or that no such generation @throws StoreUnavailable */
export const findCompaction = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  generation: number,
): Promise<CompactionRecord | undefined> => {
  const [rows] = await db.batch(
    [sql`select ${COLUMNS} from ${counted(ofSession(tenantId, ref))} where c.generation = ${generation}::bigint`],
    { name: "find compaction", repeatable: true },
  );
  const row = rows?.[0];
  return row === undefined ? undefined : record(row);
};
