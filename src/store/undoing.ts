/**
 * What a rewind, a retry or a fork would leave of a log: found by the one predicate of what a turn begins with (R2), in SQL, before any
 * limit. Only looks; what is decided on it is stored on the condition that the session is still as it was looked at.
 */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { Db, Row } from "./db.ts";
import { busyRun, leaseLive, retryAfter, sessionBusy } from "./lease.ts";
import { LOG_COLUMNS, logRow, number, numberOrNull, text, textOrNull } from "./rows.ts";
import type { SessionRef } from "./session-ref.ts";
import { refers } from "./session-ref.ts";

/** Which turns go: so many of the newest, or all after a seq. */
export type UndoTarget = { readonly turns: number } | { readonly toSeq: number };

/** A session as it was looked at, by which a later statement finds out whether it still is. */
export interface LookedAt {
  readonly sessionId: SessionId;
  readonly nextSeq: number;
  readonly revision: number;
  /** As PostgreSQL writes it. */
  readonly rewound: string;
}

/** The rows from a turn's beginning to the end of the log, undone ones aside. */
export interface Undone {
  /** Seq of the row that the first of these turns begins with. */
  readonly start: number;
  readonly lastSeq: number;
  readonly messages: number;
  readonly turns: number;
  /** Newest first: calls of `write_todos` before `start`, each with its results; null where no undone row wrote todos. */
  readonly todoCalls: readonly TodoCall[] | null;
}

export interface TodoCall {
  readonly content: string;
  readonly results: string | null;
}

export interface UndoLook {
  readonly at: LookedAt;
  /** The run for which the session is busy; null when it is idle. */
  readonly busy: {
    readonly runId: RunId;
    readonly retryAfterSeconds: number;
    /** No Worker is at work on it: somebody is to send for it. */
    readonly stranded: boolean;
  } | null;
  /** Null when there is nothing after the target. */
  readonly undone: Undone | null;
  /** The last seq that is left before `undone`, 0 for none; without it the last of the log. */
  readonly keptTo: number;
  /** The nearest seq before the target after which a turn begins, 0 for the beginning; null where there is none, and for `turns`. */
  readonly boundaryBefore: number | null;
  /** Longest clipped text that the session sets, in tokens; null for the configured. */
  readonly clipTokens: number | null;
  /** The row at `undone.start`. */
  readonly input: LogRow | null;
}

/** SQL condition over `session_heads h`: idle, and as it was looked at. */
export const asLookedAt = ({ nextSeq, revision, rewound }: LookedAt): SQL =>
  sql`h.next_seq = ${nextSeq}::bigint and h.revision = ${revision}::bigint and h.rewound = ${rewound}::int8multirange
    and not coalesce(${leaseLive}, false) and not ${sessionBusy}`;

/** SQL: rows `m` of the session of `h` that are not undone. */
const liveRows = sql`messages m where m.session_id = h.session_id and m.seq < h.next_seq and not h.rewound @> m.seq`;

const startsTurn = sql`hango_user_originated(m.origin, m.content)`;

const lastBefore = (start: SQL): SQL => sql`coalesce((select max(m.seq) from ${liveRows} and m.seq < ${start}), 0)`;

/** SQL: one row with `start`, and the boundary before the target. */
const startOf = (target: UndoTarget): SQL =>
  "turns" in target
    ? sql`(select min(n.seq) as start, null::bigint as before_start from (
        select m.seq from ${liveRows} and ${startsTurn} order by m.seq desc limit ${target.turns}) n)`
    : sql`(select (select min(m.seq) from ${liveRows} and m.seq > ${target.toSeq}::bigint and ${startsTurn}) as start,
        (select max(m.seq) from ${liveRows} and m.seq <= ${target.toSeq}::bigint and ${startsTurn}) as before_start)`;

/** Set for the later statements of the transaction; both empty when there is nothing to undo. */
const [FROM, SESSION] = [sql`'hango.undo_from'`, sql`'hango.undo_session'`];
const from = sql`nullif(current_setting(${FROM}, true), '')::bigint`;
const session = sql`current_setting(${SESSION}, true)`;

