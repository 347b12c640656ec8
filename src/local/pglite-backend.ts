/** The database of a machine that has none: PostgreSQL compiled to WebAssembly, in this process, with one connection. */
import { PGlite } from "@electric-sql/pglite";
import {
  alterDatabaseStatement,
  type Backend,
  beginStatement,
  leavesState,
  type Query,
  type QueryResult,
  type Session,
} from "./backend.ts";
import { lockDirectory } from "./directory-lock.ts";

export interface PgliteOptions {
  /** Directory that keeps the data, created when missing. In memory when absent. */
  readonly dataDir?: string;
  /** What `dump` of an earlier backend returned, to start from. */
  readonly loadFrom?: Blob;
}

export interface PgliteBackend extends Backend {
  /** The whole database as an uncompressed tar, for `loadFrom`. */
  dump(): Promise<Blob>;
}

const asText = (value: string): string => value;

/**
 * Opens the database. A new one takes seconds; one from a dump or an existing directory less than one. Rejects with
 * `DirectoryInUseError` when another backend has the directory open.
 */
export async function createPgliteBackend(options: PgliteOptions): Promise<PgliteBackend> {
  const unlock = options.dataDir === undefined ? undefined : await lockDirectory(options.dataDir);
  const db = await open(options).catch(async (error: unknown) => {
    await unlock?.();
    throw error;
  });
  // Values pass as raw text both ways: a json that was parsed and printed again has lost its bytes (V9).
  for (const type of Object.keys(db.parsers)) db.parsers[type] = asText;
  for (const type of Object.keys(db.serializers)) db.serializers[type] = asText;

  const defaults = new Map<string, string>();
  const session: Session = {
    exec: async (script) => {
      await db.exec(script);
    },
    query: (query) => run(db, query),
  };
  const exclusively = oneAtATime();

  /** Puts the one connection back to what a new one would be. */
  const reset = async (): Promise<void> => {
    await db.exec("ROLLBACK");
    await db.exec("DISCARD ALL");
    for (const [name, value] of defaults) {
      await session.query({ query: "SELECT set_config($1, $2, false)", params: [name, value] });
    }
  };

  return {
    query: (query) =>
      exclusively(async () => {
        const result = await session.query(query);
        if (leavesState([query], [result])) await reset();
        return result;
      }),
    transaction: (queries, transaction) =>
      exclusively(async () => {
        const results: QueryResult[] = [];
        try {
          await db.exec(beginStatement(transaction));
          for (const query of queries) results.push(await session.query(query));
          await db.exec("COMMIT");
        } catch (error) {
          await reset();
          throw error;
        }
        if (leavesState(queries, results)) await reset();
        return results;
      }),
    session: (work) =>
      exclusively(async () => {
        try {
          return await work(session);
        } finally {
          await reset();
        }
      }),
    setDefault: (name, value) =>
      exclusively(async () => {
        await db.exec(await alterDatabaseStatement(session, name, value));
        defaults.set(name, value);
        await reset();
      }),
    dump: () => exclusively(() => db.dumpDataDir("none")),
    close: () =>
      exclusively(async () => {
        await db.close();
        await unlock?.();
      }),
  };
}

function open(options: PgliteOptions): Promise<PGlite> {
  return PGlite.create({
    ...(options.dataDir === undefined ? {} : { dataDir: options.dataDir }),
    ...(options.loadFrom === undefined ? {} : { loadDataDir: options.loadFrom }),
  });
}

async function run(db: PGlite, { query, params }: Query): Promise<QueryResult> {
  const result = await db.query<(string | null)[]>(query, [...params], { rowMode: "array" });
  return {
    fields: result.fields,
    rows: result.rows,
    rowCount: result.rowCount ?? null,
    command: result.command ?? "",
  };
}

/** Runs what it is given one after the other, in the order of the calls, whether or not the one before failed. */
function oneAtATime(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const mine = last.then(work);
    last = mine.catch(() => undefined);
    return mine;
  };
}
