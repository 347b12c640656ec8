/** Each check of the doctor, in health and in every way of sickness that it has words for, against real servers. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../../../src/local/simulator/server.ts";
import { connect } from "../../../../src/store/db.ts";
import { askDatabase, knownMigrations, migrationState } from "../../../../src/store/migrations.ts";
import { noopTracer } from "../../../../src/telemetry/tracer.ts";
import { filesCheck, queueCheck } from "../../../../src/turns/doctor/bindings.ts";
import { type Check, CheckFailed, CheckSkipped, runCheck, runChecks } from "../../../../src/turns/doctor/check.ts";
import { databaseChecks } from "../../../../src/turns/doctor/database.ts";
import { type ProviderSettings, providerChecks } from "../../../../src/turns/doctor/provider.ts";
import { telemetryCheck } from "../../../../src/turns/doctor/telemetry.ts";
import { type TestDatabase, testDatabase } from "../../../support/database.ts";
import { type Receiver, startReceiver } from "../../../support/receiver.ts";

const TIMEOUT_MS = 5_000;

let database: TestDatabase;
let simulator: Simulator;
const receivers: Receiver[] = [];

beforeAll(async () => {
  [database, simulator] = await Promise.all([testDatabase({ kind: "postgres" }), startSimulator()]);
});
afterAll(async () => {
  await Promise.all([database.close(), simulator.close()]);
});
afterEach(() => {
  for (const receiver of receivers.splice(0)) receiver.close();
});

/** A server that answers everything like this. */
const server = async (
  answer: (response: ServerResponse, request: IncomingMessage, body: string) => void,
): Promise<string> => {
  const receiver = await startReceiver((request, body, response) => answer(response, request, body));
  receivers.push(receiver);
  return receiver.url;
};

const status = (code: number, body: unknown = {}) =>
  server((response) => void response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body)));

const hostOf = (url: string): string => new URL(url).host;

describe("a check", () => {
  const check = (look: Check["look"], timeoutMs = TIMEOUT_MS): Check => ({ name: "queue", timeoutMs, look });

  it("says what it found, why it failed, or why there was nothing to look at", async () => {
    expect(
      await runChecks([
        check(async () => "fine"),
        check(() => Promise.reject(new CheckFailed("broken: mend it"))),
        check(() => Promise.reject(new CheckSkipped("not set"))),
      ]),
    ).toEqual([
      { name: "queue", status: "ok", detail: "fine" },
      { name: "queue", status: "failed", detail: "broken: mend it" },
      { name: "queue", status: "skipped", detail: "not set" },
    ]);
  });

  it("shows nothing of an unexpected error but its name", async () => {
    expect(await runCheck(check(() => Promise.reject(new RangeError("postgres://user:secret@host"))))).toEqual({
      name: "queue",
      status: "failed",
      detail: "an unexpected error: RangeError",
    });
  });

  it("ends at its time-out, whatever it waits for", async () => {
    expect(await runCheck(check(() => new Promise(() => undefined), 20))).toEqual({
      name: "queue",
      status: "failed",
      detail: "no answer within 0.02 s",
    });
  });
});

const withDatabase = (of: TestDatabase, known = knownMigrations, fetchEndpoint = of.url) => {
  const db = connect({ databaseUrl: of.connectionString, fetchEndpoint, timeoutMs: TIMEOUT_MS }, noopTracer);
  let ms = 0;
  return runChecks(
    databaseChecks({
      ask: (statement) => askDatabase(db, statement),
      now: () => (ms += 3),
      known,
      timeoutMs: TIMEOUT_MS,
    }),
  );
};

