/** Appending an existing transcript to a session that has had no turn: one round trip to look, one to store a page. */
import { type SQL, sql } from "drizzle-orm";
import { type Seq, type SessionId, seq, type TenantId } from "../protocol/ids.ts";
import type { Role } from "../protocol/messages.ts";
import type { Db, Row } from "./db.ts";
import {
  type Claim,
  type ClaimState,
  claimed,
  claimState,
  insertClaim,
  selectClaim,
  settleClaim,
} from "./idempotency.ts";
import { leaseLive } from "./lease.ts";
import { flag, number, numberOrNull, text, texts } from "./rows.ts";
import type { SessionRef } from "./session-ref.ts";
import { refers } from "./session-ref.ts";
import type { PlacedRow } from "./statements.ts";

/** A session before a page is appended. */
export interface ImportState {
  readonly sessionId: SessionId;
  /** Whether a run was ever made for it, or one holds it. */
  readonly hadTurn: boolean;
  readonly nextSeq: number;
  readonly openBatchSeq: number | null;
  /** The last row; null when the log is empty. */
  readonly last: { readonly role: Role; readonly calls: readonly string[] } | null;
  /** Those of the asked call ids that the session has already. */
  readonly known: ReadonlySet<string>;
}

export interface ImportLook {
  /** Undefined when the tenant has no such session. */
  readonly state: ImportState | undefined;
  readonly claim: ClaimState;
}

const importState = (row: Row, known: readonly Row[]): ImportState => ({
  sessionId: text(row, "id") as SessionId,
  hadTurn: flag(row, "had_turn"),
  nextSeq: number(row, "next_seq"),
  openBatchSeq: numberOrNull(row, "open_batch_seq"),
  last: row.role === null ? null : { role: text(row, "role") as Role, calls: texts(row, "calls") },
  known: new Set(known.map((each) => text(each, "id"))),
});

/** SQL over `session_heads h` and `sessions s`: the session has had a turn, or a run holds it. */
const hadTurn = sql`(exists (select 1 from runs r where r.session_id = s.id) or ${leaseLive})`;

/**
 * Reads what the check of a page needs. One round trip.
 * @param callIds ids of the page's calls
 * @throws StoreUnavailable
 */
export const lookForImport = async (
  db: Db,
  tenantId: TenantId,
  session: SessionRef,
  callIds: readonly string[],
  claim: Claim | null,
): Promise<ImportLook> => {
  const [claims, states, known] = await db.batch(
    [
      selectClaim(claim),
      sql`select s.id, ${hadTurn} as had_turn, h.next_seq, h.open_batch_seq, m.role, m.calls
        from sessions s join session_heads h on h.session_id = s.id
          left join lateral (select role, calls from messages where session_id = s.id and not h.rewound @> seq order by seq desc limit 1) m on true
        where ${refers(tenantId, session)}`,
      sql`select distinct c.id from sessions s join messages m on m.session_id = s.id cross join unnest(m.calls) c (id)
        where ${refers(tenantId, session)} and c.id = any(${sql.param([...callIds])}::text[])`,
    ],
    { name: "look for import", repeatable: true },
  );
  const row = states?.[0];
  return {
    state: row === undefined ? undefined : importState(row, known ?? []),
    claim: claimState(claim, claims?.[0]),
  };
};

export interface ImportPage {
  readonly tenantId: TenantId;
  /** What the page was checked against. */
  readonly state: ImportState;
  /** In order; at least one. The claim's resource is the first row. */
  readonly rows: readonly PlacedRow[];
  readonly claim: Claim | null;
  /** What a repeated request is answered with. */
  readonly response: string;
}

export type ImportOutcome =
  | { readonly kind: "stored" }
  /** The session changed since it was looked at: nothing was stored. */
  | { readonly kind: "overtaken" }
  | Exclude<ClaimState, { kind: "ours" }>;

/** Ids and hashes hold no spaces, so a row's list of them travels as one text. */
const list = (values: readonly string[]): string => values.join(" ");

const column = (rows: readonly PlacedRow[], read: (row: PlacedRow) => string | number): SQL =>
  sql`${sql.param(rows.map(read))}`;

/** Appends the rows and advances the head, in one statement: whoever changes the head first wins, and the other stores nothing. */
const append = ({ tenantId, state, rows, claim }: ImportPage, last: PlacedRow): SQL => {
  const open = last.row.calls.length > 0;
  const nextSeq = last.seq + (open ? 2 : 1);
  return sql`with head as (
      update session_heads h set next_seq = ${nextSeq}::bigint, open_batch_seq = ${open ? last.seq : null}::bigint,
        thinking_floor = ${nextSeq}::bigint
      from sessions s where s.id = h.session_id and s.id = ${state.sessionId} and s.tenant_id = ${tenantId}
        and h.next_seq = ${state.nextSeq}::bigint and h.open_batch_seq is not distinct from ${state.openBatchSeq}::bigint
        and not ${hadTurn} and ${claimed(claim)}
      returning h.session_id)
    insert into messages (session_id, seq, id, role, origin, content, media, calls, tokens, bytes)
    select head.session_id, p.seq, p.id, p.role, p.origin, p.content::json, string_to_array(p.media, ' '),
      string_to_array(p.calls, ' '), p.tokens, p.bytes
    from head, unnest(${column(rows, (each) => each.seq)}::bigint[], ${column(rows, ({ row }) => row.id)}::text[],
      ${column(rows, ({ row }) => row.role)}::text[], ${column(rows, ({ row }) => row.origin)}::text[],
      ${column(rows, ({ row }) => row.content)}::text[], ${column(rows, ({ row }) => list(row.media))}::text[],
      ${column(rows, ({ row }) => list(row.calls))}::text[], ${column(rows, ({ row }) => row.tokens)}::int[],
      ${column(rows, ({ row }) => row.bytes)}::int[])
      as p (seq, id, role, origin, content, media, calls, tokens, bytes)
    on conflict (id) do nothing`;
};

/**
 * Stores a page whole or not at all, on the condition that the session is still as the page was checked against (M2, M3). The
 * next seq, and thinking from before it being left out from now on (V5), go with it. One round trip.
 * @throws StoreUnavailable
 */
export const storeImport = async (db: Db, page: ImportPage): Promise<ImportOutcome> => {
  const { claim, rows, response } = page;
  const last = rows.at(-1);
  const first = rows[0];
  if (first === undefined || last === undefined) return { kind: "stored" };
  const stored = sql`exists (select 1 from messages where id = ${first.row.id})`;
  const results = await db.batch(
    [
      ...(claim === null ? [] : [insertClaim(claim)]),
      append(page, last),
      sql`update sessions set updated_at = hango_now() where id = ${page.state.sessionId} and ${stored}`,
      selectClaim(claim),
      ...(claim === null ? [] : settleClaim(claim, stored, response)),
      sql`select ${stored} as stored`,
    ],
    { name: "store import", repeatable: true },
  );
  const state = claimState(claim, results[claim === null ? 2 : 3]?.[0]);
  if (state.kind !== "ours") return state;
  const row = results.at(-1)?.[0];
  return { kind: row !== undefined && flag(row, "stored") ? "stored" : "overtaken" };
};

/** Where the next row of an imported log goes: the seq reserved for results, or the next free one. */
export const nextPlace = (state: ImportState): Seq =>
  seq(state.openBatchSeq === null ? state.nextSeq : state.openBatchSeq + 1);
