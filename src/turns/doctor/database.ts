/** Whether the database answers, and whether its schema is the one that this build was made for. */
import { postgresFault, StoreUnavailable } from "../../store/errors.ts";
import { type AppliedMigration, type AskDatabase, appliedMigrations, serverVersion } from "../../store/health.ts";
import { type Check, type Finding, failed, ok, unreachable } from "./check.ts";

/** A migration that this version knows. */
export interface KnownMigration {
  readonly tag: string;
  readonly when: number;
  /** SHA-256 of its file; undefined where only the journal is at hand. */
  readonly hash?: string;
}

/** SQLSTATEs of a refused connection, and what to do about each. */
const REFUSALS: Readonly<Record<string, string>> = {
  "28P01": "refused the user or password (28P01): set DATABASE_URL anew",
  "28000": "refused the user (28000): set DATABASE_URL anew",
  "3D000": "has no database of that name (3D000): see the path of DATABASE_URL",
  "42501": "does not let this user read its tables (42501): give it the rights of the tables' owner",
  "53300": "has no connection left (53300): use the pooled host, or raise its limit",
};

/** What went wrong, without the connection string, SQL or parameters. */
const trouble = (error: unknown): string => {
  const code = postgresFault(error)?.code;
  if (code !== undefined) return REFUSALS[code] ?? `answers with an error (SQLSTATE ${code})`;
  // Its own words, which name no address.
  if (error instanceof StoreUnavailable) return error.message.replace(/^the database /, "");
  return unreachable(error);
};

/** One round trip. */
export const databaseCheck = (ask: AskDatabase, now: () => number): Check => ({
  name: "database",
  run: async () => {
    const startedMs = now();
    try {
      const version = await serverVersion(ask);
      return ok(`PostgreSQL ${version}, answers in ${Math.round(now() - startedMs)} ms`);
    } catch (error) {
      return failed(trouble(error));
    }
  },
});

const MOST_NAMED = 3;

const listed = (tags: readonly string[]): string =>
  tags.length <= MOST_NAMED ? tags.join(", ") : `${tags.slice(0, MOST_NAMED).join(", ")}, ...`;

/** What the two lists of migrations say of each other. */
export const judgeMigrations = (known: readonly KnownMigration[], applied: readonly AppliedMigration[]): Finding => {
  const hashes = new Map(applied.map(({ when, hash }) => [when, hash]));
  const changed = known.filter(({ when, hash }) => {
    const recorded = hashes.get(when);
    return hash !== undefined && recorded !== undefined && recorded !== hash;
  });
  if (changed.length > 0) {
    const tags = listed(changed.map(({ tag }) => tag));
    return failed(`changed since they were applied: ${tags}. Restore the files; a change is a new migration`);
  }
  const pending = known.filter(({ when }) => !hashes.has(when)).map(({ tag }) => tag);
  const names = new Set(known.map(({ when }) => when));
  const unknown = applied.filter(({ when }) => !names.has(when)).length;
  const problems = [
    ...(pending.length === 0 ? [] : [`${pending.length} pending (${listed(pending)}): run npm run db:migrate`]),
    ...(unknown === 0
      ? []
      : [`the database has ${unknown} that this version does not know: a newer one has migrated it; deploy that one`]),
  ];
  if (problems.length > 0) return failed(problems.join("; "));
  return ok(`${known.length} applied, newest ${known.at(-1)?.tag ?? "none"}`);
};

/** None is pending, and none is applied that this version does not know. */
export const migrationsCheck = (ask: AskDatabase, readKnown: () => Promise<readonly KnownMigration[]>): Check => ({
  name: "migrations",
  run: async () => {
    const known = await readKnown().catch(() => undefined);
    if (known === undefined) return failed("the files of this checkout disagree: npm run db:migrate says which");
    try {
      return judgeMigrations(known, await appliedMigrations(ask));
    } catch (error) {
      return failed(`could not be read: the database ${trouble(error)}`);
    }
  },
});
