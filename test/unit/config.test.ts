import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { ConfigError, parseConfig } from "../../src/config.ts";
import { renderConfiguration } from "../../src/local/docs-config.ts";
import { parseSettings, workerEnvironment } from "../../src/local/settings.ts";
import { parseModelProfiles } from "../../src/protocol/model-profiles.ts";

const method = () => undefined;
const files = { get: method, put: method, list: method, delete: method, head: method };
const queue = { send: method };
const SECRET = "sk-a-secret-that-must-not-show";

const minimal = {
  DATABASE_URL: "postgres://hango:pw@db.example.test/hango",
  ANTHROPIC_API_KEY: "sk-test",
  HANGO_ADMIN_KEY: "0123456789abcdef01234567",
  FILES: files,
  QUEUE: queue,
};

const problemsOf = (env: unknown): readonly string[] => {
  try {
    parseConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
};

describe("the configuration", () => {
  test("has a default for everything that is not required", () => {
    expect(parseConfig(minimal)).toEqual({
      databaseUrl: "postgres://hango:pw@db.example.test/hango",
      databaseTimeoutMs: 10_000,
      databaseFetchEndpoint: undefined,
      anthropic: { apiKey: "sk-test", baseUrl: "https://api.anthropic.com" },
      providerMaxRetries: 2,
      openai: undefined,
      adminKey: "0123456789abcdef01234567",
      previousAdminKey: undefined,
      defaultModel: "claude-sonnet-5-5",
      modelProfiles: new Map(),
      context: {
        summarizerModel: undefined,
        triggerFrac: 0.85,
        keepFrac: 0.1,
        toolArgMaxTokens: 500,
        microCompaction: { on: false, everyNTurns: 1, defragTokens: 2_000 },
      },
      maxOutputTokens: 16_384,
      maxSteps: 50,
      toolTimeoutMs: 60_000,
      turnTimeoutMs: 600_000,
      detachGraceMs: 15_000,
      callerWaitSeconds: 86_400,
      subagentMaxDepth: 1,
      requestMaxBytes: 8 * 1024 * 1024,
      retentionDays: undefined,
      eventRetentionDays: 30,
      allowPrivateUrls: false,
      captureContent: false,
      logLevel: "info",
      sseHeartbeatMs: 15_000,
      telemetry: { endpoint: undefined, headers: {}, serviceName: "hango" },
      files,
      queue,
      rateLimiter: undefined,
    });
  });

  test("takes every variable, as text or as wrangler.toml types it", () => {
    const limiter = { limit: method };
    const config = parseConfig({
      ...minimal,
      ANTHROPIC_BASE_URL: "http://127.0.0.1:9000",
      HANGO_OPENAI_BASE_URL: "http://127.0.0.1:8000/v1",
      OPENAI_API_KEY: "sk-openai",
      HANGO_DEFAULT_MODEL: "m",
      HANGO_MAX_TOKENS: 100,
      HANGO_MAX_STEPS: "100",
      HANGO_TOOL_TIMEOUT_MS: "10",
      HANGO_TURN_TIMEOUT_MS: "720000",
      HANGO_DETACH_GRACE_MS: "0",
      HANGO_CALLER_WAIT_SECONDS: 604800,
      HANGO_SUBAGENT_MAX_DEPTH: "3",
      HANGO_RETENTION_DAYS: "90",
      HANGO_EVENT_RETENTION_DAYS: 7,
      HANGO_PROVIDER_MAX_RETRIES: "0",
      HANGO_MODEL_PROFILES: { m: { max_input_tokens: 5, max_output_tokens: 2 } },
      HANGO_SUMMARIZER_MODEL: "cheap",
      HANGO_CONTEXT_TRIGGER_FRAC: 0.5,
      HANGO_CONTEXT_KEEP_FRAC: ".2",
      HANGO_TOOL_ARG_MAX_TOKENS: 200,
      HANGO_MICRO_COMPACTION: true,
      HANGO_MICRO_COMPACTION_EVERY_N_TURNS: 5,
      HANGO_MICRO_COMPACTION_DEFRAG_TOKENS: "3000",
      HANGO_REQUEST_MAX_BYTES: "32000000",
      HANGO_ALLOW_PRIVATE_URLS: true,
      HANGO_CAPTURE_CONTENT: "1",
      HANGO_ADMIN_KEY_PREVIOUS: "76543210fedcba9876543210",
      HANGO_DB_TIMEOUT_MS: "500",
      HANGO_DB_FETCH_ENDPOINT: "http://127.0.0.1:5433/sql",
      HANGO_LOG_LEVEL: "debug",
      HANGO_SSE_HEARTBEAT_MS: "100",
      OTEL_EXPORTER_OTLP_ENDPOINT: "https://otel.example.test",
      OTEL_EXPORTER_OTLP_HEADERS: "Authorization=Basic%20abc, x-team = a=b",
      OTEL_SERVICE_NAME: "hango-eu",
      RATE_LIMITER: limiter,
    });
    expect(config).toEqual({
      databaseUrl: minimal.DATABASE_URL,
      databaseTimeoutMs: 500,
      databaseFetchEndpoint: "http://127.0.0.1:5433/sql",
      anthropic: { apiKey: "sk-test", baseUrl: "http://127.0.0.1:9000" },
      providerMaxRetries: 0,
      openai: { apiKey: "sk-openai", baseUrl: "http://127.0.0.1:8000/v1" },
      adminKey: minimal.HANGO_ADMIN_KEY,
      previousAdminKey: "76543210fedcba9876543210",
      defaultModel: "m",
      modelProfiles: new Map([["m", { maxInputTokens: 5, maxOutputTokens: 2 }]]),
      context: {
        summarizerModel: "cheap",
        triggerFrac: 0.5,
        keepFrac: 0.2,
        toolArgMaxTokens: 200,
        microCompaction: { on: true, everyNTurns: 5, defragTokens: 3_000 },
      },
      maxOutputTokens: 100,
      maxSteps: 100,
      toolTimeoutMs: 10,
      turnTimeoutMs: 720_000,
      detachGraceMs: 0,
      callerWaitSeconds: 604_800,
      subagentMaxDepth: 3,
      requestMaxBytes: 32_000_000,
      retentionDays: 90,
      eventRetentionDays: 7,
      allowPrivateUrls: true,
      captureContent: true,
      logLevel: "debug",
      sseHeartbeatMs: 100,
      telemetry: {
        endpoint: "https://otel.example.test",
        headers: { authorization: "Basic abc", "x-team": "a=b" },
        serviceName: "hango-eu",
      },
      files,
      queue,
      rateLimiter: limiter,
    });
  });

  test.each([
    [{ HANGO_MAX_STEPS: "0" }, 'HANGO_MAX_STEPS: got "0"; allowed: a whole number from 1 to 100; default 50'],
    [{ HANGO_MAX_STEPS: "101" }, 'HANGO_MAX_STEPS: got "101"; allowed: a whole number from 1 to 100; default 50'],
    [{ HANGO_MAX_STEPS: "5.0" }, 'HANGO_MAX_STEPS: got "5.0"; allowed: a whole number from 1 to 100; default 50'],
    [{ HANGO_MAX_STEPS: " 5" }, 'HANGO_MAX_STEPS: got " 5"; allowed: a whole number from 1 to 100; default 50'],
    [
      { HANGO_MAX_TOKENS: "many" },
      'HANGO_MAX_TOKENS: got "many"; allowed: a whole number from 1 to 1000000; default 16384',
    ],
    ...["0", "0.0", "1", "1.0", "-0.5", "85%", "1e-1", true, false, 0, 1, 1.5].map((wrong): [object, string] => [
      { HANGO_CONTEXT_TRIGGER_FRAC: wrong },
      `HANGO_CONTEXT_TRIGGER_FRAC: got "${wrong}"; allowed: a fraction between 0 and 1, both excluded; default 0.85`,
    ]),
    [
      { HANGO_CONTEXT_KEEP_FRAC: true },
      'HANGO_CONTEXT_KEEP_FRAC: got "true"; allowed: a fraction between 0 and 1, both excluded; default 0.10',
    ],
    ...["15", "0.5", true, 500.5].map((wrong): [object, string] => [
      { HANGO_TOOL_ARG_MAX_TOKENS: wrong },
      `HANGO_TOOL_ARG_MAX_TOKENS: got "${wrong}"; allowed: a whole number from 16 to 1000000; default 500`,
    ]),
    [{ HANGO_SUMMARIZER_MODEL: "a b" }, 'HANGO_SUMMARIZER_MODEL: got "a b"; allowed: a model name without white space'],
    [
      { HANGO_TOOL_TIMEOUT_MS: "-1" },
      'HANGO_TOOL_TIMEOUT_MS: got "-1"; allowed: a whole number from 10 to 600000; default 60000',
    ],
    [
      { HANGO_TURN_TIMEOUT_MS: "1e6" },
      'HANGO_TURN_TIMEOUT_MS: got "1e6"; allowed: a whole number from 100 to 720000; default 600000',
    ],
    [
      { HANGO_PROVIDER_MAX_RETRIES: "11" },
      'HANGO_PROVIDER_MAX_RETRIES: got "11"; allowed: a whole number from 0 to 10; default 2',
    ],
    [
      { HANGO_REQUEST_MAX_BYTES: "32000001" },
      'HANGO_REQUEST_MAX_BYTES: got "32000001"; allowed: a whole number from 65536 to 32000000; default 8388608',
    ],
    [
      { HANGO_DB_TIMEOUT_MS: "10s" },
      'HANGO_DB_TIMEOUT_MS: got "10s"; allowed: a whole number from 100 to 60000; default 10000',
    ],
    [
      { HANGO_SSE_HEARTBEAT_MS: "99" },
      'HANGO_SSE_HEARTBEAT_MS: got "99"; allowed: a whole number from 100 to 60000; default 15000',
    ],
    [
      { HANGO_ALLOW_PRIVATE_URLS: "yes" },
      'HANGO_ALLOW_PRIVATE_URLS: got "yes"; allowed: true, false, 1 or 0; default false',
    ],
    [
      { HANGO_CAPTURE_CONTENT: "TRUE" },
      'HANGO_CAPTURE_CONTENT: got "TRUE"; allowed: true, false, 1 or 0; default false',
    ],
    [
      { HANGO_LOG_LEVEL: "verbose" },
      'HANGO_LOG_LEVEL: got "verbose"; allowed: one of debug, info, warn, error; default info',
    ],
    [
      { HANGO_DEFAULT_MODEL: "a b" },
      'HANGO_DEFAULT_MODEL: got "a b"; allowed: a model name without white space; default claude-sonnet-5-5',
    ],
    [
      { ANTHROPIC_BASE_URL: "api.anthropic.com" },
      'ANTHROPIC_BASE_URL: got "api.anthropic.com"; allowed: an http:// or https:// URL; default https://api.anthropic.com',
    ],
    [
      { HANGO_DB_FETCH_ENDPOINT: "ftp://x" },
      'HANGO_DB_FETCH_ENDPOINT: got "ftp://x"; allowed: an http:// or https:// URL',
    ],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: "collector" },
      'OTEL_EXPORTER_OTLP_ENDPOINT: got "collector"; allowed: an http:// or https:// URL',
    ],
    [
      { OTEL_EXPORTER_OTLP_HEADERS: SECRET },
      "OTEL_EXPORTER_OTLP_HEADERS: got (hidden); allowed: name=value pairs separated by commas, values percent-encoded",
    ],
    [{ OTEL_SERVICE_NAME: "a b" }, 'OTEL_SERVICE_NAME: got "a b"; allowed: a name without white space; default hango'],
    [
      { DATABASE_URL: `mysql://u:${SECRET}@h/d` },
      "DATABASE_URL: got (hidden); allowed: a postgres:// URL with a host and a database",
    ],
    [
      { DATABASE_URL: `postgres://u:${SECRET}@h` },
      "DATABASE_URL: got (hidden); allowed: a postgres:// URL with a host and a database",
    ],
    [{ DATABASE_URL: undefined }, "DATABASE_URL: not set; required: a postgres:// URL with a host and a database"],
    [{ ANTHROPIC_API_KEY: `${SECRET} ` }, "ANTHROPIC_API_KEY: got (hidden); allowed: a key without white space"],
    [{ ANTHROPIC_API_KEY: "" }, "ANTHROPIC_API_KEY: not set; required: a key without white space"],
    [
      { HANGO_ADMIN_KEY: "sk-short" },
      "HANGO_ADMIN_KEY: got (hidden); allowed: at least 24 characters without white space",
    ],
    [{ FILES: undefined }, "FILES: not bound; required: an R2 bucket"],
    [{ FILES: { get: method } }, "FILES: got a object that is none; required: an R2 bucket"],
    [{ QUEUE: "hango-work" }, "QUEUE: got a string that is none; required: a Queue"],
    [{ RATE_LIMITER: {} }, "RATE_LIMITER: got a object that is none; required: a rate limit"],
    [{ HANGO_MAX_STPES: "5" }, "HANGO_MAX_STPES: unknown; the closest known variable is HANGO_MAX_STEPS"],
    [
      { HANGO_DATABASE_TIMEOUT_MS: "5" },
      "HANGO_DATABASE_TIMEOUT_MS: unknown; the closest known variable is HANGO_DB_TIMEOUT_MS",
    ],
  ])("names the variable, what was given and what is allowed: %j", (wrong, problem) => {
    expect(problemsOf({ ...minimal, ...wrong })).toEqual([problem]);
  });

  test.each([
    "{",
    "[]",
    "null",
    '{"m": 5}',
    '{"m": {}}',
    '{"m": {"max_input_tokens": 0}}',
    '{"m": {"max_input_tokens": 1.5}}',
    '{"m": {"max_input_tokens": "5"}}',
    '{"m": {"max_input_tokens": 5, "max_output_tokens": -1}}',
    '{"m": {"max_input_tokens": 5, "window": 5}}',
    '{"m": {"provider": "vllm"}}',
    '{"m": {"strict_alternation": "yes"}}',
    '{"m": {"prices": {"input": 1}}}',
    '{"m": {"prices": {"input": -1, "output": 1}}}',
  ])("does not take %s as model profiles", (json) => {
    expect(parseModelProfiles(json)).toBeUndefined();
    expect(problemsOf({ ...minimal, HANGO_MODEL_PROFILES: json })).toEqual([
      `HANGO_MODEL_PROFILES: got ${JSON.stringify(json)}; allowed: JSON like {"model": {"max_input_tokens": 200000, "max_output_tokens": 64000, "provider": "openai", "strict_alternation": true, "prices": {"input": 1, "output": 4}}}, limits positive whole numbers, at least one member`,
    ]);
  });

  test("takes what it is told of a model's provider, template and prices", () => {
    expect(
      parseModelProfiles(
        '{"devstral": {"provider": "openai", "strict_alternation": true, "prices": {"input": 0.1, "output": 0.3}}, "claude": {"prices": {"input": 1, "output": 2, "cache_read": 0, "cache_write": 3}}}',
      ),
    ).toEqual(
      new Map([
        [
          "devstral",
          {
            provider: "openai",
            strictAlternation: true,
            prices: { input: 0.1, output: 0.3, cacheRead: 0.1, cacheWrite: 0.1 },
          },
        ],
        ["claude", { prices: { input: 1, output: 2, cacheRead: 0, cacheWrite: 3 } }],
      ]),
    );
  });

  test("is OpenAI itself where only its key is set, and a server without a key where only its address is", () => {
    expect(parseConfig({ ...minimal, OPENAI_API_KEY: "sk-openai" }).openai).toEqual({
      apiKey: "sk-openai",
      baseUrl: "https://api.openai.com/v1",
    });
    expect(parseConfig({ ...minimal, HANGO_OPENAI_BASE_URL: "http://gpu.lan:8080/v1" }).openai).toEqual({
      apiKey: undefined,
      baseUrl: "http://gpu.lan:8080/v1",
    });
  });

  test.each([
    ["HANGO_DEFAULT_MODEL", "openai/qwen", "openai/qwen"],
    ["HANGO_SUMMARIZER_MODEL", "openai/qwen", "openai/qwen"],
    ["HANGO_MODEL_PROFILES", '{"devstral": {"provider": "openai"}}', "devstral"],
  ])("%s may not name a model that nobody serves", (name, value, model) => {
    expect(problemsOf({ ...minimal, [name]: value })).toEqual([
      `${name}: ${JSON.stringify(model)} is served over chat completions; set HANGO_OPENAI_BASE_URL, or OPENAI_API_KEY for OpenAI itself`,
    ]);
    expect(problemsOf({ ...minimal, [name]: value, OPENAI_API_KEY: "sk-openai" })).toEqual([]);
  });

  test("takes model profiles of any name, also one that an object would answer to", () => {
    expect(parseModelProfiles('{"constructor": {"max_input_tokens": 5}}')).toEqual(
      new Map([["constructor", { maxInputTokens: 5 }]]),
    );
  });

  test("lists every problem at once, and no secret", () => {
    expect(() =>
      parseConfig({
        ...minimal,
        HANGO_ADMIN_KEY: "sk-short",
        HANGO_MAX_STEPS: "x",
        QUEUE: undefined,
        HANGO_LOGLEVEL: "1",
      }),
    ).toThrow(
      new ConfigError([
        "HANGO_ADMIN_KEY: got (hidden); allowed: at least 24 characters without white space",
        'HANGO_MAX_STEPS: got "x"; allowed: a whole number from 1 to 100; default 50',
        "QUEUE: not bound; required: a Queue",
        "HANGO_LOGLEVEL: unknown; the closest known variable is HANGO_LOG_LEVEL",
      ]),
    );
  });

  test("cuts a long value short when it quotes it", () => {
    expect(problemsOf({ ...minimal, HANGO_LOG_LEVEL: "x".repeat(500) })).toEqual([
      `HANGO_LOG_LEVEL: got "${"x".repeat(80)}..."; allowed: one of debug, info, warn, error; default info`,
    ]);
  });

  test("is an error for what is no environment at all", () => {
    expect(problemsOf(undefined)).toHaveLength(5);
  });
});

describe("the runner's settings", () => {
  test("have defaults", () => {
    expect(parseSettings({})).toEqual({ port: 8787, dataDir: ".hango" });
  });

  test("report wrong values and unknown variables, and let the Worker's pass", () => {
    expect(() => parseSettings({ PORT: "http", HANGO_DATADIR: "x", HANGO_MAX_STEPS: "5" })).toThrow(
      new ConfigError([
        'PORT: got "http"; allowed: a whole number from 0 to 65535; default 8787',
        "HANGO_DATADIR: unknown; the closest known variable is HANGO_DATA_DIR",
      ]),
    );
  });

  test("hand the Worker its own variables and nothing else of the environment", () => {
    expect(
      workerEnvironment({ HANGO_MAX_STEPS: "5", PATH: "/bin", FILES: "x", HANGO_DATA_DIR: "d", OTEL_SERVICE_NAME: "" }),
    ).toEqual({
      HANGO_MAX_STEPS: "5",
    });
  });
});

test("docs/configuration.md is what the schema says", async () => {
  expect(await readFile("docs/configuration.md", "utf8")).toBe(renderConfiguration());
});
