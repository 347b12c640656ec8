/** A real PostgreSQL behind the protocol, through a pool of connections of which a request has one to itself. */
import pg from "pg";
import {
  alterDatabaseStatement,
  type Backend,
  beginStatement,
  leavesState,
  type Query,
  type QueryResult,
  type Session,
} from "./backend.ts";
import { withVerifiedTls } from "./connection-string.ts";

export interface PostgresOptions {
  readonly connectionString: string;
  /** Connections at most; a request beyond them waits. */
  readonly maxConnections?: number;
}

/** Neon's HTTP proxy holds as many per endpoint. */
const DEFAULT_MAX_CONNECTIONS = 20;
const CONNECT_TIMEOUT_MS = 10_000;

const rawText: pg.CustomTypesConfig = { getTypeParser: () => (value: string) => value };

/** Connects lazily: a wrong address shows at the first request. */
export function createPostgresBackend(options: PostgresOptions): Backend {
  const pool = new pg.Pool({
    connectionString: withVerifiedTls(options.connectionString),
    max: options.maxConnections ?? DEFAULT_MAX_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    allowExitOnIdle: true,
  });
  // An idle connection that the server drops is replaced at the next request; unheard, the event would end the process.
  pool.on("error", () => undefined);

  // Database-wide settings reach new connections only: one that is older than the last ALTER is not used again.
  let generation = 0;
  const generationOf = new WeakMap<pg.ClientBase, number>();
  pool.on("connect", (client) => generationOf.set(client, generation));
  const acquire = async (): Promise<pg.PoolClient> => {
    for (;;) {
      const client = await pool.connect();
      if (generationOf.get(client) === generation) return client;
      client.release(true);
    }
  };

  const withClient = async (
    queries: readonly Query[],
    work: (client: pg.PoolClient) => Promise<QueryResult[]>,
  ): Promise<QueryResult[]> => {
    const client = await acquire();
    let discard = true;
    try {
      const results = await work(client);
      discard = leavesState(queries, results);
      if (results.some((result) => result.command === "ALTER")) generation += 1;
      return results;
    } finally {
      client.release(discard);
    }
  };

  const backend: Backend = {
    query: async (query) => {
      const [result] = await withClient([query], async (client) => [await run(client, query)]);
      if (result === undefined) throw new Error("A query without a result.");
      return result;
    },
    transaction: (queries, transaction) =>
      withClient(queries, async (client) => {
        // On an error the connection is dropped, and the transaction with it.
        await client.query(beginStatement(transaction));
        const results: QueryResult[] = [];
        for (const query of queries) results.push(await run(client, query));
        await client.query("COMMIT");
        return results;
      }),
    session: async (work) => {
      const client = await acquire();
      try {
        return await work(sessionOf(client));
      } finally {
        client.release(true);
        generation += 1;
      }
    },
    setDefault: (name, value) =>
      backend.session(async (session) => session.exec(await alterDatabaseStatement(session, name, value))),
    close: () => pool.end(),
  };
  return backend;
}

/** A session over a connection that the caller opened and closes. */
export function sessionOf(client: pg.ClientBase): Session {
  return {
    exec: async (script) => {
      await client.query(script);
    },
    query: (query) => run(client, query),
  };
}

async function run(client: pg.ClientBase, { query, params }: Query): Promise<QueryResult> {
  // The extended protocol even without parameters: it refuses two statements in one, as Neon does.
  const config = { text: query, values: [...params], rowMode: "array" as const, types: rawText, queryMode: "extended" };
  const result = await client.query<(string | null)[]>(config);
  return {
    fields: result.fields.map(({ name, dataTypeID }) => ({ name, dataTypeID })),
    rows: result.rows,
    rowCount: result.rowCount,
    command: result.command ?? "",
  };
}
