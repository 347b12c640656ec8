/** Brings a database to the newest schema: the migrations that drizzle-kit generated, each in one transaction. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { z } from "zod";
import { databaseErrorFields, type Session } from "./backend.ts";
import { withoutPassword, withVerifiedTls } from "./connection-string.ts";
import { sessionOf } from "./postgres-backend.ts";

/** The product's own migrations. */
export const MIGRATIONS_DIR = join(import.meta.dirname, "..", "..", "drizzle");

export interface Migration {
  /** Name of the file without `.sql`. */
  readonly tag: string;
  /** Generated at, ms since the epoch; what drizzle's migrator knows a migration by. */
  readonly when: number;
  /** SHA-256 of the file, in hex. */
  readonly hash: string;
  readonly statements: readonly string[];
}

export interface MigrationPlan {
  /** What is missing, in order. */
  readonly pending: readonly Migration[];
  /** How many are applied. */
  readonly present: number;
  /** How many the database has that this version does not know: it has met a newer version. */
  readonly unknown: number;
}

export interface MigrationReport {
  /** Tags of what this call applied, in order. */
  readonly applied: readonly string[];
  /** How many had been applied before. */
  readonly present: number;
  /** How many the database has that this version does not know: it has met a newer version. */
  readonly unknown: number;
}

/** A reason that needs a person; the message says which migration, and never holds a connection string. */
export class MigrationError extends Error {
  override readonly name = "MigrationError";
}

const journalSchema = z.object({ entries: z.array(z.object({ tag: z.string(), when: z.number() })) });

const BREAKPOINT = "--> statement-breakpoint";
const CONNECT_TIMEOUT_MS = 15_000;
/** Held while one migration is decided on and applied, so that two migrators take turns. Any constant would do. */
const LOCK_KEY = "7165037192460";
const LEDGER = "drizzle.__drizzle_migrations";

/** Reads the journal and its files. Throws `MigrationError` when they disagree or the order is not strictly by time. */
export async function readMigrations(dir: string): Promise<readonly Migration[]> {
  const journalFile = join(dir, "meta", "_journal.json");
  const text = await readFile(journalFile, "utf8").catch(() => {
    throw new MigrationError(`No migrations found: ${journalFile} cannot be read.`);
  });
  const journal = journalSchema.safeParse(parseJson(text));
  if (!journal.success) throw new MigrationError(`${journalFile} is not a drizzle-kit journal.`);

  const migrations: Migration[] = [];
  for (const { tag, when } of journal.data.entries) {
    const previous = migrations.at(-1);
    // drizzle's migrator silently skips one that is older than the newest applied.
    if (previous !== undefined && when <= previous.when) {
      throw new MigrationError(`Migration ${tag} is not later than ${previous.tag}: generate it again.`);
    }
    const file = join(dir, `${tag}.sql`);
    const sql = await readFile(file, "utf8").catch(() => {
      throw new MigrationError(`The journal names ${tag}, but ${file} cannot be read.`);
    });
    const hash = createHash("sha256").update(sql).digest("hex");
    const statements = sql.split(BREAKPOINT).filter((statement) => statement.trim() !== "");
    migrations.push({ tag, when, hash, statements });
  }
  return migrations;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What `migrate` would do; changes nothing. Throws `MigrationError` as it does, but for failing statements. */
export async function planMigrations(session: Session, migrations: readonly Migration[]): Promise<MigrationPlan> {
  const ledger = await readLedger(session);
  const pending = migrations.filter((migration) => !isApplied(migration, ledger));
  const known = new Set(migrations.map((migration) => migration.when));
  return {
    pending,
    present: migrations.length - pending.length,
    unknown: [...ledger.keys()].filter((when) => !known.has(when)).length,
  };
}

/**
 * Applies what is missing. Each migration is whole or absent, and recorded where drizzle's migrator looks; called twice,
 * or by two at once, every migration runs once. Throws `MigrationError` on a failing statement, on an applied migration
 * whose file has changed since, and on a missing one that is older than the newest applied.
 */
export async function migrate(session: Session, migrations: readonly Migration[]): Promise<MigrationReport> {
  const { pending, unknown } = await planMigrations(session, migrations);
  const applied: string[] = [];
  for (const migration of pending) {
    if (await applyOnce(session, migration)) applied.push(migration.tag);
  }
  return { applied, present: migrations.length - applied.length, unknown };
}

/** `migrate` over a connection of its own. `connectionString` is a `postgres://` URL of a direct (not pooling) host. */
export function migrateUrl(connectionString: string, migrations: readonly Migration[]): Promise<MigrationReport> {
  return connected(connectionString, (session) => migrate(session, migrations));
}

/** `planMigrations` over a connection of its own. */
export function planUrl(connectionString: string, migrations: readonly Migration[]): Promise<MigrationPlan> {
  return connected(connectionString, (session) => planMigrations(session, migrations));
}

async function connected<T>(connectionString: string, work: (session: Session) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: withVerifiedTls(connectionString),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: "hango migrate",
  });
  // A lost connection also rejects the query that runs; unheard, the event would end the process.
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await work(sessionOf(client));
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Why it failed, for a person: without the connection string and its password. */
export function reasonOf(error: unknown, connectionString: string): string {
  return withoutPassword(messageOf(error), connectionString);
}