describe("database and migrations", () => {
  it("of a database that is as it should be", async () => {
    expect(await withDatabase(database)).toEqual([
      { name: "database", status: "ok", detail: expect.stringMatching(/^PostgreSQL \d+(\.\d+)?, answers in 3 ms$/) },
      {
        name: "migrations",
        status: "ok",
        detail: `all ${knownMigrations.length} applied, the newest is ${knownMigrations.at(-1)?.tag}`,
      },
    ]);
  });

  it("name what is not applied, and how to", async () => {
    const more = [...knownMigrations, { tag: "9999_later", when: 9_999_999_999_999 }];
    expect((await withDatabase(database, more))[1]).toEqual({
      name: "migrations",
      status: "failed",
      detail: `1 of ${more.length} not applied (9999_later): run npm run deploy`,
    });
  });

  it("of an empty database: all are missing", async () => {
    const empty = await testDatabase({ kind: "postgres", empty: true });
    try {
      const [server, migrations] = await withDatabase(empty);
      expect(server?.status).toBe("ok");
      expect(migrations?.detail).toMatch(/^\d+ of \d+ not applied \(0000_clock to \w+\): run npm run deploy$/);
    } finally {
      await empty.close();
    }
  });

  it("say that a newer version has migrated the database", async () => {
    const [, migrations] = await withDatabase(database, knownMigrations.slice(0, -2));
    expect(migrations?.detail).toBe(
      "the database has 2 that this version does not know: it was migrated by a newer one, deploy that",
    );
  });

  it("of a database that does not answer hold neither its address nor its password", async () => {
    const [server, migrations] = await withDatabase(database, knownMigrations, "http://127.0.0.1:9/sql");
    expect(server?.detail).toMatch(/^(it could not be reached|the database could not be reached)/);
    expect(migrations).toEqual({
      name: "migrations",
      status: "failed",
      detail: "not known while the database does not answer",
    });
    expect(JSON.stringify([server, migrations])).not.toContain("postgres:");
  });

  it("are told apart by when they were generated", () => {
    const known = [
      { tag: "a", when: 1 },
      { tag: "b", when: 2 },
      { tag: "c", when: 3 },
    ];
    expect(migrationState(known, [1, 2, 3])).toEqual({ pending: [], unknown: 0 });
    expect(migrationState(known, [1, 7])).toEqual({ pending: ["b", "c"], unknown: 1 });
  });
});

const settings = (change: Partial<ProviderSettings> = {}): ProviderSettings => ({
  anthropic: { apiKey: "simulator", baseUrl: simulator.url },
  openai: undefined,
  defaultModel: "claude-sonnet-5-5",
  modelProfiles: new Map(),
  context: { summarizerModel: undefined },
  ...change,
});

const providers = async (change: Partial<ProviderSettings> = {}) => {
  const [provider, chat] = await runChecks(providerChecks({ config: settings(change), fetch, timeoutMs: TIMEOUT_MS }));
  return { provider, chat };
};

describe("the providers", () => {
  it("accept the key and know the models", async () => {
    const { provider, chat } = await providers({ context: { summarizerModel: "claude-haiku-4-5" } });
    expect(provider).toEqual({
      name: "provider",
      status: "ok",
      detail: `${hostOf(simulator.url)} accepts ANTHROPIC_API_KEY; it knows claude-sonnet-5-5 and claude-haiku-4-5`,
    });
    expect(chat).toMatchObject({ status: "skipped", detail: "no HANGO_OPENAI_BASE_URL or OPENAI_API_KEY is set" });
  });

  it.each([
    [
      401,
      { error: { type: "authentication_error" } },
      "401 authentication_error: set ANTHROPIC_API_KEY to a valid key",
    ],
    [403, {}, "403: the key in ANTHROPIC_API_KEY may not do this"],
    [429, {}, "429: its rate limit is reached, or there is no credit"],
    [500, { error: { type: "words with a <secret>" } }, "500: it has a problem of its own; try again"],
    [302, {}, "302: see ANTHROPIC_API_KEY and the address"],
  ])("that answer %i are named with what helps", async (code, body, words) => {
    const baseUrl = await status(code, body);
    const { provider } = await providers({ anthropic: { apiKey: "sk-secret", baseUrl } });
    expect(provider).toEqual({ name: "provider", status: "failed", detail: `${hostOf(baseUrl)} answered ${words}` });
  });

  it("that describe no models are skipped, where they are not Anthropic", async () => {
    const baseUrl = await status(404);
    const { provider } = await providers({ anthropic: { apiKey: "k", baseUrl } });
    expect(provider).toMatchObject({ status: "skipped", detail: expect.stringContaining("a turn will tell") });
  });

  it("that nobody answers for are told by their host alone", async () => {
    const { provider } = await providers({
      anthropic: { apiKey: "sk-secret", baseUrl: "http://user:pw@127.0.0.1:9/x" },
    });
    expect(provider?.status).toBe("failed");
    expect(JSON.stringify(provider)).not.toMatch(/sk-secret|pw/);
  });

  it("of chat completions list their models; a missing one, a wrong base and a refused key are named", async () => {
    const openai = (baseUrl: string) => ({ openai: { apiKey: "k", baseUrl }, defaultModel: "openai/here" });
    const list = await status(200, { data: [{ id: "here" }, { id: "there" }] });
    expect((await providers(openai(list))).chat).toMatchObject({
      status: "ok",
      detail: `${hostOf(list)} answers and lists 2 models`,
    });
    const missing = { ...openai(list), defaultModel: "openai/nowhere" };
    expect((await providers(missing)).chat).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("does not list openai/nowhere"),
    });
    const lost = await status(404);
    expect((await providers(openai(lost))).chat?.detail).toContain("mostly with /v1");
    const closed = await status(401);
    expect((await providers(openai(closed))).chat?.detail).toContain("set OPENAI_API_KEY to a valid key");
  });
});

