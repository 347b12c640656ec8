import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { askingAt } from "../../../../src/local/doctor/database.ts";
import { MIGRATIONS_DIR, readMigrations } from "../../../../src/local/migrate.ts";
import type { AskDatabase } from "../../../../src/store/health.ts";
import { type Check, runChecks } from "../../../../src/turns/doctor/check.ts";
import { databaseCheck, judgeMigrations, migrationsCheck } from "../../../../src/turns/doctor/database.ts";
import { builtMigrations } from "../../../../src/turns/doctor/examine.ts";
import { type TestDatabase, testDatabase } from "../../../support/database.ts";

const known = () => readMigrations(MIGRATIONS_DIR);

const found = async (check: Check) => {
  const [result] = await runChecks([check], { now: () => performance.now(), timeoutMs: 20_000 });
  return [result?.status, result?.detail];
};

let database: TestDatabase;
let empty: TestDatabase;
beforeAll(async () => {
  [database, empty] = await Promise.all([
    testDatabase({ kind: "postgres" }),
    testDatabase({ kind: "postgres", empty: true }),
  ]);
});
afterAll(async () => {
  await Promise.all([database.close(), empty.close()]);
});

/** The two ways to a database: as any PostgreSQL, and over Neon's HTTP. */
const ways: readonly [string, (of: TestDatabase, connectionString?: string) => AskDatabase][] = [
  [
    "a connection",
    (of, databaseUrl = of.connectionString) => askingAt({ databaseUrl, fetchEndpoint: undefined, timeoutMs: 10_000 }),
  ],
  [
    "HTTP",
    (of, databaseUrl = of.connectionString) => askingAt({ databaseUrl, fetchEndpoint: of.url, timeoutMs: 10_000 }),
  ],
];

describe.each(ways)("over %s, the database", (_, askTo) => {
  it("is reported with its version and how long it took", async () => {
    const [status, detail] = await found(databaseCheck(askTo(database), () => performance.now()));
    expect([status, detail]).toEqual(["ok", expect.stringMatching(/^PostgreSQL 18(\.\d+)+, answers in \d+ ms$/)]);
  });

  it("that refuses the password is told apart, and the password is not shown", async () => {
    const url = new URL(database.connectionString);
    url.password = "wrong-password";
    const [status, detail] = await found(databaseCheck(askTo(database, url.href), () => 0));
    expect([status, detail]).toEqual(["failed", "refused the user or password (28P01): set DATABASE_URL anew"]);
  });

  it("has every migration", async () => {
    expect(await found(migrationsCheck(askTo(database), known))).toEqual([
      "ok",
      `${builtMigrations.length} applied, newest ${builtMigrations.at(-1)?.tag}`,
    ]);
  });

  it("that was never migrated has all of them pending", async () => {
    const [status, detail] = await found(migrationsCheck(askTo(empty), known));
    expect([status, detail]).toEqual([
      "failed",
      `${builtMigrations.length} pending (0000_clock, 0001_tables, 0002_append_only, ...): run npm run db:migrate`,
    ]);
  });
});

describe("a database", () => {
  it("that is not there cannot be reached", async () => {
    const gone = { databaseUrl: "postgres://hango:secret@127.0.0.1:1/hango", timeoutMs: 5_000 };
    const byConnection = askingAt({ ...gone, fetchEndpoint: undefined });
    const byHttp = askingAt({ ...gone, fetchEndpoint: "http://127.0.0.1:1/sql" });
    expect(await found(databaseCheck(byConnection, () => 0))).toEqual(["failed", "cannot be reached (ECONNREFUSED)"]);
    expect(await found(databaseCheck(byHttp, () => 0))).toEqual(["failed", "could not be reached"]);
    expect(await found(migrationsCheck(byConnection, known))).toEqual([
      "failed",
      "could not be read: the database cannot be reached (ECONNREFUSED)",
    ]);
  });

  it("of a name that the server does not have is told apart", async () => {
    const url = new URL(database.connectionString);
    url.pathname = "/no_such_database";
    const ask = askingAt({ databaseUrl: url.href, fetchEndpoint: undefined, timeoutMs: 10_000 });
    expect((await found(databaseCheck(ask, () => 0)))[1]).toContain("has no database of that name (3D000)");
  });

  it("that lost a migration, or met a newer version, is told what to do", async () => {
    const ask = askingAt({ databaseUrl: database.connectionString, fetchEndpoint: undefined, timeoutMs: 10_000 });
    const newest = builtMigrations.at(-1);
    const moved = "update drizzle.__drizzle_migrations set created_at = $2 where created_at = $1";
    await database.sql(moved, [newest?.when ?? 0, 4_000_000_000_000]);
    const [status, detail] = await found(migrationsCheck(ask, async () => builtMigrations));
    await database.sql(moved, [4_000_000_000_000, newest?.when ?? 0]);
    expect(status).toBe("failed");
    expect(detail).toBe(
      `1 pending (${newest?.tag}): run npm run db:migrate; the database has 1 that this version does not know: a newer one has migrated it; deploy that one`,
    );
  });

  it("is not judged by files that disagree", async () => {
    const ask = askingAt({ databaseUrl: database.connectionString, fetchEndpoint: undefined, timeoutMs: 10_000 });
    const broken = () => readMigrations("/nowhere");
    expect(await found(migrationsCheck(ask, broken))).toEqual([
      "failed",
      "the files of this checkout disagree: npm run db:migrate says which",
    ]);
  });
});

describe("migrations", () => {
  it("of the build are those of the checkout", async () => {
    expect(builtMigrations).toEqual((await known()).map(({ tag, when }) => ({ tag, when })));
  });

  it("that have changed since they were applied are found where the files are at hand", () => {
    const applied = [{ when: 1, hash: "a" }];
    expect(judgeMigrations([{ tag: "0000_a", when: 1, hash: "b" }], applied)).toEqual({
      status: "failed",
      detail: "changed since they were applied: 0000_a. Restore the files; a change is a new migration",
    });
    expect(judgeMigrations([{ tag: "0000_a", when: 1 }], applied).status).toBe("ok");
  });
});
