/** The rows of a session that is being erased, in batches of bounded size; and what is left of it. */
import { type SQL, sql } from "drizzle-orm";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import { number, text } from "./rows.ts";

export interface Erasure {
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
}

/** What stands in records that outlive their session: what was used is still billed, what was sent is still counted. */
export const ERASED_SESSION = "erased";

/** Rows of one table that a batch takes at most. 100,000 messages then take 100 round trips of about 10 ms of the database's time each. */
const BATCH_ROWS = 1_000;

/** Bytes of content that a batch takes at most: large rows are stored out of line, and removing them is work by their size. */
const BATCH_BYTES = 64 * 1024 * 1024;

/**
 * SQL: the session that this transaction erases, empty for none; what `eraseRowsOf` is about. The triggers that keep the log append-only
 * let its rows go, and no others.
 */
const erasing: SQL = sql`current_setting('hango.erasing')`;

/** What becomes of the rows of each table that has a `session_id`. A table that is missing here fails a test. */
export const ERASED_TABLES = {
  run_events: "delete",
  messages: "delete",
  view_revisions: "delete",
  compactions: "delete",
  inputs: "delete",
  // With what they refer to: `tool_answers` go with their run.
  runs: "delete",
  // Already gone when a session is marked.
  session_heads: "delete",
  usage_records: sql`session_id = ${ERASED_SESSION}, run_id = null, user_id = null`,
  // The event's id stays: an event that is sent again makes no second run.
  deliveries: sql`session_id = null, session_key = null, run_id = null, payload = null, headers = '{}', due_at = null,
    status = case when status in ('waiting', 'accepted') then 'failed' else status end,
    reason = case when status in ('waiting', 'accepted') then 'session_erased' else reason end, updated_at = hango_now()`,
  webhook_deliveries: sql`session_id = ${ERASED_SESSION}, run_id = null, payload = '', next_at = null,
    status = case when status = 'pending' then 'failed' else status end,
    error = case when status = 'pending' then 'session_erased' else error end`,
} as const satisfies Readonly<Record<string, "delete" | SQL>>;

type ErasedTable = keyof typeof ERASED_TABLES;
const TABLES = Object.keys(ERASED_TABLES) as readonly ErasedTable[];

/** SQL: the places of the rows that a batch takes. */
const batchOf = (table: ErasedTable): SQL =>
  table === "messages"
    ? sql`select ctid from (select ctid, sum(bytes) over (order by seq) - bytes as before
        from (select ctid, seq, bytes from messages where session_id = ${erasing} order by seq limit ${BATCH_ROWS}) m) m where before < ${BATCH_BYTES}`
    : sql`select ctid from ${sql.identifier(table)} where session_id = ${erasing} limit ${BATCH_ROWS}`;

const eraseFrom = (table: ErasedTable): SQL => {
  const change = ERASED_TABLES[table];
  const name = sql.identifier(table);
  const rows = sql`ctid = any(array(${batchOf(table)}))`;
  const statement =
    change === "delete" ? sql`delete from ${name} where ${rows}` : sql`update ${name} set ${change} where ${rows}`;
  return sql`with erased as (${statement} returning 1) select count(*)::int as rows from erased`;
};

/** Tables whose rows refer to `sessions`: the session's own row goes last. */
const REFERRING: readonly ErasedTable[] = TABLES.filter((table) => ERASED_TABLES[table] === "delete");

/** SQL: one batch of the session that the transaction erases. Each statement answers how many `rows` it took. */
export const eraseRowsOf: readonly SQL[] = [
  ...TABLES.map(eraseFrom),
  sql`with erased as (delete from sessions s where s.id = ${erasing} and s.tenant_id is null and ${sql.join(
    REFERRING.map((table) => sql`not exists (select 1 from ${sql.identifier(table)} r where r.session_id = s.id)`),
    sql` and `,
  )} returning 1) select count(*)::int as rows from erased`,
];

/** SQL: makes the session that the query finds the one that this transaction erases. */
export const setErasing = (session: SQL): SQL =>
  sql`select set_config('hango.erasing', coalesce((${session}), ''), true)`;

/**
 * Erases one batch of rows of a session that is marked as erased; of any other session, nothing. May be sent twice.
 * @returns how many rows were taken; 0 when none is left
 * @throws StoreUnavailable
 */
export const eraseSomeRows = async (db: Db, { tenantId, sessionId }: Erasure): Promise<number> => {
  // Locked: of two at once, the second looks for rows when the first has removed its own, and does not take waiting for having come to the end.
  const marked = sql`select e.session_id from erasures e where e.session_id = ${sessionId} and e.tenant_id = ${tenantId} and not e.done for update`;
  const [, ...taken] = await db.batch([setErasing(marked), ...eraseRowsOf], { name: "erase rows", repeatable: true });
  return taken.reduce((sum, rows) => sum + rowsIn(rows[0]), 0);
};

const rowsIn = (row: Row | undefined): number => (row === undefined ? 0 : number(row, "rows"));

/** Counting what is left ends here: more is as wrong. */
const COUNTED_ROWS = 1_000;

/** What is left of an erased session in the database: rows by table, those without any left out. @throws StoreUnavailable */
export const leftRows = async (db: Db, { sessionId }: Erasure): Promise<Readonly<Record<string, number>>> => {
  const counts = [
    sql`select 'sessions' as name, count(*)::int as rows from sessions where id = ${sessionId}`,
    ...TABLES.map(
      (table) =>
        sql`select ${sql.raw(`'${table}'`)}, count(*)::int from (select 1 from ${sql.identifier(table)} where session_id = ${sessionId} limit ${COUNTED_ROWS}) r`,
    ),
  ];
  const [rows] = await db.batch([sql.join(counts, sql` union all `)], { name: "left of an erasure", repeatable: true });
  return Object.fromEntries(
    (rows ?? []).map((row) => [text(row, "name"), number(row, "rows")] as const).filter(([, n]) => n > 0),
  );
};
