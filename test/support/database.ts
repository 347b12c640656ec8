/** A database for one test file, behind the endpoint that the Worker is given. */
import { randomBytes } from "node:crypto";
import { openAsBlob } from "node:fs";
import pg from "pg";
import { inject } from "vitest";
import type { Backend } from "../../src/local/backend.ts";
import { type Credentials, startNeonEndpoint } from "../../src/local/neon-endpoint.ts";
import { createPgliteBackend } from "../../src/local/pglite-backend.ts";
import { createPostgresBackend } from "../../src/local/postgres-backend.ts";
import type { TestDatabases } from "./postgres-global.ts";

export interface TestDatabaseOptions {
  /** PGlite has one connection: what needs two at once is tested on `postgres`. */
  readonly kind: "pglite" | "postgres";
  /** Without the product's migrations. */
  readonly empty?: boolean;
}

export interface TestDatabase {
  /** Neon's endpoint, for `neonConfig.fetchEndpoint`. */
  readonly url: string;
  /** For `neon()`; with `postgres` also the server's own address. */
  readonly connectionString: string;
  readonly backend: Backend;
  /** Runs one statement beside the Worker, not counted as a request. Values parsed as the `pg` driver does. */
  sql(query: string, params?: readonly (string | number | boolean | null)[]): Promise<Record<string, unknown>[]>;
  /** Moves `hango_now()` forward for every request from now on; adds to earlier calls. */
  advanceClock(seconds: number): Promise<void>;
  /** Requests that the endpoint has answered or dropped so far: the Worker's database round trips. */
  requests(): number;
  /** The next request is done in full, but its connection is cut before the answer. */
  dropNextAnswer(): void;
  /** Closes the endpoint and removes the database. */
  close(): Promise<void>;
}

/** Takes well under a second, but for the run's first database of a kind, which is made then (1 s `postgres`, 5 s `pglite`). */
export async function testDatabase(options: TestDatabaseOptions): Promise<TestDatabase> {
  const made = options.kind === "pglite" ? await makePglite(options) : await makePostgres(options);
  let requests = 0;
  let drop = false;
  let offsetSeconds = 0;
  const endpoint = await startNeonEndpoint({
    backend: made.backend,
    credentials: made.credentials,
    beforeAnswer: () => {
      requests += 1;
      const answer = drop ? "drop" : "send";
      drop = false;
      return answer;
    },
  });
  return {
    url: endpoint.url,
    connectionString: made.connectionString ?? endpoint.connectionString,
    backend: made.backend,
    sql: async (query, params = []) => {
      const texts = params.map((param) => (param === null ? null : String(param)));
      const { fields, rows } = await made.backend.query({ query, params: texts });
      return rows.map((row) => {
        const values = fields.map(({ name, dataTypeID }, column) => {
          const text = row[column] ?? null;
          const parse: (value: string) => unknown = pg.types.getTypeParser(dataTypeID, "text");
          return [name, text === null ? null : parse(text)] as const;
        });
        return Object.fromEntries(values);
      });
    },
    advanceClock: async (seconds) => {
      offsetSeconds += seconds;
      await made.backend.setDefault("hango.clock_offset", `${offsetSeconds} seconds`);
    },
    requests: () => requests,
    dropNextAnswer: () => {
      drop = true;
    },
    close: async () => {
      await endpoint.close();
      await made.close();
    },
  };
}

interface Made {
  readonly backend: Backend;
  readonly credentials: Credentials;
  readonly connectionString?: string;
  close(): Promise<void>;
}

async function makePglite({ empty = false }: TestDatabaseOptions): Promise<Made> {
  const dump = await openAsBlob(await ask(empty ? "pglite-empty" : "pglite-migrated"));
  const backend = await createPgliteBackend({ loadFrom: dump });
  const credentials = { user: "hango", password: randomBytes(8).toString("hex"), database: "hango" };
  return { backend, credentials, close: () => backend.close() };
}

async function makePostgres({ empty = false }: TestDatabaseOptions): Promise<Made> {
  const server = await ask("postgres");
  const template = empty ? "template0" : await ask("postgres-template");
  const database = `hango_test_${randomBytes(8).toString("hex")}`;
  await administer(server, `CREATE DATABASE ${database} TEMPLATE ${template}`);
  const url = URL.parse(server);
  if (url === null) throw new Error("The server's address is not a URL.");
  url.pathname = `/${database}`;
  const backend = createPostgresBackend({ connectionString: url.href });
  return {
    backend,
    credentials: { user: url.username, password: url.password, database },
    connectionString: url.href,
    close: async () => {
      await backend.close();
      await administer(server, `DROP DATABASE ${database} WITH (FORCE)`);
    },
  };
}

async function administer(server: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

async function ask(name: TestDatabases): Promise<string> {
  const response = await fetch(`${inject("testDatabases")}/${name}`);
  const text = await response.text();
  if (!response.ok) throw new Error(`No test database: ${text}`);
  return text;
}
