/**
 * One set of databases per vitest run, made when the first test asks: a PostgreSQL server with a migrated template, and
 * dumps of a PGlite database with and without the migrations. Tests ask over loopback, since they run in processes of
 * their own; what they get is in `TestDatabases`.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { MIGRATIONS_DIR, migrate, migrateUrl, readMigrations } from "../../src/local/migrate.ts";
import { createPgliteBackend } from "../../src/local/pglite-backend.ts";
import { type PostgresServer, startPostgres } from "../../src/local/postgres.ts";
import { createPostgresBackend } from "../../src/local/postgres-backend.ts";

/** What is answered at `/postgres` (URL of the server's `postgres` database), `/postgres-template` (name) and so on. */
export type TestDatabases = "postgres" | "postgres-template" | "pglite-empty" | "pglite-migrated";

declare module "vitest" {
  interface ProvidedContext {
    /** Address to ask, a path short of the resource. */
    readonly testDatabases: string;
  }
}

const TEMPLATE = "hango_template";
const MAX_CONNECTIONS = 200;

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), "hango-test-"));
  const server = once(() => startPostgres({ durable: false, maxConnections: MAX_CONNECTIONS }));
  const make: Readonly<Record<TestDatabases, () => Promise<string>>> = {
    postgres: async () => (await server.get()).urlOf("postgres"),
    "postgres-template": once(async () => migratedTemplate(await server.get())).get,
    "pglite-empty": once(() => pgliteDump(join(dir, "empty.tar"), false)).get,
    "pglite-migrated": once(() => pgliteDump(join(dir, "migrated.tar"), true)).get,
  };

  // Other users of the machine must not be handed the server's password.
  const token = randomBytes(16).toString("hex");
  const broker = createServer((request, response) => {
    const [, given, name] = (request.url ?? "").split("/");
    if (given !== token || name === undefined || !isTestDatabase(name, make)) {
      response.writeHead(404).end();
      return;
    }
    make[name]().then(
      (value) => response.writeHead(200).end(value),
      (error: unknown) => response.writeHead(500).end(error instanceof Error ? error.message : String(error)),
    );
  });
  await new Promise<void>((resolve) => broker.listen(0, "127.0.0.1", resolve));
  const address = broker.address();
  if (address === null || typeof address === "string") throw new Error("The listener has no port.");
  project.provide("testDatabases", `http://127.0.0.1:${address.port}/${token}`);

  return async () => {
    broker.close();
    broker.closeAllConnections();
    await (await server.started())?.stop();
    await rm(dir, { recursive: true, force: true });
  };
}

function isTestDatabase(name: string, make: object): name is TestDatabases {
  return Object.hasOwn(make, name);
}

async function migratedTemplate(server: PostgresServer): Promise<string> {
  const admin = createPostgresBackend({ connectionString: server.urlOf("postgres") });
  try {
    await admin.query({ query: `CREATE DATABASE ${TEMPLATE}`, params: [] });
  } finally {
    await admin.close();
  }
  await migrateUrl(server.urlOf(TEMPLATE), await readMigrations(MIGRATIONS_DIR));
  return TEMPLATE;
}

async function pgliteDump(file: string, migrated: boolean): Promise<string> {
  const backend = await createPgliteBackend({});
  try {
    const migrations = migrated ? await readMigrations(MIGRATIONS_DIR) : [];
    await backend.session((session) => migrate(session, migrations));
    await writeFile(file, Buffer.from(await (await backend.dump()).arrayBuffer()));
  } finally {
    await backend.close();
  }
  return file;
}

/** A value made at the first `get`; `started` is what was made, if anything was. */
function once<T>(make: () => Promise<T>): { get(): Promise<T>; started(): Promise<T | undefined> } {
  let made: Promise<T> | undefined;
  return {
    get: () => {
      made ??= make();
      return made;
    },
    started: async () => made?.catch(() => undefined),
  };
}
