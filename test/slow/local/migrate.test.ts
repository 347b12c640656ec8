import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate as drizzleMigrate } from "drizzle-orm/node-postgres/migrator";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { MIGRATIONS_DIR, migrate, migrateUrl, readMigrations } from "../../../src/local/migrate.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";

interface File {
  readonly tag: string;
  readonly when: number;
  readonly sql: string;
}

const FIRST: File = {
  tag: "0000_first",
  when: 1000,
  sql: `CREATE TABLE a (id int);
--> statement-breakpoint
CREATE FUNCTION two() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 2; END $$;
CREATE TABLE b (id int DEFAULT two());
--> statement-breakpoint
`,
};
const SECOND: File = { tag: "0001_second", when: 2000, sql: "ALTER TABLE a ADD COLUMN n int;" };
const BROKEN: File = {
  tag: "0002_broken",
  when: 3000,
  sql: "CREATE TABLE c (id int);--> statement-breakpoint\nALTER TABLE missing ADD COLUMN n int;",
};

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "hango-migrations-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

async function write(...files: readonly File[]): Promise<void> {
  await mkdir(join(dir, "meta"), { recursive: true });
  const entries = files.map(({ tag, when }, idx) => ({ idx, version: "7", when, tag, breakpoints: true }));
  await writeFile(join(dir, "meta", "_journal.json"), JSON.stringify({ version: "7", dialect: "postgresql", entries }));
  for (const { tag, sql } of files) await writeFile(join(dir, `${tag}.sql`), sql);
}

describe("reading migrations", () => {
  test("gives the statements of every file in the journal's order", async () => {
    await write(FIRST, SECOND);
    const read = await readMigrations(dir);
    expect(read.map(({ tag, when, statements }) => ({ tag, when, statements: statements.length }))).toEqual([
      { tag: "0000_first", when: 1000, statements: 2 },
      { tag: "0001_second", when: 2000, statements: 1 },
    ]);
  });

  test("does not accept an order that drizzle's migrator would silently skip by", async () => {
    await write(SECOND, FIRST);
    await expect(readMigrations(dir)).rejects.toThrow("Migration 0000_first is not later than 0001_second");
  });

  test("does not accept a missing journal, a broken journal, or a missing file", async () => {
    await expect(readMigrations(dir)).rejects.toThrow("No migrations found");
    await write(FIRST);
    await rm(join(dir, "0000_first.sql"));
    await expect(readMigrations(dir)).rejects.toThrow("The journal names 0000_first");
    await writeFile(join(dir, "meta", "_journal.json"), "{}");
    await expect(readMigrations(dir)).rejects.toThrow("not a drizzle-kit journal");
  });
});

for (const kind of ["pglite", "postgres"] as const) {
  describe(`migrating, on ${kind}`, () => {
    let database: TestDatabase;
    beforeEach(async () => {
      database = await testDatabase({ kind, empty: true });
    });
    afterEach(() => database.close());

    const apply = async () => {
      const migrations = await readMigrations(dir);
      return database.backend.session((session) => migrate(session, migrations));
    };
    const tables = async () =>
      (await database.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")).map(
        (row) => row.tablename,
      );

    test("applies what is missing, once", async () => {
      await write(FIRST);
      expect(await apply()).toEqual({ applied: ["0000_first"], present: 0, unknown: 0 });
      await write(FIRST, SECOND);
      expect(await apply()).toEqual({ applied: ["0001_second"], present: 1, unknown: 0 });
      expect(await apply()).toEqual({ applied: [], present: 2, unknown: 0 });
      expect(await tables()).toEqual(["a", "b"]);
      const ledger = "SELECT created_at::text, length(hash) AS hash FROM drizzle.__drizzle_migrations ORDER BY id";
      expect(await database.sql(ledger)).toEqual([
        { created_at: "1000", hash: 64 },
        { created_at: "2000", hash: 64 },
      ]);
    });

    test("keeps nothing of a migration that fails, and all before it", async () => {
      await write(FIRST, SECOND, BROKEN);
      await expect(apply()).rejects.toThrow(
        'Migration 0002_broken, statement 2 of 2: relation "missing" does not exist (SQLSTATE 42P01). Nothing of it was kept.',
      );
      expect(await tables()).toEqual(["a", "b"]);
      await write(FIRST, SECOND);
      expect(await apply()).toEqual({ applied: [], present: 2, unknown: 0 });
    });

    test("refuses a file that changed after it was applied", async () => {
      await write(FIRST);
      await apply();
      await write({ ...FIRST, sql: `${FIRST.sql}CREATE TABLE d (id int);` });
      await expect(apply()).rejects.toThrow("Migration 0000_first has changed since it was applied");
    });

    test("refuses a missing migration that is older than the newest applied", async () => {
      await write(SECOND_ALONE);
      await apply();
      await write(FIRST, SECOND_ALONE);
      await expect(apply()).rejects.toThrow("Migration 0000_first is missing, but newer ones were applied");
    });

    test("tells how many migrations of a newer version the database has", async () => {
      await write(FIRST, SECOND);
      await apply();
      await write(FIRST);
      expect(await apply()).toEqual({ applied: [], present: 1, unknown: 1 });
    });
  });
}

