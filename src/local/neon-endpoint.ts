/**
 * Neon's SQL over HTTP on this machine: `POST /sql`, as `neon()` of @neondatabase/serverless speaks it, over any backend.
 * The Worker keeps its production driver; only `neonConfig.fetchEndpoint` differs.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { type Backend, databaseErrorFields, isIsolationLevel, type Query, type TransactionOptions } from "./backend.ts";

export interface Credentials {
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

export interface NeonEndpointOptions {
  readonly backend: Backend;
  /** What a request's connection string must name. */
  readonly credentials: Credentials;
  /** Port on 127.0.0.1; a free one when absent. */
  readonly port?: number;
  /**
   * Asked once the work of a request is done and before it is answered; `drop` cuts the connection instead, as a
   * network does that loses the answer to a commit.
   */
  readonly beforeAnswer?: (statements: number) => "send" | "drop";
}

export interface NeonEndpoint {
  /** For `neonConfig.fetchEndpoint`. */
  readonly url: string;
  /** For `neon()`. Its host is a name only: requests go to `url`. */
  readonly connectionString: string;
  /** Stops listening and cuts open connections. The backend stays open. */
  close(): Promise<void>;
}

/** Neon's limit on a request and on a response over HTTP. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** Starts listening. Rejects with the listener's error (`EADDRINUSE`, ...). */
export async function startNeonEndpoint(options: NeonEndpointOptions): Promise<NeonEndpoint> {
  const server = createServer((request, response) => {
    void answer(options, request, response);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, "127.0.0.1", () => resolve());
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The listener has no port.");
  const { user, password, database } = options.credentials;
  const login = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`;
  return {
    url: `http://127.0.0.1:${address.port}/sql`,
    connectionString: `postgresql://${login}@127.0.0.1:${address.port}/${encodeURIComponent(database)}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** A request that Neon would refuse; `code` is the SQLSTATE where there is one. */
class RequestError extends Error {
  override readonly name = "RequestError";
  readonly status: 400 | 404 | 405 | 413;
  readonly code: string | undefined;

  constructor(status: 400 | 404 | 405 | 413, message: string, code?: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function answer(options: NeonEndpointOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const sent = await respond(options, request).catch(failure);
  if (options.beforeAnswer?.(sent.statements) === "drop") {
    request.socket.destroy();
    return;
  }
  const body = Buffer.from(JSON.stringify(sent.body));
  if (body.length > MAX_BODY_BYTES) {
    const message = `response is too large (max is ${MAX_BODY_BYTES} bytes)`;
    response.writeHead(507, { "content-type": "application/json" }).end(JSON.stringify({ message, code: null }));
    return;
  }
  response.writeHead(sent.status, { "content-type": "application/json", "content-length": body.length }).end(body);
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly statements: number;
}

async function respond(options: NeonEndpointOptions, request: IncomingMessage): Promise<Answer> {
  const path = request.url?.split("?")[0];
  if (path !== "/sql") throw new RequestError(404, `No such path: ${path}. SQL is answered at POST /sql.`);
  if (request.method !== "POST") throw new RequestError(405, "SQL is answered at POST /sql.");
  // Before the body is read: who may not ask is not listened to.
  authenticate(request.headers, options.credentials);
  return answerBody(options, request.headers, await readBody(request));
}

async function answerBody(
  { backend }: Pick<NeonEndpointOptions, "backend">,
  headers: IncomingHttpHeaders,
  text: string,
): Promise<Answer> {
  requireRawArrays(headers);
  const transaction = transactionOptions(headers);
  const body = parseBody(text);

  if ("query" in body) {
    const result = await backend.query(body);
    return { status: 200, body: { ...result, rowAsArray: true }, statements: 1 };
  }
  const results = await backend.transaction(body.queries, transaction);
  return {
    status: 200,
    body: { results: results.map((result) => ({ ...result, rowAsArray: true })) },
    statements: results.length,
  };
}

/**
 * Answers a request of the driver in this process, without a connection: what is sent and what comes back is what goes over the wire.
 * @param headers of the request, by their names in lower case
 * @param body of the request
 */
export const answerSql = async (
  options: Pick<NeonEndpointOptions, "backend" | "credentials">,
  headers: IncomingHttpHeaders,
  body: string,
): Promise<{ readonly status: number; readonly body: string }> => {
  const answered = async (): Promise<Answer> => {
    authenticate(headers, options.credentials);
    return answerBody(options, headers, body);
  };
  const { status, body: answer } = await answered().catch(failure);
  return { status, body: JSON.stringify(answer) };
};

function failure(error: unknown): Answer {
  const fields = databaseErrorFields(error);
  if (fields !== undefined) return { status: 400, body: fields, statements: 0 };
  if (error instanceof RequestError) {
    const body = { message: error.message, code: error.code ?? null, severity: "ERROR" };
    return { status: error.status, body, statements: 0 };
  }
  const message = error instanceof Error && error.message !== "" ? error.message : "no answer";
  return { status: 502, body: { message: `The database cannot be reached: ${message}`, code: null }, statements: 0 };
}

/** Holds the connection string of the request against the endpoint's, and answers as PostgreSQL would. */
function authenticate(headers: IncomingHttpHeaders, expected: Credentials): void {
  if (headers.authorization !== undefined) {
    throw new RequestError(400, "Bearer tokens are not accepted here: give the user and password.", "28000");
  }
  const url = URL.parse(header(headers, "neon-connection-string") ?? "");
  if (url === null) throw new RequestError(400, "The Neon-Connection-String header is missing or not a URL.");
  const user = decode(url.username);
  if (user !== expected.user || decode(url.password) !== expected.password) {
    throw new RequestError(400, `password authentication failed for user "${user}"`, "28P01");
  }
  const database = decode(url.pathname.slice(1));
  if (database !== expected.database) {
    throw new RequestError(400, `database "${database}" does not exist`, "3D000");
  }
}

function decode(component: string): string {
  try {
    return decodeURIComponent(component);
  } catch {
    return component;
  }
}

/** Neon has other output forms; the driver asks for this one alone, and nothing else is spoken here. */
function requireRawArrays(headers: IncomingHttpHeaders): void {
  for (const name of ["neon-raw-text-output", "neon-array-mode"]) {
    if (header(headers, name) !== "true") throw new RequestError(400, `Only ${name}: true is answered here.`);
  }
}

function transactionOptions(headers: IncomingHttpHeaders): TransactionOptions {
  const level = header(headers, "neon-batch-isolation-level");
  if (level !== undefined && !isIsolationLevel(level)) {
    throw new RequestError(400, `Not an isolation level: ${level}`);
  }
  const readOnly = flag(headers, "neon-batch-read-only");
  const deferrable = flag(headers, "neon-batch-deferrable");
  return {
    ...(level === undefined ? {} : { isolationLevel: level }),
    ...(readOnly === undefined ? {} : { readOnly }),
    ...(deferrable === undefined ? {} : { deferrable }),
  };
}

function flag(headers: IncomingHttpHeaders, name: string): boolean | undefined {
  const value = header(headers, name);
  if (value === undefined) return undefined;
  if (value !== "true" && value !== "false") throw new RequestError(400, `${name} must be true or false.`);
  return value === "true";
}

function header(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request) {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_BODY_BYTES) {
      throw new RequestError(413, `request is too large (max is ${MAX_BODY_BYTES} bytes)`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parseBody(text: string): Query | { readonly queries: readonly Query[] } {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new RequestError(400, "The body is not JSON.");
  }
  if (isRecord(body) && Array.isArray(body.queries)) return { queries: body.queries.map(parseQuery) };
  return parseQuery(body);
}

function parseQuery(value: unknown): Query {
  if (!isRecord(value) || typeof value.query !== "string") {
    throw new RequestError(400, "Expected {query, params} or {queries: [{query, params}]}.");
  }
  const query = value.query;
  // PostgreSQL's messages end a statement's text with NUL: what follows would be read as another message.
  if (query.includes("\0")) throw new RequestError(400, "A statement cannot hold a NUL character.", "22021");
  const params: unknown = value.params ?? [];
  if (!Array.isArray(params)) throw new RequestError(400, "params must be an array.");
  return { query, params: params.map(parseParam) };
}

/** The driver sends strings and nulls; a hand-written request may hold any JSON. */
function parseParam(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return value;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
