/** The app over a real database and a real bucket, without the Worker around it: what `worker.ts` provides is provided here. */
import type { z } from "@hono/zod-openapi";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, expect } from "vitest";
import { createApp } from "../../../src/api/app.ts";
import type { App } from "../../../src/api/env.ts";
import { errorSchema } from "../../../src/api/operation.ts";
import { type Config, parseConfig } from "../../../src/config.ts";
import { newId } from "../../../src/protocol/ids.ts";
import { connect } from "../../../src/store/db.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { noTelemetry } from "../../../src/telemetry/none.ts";
import { noopTracer } from "../../../src/telemetry/tracer.ts";
import type { Deps } from "../../../src/turns/deps.ts";
import type { QueueMessage } from "../../../src/turns/queue.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";

export const ADMIN_KEY = "operator-key-for-these-tests";

export interface Call {
  readonly key?: string;
  /** Sent as JSON. */
  readonly json?: unknown;
  readonly body?: BodyInit;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly bytes: Uint8Array;
  /** The body as JSON; undefined for anything else. */
  // biome-ignore lint/suspicious/noExplicitAny: what is read here is asserted on right away, and checked against its schema
  readonly json: any;
}

export interface TestTenant {
  readonly id: string;
  /** A key with every scope. */
  readonly key: string;
}

export interface Harness {
  readonly app: App;
  readonly db: TestDatabase;
  readonly bucket: R2Bucket;
  readonly deps: Deps;
  readonly sent: QueueMessage[];
  readonly logged: string[];
  /** Round trips to the database of the last call. */
  readonly roundTrips: () => number;
  call(method: string, path: string, call?: Call): Promise<Answer>;
  tenant(): Promise<TestTenant>;
  /** A key of the tenant with these scopes. */
  keyOf(tenant: TestTenant, scopes: readonly string[]): Promise<string>;
  /** A run that holds the session's lease, as far as the database can see. */
  hold(sessionId: string, runId?: string): Promise<void>;
}

/** What differs from a deployment: everything but the database and the bucket. */
export interface HarnessOptions {
  readonly kind?: "pglite" | "postgres";
  readonly env?: Readonly<Record<string, unknown>>;
}

const routePattern = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll(/\{(\w+)\}/g, (_, name: string) => (name === "path" ? ".+" : "[^/]+"))}$`);

const isZod = (schema: unknown): schema is z.ZodType =>
  typeof schema === "object" && schema !== null && "safeParse" in schema;

/** The schema that the OpenAPI document promises for this answer. */
const promised = (app: App, method: string, path: string, status: number): z.ZodType | undefined => {
  const [pathname = ""] = path.split("?");
  for (const definition of app.openAPIRegistry.definitions) {
    if (definition.type !== "route" || definition.route.method !== method.toLowerCase()) continue;
    if (!routePattern(definition.route.path).test(pathname)) continue;
    const response = definition.route.responses[String(status)];
    const content = response !== undefined && "content" in response ? response.content : undefined;
    const media: object = content?.["application/json"] ?? {};
    const schema: unknown = "schema" in media ? media.schema : undefined;
    if (isZod(schema)) return schema;
  }
  return status >= 400 ? errorSchema : undefined;
};

/** Starts everything; stopped after the test file's last test. */
export const harness = async ({ kind = "pglite", env = {} }: HarnessOptions = {}): Promise<Harness> => {
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: "export default { fetch: () => new Response(null) }",
      compatibilityDate: "2026-01-01",
      r2Buckets: ["FILES"],
    }),
  );
  const [db, bucket] = await Promise.all([
    testDatabase({ kind }),
    miniflare.getR2Bucket("FILES") as unknown as Promise<R2Bucket>,
  ]);
  afterAll(async () => {
    await Promise.all([db.close(), miniflare.dispose()]);
  });
  const sent: QueueMessage[] = [];
  const logged: string[] = [];
  const send = async (body: QueueMessage) => {
    sent.push(body);
  };
  const queue = {
    send,
    sendBatch: async (messages: Iterable<{ readonly body: QueueMessage }>) => {
      for (const { body } of messages) await send(body);
    },
  } as unknown as Queue<QueueMessage>;
  const config: Config = parseConfig({
    DATABASE_URL: db.connectionString,
    HANGO_DB_FETCH_ENDPOINT: db.url,
    ANTHROPIC_API_KEY: "none",
    HANGO_ADMIN_KEY: ADMIN_KEY,
    FILES: bucket,
    QUEUE: queue,
    ...env,
  });
  const makeDeps = (): Deps => ({
    config,
    db: connect(
      {
        databaseUrl: config.databaseUrl,
        fetchEndpoint: config.databaseFetchEndpoint,
        timeoutMs: config.databaseTimeoutMs,
      },
      noopTracer,
    ),
    bucket,
    queue,
    ...noTelemetry,
    log: createLog({ level: "debug", sink: (line) => logged.push(line), traceIds: () => undefined }),
    newId,
    now: Date.now,
    sleep: async () => undefined,
    fetch: () => Promise.reject(new Error("no test here calls out")),
    waitUntil: () => undefined,
  });
  const app = createApp({ makeDeps });
  let roundTrips = 0;

  const call: Harness["call"] = async (method, path, { key, json, body, headers = {} } = {}) => {
    const before = db.requests();
    const response = await app.request(`https://hango.test${path}`, {
      method,
      headers: {
        ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
        ...(json === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(json === undefined ? (body === undefined ? {} : { body }) : { body: JSON.stringify(json) }),
    });
    const bytes = new Uint8Array(await response.arrayBuffer());
    roundTrips = db.requests() - before;
    const text = new TextDecoder().decode(bytes);
    const isJson =
      method !== "HEAD" &&
      response.headers.get("Content-Type") === "application/json" &&
      !response.headers.has("Content-Disposition");
    const parsed: unknown = isJson ? JSON.parse(text) : undefined;
    if (isJson) {
      const conforms = promised(app, method, path, response.status)?.safeParse(parsed);
      if (conforms?.success === false)
        expect.fail(`${method} ${path} broke its schema: ${conforms.error.message}\n${text.slice(0, 2_000)}`);
    }
    return { status: response.status, headers: response.headers, text, bytes, json: parsed };
  };

  const made = async (path: string, json: unknown): Promise<Answer["json"]> => {
    const answer = await call("POST", path, { key: ADMIN_KEY, json });
    if (answer.status !== 201) throw new Error(`${path}: ${answer.text}`);
    return answer.json;
  };

  const keyOf: Harness["keyOf"] = async (tenant, scopes) =>
    (await made("/v1/keys", { tenant_id: tenant.id, scopes })).secret;

  return {
    app,
    db,
    bucket,
    deps: makeDeps(),
    sent,
    logged,
    roundTrips: () => roundTrips,
    call,
    keyOf,
    tenant: async () => {
      const { id } = await made("/v1/tenants", { name: "a tenant" });
      return { id, key: await keyOf({ id, key: "" }, ["read", "write", "content", "admin"]) };
    },
    hold: async (sessionId, runId = "run_0") => {
      await db.sql(
        "update session_heads set lease_holder = $1, lease_epoch = lease_epoch + 1, lease_expires_at = hango_now() + interval '90 seconds' where session_id = $2",
        [runId, sessionId],
      );
    },
  };
};

/** Code, parameter and status of an error: what a caller decides by. */
export const failure = ({ status, json }: Answer) => ({
  status,
  code: json?.error?.code,
  ...(json?.error?.param === undefined ? {} : { param: json.error.param }),
});