const SECOND_ALONE: File = { ...SECOND, sql: "CREATE TABLE e (id int);" };

test.each(["pglite", "postgres"] as const)("a test database on %s has the product's schema and clock", async (kind) => {
  const database = await testDatabase({ kind });
  try {
    const applied = await database.sql("SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations");
    expect(applied).toEqual([{ n: (await readMigrations(MIGRATIONS_DIR)).length }]);
    const ahead = async () =>
      (await database.sql("SELECT extract(epoch FROM hango_now() - now())::int AS seconds"))[0]?.seconds;
    expect(await ahead()).toBe(0);
    await database.advanceClock(200);
    await database.advanceClock(30);
    expect(await ahead()).toBe(230);
  } finally {
    await database.close();
  }
});

describe("migrating a server", () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await testDatabase({ kind: "postgres", empty: true });
  });
  afterEach(() => database.close());

  test("runs every migration once when several migrate at the same time", async () => {
    await write(FIRST, SECOND);
    const migrations = await readMigrations(dir);
    const reports = await Promise.all(
      Array.from({ length: 5 }, () => migrateUrl(database.connectionString, migrations)),
    );
    expect(reports.flatMap((report) => report.applied).sort()).toEqual(["0000_first", "0001_second"]);
  });

  test("agrees with drizzle's migrator, whichever comes first", async () => {
    const client = new pg.Client({ connectionString: database.connectionString });
    await client.connect();
    try {
      await write(FIRST);
      await drizzleMigrate(drizzle(client), { migrationsFolder: dir });
      await write(FIRST, SECOND);
      const migrations = await readMigrations(dir);
      expect(await migrateUrl(database.connectionString, migrations)).toEqual({
        applied: ["0001_second"],
        present: 1,
        unknown: 0,
      });
      await drizzleMigrate(drizzle(client), { migrationsFolder: dir });
      expect(await database.sql("SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations")).toEqual([{ n: 2 }]);
    } finally {
      await client.end();
    }
  });
});

describe("npm run db:migrate", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await testDatabase({ kind: "postgres", empty: true });
  });
  afterAll(() => database.close());

  const cli = join(import.meta.dirname, "../../../src/local/db-migrate.ts");
  async function run(url: string | undefined): Promise<{ code: unknown; out: string; err: string }> {
    const env = { PATH: process.env.PATH, ...(url === undefined ? {} : { DATABASE_URL: url }) };
    const child = spawn(process.execPath, [cli], { env, stdio: ["ignore", "pipe", "pipe"] });
    const read = { out: "", err: "" };
    child.stdout.on("data", (chunk) => {
      read.out += String(chunk);
    });
    child.stderr.on("data", (chunk) => {
      read.err += String(chunk);
    });
    const [code] = await once(child, "close");
    return { code, ...read };
  }

  test("brings an empty database to the newest schema, and then finds nothing to do", async () => {
    const tags = (await readMigrations(MIGRATIONS_DIR)).map((migration) => migration.tag);
    const lines = [...tags.map((tag) => `applied ${tag}`), `${tags.length} applied, 0 already present.`, ""];
    expect(await run(database.connectionString)).toEqual({ code: 0, out: lines.join("\n"), err: "" });
    const second = await run(database.connectionString);
    expect(second).toEqual({ code: 0, out: `Up to date: ${tags.length} migrations.\n`, err: "" });
  });

  test("does not start without DATABASE_URL", async () => {
    expect(await run(undefined)).toEqual({ code: 1, out: "", err: expect.stringContaining("DATABASE_URL is not set") });
  });

  test.each([
    ["that is no URL", "hidden-word"],
    ["of another kind", "mysql://u:hidden-word@h/d"],
    ["that nothing answers at", "postgres://u:hidden-word@127.0.0.1:1/d?sslmode=disable"],
    ["with a wrong password", "wrong"],
  ])("fails in words, without the password, for an address %s", async (_what, given) => {
    const address = given === "wrong" ? database.connectionString.replace(/:[^:@]+@/, ":hidden-word@") : given;
    const { code, out, err } = await run(address);
    expect({ code, out, err: err.split("\n").length }).toEqual({ code: 1, out: "", err: 2 });
    expect(err).toMatch(/^Migration failed: /);
    expect(err).not.toContain("hidden-word");
  });

  test("warns of a pooler host", async () => {
    const { err } = await run("postgres://u:hidden-word@ep-a-1-pooler.localhost:1/d");
    expect(err).toContain("Warning: DATABASE_URL names a -pooler host");
  });
});