/** A refused connection is an AggregateError with an empty message and a code. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.message !== "") return error.message;
  return "code" in error ? `cannot connect (${String(error.code)})` : "cannot connect";
}

/** Hash by `when` of every migration recorded. */
type Ledger = ReadonlyMap<number, string>;

async function readLedger(session: Session): Promise<Ledger> {
  const [exists] = (await session.query({ query: `SELECT to_regclass('${LEDGER}') IS NOT NULL`, params: [] })).rows;
  if (exists?.[0] !== "t") return new Map();
  const { rows } = await session.query({ query: `SELECT created_at, hash FROM ${LEDGER}`, params: [] });
  return new Map(rows.map(([when, hash]) => [Number(when), hash ?? ""]));
}

function isApplied(migration: Migration, ledger: Ledger): boolean {
  const hash = ledger.get(migration.when);
  if (hash === undefined) {
    const newest = Math.max(0, ...ledger.keys());
    if (newest <= migration.when) return false;
    throw new MigrationError(
      `Migration ${migration.tag} is missing, but newer ones were applied: generate it again, so that it comes last.`,
    );
  }
  if (hash === migration.hash) return true;
  throw new MigrationError(
    `Migration ${migration.tag} has changed since it was applied to this database: restore the file, and put the change in a new migration.`,
  );
}

/** Returns false when another migrator was faster. */
async function applyOnce(session: Session, migration: Migration): Promise<boolean> {
  await session.exec("BEGIN");
  try {
    await session.exec(`SELECT pg_advisory_xact_lock(${LOCK_KEY})`);
    await session.exec("CREATE SCHEMA IF NOT EXISTS drizzle");
    await session.exec(
      `CREATE TABLE IF NOT EXISTS ${LEDGER} (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at bigint)`,
    );
    const isMissing = !isApplied(migration, await readLedger(session));
    if (isMissing) await apply(session, migration);
    await session.exec("COMMIT");
    return isMissing;
  } catch (error) {
    await session.exec("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

async function apply(session: Session, { tag, when, hash, statements }: Migration): Promise<void> {
  for (const [index, statement] of statements.entries()) {
    await session.exec(statement).catch((error: unknown) => {
      const fields = databaseErrorFields(error);
      if (fields === undefined) throw error;
      const where = `Migration ${tag}, statement ${index + 1} of ${statements.length}`;
      throw new MigrationError(`${where}: ${fields.message} (SQLSTATE ${fields.code}). Nothing of it was kept.`);
    });
  }
  const query = `INSERT INTO ${LEDGER} (hash, created_at) VALUES ($1, $2)`;
  await session.query({ query, params: [hash, String(when)] });
}
