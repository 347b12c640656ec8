/** What was used, by day and by what the caller groups by. Days are UTC. */
import { type SQL, sql } from "drizzle-orm";
import type { TenantId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import { number, numberOrNull, text } from "./rows.ts";

export const usageDimensions = ["model", "purpose", "session", "user", "key"] as const;
export type UsageDimension = (typeof usageDimensions)[number];

const COLUMN: Readonly<Record<UsageDimension, SQL>> = {
  model: sql`u.model`,
  purpose: sql`u.purpose`,
  session: sql`u.session_id`,
  user: sql`coalesce(u.user_id, '')`,
  key: sql`coalesce(u.key_id, '')`,
};

export interface UsageQuery {
  /** `2026-11-30`, both inclusive. */
  readonly from: string | null;
  readonly to: string | null;
  readonly groupBy: readonly UsageDimension[];
  readonly order: "asc" | "desc";
  /** Day and group of the last row of the page before. */
  readonly after: readonly string[] | null;
  readonly limit: number;
}

export interface UsageRow {
  readonly day: string;
  /** In the order of `groupBy`; empty text where a call had none. */
  readonly group: readonly string[];
  readonly calls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  /** Null when no call of the group has a list price. */
  readonly costUsd: number | null;
}

/** Days that are shown when the query names no beginning, today included. */
export const DEFAULT_DAYS = 30;

/** A page of a tenant's usage. @throws StoreUnavailable */
export const readUsage = async (db: Db, tenantId: TenantId, query: UsageQuery): Promise<readonly UsageRow[]> => {
  const today = sql`(hango_now() at time zone 'UTC')::date`;
  const to = sql`coalesce(${query.to}::date, ${today})`;
  const from = sql`coalesce(${query.from}::date, ${to} - ${sql.raw(String(DEFAULT_DAYS - 1))})`;
  const names = query.groupBy.map((_, index) => sql.raw(`g${index}`));
  const columns = query.groupBy.map((dimension, index) => sql`, ${COLUMN[dimension]} as ${names[index]}`);
  // "C" orders by code point whatever the database's collation: the cursor compares as the order does.
  const ordered = [sql`day`, ...names.map((name) => sql`${name} collate "C"`)];
  const direction = query.order === "asc" ? sql`asc` : sql`desc`;
  const after =
    query.after === null
      ? sql`true`
      : sql`(${sql.join(ordered, sql`, `)}) ${query.order === "asc" ? sql`>` : sql`<`} (${sql.join(
          query.after.map((value) => sql`${value}::text`),
          sql`, `,
        )})`;
  const [rows] = await db.batch(
    [
      sql`with calls as (
          select (u.created_at at time zone 'UTC')::date::text as day${sql.join(columns)}, u.input_tokens, u.output_tokens,
            u.cache_read_tokens, u.cache_write_tokens, u.cost_usd
          from usage_records u where u.tenant_id = ${tenantId}
            and u.created_at >= (${from})::timestamp at time zone 'UTC' and u.created_at < (${to} + 1)::timestamp at time zone 'UTC'),
        grouped as (
          select day${sql.join(names.map((name) => sql`, ${name}`))}, count(*) as calls, sum(input_tokens) as input_tokens,
            sum(output_tokens) as output_tokens, sum(cache_read_tokens) as cache_read_tokens,
            sum(cache_write_tokens) as cache_write_tokens, sum(cost_usd) as cost_usd
          from calls group by day${sql.join(names.map((name) => sql`, ${name}`))})
        select * from grouped where ${after}
        order by ${sql.join(
          ordered.map((column) => sql`${column} ${direction}`),
          sql`, `,
        )} limit ${query.limit}`,
    ],
    { name: "read usage", repeatable: true },
  );
  return (rows ?? []).map((row) => ({
    day: text(row, "day"),
    group: query.groupBy.map((_, index) => text(row, `g${index}`)),
    calls: number(row, "calls"),
    inputTokens: number(row, "input_tokens"),
    outputTokens: number(row, "output_tokens"),
    cacheReadTokens: number(row, "cache_read_tokens"),
    cacheWriteTokens: number(row, "cache_write_tokens"),
    costUsd: numberOrNull(row, "cost_usd"),
  }));
};
