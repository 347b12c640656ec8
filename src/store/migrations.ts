/** The schema that this version works with, and how a database's own is compared with it. */
import { sql } from "drizzle-orm";
import journal from "../../drizzle/meta/_journal.json" with { type: "json" };
import type { Db, Row } from "./db.ts";

export interface KnownMigration {
  readonly tag: string;
  /** Generated at, ms since the epoch: what a migration is known by. */
  readonly when: number;
}

/** Every migration of this version, oldest first. */
export const knownMigrations: readonly KnownMigration[] = journal.entries.map(({ tag, when }) => ({ tag, when }));

/** Statements that describe a database, over any connection to it. */
export const describing = {
  server:
    "select current_setting('server_version') as version, to_regclass('drizzle.__drizzle_migrations') is not null as migrated",
  /** Only where `migrated` is true. */
  ledger: "select created_at::text as applied from drizzle.__drizzle_migrations order by created_at",
} as const;

export interface MigrationState {
  /** Tags of what this version has and the database has not, oldest first. */
  readonly pending: readonly string[];
  /** How many the database has that this version does not know: a newer one has migrated it. */
  readonly unknown: number;
}

/** @param applied when what the database has was generated, ms since the epoch */
export const migrationState = (known: readonly KnownMigration[], applied: readonly number[]): MigrationState => {
  const there = new Set(applied);
  const ours = new Set(known.map(({ when }) => when));
  return {
    pending: known.filter(({ when }) => !there.has(when)).map(({ tag }) => tag),
    unknown: applied.filter((when) => !ours.has(when)).length,
  };
};

/** Runs one of `describing`. @throws StoreUnavailable, or what the database refuses it with */
export const askDatabase = async (db: Db, statement: string): Promise<readonly Row[]> => {
  const [rows = []] = await db.batch([sql.raw(statement)], { name: "doctor", apart: true, repeatable: true });
  return rows;
};
