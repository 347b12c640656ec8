/** Copying a session into a new one, in SQL: log, view and settings up to a seq, under new ids, in one transaction. */
import { type SQL, sql } from "drizzle-orm";
import type { KeyId, RunId, SessionId, TenantId } from "../protocol/ids.ts";
import { copyLeaseExpiry, copyState } from "./copies.ts";
import type { Db } from "./db.ts";
import { type Claim, type ClaimState, claimed, claimState, insertClaim, selectClaim } from "./idempotency.ts";
import { soundGeneration } from "./rewind.ts";
import { RECORD_COLUMNS, type SessionRecord, sessionRecord } from "./sessions.ts";
import { asLookedAt, type LookedAt } from "./undoing.ts";

/** What of a fork is not its original's; absent for what is. */
export interface ForkFields {
  readonly key: string | null;
  readonly user?: string | null | undefined;
  readonly title?: string | null | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

export interface Fork {
  readonly tenantId: TenantId;
  readonly keyId: KeyId | null;
  readonly at: LookedAt;
  readonly forkId: SessionId;
  /** The run that copies the objects; it holds the fork's lease from the beginning. */
  readonly copyRunId: RunId;
  /** The last seq to copy; null for all. */
  readonly atSeq: number | null;
  /** As they were at that seq; null where they are those of now. */
  readonly todos: readonly unknown[] | null;
  readonly fields: ForkFields;
  readonly createdWith: string;
  readonly clipTokens: number;
}

/** SQL: the session that this transaction copies; empty when there is none. */
const forking: SQL = sql`current_setting('hango.forking')`;

/** SQL: an id for the copy of something, the same whenever the batch is sent: the fork's time, and a hash of fork and original. */
const copyId = (prefix: "msg" | "cmp", forkId: SessionId, original: SQL): SQL =>
  sql`${`${prefix}_${forkId.slice("ses_".length, "ses_".length + 10)}`} || upper(substr(md5(${`${forkId}/`} || ${original}), 1, 16))`;

const statements = (fork: Fork): readonly SQL[] => {
  const { forkId, at, atSeq, fields, todos, clipTokens } = fork;
  const end = atSeq === null ? at.nextSeq : atSeq + 1;
  const made = sql`exists (select 1 from sessions f where f.id = ${forkId} and f.forked_from = ${forking})`;
  const within = sql`int8multirange(int8range(1, ${end}::bigint))`;
  const beyond = sql`int8multirange(int8range(${end}::bigint, null))`;
  const generation = soundGeneration(sql`h.session_id`, sql`coalesce(v.generation, 0)`, sql`(h.rewound + ${beyond})`);
  /** The places that a handoff names are the fork's own. */
  const own = (text: SQL): SQL =>
    sql`replace(replace(${text}, ${`/conversation_history/${at.sessionId}.md`}, ${`/conversation_history/${forkId}.md`}),
      ${`/v1/sessions/${at.sessionId}/`}, ${`/v1/sessions/${forkId}/`})`;
  const inside = sql`c.covered <@ ${within} and coalesce(c.pinned_seq < ${end}::bigint, true)`;
  return [
    sql`insert into sessions (id, tenant_id, key, user_id, title, model, system, tools, settings, metadata, created_with, todos, pending_files, forked_from, forked_at_seq)
      select ${forkId}, s.tenant_id, ${fields.key}, ${fields.user === undefined ? sql`s.user_id` : sql`${fields.user}`},
        ${fields.title === undefined ? sql`s.title` : sql`${fields.title}`}, s.model, s.system, s.tools, s.settings,
        ${fields.metadata === undefined ? sql`s.metadata` : sql`${JSON.stringify(fields.metadata)}::jsonb`}, ${fork.createdWith},
        ${todos === null ? sql`s.todos` : sql`${JSON.stringify(todos)}::jsonb`}, s.pending_files, s.id, ${end}::bigint - 1
      from sessions s where s.id = ${forking} on conflict do nothing`,
    // Thinking is bound to the session that it was thought in (V5).
    sql`insert into session_heads (session_id, next_seq, rewound, open_batch_seq, thinking_floor, revision, calibration, lease_holder, lease_epoch,
        lease_expires_at, lease_taken_at)
      select ${forkId}, ${end}::bigint, h.rewound * ${within}, case when h.open_batch_seq < ${end}::bigint then h.open_batch_seq end, ${end}::bigint,
        h.revision + 1, case when h.calibration is null then null else (h.calibration::jsonb || '{"baseline": null}')::json end,
        ${fork.copyRunId}, 1, ${copyLeaseExpiry}, hango_now()
      from session_heads h where h.session_id = ${forking} and ${made} on conflict do nothing`,
    sql`insert into messages (session_id, seq, id, role, origin, content, media, calls, tokens, bytes, created_at)
      select ${forkId}, m.seq, ${copyId("msg", forkId, sql`m.seq`)}, m.role, m.origin, m.content, m.media, m.calls, m.tokens, m.bytes, m.created_at
      from messages m where m.session_id = ${forking} and m.seq < ${end}::bigint and ${made} on conflict do nothing`,
    sql`insert into compactions (session_id, generation, base_generation, attempt_id, covered, covered_hash, pinned_seq, pinned_text, reason, summary,
        sections, prompt_version, prefix_version, tokens_before, tokens_after, tokens_read, evicted, history_path, history_bytes, history_sha256,
        model, usage, cost_usd, created_at, voided_at)
      select ${forkId}, c.generation, c.base_generation, ${copyId("cmp", forkId, sql`c.attempt_id`)}, c.covered, c.covered_hash, c.pinned_seq,
        c.pinned_text, c.reason, ${own(sql`c.summary`)}, ${own(sql`c.sections::text`)}::json, c.prompt_version, c.prefix_version, c.tokens_before,
        c.tokens_after, c.tokens_read, c.evicted, ${own(sql`c.history_path`)}, c.history_bytes, c.history_sha256, c.model, c.usage, c.cost_usd,
        c.created_at, c.voided_at
      from compactions c where c.session_id = ${forking} and ${inside} and ${made} on conflict do nothing`,
    sql`insert into view_revisions (session_id, revision, attempt_id, generation, clipped_before, clip_tokens, thinking_floor, demoted, skills, hidden,
        volatile_hash, reason, created_at)
      select ${forkId}, v.revision, ${copyId("cmp", forkId, sql`v.attempt_id`)}, v.generation, v.clipped_before, v.clip_tokens, v.thinking_floor,
        v.demoted, v.skills, v.hidden, v.volatile_hash, v.reason, v.created_at
      from view_revisions v where v.session_id = ${forking} and ${made} and v.hidden <@ ${within} and v.clipped_before <= ${end}::bigint
        and v.thinking_floor <= ${end}::bigint and (v.generation = 0 or exists (select 1 from compactions c where c.session_id = ${forkId} and c.generation = v.generation))
      on conflict do nothing`,
    sql`insert into view_revisions (session_id, revision, attempt_id, generation, clipped_before, clip_tokens, thinking_floor, demoted, skills, hidden,
        volatile_hash, reason)
      select ${forkId}, h.revision + 1, ${copyId("cmp", forkId, sql`'fork'`)}, ${generation}, least(coalesce(v.clipped_before, 1), ${end}::bigint),
        coalesce(v.clip_tokens, ${clipTokens}::int), ${end}::bigint, coalesce(v.demoted, '{}'), coalesce(v.skills, '[]'), coalesce(v.hidden, '{}') * ${within},
        v.volatile_hash, 'fork'
      from session_heads h left join view_revisions v on v.session_id = h.session_id and v.revision = h.revision
      where h.session_id = ${forking} and ${made} on conflict do nothing`,
    sql`insert into runs (id, tenant_id, session_id, key_id, status, trigger, model, state_json)
      select ${fork.copyRunId}, f.tenant_id, f.id, ${fork.keyId}, 'running', 'maintenance', f.model, ${copyState(sql`f.forked_from`, sql`f.forked_at_seq`)}
      from sessions f where f.id = ${forkId} and ${made} on conflict do nothing`,
  ];
};

export type ForkOutcome =
  | { readonly kind: "forked"; readonly session: SessionRecord; readonly replayed: boolean }
  | { readonly kind: "mismatch" }
  /** The claim's session has been erased since. */
  | { readonly kind: "gone" }
  /** The caller key is another session's, or the original changed since it was looked at: nothing was stored. */
  | { readonly kind: "key_taken" | "overtaken" };

/** SQL: the session that the claim stands for, or that this fork made. */
const selectFork = (fork: Pick<Fork, "tenantId" | "forkId">, claim: Claim | null): readonly SQL[] => [
  selectClaim(claim),
  sql`select ${RECORD_COLUMNS} from sessions s join session_heads h on h.session_id = s.id
    where s.tenant_id = ${fork.tenantId} and s.id = ${
      claim === null
        ? sql`${fork.forkId}`
        : sql`(select i.resource_id from idempotency_keys i where i.tenant_id = ${claim.owner} and i.key = ${claim.key})`
    }`,
];

/**
 * Makes the fork: all of it or nothing, under the lock of the original's head, on the condition that the original is idle and as it was
 * looked at. Its objects are still to be copied. Sent again it makes nothing twice. One round trip.
 * @throws StoreUnavailable
 */
export const storeFork = async (db: Db, fork: Fork, claim: Claim | null): Promise<ForkOutcome> => {
  const { at, tenantId, forkId, fields } = fork;
  const stored = sql`exists (select 1 from sessions f where f.id = ${forkId})`;
  const results = await db.batch(
    [
      ...(claim === null ? [] : [insertClaim(claim)]),
      sql`select set_config('hango.forking', coalesce((select h.session_id from sessions s join session_heads h on h.session_id = s.id
        where s.id = ${at.sessionId} and s.tenant_id = ${tenantId} and ${asLookedAt(at)} and ${claimed(claim)} for update of h), ''), true)`,
      ...statements(fork),
      ...(claim === null
        ? []
        : [
            sql`delete from idempotency_keys where tenant_id = ${claim.owner} and key = ${claim.key} and resource_id = ${forkId} and not ${stored}`,
          ]),
      sql`select 1 from sessions s where s.tenant_id = ${tenantId} and s.key = ${fields.key} and s.id <> ${forkId}`,
      ...selectFork(fork, claim),
    ],
    { name: "fork session", repeatable: true },
  );
  const claimRow = results.at(-2)?.[0];
  const row = results.at(-1)?.[0];
  const state = claimState(claim, claimRow);
  if (state.kind === "mismatch") return state;
  if (row !== undefined) return { kind: "forked", session: sessionRecord(row), replayed: state.kind === "replay" };
  if (state.kind === "replay") return { kind: "gone" };
  return { kind: results.at(-3)?.[0] === undefined ? "overtaken" : "key_taken" };
};

/** SQL for whoever looks before: what an equal request made, and the reader of its rows. */
export const forkByClaim = (tenantId: TenantId, forkId: SessionId, claim: Claim | null) => ({
  statements: selectFork({ tenantId, forkId }, claim),
  read: (results: readonly (readonly Readonly<Record<string, unknown>>[])[]): ForkOutcome | undefined => {
    const state: ClaimState = claimState(claim, results[0]?.[0]);
    if (state.kind === "mismatch") return state;
    if (state.kind === "ours") return undefined;
    const row = results[1]?.[0];
    return row === undefined ? { kind: "gone" } : { kind: "forked", session: sessionRecord(row), replayed: true };
  },
});
