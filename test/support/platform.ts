/** The built Worker in workerd over a real database and a simulator, for the tests of one file. */
import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { buildWorker } from "../../src/local/build.ts";
import type { AnswerPage } from "../../src/local/collector/pages.ts";
import { type Simulator, startSimulator } from "../../src/local/simulator/server.ts";
import { startWorkerHost, type WorkerHost } from "../../src/local/worker-host.ts";
import { newId } from "../../src/protocol/ids.ts";
import { type TestDatabase, testDatabase } from "./database.ts";

export const ADMIN_KEY = "test-admin-key-0123456789abcdef";

export interface TestPlatform {
  readonly url: string;
  readonly database: TestDatabase;
  readonly simulator: Simulator;
  readonly host: WorkerHost;
  /** Lines that the Worker logged. */
  readonly logs: readonly string[];
  close(): Promise<void>;
}

export interface TestPlatformOptions {
  readonly kind?: "pglite" | "postgres";
  readonly variables?: Readonly<Record<string, string>>;
  /** The simulator is the server of chat completions as well. */
  readonly chat?: boolean;
  /** Answers below `/_local`, as in `npm start`. */
  readonly answerPage?: AnswerPage;
}

export const startTestPlatform = async (options: TestPlatformOptions = {}): Promise<TestPlatform> => {
  const database = await testDatabase({ kind: options.kind ?? "postgres" });
  const simulator = await startSimulator();
  const logs: string[] = [];
  const { path } = await buildWorker();
  const host = await startWorkerHost({
    scriptPath: path,
    configPath: join(import.meta.dirname, "../../wrangler.toml"),
    variables: {
      DATABASE_URL: database.connectionString,
      HANGO_DB_FETCH_ENDPOINT: database.url,
      ANTHROPIC_API_KEY: "simulator",
      ANTHROPIC_BASE_URL: simulator.url,
      HANGO_ADMIN_KEY: ADMIN_KEY,
      HANGO_ALLOW_PRIVATE_URLS: "true",
      ...(options.chat === true ? { HANGO_OPENAI_BASE_URL: `${simulator.url}/v1` } : {}),
      ...options.variables,
    },
    port: 0,
    ...(options.answerPage === undefined ? {} : { answerPage: options.answerPage }),
    onLog: (line) => logs.push(line),
  });
  return {
    url: host.url,
    database,
    simulator,
    host,
    logs,
    close: async () => {
      await host.close();
      await simulator.close();
      await database.close();
    },
  };
};

/** Another Worker on the same database, bucket aside, and against the same provider. */
export const startAnotherWorker = async (
  { database, simulator }: Pick<TestPlatform, "database" | "simulator">,
  variables: Readonly<Record<string, string>> = {},
): Promise<WorkerHost> => {
  const { path } = await buildWorker();
  return startWorkerHost({
    scriptPath: path,
    configPath: join(import.meta.dirname, "../../wrangler.toml"),
    variables: {
      DATABASE_URL: database.connectionString,
      HANGO_DB_FETCH_ENDPOINT: database.url,
      ANTHROPIC_API_KEY: "simulator",
      ANTHROPIC_BASE_URL: simulator.url,
      HANGO_ADMIN_KEY: ADMIN_KEY,
      ...variables,
    },
    port: 0,
    onLog: () => undefined,
  });
};

export interface Tenant {
  readonly id: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A tenant with a key of these scopes, made beside the API, so that no request is counted. */
export const makeTenant = async (
  database: TestDatabase,
  scopes: readonly string[] = ["read", "write", "content", "admin"],
): Promise<Tenant> => {
  const id = newId("tnt");
  const key = `hango_${randomBytes(20).toString("hex")}`;
  await database.sql("insert into tenants (id, name) values ($1, 'test')", [id]);
  await database.sql("insert into api_keys (id, tenant_id, hash, prefix, scopes) values ($1, $2, $3, $4, $5)", [
    newId("key"),
    id,
    createHash("sha256").update(key).digest("hex"),
    key.slice(0, 10),
    `{${scopes.join(",")}}`,
  ]);
  // A connection of its own for each request: a kept one may be closed by the other side just when the next request is sent on it.
  return {
    id,
    key,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", Connection: "close" },
  };
};

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any;
}

export type Call = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
) => Promise<Answer>;

/** Calls the API as a tenant. A body that is text is sent as it is. */
export const callerOf =
  (url: string, tenant: Tenant): Call =>
  async (method, path, body, headers = {}) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...tenant.headers, ...headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = (response.headers.get("content-type") ?? "").includes("json");
    return {
      status: response.status,
      headers: response.headers,
      body: isJson && text !== "" ? JSON.parse(text) : text,
    };
  };

export interface SseEvent {
  readonly id: number | null;
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly data: any;
  readonly raw: string;
}

const parseEvent = (text: string): SseEvent | undefined => {
  const fields = new Map(
    text
      .split("\n")
      .map((line): [string, string] => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
  );
  const event = fields.get("event");
  if (event === undefined) return undefined;
  const raw = fields.get("data") ?? "";
  return { id: fields.has("id") ? Number(fields.get("id")) : null, event, data: JSON.parse(raw), raw };
};

/** Reads an event stream until it ends, or until the predicate has seen what it wanted; then leaves. */
export const readEvents = async (
  response: Response,
  until: (event: SseEvent) => boolean = () => false,
): Promise<SseEvent[]> => {
  const events: SseEvent[] = [];
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) throw new Error("no body");
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return events;
    buffer += value;
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
      const event = parseEvent(buffer.slice(0, end));
      buffer = buffer.slice(end + 2);
      if (event === undefined) continue;
      events.push(event);
      if (until(event)) {
        await reader.cancel();
        return events;
      }
    }
  }
};

export const openTurn = (
  url: string,
  tenant: Tenant,
  session: string,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> =>
  fetch(`${url}/v1/sessions/${session}/turns`, {
    method: "POST",
    headers: { ...tenant.headers, ...headers },
    body: JSON.stringify({ stream: true, ...body }),
  });