/** Most calls of `write_todos` that are looked at: the newest that succeeded counts. */
const TODO_CALLS = 8;

/** Why a session cannot be changed now. */
const busyOf = (row: Row): UndoLook["busy"] => {
  const runId = textOrNull(row, "busy_run");
  if (runId === null) return null;
  return { runId: runId as RunId, retryAfterSeconds: number(row, "retry_after"), stranded: row.live !== true };
};

/** SQL: columns for `busyOf`, from `session_heads h`. */
const BUSY_COLUMNS: SQL = sql`case when ${leaseLive} or ${sessionBusy} then ${busyRun} end as busy_run, ${retryAfter} as retry_after,
  coalesce(${leaseLive}, false) as live`;

/**
 * Looks at what a session would lose. One round trip.
 * @param also statements whose rows come with the answer, in the same transaction
 * @returns undefined when the tenant has no such session
 * @throws StoreUnavailable
 */
export const lookAtUndo = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  target: UndoTarget,
  also: readonly SQL[] = [],
): Promise<{ readonly look: UndoLook | undefined; readonly also: readonly (readonly Row[])[] }> => {
  const results = await db.batch(
    [
      ...also,
      sql`select h.session_id, h.next_seq, h.revision, h.rewound::text as rewound, s.settings->'context'->>'tool_arg_max_tokens' as clip_tokens,
          ${BUSY_COLUMNS}, t.start, ${lastBefore(sql`coalesce(t.start, h.next_seq)`)} as kept_to,
          case when t.before_start is null then null else ${lastBefore(sql`t.before_start`)} end as boundary_before, u.*,
          set_config(${FROM}, coalesce(t.start::text, ''), true) as undo_from, set_config(${SESSION}, h.session_id, true) as undo_session
        from sessions s join session_heads h on h.session_id = s.id, lateral ${startOf(target)} t,
          lateral (select count(*) as messages, count(*) filter (where ${startsTurn}) as turns, max(m.seq) as last_seq,
            coalesce(bool_or(m.role = 'assistant' and strpos(m.content::text, '"write_todos"') > 0), false) as wrote_todos
            from ${liveRows} and m.seq >= t.start) u
        where ${refers(tenantId, ref)} and s.depth = 0`,
      sql`select m.content::text as content, r.content::text as results from session_heads h, lateral (
            select m.* from ${liveRows} and m.seq < ${from} and m.role = 'assistant' and strpos(m.content::text, '"write_todos"') > 0
            order by m.seq desc limit ${TODO_CALLS}) m
          left join messages r on r.session_id = m.session_id and r.seq = m.seq + 1 and r.origin = 'tool'
        where h.session_id = ${session} order by m.seq desc`,
      sql`select ${sql.raw(LOG_COLUMNS)} from messages m where m.session_id = ${session} and m.seq = ${from}`,
    ],
    { name: "look at undo", repeatable: true },
  );
  const row = results.at(-3)?.[0];
  return { look: row === undefined ? undefined : lookOf(row, results), also: results };
};

const lookOf = (row: Row, results: readonly (readonly Row[])[]): UndoLook => {
  const start = numberOrNull(row, "start");
  const clipTokens = textOrNull(row, "clip_tokens");
  const input = results.at(-1)?.[0];
  const todoCalls = (results.at(-2) ?? []).map((call) => ({
    content: text(call, "content"),
    results: textOrNull(call, "results"),
  }));
  return {
    at: {
      sessionId: text(row, "session_id") as SessionId,
      nextSeq: number(row, "next_seq"),
      revision: number(row, "revision"),
      rewound: text(row, "rewound"),
    },
    busy: busyOf(row),
    undone:
      start === null
        ? null
        : {
            start,
            lastSeq: number(row, "last_seq"),
            messages: number(row, "messages"),
            turns: number(row, "turns"),
            todoCalls: row.wrote_todos === true ? todoCalls : null,
          },
    keptTo: number(row, "kept_to"),
    boundaryBefore: numberOrNull(row, "boundary_before"),
    clipTokens: clipTokens === null ? null : Number(clipTokens),
    input: input === undefined ? null : logRow(input),
  };
};
