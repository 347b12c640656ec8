/** Sessions as a resource: made, read, listed, changed. Runs change them in `finish.ts`; `erasures.ts` removes them. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import { type Claim, claimed, claimState, insertClaim, selectClaim } from "./idempotency.ts";
import { sessionBusy, unclaimed } from "./lease.ts";
import type { Page } from "./pages.ts";
import { pendingFiles, type SessionFile } from "./pending-files.ts";
import { parseRanges, type StoredRange } from "./ranges.ts";
import { flag, number, numberOrNull, text, textOrNull, time } from "./rows.ts";
import { refers, type SessionRef } from "./session-ref.ts";

export type Json = Readonly<Record<string, unknown>>;

/** `running` also while a run that died waits to be continued. */
export type SessionStatus = "idle" | "queued" | "running" | "requires_action";

/** The call that a subagent works for. */
export interface SubagentPlace {
  readonly parentSessionId: SessionId;
  readonly parentRunId: RunId;
  readonly parentCallId: string;
  /** The session at the top, whose files it works on. */
  readonly rootSessionId: SessionId;
  readonly type: string;
  /** 1 for a subagent of a session that callers talk to. */
  readonly depth: number;
}

export interface SessionRecord {
  readonly id: SessionId;
  readonly key: string | null;
  readonly user: string | null;
  readonly title: string | null;
  readonly model: string;
  readonly system: string | null;
  readonly tools: readonly Json[];
  readonly settings: Json;
  readonly metadata: Readonly<Record<string, string>>;
  readonly createdWith: string;
  /** Files that it was created with wait to be written. */
  readonly filesPending: boolean;
  readonly status: SessionStatus;
  readonly turns: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly costUsd: number;
  readonly lastInputTokens: number;
  readonly lastRunId: RunId | null;
  /** The session that it was copied from, which may be erased since. */
  readonly forkedFrom: SessionId | null;
  /** The last seq that was copied. */
  readonly forkedAtSeq: number | null;
  /** Where it stands, of a subagent's session; null for one that callers talk to. */
  readonly subagent: SubagentPlace | null;
  /** Messages that were undone (R3). */
  readonly rewound: readonly StoredRange[];
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** SQL over `session_heads h`: what the session is doing. */
const STATUS: SQL = sql`(case when h.waiting_run_id is not null then 'requires_action' when not ${unclaimed} then 'running'
  when ${sessionBusy} then 'queued' else 'idle' end)`;

/** The columns that `sessionRecord` reads, from `sessions s` and `session_heads h`. */
export const RECORD_COLUMNS = sql`${sql.raw(`s.id, s.key, s.user_id, s.title, s.model, s.system, s.tools::text as tools, s.settings::text as settings,
  s.metadata::text as metadata, s.created_with, s.pending_files is not null as files_pending, s.turns, s.input_tokens, s.output_tokens, s.cache_read_tokens, s.cache_write_tokens,
  s.cost_usd, s.last_input_tokens, s.last_run_id, s.forked_from, s.forked_at_seq,
  s.parent_session_id, s.parent_run_id, s.parent_call_id, s.root_session_id, s.subagent_type, s.depth, h.rewound::text as rewound, s.created_at, s.updated_at`)}, ${STATUS} as status`;

const subagentPlace = (row: Row): SubagentPlace | null => {
  const parentSessionId = textOrNull(row, "parent_session_id");
  return parentSessionId === null
    ? null
    : {
        parentSessionId: parentSessionId as SessionId,
        parentRunId: text(row, "parent_run_id") as RunId,
        parentCallId: text(row, "parent_call_id"),
        rootSessionId: text(row, "root_session_id") as SessionId,
        type: text(row, "subagent_type"),
        depth: number(row, "depth"),
      };
};

export const sessionRecord = (row: Row): SessionRecord => ({
  id: text(row, "id") as SessionId,
  key: textOrNull(row, "key"),
  user: textOrNull(row, "user_id"),
  title: textOrNull(row, "title"),
  model: text(row, "model"),
  system: textOrNull(row, "system"),
  tools: JSON.parse(text(row, "tools")),
  settings: JSON.parse(text(row, "settings")),
  metadata: JSON.parse(text(row, "metadata")),
  createdWith: text(row, "created_with"),
  filesPending: flag(row, "files_pending"),
  status: text(row, "status") as SessionStatus,
  turns: number(row, "turns"),
  inputTokens: number(row, "input_tokens"),
  outputTokens: number(row, "output_tokens"),
  cacheReadTokens: number(row, "cache_read_tokens"),
  cacheWriteTokens: number(row, "cache_write_tokens"),
  costUsd: number(row, "cost_usd"),
  lastInputTokens: number(row, "last_input_tokens"),
  lastRunId: textOrNull(row, "last_run_id") as RunId | null,
  forkedFrom: textOrNull(row, "forked_from") as SessionId | null,
  forkedAtSeq: numberOrNull(row, "forked_at_seq"),
  subagent: subagentPlace(row),
  rewound: parseRanges(text(row, "rewound")),
  createdAt: time(row, "created_at"),
  updatedAt: time(row, "updated_at"),
});

export interface NewSession {
  readonly id: SessionId;
  readonly tenantId: TenantId;
  readonly key: string | null;
  readonly user: string | null;
  readonly title: string | null;
  readonly model: string;
  readonly system: string | null;
  readonly tools: readonly Json[];
  readonly settings: Json;
  readonly metadata: Readonly<Record<string, string>>;
  /** Hash of what was asked for: a second create with the same key must ask for the same. */
  readonly createdWith: string;
  /** To be written before its first turn (`pending-files.ts`). */
  readonly files: readonly SessionFile[];
  /** Of a subagent's session. */
  readonly subagent?: SubagentPlace;
}

/**
 * SQL: makes a session with its head unless its key is taken, where the claim (if any) is ours. Sent twice, it makes one.
 * Also for callers that make a session on the way to something else.
 * @param condition a further one
 */
export const insertSession = (session: NewSession, claim: Claim | null, condition: SQL = sql`true`): readonly SQL[] => [
  sql`insert into sessions (id, tenant_id, key, user_id, title, model, system, tools, settings, metadata, created_with, pending_files,
      parent_session_id, parent_run_id, parent_call_id, root_session_id, subagent_type, depth)
    select ${session.id}, ${session.tenantId}, ${session.key}, ${session.user}, ${session.title}, ${session.model}, ${session.system},
      ${JSON.stringify(session.tools)}::jsonb, ${JSON.stringify(session.settings)}::jsonb, ${JSON.stringify(session.metadata)}::jsonb,
      ${session.createdWith}, ${pendingFiles(session.files)}::json, ${session.subagent?.parentSessionId ?? null}, ${session.subagent?.parentRunId ?? null},
      ${session.subagent?.parentCallId ?? null}, ${session.subagent?.rootSessionId ?? null}, ${session.subagent?.type ?? null},
      ${session.subagent?.depth ?? 0}::int
    where ${claimed(claim)} and ${condition} on conflict do nothing`,
  sql`insert into session_heads (session_id) select s.id from sessions s where s.id = ${session.id} on conflict do nothing`,
];

/** What a create that found its key taken leaves in its claim. */
const FOUND = "found";

export type CreateOutcome =
  | { readonly kind: "session"; readonly session: SessionRecord; readonly created: boolean; readonly replayed: boolean }
  | { readonly kind: "mismatch" }
  /** The claim's session has been erased since. */
  | { readonly kind: "gone" };

/**
 * Makes a session, or finds the one that has its key, or the one that an equal request made. One round trip.
 * Whether a found one was created with the same settings is for the caller to compare (`createdWith`).
 * @throws StoreUnavailable
 */
export const createSession = async (db: Db, session: NewSession, claim: Claim | null): Promise<CreateOutcome> => {
  const byKey = session.key === null ? sql`false` : sql`s.tenant_id = ${session.tenantId} and s.key = ${session.key}`;
  const target =
    claim === null
      ? sql`s.id = ${session.id} or (${byKey})`
      : sql`s.id = (select i.resource_id from idempotency_keys i where i.tenant_id = ${claim.owner} and i.key = ${claim.key})`;
  const results = await db.batch(
    [
      ...(claim === null ? [] : [insertClaim(claim)]),
      ...insertSession(session, claim),
      ...(claim === null
        ? []
        : [
            sql`update idempotency_keys i set resource_id = s.id, response = ${FOUND} from sessions s
              where i.tenant_id = ${claim.owner} and i.key = ${claim.key} and i.resource_id = ${session.id} and s.id <> ${session.id} and ${byKey}`,
          ]),
      selectClaim(claim),
      sql`select ${RECORD_COLUMNS} from sessions s join session_heads h on h.session_id = s.id where s.tenant_id = ${session.tenantId} and (${target})`,
    ],
    { name: "create session", repeatable: true },
  );
  const state = claimState(claim, results.at(-2)?.[0]);
  if (state.kind === "mismatch") return state;
  const row = results.at(-1)?.[0];
  if (row === undefined) return { kind: "gone" };
  const found = sessionRecord(row);
  if (state.kind === "ours")
    return { kind: "session", session: found, created: found.id === session.id, replayed: false };
  // A claim that found its session by key stands for an answer of its own only from the second time on.
  const created = state.response !== FOUND;
  return { kind: "session", session: found, created, replayed: true };
};

/** Finds a session. @returns undefined when the tenant has none of that name @throws StoreUnavailable */
export const findSession = async (db: Db, tenantId: TenantId, ref: SessionRef): Promise<SessionRecord | undefined> => {
  const [rows] = await db.batch(
    [
      sql`select ${RECORD_COLUMNS} from sessions s join session_heads h on h.session_id = s.id where ${refers(tenantId, ref)}`,
    ],
    { name: "find session", repeatable: true },
  );
  const row = rows?.[0];
  return row === undefined ? undefined : sessionRecord(row);
};

export interface SessionFilter {
  readonly user?: string | undefined;
  readonly key?: string | undefined;
  readonly status?: SessionStatus | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  /** RFC 3339, exclusive. */
  readonly updatedAfter?: string | undefined;
  /** The subagents of this session; without it, none are listed. */
  readonly parent?: SessionRef | undefined;
}

/** SQL condition over `sessions s`: a subagent of this session of the tenant. */
const belowOf = (tenantId: TenantId, parent: SessionRef): SQL =>
  "id" in parent
    ? sql`s.parent_session_id = ${parent.id}`
    : sql`s.parent_session_id = (select p.id from sessions p where p.tenant_id = ${tenantId} and p.key = ${parent.key})`;

/** A page of a tenant's sessions, by age. @throws StoreUnavailable */
export const listSessions = async (
  db: Db,
  tenantId: TenantId,
  filter: SessionFilter,
  page: Page,
): Promise<readonly SessionRecord[]> => {
  const conditions = [
    sql`s.tenant_id = ${tenantId}`,
    page.after(sql`s.id`),
    filter.parent === undefined ? sql`s.parent_session_id is null` : belowOf(tenantId, filter.parent),
    ...(filter.user === undefined ? [] : [sql`s.user_id = ${filter.user}`]),
    ...(filter.key === undefined ? [] : [sql`s.key = ${filter.key}`]),
    ...(filter.status === undefined ? [] : [sql`${STATUS} = ${filter.status}`]),
    ...(Object.keys(filter.metadata).length === 0
      ? []
      : [sql`s.metadata @> ${JSON.stringify(filter.metadata)}::jsonb`]),
    ...(filter.updatedAfter === undefined ? [] : [sql`s.updated_at > ${filter.updatedAfter}::timestamptz`]),
  ];
  const [rows] = await db.batch(
    [
      sql`select ${RECORD_COLUMNS} from sessions s join session_heads h on h.session_id = s.id
        where ${sql.join(conditions, sql` and `)} order by ${page.order(sql`s.id`)} limit ${page.limit}`,
    ],
    { name: "list sessions", repeatable: true },
  );
  return (rows ?? []).map(sessionRecord);
};

/** What changes; an absent member stays. */
export interface SessionChange {
  readonly user?: string | null;
  readonly title?: string | null;
  readonly model?: string;
  readonly system?: string | null;
  readonly tools?: readonly Json[];
  /** Members are merged; a null removes one. */
  readonly settings: Json;
  /** The same. */
  readonly metadata: Readonly<Record<string, string | null>>;
}

export type ChangeOutcome =
  | { readonly kind: "changed"; readonly session: SessionRecord }
  | { readonly kind: "not_found" }
  | { readonly kind: "too_much_metadata" };

const merged = (column: SQL, change: Json): SQL => {
  const entries = Object.entries(change);
  const set = Object.fromEntries(entries.filter(([, value]) => value !== null));
  const removed = entries.filter(([, value]) => value === null).map(([name]) => name);
  return sql`((${column} || ${JSON.stringify(set)}::jsonb) - ${sql.param(removed)}::text[])`;
};

/**
 * Changes a session. A run under way goes on with what it began with.
 * @param maxMetadata most entries of metadata after the change
 * @throws StoreUnavailable
 */
export const changeSession = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  change: SessionChange,
  maxMetadata: number,
): Promise<ChangeOutcome> => {
  const metadata = merged(sql`s.metadata`, change.metadata);
  const changes = [
    ...(change.user === undefined ? [] : [sql`user_id = ${change.user}`]),
    ...(change.title === undefined ? [] : [sql`title = ${change.title}`]),
    ...(change.model === undefined ? [] : [sql`model = ${change.model}`]),
    ...(change.system === undefined ? [] : [sql`system = ${change.system}`]),
    ...(change.tools === undefined ? [] : [sql`tools = ${JSON.stringify(change.tools)}::jsonb`]),
    sql`settings = ${merged(sql`s.settings`, change.settings)}`,
    sql`metadata = ${metadata}`,
    sql`updated_at = hango_now()`,
  ];
  const results = await db.batch(
    [
      sql`update sessions s set ${sql.join(changes, sql`, `)} where ${refers(tenantId, ref)} and s.depth = 0
        and (select count(*) from jsonb_object_keys(${metadata})) <= ${maxMetadata}::int returning s.id`,
      sql`select ${RECORD_COLUMNS} from sessions s join session_heads h on h.session_id = s.id where ${refers(tenantId, ref)} and s.depth = 0`,
    ],
    { name: "change session", repeatable: true },
  );
  const row = results[1]?.[0];
  if (row === undefined) return { kind: "not_found" };
  return results[0]?.length === 0 ? { kind: "too_much_metadata" } : { kind: "changed", session: sessionRecord(row) };
};
