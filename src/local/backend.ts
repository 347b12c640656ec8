/**
 * What Neon's HTTP protocol needs of a database, spoken in the protocol's own terms: every parameter goes in as text,
 * every value comes out as the text PostgreSQL printed. Two implementations pass one contract suite.
 */

/** One statement. A parameter is PostgreSQL's text form of the value (an array as its literal), or NULL. */
export interface Query {
  readonly query: string;
  readonly params: readonly (string | null)[];
}

export interface QueryResult {
  readonly fields: readonly { readonly name: string; readonly dataTypeID: number }[];
  readonly rows: readonly (readonly (string | null)[])[];
  /** Rows returned or changed; null for a command that counts none, such as CREATE. */
  readonly rowCount: number | null;
  /** First word of the command tag: SELECT, INSERT, CREATE, ... Empty for an empty query. */
  readonly command: string;
}

export type IsolationLevel = "ReadUncommitted" | "ReadCommitted" | "RepeatableRead" | "Serializable";

/** An absent option leaves the database's default. */
export interface TransactionOptions {
  readonly isolationLevel?: IsolationLevel;
  readonly readOnly?: boolean;
  readonly deferrable?: boolean;
}

/** A connection held for a while, for work that needs several statements in a row (migrations). */
export interface Session {
  /** Runs a script: any number of statements, no parameters, no results. */
  exec(script: string): Promise<void>;
  query(query: Query): Promise<QueryResult>;
}

/** Every method rejects with the driver's own error; `databaseErrorFields` tells PostgreSQL's answers from lost connections. */
export interface Backend {
  /** Runs one statement on its own. */
  query(query: Query): Promise<QueryResult>;
  /** Runs the statements in one transaction: all of them, or none. */
  transaction(queries: readonly Query[], options: TransactionOptions): Promise<readonly QueryResult[]>;
  /** Lends a connection to `work` alone, for as long as it runs. */
  session<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Sets a custom setting such as `hango.clock_offset` for the whole database; every request that starts later sees it. */
  setDefault(name: string, value: string): Promise<void>;
  /** Waits for what runs, then lets the database go. */
  close(): Promise<void>;
}

const LEVELS: Readonly<Record<IsolationLevel, string>> = {
  ReadUncommitted: "READ UNCOMMITTED",
  ReadCommitted: "READ COMMITTED",
  RepeatableRead: "REPEATABLE READ",
  Serializable: "SERIALIZABLE",
};

export function isIsolationLevel(value: string): value is IsolationLevel {
  return Object.hasOwn(LEVELS, value);
}

/** The BEGIN that opens a transaction with these options. */
export function beginStatement(options: TransactionOptions): string {
  const words = ["BEGIN"];
  if (options.isolationLevel !== undefined) words.push("ISOLATION LEVEL", LEVELS[options.isolationLevel]);
  if (options.readOnly !== undefined) words.push(options.readOnly ? "READ ONLY" : "READ WRITE");
  if (options.deferrable !== undefined) words.push(options.deferrable ? "DEFERRABLE" : "NOT DEFERRABLE");
  return words.join(" ");
}

const STATELESS_COMMANDS: ReadonlySet<string> = new Set(["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"]);
const STATEFUL_CALL = /\badvisory_lock|_advisory_lock/i;
const SET_CONFIG = /\bset_config\s*\(/gi;
/** The last argument of a call that sets something for its transaction only. */
const LOCALLY = /,\s*true\s*$/i;

/** The arguments of a call, from behind its opening parenthesis; to the end of the statement where it is never closed. */
const argumentsAt = (statement: string, from: number): string => {
  let depth = 1;
  for (let at = from; at < statement.length; at++) {
    const char = statement.charAt(at);
    depth += char === "(" ? 1 : char === ")" ? -1 : 0;
    if (depth === 0) return statement.slice(from, at);
  }
  return statement.slice(from);
};

const setsForLonger = (statement: string): boolean =>
  [...statement.matchAll(SET_CONFIG)].some(
    ({ 0: call, index }) => !LOCALLY.test(argumentsAt(statement, index + call.length)),
  );

/**
 * Whether a request may have left something behind in its connection (a setting, an open transaction, a lock, a
 * prepared statement), so that the next request must not inherit it. Errs on the side of yes.
 */
export function leavesState(queries: readonly Query[], results: readonly QueryResult[]): boolean {
  return (
    results.some((result) => !STATELESS_COMMANDS.has(result.command)) ||
    queries.some(({ query }) => STATEFUL_CALL.test(query) || setsForLonger(query))
  );
}

/** The statement that sets `name` for the current database. `name` must be a custom (dotted) setting. */
export async function alterDatabaseStatement(session: Session, name: string, value: string): Promise<string> {
  if (!/^[a-z_]+\.[a-z_]+$/.test(name)) throw new Error(`Not a custom setting: ${name}`);
  const text = `SELECT format('ALTER DATABASE %I SET ${name} = %L', current_database(), $1::text)`;
  const statement = (await session.query({ query: text, params: [value] })).rows[0]?.[0];
  if (typeof statement !== "string") throw new Error("The database did not answer with its own name.");
  return statement;
}

/** The fields of an error that Neon passes on to the client, besides its message. */
const ERROR_FIELDS = [
  "severity",
  "code",
  "detail",
  "hint",
  "position",
  "internalPosition",
  "internalQuery",
  "where",
  "schema",
  "table",
  "column",
  "dataType",
  "constraint",
  "file",
  "line",
  "routine",
] as const;

export type DatabaseErrorFields = { readonly message: string } & {
  readonly [K in (typeof ERROR_FIELDS)[number]]?: string;
};

/** The fields of an error that PostgreSQL itself reported; undefined for anything else (no connection, our own bug). */
export function databaseErrorFields(error: unknown): DatabaseErrorFields | undefined {
  if (!(error instanceof Error)) return undefined;
  const given = new Map<string, unknown>(Object.entries(error));
  const code = given.get("code");
  if (typeof code !== "string" || !/^[0-9A-Z]{5}$/.test(code) || typeof given.get("severity") !== "string") {
    return undefined;
  }
  const fields: { message: string } & { [K in (typeof ERROR_FIELDS)[number]]?: string } = { message: error.message };
  for (const name of ERROR_FIELDS) {
    const value = given.get(name);
    if (typeof value === "string") fields[name] = value;
  }
  return fields;
}
