/** Whether the database answers, and what has been done to it. */
import { sql } from "drizzle-orm";
import type { Db, Row } from "./db.ts";
import { text } from "./rows.ts";

/** Asks the database for nothing but an answer. @throws StoreUnavailable */
export const ping = async (db: Db): Promise<void> => {
  await db.batch([sql`select 1`], { name: "ping" });
};

/** Runs one statement without parameters and returns its rows, over whichever connection there is. */
export type AskDatabase = (statement: string) => Promise<readonly Row[]>;

/** Asks over the connection of a request; what fails is not sent again. */
export const asking =
  (db: Db): AskDatabase =>
  async (statement) =>
    (await db.batch([sql.raw(statement)], { name: "doctor" }))[0] ?? [];

/** The version of PostgreSQL, such as `18.0`. */
export const serverVersion = async (ask: AskDatabase): Promise<string> => {
  const [row] = await ask("select split_part(current_setting('server_version'), ' ', 1) as version");
  return row === undefined ? "?" : text(row, "version");
};

export interface AppliedMigration {
  /** When it was generated, ms since the epoch: what drizzle's migrator knows it by. */
  readonly when: number;
  /** SHA-256 of its file, in hex. */
  readonly hash: string;
}

/** The migrations that the database records, in no order; none for a database that was never migrated. */
export const appliedMigrations = async (ask: AskDatabase): Promise<readonly AppliedMigration[]> => {
  const [ledger] = await ask("select (to_regclass('drizzle.__drizzle_migrations') is not null)::text as found");
  if (ledger === undefined || text(ledger, "found") !== "true") return [];
  const rows = await ask("select created_at::text as at, hash from drizzle.__drizzle_migrations");
  return rows.map((row) => ({ when: Number(text(row, "at")), hash: text(row, "hash") }));
};
