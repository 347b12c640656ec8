/**
 * PostgreSQL for thousands of sessions: every statement is parsed once a connection and planned a few times, since the same few are sent again and again. What
 * they do is what they do on the platform's backend.
 */
import { createHash } from "node:crypto";
import pg from "pg";
import { type Backend, beginStatement, type Query, type QueryResult } from "../../src/local/backend.ts";

const rawText: pg.CustomTypesConfig = { getTypeParser: () => (value: string) => value };

/** Connections of a lane: a few Workers at once, and the harness. */
const CONNECTIONS = 6;

/**
 * @param clockOffset of each transaction, as PostgreSQL writes an interval
 */
export const preparedBackend = (
  connectionString: string,
  clockOffset: () => string,
): Backend & { pids(): readonly number[] } => {
  const pool = new pg.Pool({
    connectionString,
    max: CONNECTIONS,
    pipeline: true,
    idleTimeoutMillis: 0,
    allowExitOnIdle: true,
  });
  pool.on("error", () => undefined);
  const pids = new Set<number>();
  pool.on("connect", (client) => pids.add(Number(Reflect.get(client, "processID"))));
  const names = new Map<string, string>();
  const nameOf = (text: string): string => {
    const known = names.get(text);
    if (known !== undefined) return known;
    const name = createHash("md5").update(text).digest("hex");
    names.set(text, name);
    return name;
  };
  const run = async (client: pg.PoolClient, { query, params }: Query): Promise<QueryResult> => {
    const config = { name: nameOf(query), text: query, values: [...params], rowMode: "array" as const, types: rawText };
    const result = await client.query<(string | null)[]>(config);
    return {
      fields: result.fields.map(({ name, dataTypeID }) => ({ name, dataTypeID })),
      rows: result.rows,
      rowCount: result.rowCount,
      command: result.command ?? "",
    };
  };
  const backend: Backend = {
    query: async (query) => {
      const [result] = await backend.transaction([query], {});
      if (result === undefined) throw new Error("A query without a result.");
      return result;
    },
    transaction: async (queries, options) => {
      const client = await pool.connect();
      let failed = true;
      try {
        // All at once: the server takes them in order, and after one that fails it refuses the rest.
        const clock = { query: "select set_config('hango.clock_offset', $1, true)", params: [clockOffset()] };
        const [begun, clocked, ...sent] = await Promise.allSettled([
          client.query(beginStatement(options)),
          ...[clock, ...queries].map((query) => run(client, query)),
          client.query("COMMIT"),
        ]);
        const broken = [begun, clocked, ...sent].find((one) => one?.status === "rejected");
        if (broken?.status === "rejected") throw broken.reason;
        failed = false;
        return sent.slice(0, -1).map((one) => (one.status === "fulfilled" ? one.value : undefined) as QueryResult);
      } finally {
        client.release(failed);
      }
    },
    session: () => Promise.reject(new Error("the harness lends no connection")),
    setDefault: () => Promise.reject(new Error("the harness sets the clock itself")),
    close: () => pool.end(),
  };
  return { ...backend, pids: () => [...pids] };
};