describe("the collector", () => {
  const checked = (endpoint: string | undefined) =>
    runCheck(telemetryCheck({ settings: { endpoint, headers: { "x-team": "a" }, serviceName: "hango" }, fetch }));

  it("is sent an export of nothing, with the headers that are configured", async () => {
    const got: unknown[] = [];
    const endpoint = await server((response, request, body) => {
      got.push([request.url, request.headers["x-team"], body]);
      response.end("{}");
    });
    expect(await checked(`${endpoint}/`)).toMatchObject({
      status: "ok",
      detail: `${hostOf(endpoint)} takes spans and metrics`,
    });
    expect(got.toSorted()).toEqual([
      ["/v1/metrics", "a", '{"resourceMetrics":[]}'],
      ["/v1/traces", "a", '{"resourceSpans":[]}'],
    ]);
  });

  it.each([
    [401, "see OTEL_EXPORTER_OTLP_HEADERS"],
    [404, "OTEL_EXPORTER_OTLP_ENDPOINT has to be the base address"],
    [503, "see the collector"],
  ])("that answers %i: %s", async (code, words) => {
    expect(await checked(await status(code))).toMatchObject({
      status: "failed",
      detail: expect.stringContaining(words),
    });
  });

  it("is skipped where there is none", async () => {
    expect(await checked(undefined)).toMatchObject({ status: "skipped" });
  });
});

describe("the bindings", () => {
  const files = (bucket: object) =>
    runCheck(filesCheck({ bucket: bucket as R2Bucket, id: "look_1", timeoutMs: TIMEOUT_MS }));

  it("a bucket is written to, read from and left as it was", async () => {
    const objects = new Map<string, string>();
    const keys: string[] = [];
    const bucket = {
      put: async (key: string, value: string) => {
        keys.push(key);
        objects.set(key, value);
      },
      get: async (key: string) => ({ text: async () => objects.get(key) }),
      delete: async (key: string) => void objects.delete(key),
    };
    expect(await files(bucket)).toMatchObject({ name: "files", status: "ok" });
    expect([keys, objects.size]).toEqual([["doctor/look_1"], 0]);
    expect(await files({ ...bucket, get: async () => ({ text: async () => "another" }) })).toMatchObject({
      status: "failed",
      detail: "R2 gave back something else than was written",
    });
    expect(
      await files({ ...bucket, put: () => Promise.reject(new Error("put: no such bucket (10006)")) }),
    ).toMatchObject({
      status: "failed",
      detail: "R2 did not write an object: put: no such bucket (10006); see the binding FILES in wrangler.toml",
    });
  });

  it("a queue is sent a message that asks for nothing", async () => {
    const sent: unknown[] = [];
    const ok = { send: async (message: unknown) => void sent.push(message) };
    expect(await runCheck(queueCheck({ queue: ok, timeoutMs: TIMEOUT_MS }))).toMatchObject({ status: "ok" });
    expect(sent).toEqual([{ v: 1, type: "ping" }]);
    const full = { send: () => Promise.reject(new Error("Queue is overloaded")) };
    expect(await runCheck(queueCheck({ queue: full, timeoutMs: TIMEOUT_MS }))).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("the queue took no message: Queue is overloaded"),
    });
  });
});
