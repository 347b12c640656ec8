/**
 * Undoing turns (R3): their seqs join `session_heads.rewound`, and a new revision shows the newest generation that knows nothing of
 * them. Nothing is deleted, and `rewound` only grows: no later row can bring undone content back.
 */
import { type SQL, sql } from "drizzle-orm";
import type { TenantId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import { FORGET_STRIKES } from "./guards.ts";
import {
  type Claim,
  type ClaimState,
  claimed,
  claimState,
  insertClaim,
  selectClaim,
  settleClaim,
} from "./idempotency.ts";
import { textOrNull } from "./rows.ts";
import { asLookedAt, type LookedAt } from "./undoing.ts";

/** What a rewind stores. */
export interface Undoing {
  readonly at: LookedAt;
  /** Everything from this seq on goes. */
  readonly start: number;
  /** Chosen by the Worker, once for a request (M3). */
  readonly attemptId: string;
  /** Todos as they were; null where the undone rows did not write any. */
  readonly todos: readonly unknown[] | null;
  /** For a session whose view was never changed (V2). */
  readonly clipTokens: number;
  readonly reason: "rewind" | "retry";
}

/**
 * SQL: the newest un-voided generation of the current chain such that neither it nor its bases cover or pin a row of `rewound`; 0 for none.
 * Those outside of the chain were voided, or cover what an earlier rewind undid.
 * @param sessionId, generation, rewound SQL expressions; `generation` is the one that the view shows
 */
export const soundGeneration = (sessionId: SQL, generation: SQL, rewound: SQL): SQL =>
  sql`(with recursive chain as (
      select c.generation, c.base_generation, c.covered, c.pinned_seq, c.voided_at from compactions c
        where c.session_id = ${sessionId} and c.generation = ${generation}
      union all select c.generation, c.base_generation, c.covered, c.pinned_seq, c.voided_at from compactions c
        join chain on c.session_id = ${sessionId} and c.generation = chain.base_generation),
    unsound as (select min(generation) as lowest from chain
      where voided_at is not null or covered && ${rewound} or coalesce(${rewound} @> pinned_seq, false))
    select coalesce(max(generation), 0) from chain, unsound where generation < coalesce(lowest, generation + 1))`;

/**
 * SQL: undoes the rows, once.
 * @param session expression for the session's id; null or empty where nothing is to be done
 */
export const undoStatements = (
  session: SQL,
  { at, start, attemptId, todos, clipTokens, reason }: Undoing,
): readonly SQL[] => {
  const gone = sql`int8multirange(int8range(${start}::bigint, ${at.nextSeq}::bigint))`;
  const fresh = sql`exists (select 1 from session_heads h join view_revisions v on v.session_id = h.session_id and v.revision = h.revision + 1
    where h.session_id = ${session} and v.attempt_id = ${attemptId})`;
  return [
    // Where the bytes at the beginning change, thinking that is bound to them must go (V5).
    sql`insert into view_revisions (session_id, revision, attempt_id, generation, clipped_before, clip_tokens, thinking_floor, demoted, skills, hidden,
        volatile_hash, reason)
      select h.session_id, h.revision + 1, ${attemptId}, sound.generation, coalesce(v.clipped_before, 1), coalesce(v.clip_tokens, ${clipTokens}::int),
        case when sound.generation = coalesce(v.generation, 0) and not coalesce(v.hidden && ${gone}, false)
          then greatest(h.thinking_floor, coalesce(v.thinking_floor, 1)) else ${at.nextSeq}::bigint end,
        coalesce(v.demoted, '{}'), coalesce(v.skills, '[]'), coalesce(v.hidden, '{}') - ${gone}, v.volatile_hash, ${reason}
      from session_heads h left join view_revisions v on v.session_id = h.session_id and v.revision = h.revision,
        lateral (select ${soundGeneration(sql`h.session_id`, sql`coalesce(v.generation, 0)`, sql`(h.rewound + ${gone})`)} as generation) sound
      where h.session_id = ${session} and h.revision = ${at.revision}::bigint on conflict (attempt_id) do nothing`,
    sql`update sessions s set updated_at = hango_now()${todos === null ? sql`` : sql`, todos = ${JSON.stringify(todos)}::jsonb`}
      where s.id = ${session} and ${fresh}`,
    // A reading of a longer log, strikes of compactions that it needed, and what was asked of it say nothing of what is left.
    sql`update session_heads h set rewound = h.rewound + ${gone}, revision = v.revision, thinking_floor = greatest(h.thinking_floor, v.thinking_floor),
        calibration = case when h.calibration is null then null else (h.calibration::jsonb || '{"baseline": null}')::json end,
        ${FORGET_STRIKES}, force_compaction = null,
        open_batch_seq = case when h.open_batch_seq >= ${start}::bigint then null else h.open_batch_seq end
      from view_revisions v where h.session_id = ${session} and v.session_id = h.session_id and v.attempt_id = ${attemptId}
        and v.revision = h.revision + 1`,
  ];
};

/** SQL: the session that this transaction rewinds; empty when there is none. */
const rewinding: SQL = sql`current_setting('hango.rewinding')`;

export type RewindOutcome =
  /** With the answer, JSON text. */
  | { readonly kind: "rewound"; readonly body: string }
  /** The session changed since it was looked at, or a run began: nothing was stored. */
  | { readonly kind: "overtaken" }
  | Exclude<ClaimState, { kind: "ours" }>;

/**
 * Undoes turns: all of it or nothing, under the lock of the session's head, on the condition that the session is idle and as it was looked
 * at. Sent again it undoes nothing twice. One round trip.
 * @param answer what is answered, but for the generation and the revision that are in force then
 * @throws StoreUnavailable
 */
export const storeRewind = async (
  db: Db,
  tenantId: TenantId,
  undoing: Undoing,
  claim: Claim | null,
  answer: Readonly<Record<string, unknown>>,
): Promise<RewindOutcome> => {
  const { at, attemptId } = undoing;
  const stored = sql`exists (select 1 from view_revisions v where v.session_id = ${at.sessionId} and v.attempt_id = ${attemptId})`;
  const body = sql`(select (${JSON.stringify(answer)}::jsonb || jsonb_build_object('generation', v.generation, 'revision', v.revision))::text
    from view_revisions v where v.session_id = ${at.sessionId} and v.attempt_id = ${attemptId})`;
  const results = await db.batch(
    [
      ...(claim === null ? [] : [insertClaim(claim)]),
      sql`select set_config('hango.rewinding', coalesce((select h.session_id from sessions s join session_heads h on h.session_id = s.id
        where s.id = ${at.sessionId} and s.tenant_id = ${tenantId} and ${asLookedAt(at)} and ${claimed(claim)} for update of h), ''), true)`,
      ...undoStatements(rewinding, undoing),
      ...(claim === null ? [] : settleClaim(claim, stored, body)),
      sql`select ${body} as body`,
      selectClaim(claim),
    ],
    { name: "rewind", repeatable: true },
  );
  const row = results.at(-2)?.[0];
  const told = row === undefined ? null : textOrNull(row, "body");
  if (told !== null) return { kind: "rewound", body: told };
  const found = results.at(-1)?.[0];
  const state = found === undefined ? ({ kind: "ours" } as const) : claimState(claim, found);
  return state.kind === "ours" ? { kind: "overtaken" } : state;
};
