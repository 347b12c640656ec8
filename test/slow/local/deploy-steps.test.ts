/** A deployment over a real database, up to wrangler, which is a recorder here; the real one runs in test/slow. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { breakingClauses } from "../../../src/local/deploy/breaking.ts";
import { type DeployOptions, type DeployPorts, deploy } from "../../../src/local/deploy/run.ts";
import { MIGRATIONS_DIR, type Migration, migrateUrl, readMigrations } from "../../../src/local/migrate.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";

const migration = (tag: string, when: number, ...statements: readonly string[]): Migration => ({
  tag,
  when,
  hash: tag,
  statements,
});
const FIRST = migration("0000_first", 1_000, "CREATE TABLE a (id int, old text)");
const SECOND = migration("0001_second", 2_000, "ALTER TABLE a ADD COLUMN n int");
const DROPS = migration("0002_drops", 3_000, 'ALTER TABLE "a" DROP COLUMN "old"');
const BROKEN = migration("0003_broken", 4_000, "ALTER TABLE missing ADD COLUMN n int");

let database: TestDatabase;
let said: string[];
let wrangled: (readonly string[])[];
let asked: string[];
beforeEach(async () => {
  database = await testDatabase({ kind: "postgres", empty: true });
  said = [];
  wrangled = [];
  asked = [];
});
afterEach(() => database.close());

const applied = async (): Promise<number> => {
  const [row] = await database.sql("select to_regclass('drizzle.__drizzle_migrations') is not null as found");
  if (row?.found !== true) return 0;
  return Number((await database.sql("select count(*)::int as n from drizzle.__drizzle_migrations"))[0]?.n);
};

const run = (
  migrations: readonly Migration[],
  options: Partial<DeployOptions> = {},
  ports: Partial<DeployPorts> = {},
): Promise<number> =>
  deploy(
    { dryRun: false, yes: false, wranglerArgs: [], ...options },
    {
      databaseUrl: database.connectionString,
      readMigrations: async () => migrations,
      build: async () => [],
      wrangler: async (args) => {
        wrangled.push(args);
        return 0;
      },
      confirm: async (question) => {
        asked.push(question);
        return undefined;
      },
      say: (line) => said.push(line),
      ...ports,
    },
  );

describe("a deployment", () => {
  it("migrates, then deploys, with wrangler's own arguments", async () => {
    let appliedBefore = 0;
    const wrangler = async (args: readonly string[]) => {
      appliedBefore = await applied();
      wrangled.push(args);
      return 0;
    };
    expect(await run([FIRST, SECOND], { wranglerArgs: ["--env", "staging"] }, { wrangler })).toBe(0);
    expect(wrangled).toEqual([["deploy", "--minify", "--env", "staging"]]);
    expect(appliedBefore).toBe(2);
    const { host, pathname } = new URL(database.connectionString);
    expect(said).toEqual([
      `database    ${host}${pathname}`,
      "migrations  2 pending, 0 applied",
      "            0000_first",
      "            0001_second",
      "applied     0000_first",
      "applied     0001_second",
      "Deployed. Check it: HANGO_ADMIN_KEY=... npm run doctor -- https://your.worker.example",
    ]);
  });

  it("of an empty database asks nothing, though a migration drops something: no Worker runs on it", async () => {
    expect(await run([FIRST, SECOND, DROPS])).toBe(0);
    expect([asked, await applied()]).toEqual([[], 3]);
  });

  it.each<[string, string | undefined, string]>([
    ["no address", undefined, "DATABASE_URL is not set."],
    ["an empty address", "", "DATABASE_URL is not set."],
    ["no postgres:// address", "mysql://u:hunter2@h/d", "The connection string is not of the form postgres://"],
    [
      "the pooler's address",
      "postgres://u:hunter2@ep-x-1-pooler.eu.aws.neon.tech/d",
      "DATABASE_URL names a -pooler host",
    ],
  ])("with %s stops before everything", async (_, databaseUrl, words) => {
    const build = async () => {
      throw new Error("nothing is built");
    };
    expect(await run([FIRST], {}, { databaseUrl, build })).toBe(1);
    expect(said[0]).toContain(words);
    expect(said.at(-1)).toBe("Nothing was changed.");
    expect(said.join("\n")).not.toContain("hunter2");
    expect(wrangled).toEqual([]);
  });

  it.each<[string, DeployPorts["build"], string]>([
    ["over its limits", async () => ["the bundle has 2 bytes gzipped, allowed are 1"], "the bundle has 2 bytes"],
    ["that does not build", () => Promise.reject(new Error("wrangler deploy failed:\nmissing.ts")), "missing.ts"],
  ])("of a Worker %s changes nothing", async (_, build, words) => {
    expect(await run([FIRST], {}, { build })).toBe(1);
    expect(said.join("\n")).toContain(words);
    expect(said.at(-1)).toBe("Nothing was changed.");
    expect([await applied(), wrangled]).toEqual([0, []]);
  });

  it("with a database that is not there changes nothing, and shows no password", async () => {
    expect(await run([FIRST], {}, { databaseUrl: "postgres://u:hunter2@127.0.0.1:1/d" })).toBe(1);
    expect(said.slice(1)).toEqual([
      expect.stringContaining("The migrations cannot be compared: "),
      "Nothing was changed.",
    ]);
    expect(said.join("\n")).not.toContain("hunter2");
  });
});

describe("a dry run", () => {
  it("shows what is pending and what it would do to the running Worker, and changes nothing", async () => {
    await migrateUrl(database.connectionString, [FIRST]);
    expect(await run([FIRST, SECOND, DROPS], { dryRun: true, wranglerArgs: ["--env", "staging"] })).toBe(0);
    expect(said.slice(1)).toEqual([
      "migrations  2 pending, 1 applied",
      "            0001_second",
      "            0002_drops",
      expect.stringContaining("These drop, rename or narrow"),
      '  0002_drops: DROP COLUMN "old"',
      "Nothing was changed: this was --dry-run.",
    ]);
    expect(wrangled).toEqual([["deploy", "--dry-run", "--minify", "--env", "staging"]]);
    expect([await applied(), asked]).toEqual([1, []]);
  });

  it("of an empty database does not even make the ledger", async () => {
    expect(await run([FIRST], { dryRun: true })).toBe(0);
    expect(await database.sql("select 1 from pg_namespace where nspname = 'drizzle'")).toEqual([]);
  });

  it("ends as wrangler ends", async () => {
    expect(await run([FIRST], { dryRun: true }, { wrangler: async () => 7 })).toBe(7);
    expect(said.at(-1)).toBe("wrangler refused. Nothing was changed: this was --dry-run.");
  });
});

describe("a migration that drops what the running Worker uses", () => {
  beforeEach(async () => {
    await migrateUrl(database.connectionString, [FIRST]);
  });

  it("is named, and nothing is changed without a yes", async () => {
    const no = async (question: string) => {
      asked.push(question);
      return false;
    };
    expect(await run([FIRST, SECOND, DROPS], {}, { confirm: no })).toBe(1);
    expect(asked).toEqual(["Go on? (yes/no) "]);
    expect(said).toContain('  0002_drops: DROP COLUMN "old"');
    expect(said.at(-1)).toBe("Nothing was changed.");
    expect([await applied(), wrangled]).toEqual([1, []]);
  });

  it("where nobody can be asked, --yes is what it takes", async () => {
    expect(await run([FIRST, SECOND, DROPS])).toBe(1);
    expect(said.at(-1)).toBe("Nobody is there to be asked. Nothing was changed. Run it again with --yes to go on.");
    expect(await applied()).toBe(1);
    expect(await run([FIRST, SECOND, DROPS], { yes: true })).toBe(0);
    expect([await applied(), asked.length]).toEqual([3, 1]);
  });

  it("is applied after a yes", async () => {
    expect(await run([FIRST, SECOND, DROPS], {}, { confirm: async () => true })).toBe(0);
    expect(await applied()).toBe(3);
  });

  it("asks nothing where it is applied already, or where none drops anything", async () => {
    expect(await run([FIRST, SECOND])).toBe(0);
    await migrateUrl(database.connectionString, [FIRST, SECOND, DROPS]);
    expect(await run([FIRST, SECOND, DROPS])).toBe(0);
    expect(asked).toEqual([]);
  });
});

describe("a database that a newer version has migrated", () => {
  it("is deployed to after a yes only", async () => {
    await migrateUrl(database.connectionString, [FIRST, SECOND]);
    expect(await run([FIRST])).toBe(1);
    expect(said).toContain(
      "The database was migrated by a newer version (1 more): this one may not work with it, and migrations do not go back.",
    );
    expect(await run([FIRST], { yes: true })).toBe(0);
  });
});

describe("what fails", () => {
  it("in a migration keeps those before it, and the Worker as it is", async () => {
    expect(await run([FIRST, SECOND, BROKEN])).toBe(1);
    expect(said.slice(-3)).toEqual([
      'Migration failed: Migration 0003_broken, statement 1 of 1: relation "missing" does not exist (SQLSTATE 42P01). Nothing of it was kept.',
      "Applied before it, and kept: 0000_first, 0001_second.",
      "The Worker was not deployed: the one from before still runs. Put right what failed, then run npm run deploy again.",
    ]);
    expect([await applied(), wrangled]).toEqual([2, []]);
  });

  it("in the first migration says that none was applied", async () => {
    await migrateUrl(database.connectionString, [FIRST]);
    expect(await run([FIRST, BROKEN])).toBe(1);
    expect(said).toContain("No migration was applied.");
  });

  it("in wrangler ends with its exit code, says that the database is migrated, and can be done again", async () => {
    expect(await run([FIRST], {}, { wrangler: async () => 3 })).toBe(3);
    expect(said.slice(-2)).toEqual([
      "wrangler failed with exit code 3. The database is migrated; the Worker was not deployed, and the one from before still runs.",
      "Put right what wrangler said above, then run npm run deploy again: what is applied is not applied twice.",
    ]);
    expect(await run([FIRST])).toBe(0);
    expect(await applied()).toBe(1);
  });

  it("is an applied migration whose file has changed", async () => {
    await migrateUrl(database.connectionString, [FIRST]);
    expect(await run([{ ...FIRST, hash: "other" }])).toBe(1);
    expect(said.at(-2)).toContain("Migration 0000_first has changed since it was applied");
    expect(wrangled).toEqual([]);
  });
});

describe("breaking clauses", () => {
  const clauses = (sql: string) => breakingClauses([migration("x", 1, sql)]).map(({ clause }) => clause);

  it.each([
    ['ALTER TABLE "a" DROP COLUMN "b";', ['DROP COLUMN "b"']],
    ["drop table if exists a;", ["drop table if exists a"]],
    ["DROP FUNCTION f(int);", ["DROP FUNCTION f(int)"]],
    ['ALTER TABLE "a" RENAME COLUMN "b" TO "c";', ['RENAME COLUMN "b" TO "c"']],
    ['ALTER TABLE "a" ALTER COLUMN "b" SET DATA TYPE bigint;', ['ALTER COLUMN "b" SET DATA TYPE bigint']],
    ['ALTER TABLE "a" ALTER COLUMN "b" SET NOT NULL;', ["SET NOT NULL"]],
    ['ALTER TABLE "a" ALTER COLUMN "b" DROP DEFAULT;', ["DROP DEFAULT"]],
    ['ALTER TABLE "a" ADD COLUMN "b" text NOT NULL;', ['ADD COLUMN "b" text NOT NULL']],
  ])("%s is one", (sql, found) => {
    expect(clauses(sql)).toEqual(found);
  });

  it.each([
    'ALTER TABLE "a" ADD COLUMN "b" text DEFAULT \'x\' NOT NULL;',
    'ALTER TABLE "a" ALTER COLUMN "b" DROP NOT NULL;',
    "DROP INDEX i;",
    'ALTER TABLE "a" DROP CONSTRAINT c;',
    "-- DROP TABLE a",
    "/* RENAME */ SELECT 1",
    "INSERT INTO a VALUES ('DROP TABLE a; it''s RENAME')",
    "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $body$ BEGIN DROP TABLE t; END $body$",
    'CREATE TABLE "a" ("b" text NOT NULL)',
  ])("%s is none", (sql) => {
    expect(clauses(sql)).toEqual([]);
  });

  it("of the product's own migrations are those that are known to be", async () => {
    expect(breakingClauses(await readMigrations(MIGRATIONS_DIR))).toEqual([
      { tag: "0010_guards", clause: 'DROP COLUMN "guard_state"' },
    ]);
  });
});
