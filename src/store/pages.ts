/** One page of a list that is ordered by a unique column. */
import { type SQL, sql } from "drizzle-orm";

export interface Page {
  /** Most rows to read; callers ask for one more than they show, to know whether there is a next page. */
  readonly limit: number;
  /** SQL condition: only what comes after the last page. */
  after(column: SQL): SQL;
  /** SQL order. */
  order(column: SQL): SQL;
}

export interface PageRequest {
  readonly limit: number;
  readonly order: "asc" | "desc";
  /** The last value of the page before; null for the first page. */
  readonly cursor: string | number | null;
}

/** The SQL of a page. */
export const pageOf = ({ limit, order, cursor }: PageRequest): Page => ({
  limit,
  after: (column) => {
    if (cursor === null) return sql`true`;
    return order === "asc" ? sql`${column} > ${cursor}` : sql`${column} < ${cursor}`;
  },
  order: (column) => (order === "asc" ? sql`${column} asc` : sql`${column} desc`),
});
