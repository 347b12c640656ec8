/**
 * Every variable and binding of the Worker: read once, checked, defaulted and described here. `docs/configuration.md` is
 * generated from these descriptions, so they are written for whoever deploys hango.
 */
import { z } from "zod";
import {
  DEFAULT_DEFRAG_TOKENS,
  DEFAULT_EVERY_N_TURNS,
  MAX_DEFRAG_TOKENS,
  MAX_MICRO_TURNS,
  MIN_DEFRAG_TOKENS,
} from "./protocol/micro-limits.ts";
import { providerOf } from "./protocol/model-name.ts";
import { type ModelLimits, type ModelProfiles, parseModelProfiles } from "./protocol/model-profiles.ts";
import { problemOf, readers, unknownVariables, type VariableMeta, variable } from "./protocol/variables.ts";

const { text, wholeNumber, fraction, truth, oneOf, url, headerList } = readers;

/** 32 MB, the Messages API's own limit for a request (V10). */
const REQUEST_HARD_LIMIT_BYTES = 32_000_000;

/** A binding is an object with the methods that hango calls; what it is beyond that, only the platform knows. */
const binding = <T>(meta: Omit<VariableMeta, "kind">, methods: readonly string[], required: boolean) =>
  z
    .unknown()
    .transform((given, context): T => {
      if (given === undefined && !required) return undefined as T;
      if (
        typeof given === "object" &&
        given !== null &&
        methods.every((name) => typeof Reflect.get(given, name) === "function")
      )
        return given as T;
      const what = given === undefined ? "not bound" : `got a ${given === null ? "null" : typeof given} that is none`;
      context.addIssue({ code: "custom", message: `${what}; required: ${meta.allowed}` });
      return z.NEVER;
    })
    .meta({ ...meta, kind: "binding", required });

/** The schema. Its order is the order of `docs/configuration.md`. */
export const variables = {
  DATABASE_URL: variable.required(
    {
      description:
        "The Postgres database. With Neon, the pooled host (`-pooler`): the Worker speaks Neon's SQL over HTTP.",
      allowed: "a postgres:// URL with a host and a database",
      secret: true,
    },
    (given) => {
      const parsed = url(["postgres:", "postgresql:"])(given);
      return parsed !== undefined && new URL(parsed).pathname.length > 1 ? parsed : undefined;
    },
  ),
  ANTHROPIC_API_KEY: variable.required(
    { description: "Key for the Messages API.", allowed: "a key without white space", secret: true },
    text(/^\S+$/),
  ),
  ANTHROPIC_BASE_URL: variable.defaulted(
    {
      description: "Where the Messages API is spoken: Anthropic, a gateway, or any server that speaks it.",
      allowed: "an http:// or https:// URL",
      default: "https://api.anthropic.com",
    },
    url(["https:", "http:"]),
  ),
  HANGO_OPENAI_BASE_URL: variable.optional(
    {
      description:
        "Where chat completions are spoken: a vLLM, llama.cpp or Ollama server, a gateway, with `/v1` as the server has it. Without it, OpenAI itself where `OPENAI_API_KEY` is set. See docs/providers.md.",
      allowed: "an http:// or https:// URL",
    },
    url(["https:", "http:"]),
  ),
  OPENAI_API_KEY: variable.optional(
    {
      description: "Key for chat completions. Without it none is sent, which is for servers that want none.",
      allowed: "a key without white space",
      secret: true,
    },
    text(/^\S+$/),
  ),
  HANGO_ADMIN_KEY: variable.required(
    {
      description:
        "The first key: makes tenants and keys. Sent as a bearer token like any other, compared in constant time.",
      allowed: "at least 24 characters without white space",
      secret: true,
    },
    text(/^\S{24,}$/),
  ),
  HANGO_ADMIN_KEY_PREVIOUS: variable.optional(
    {
      description:
        "The operator's key before, while it is changed: it is taken like the new one, and callbacks are signed with the secrets of both. See docs/operations.md.",
      allowed: "at least 24 characters without white space",
      secret: true,
    },
    text(/^\S{24,}$/),
  ),
  HANGO_DEFAULT_MODEL: variable.defaulted(
    {
      description: "Model of a session that names none.",
      allowed: "a model name without white space",
      default: "claude-sonnet-5-5",
    },
    text(/^\S+$/),
  ),
  HANGO_MAX_TOKENS: variable.defaulted(
    {
      description: "Longest output of one model call, in tokens.",
      ...wholeNumber.words(1, 1_000_000),
      default: "16384",
    },
    wholeNumber(1, 1_000_000),
  ),
  HANGO_MAX_STEPS: variable.defaulted(
    {
      description: "Most model calls of one turn, where the session or the turn sets no lower limit.",
      ...wholeNumber.words(1, 100),
      default: "50",
    },
    wholeNumber(1, 100),
  ),
  HANGO_TOOL_TIMEOUT_MS: variable.defaulted(
    {
      description: "Longest run of one tool call, in ms, where the tool has no limit of its own.",
      ...wholeNumber.words(10, 600_000),
      default: "60000",
    },
    wholeNumber(10, 600_000),
  ),
  HANGO_TURN_TIMEOUT_MS: variable.defaulted(
    {
      description: "Longest run of one turn, in ms. Ends at 12 minutes, because a queue consumer is stopped at 15.",
      ...wholeNumber.words(100, 720_000),
      default: "600000",
    },
    wholeNumber(100, 720_000),
  ),
  HANGO_DETACH_GRACE_MS: variable.defaulted(
    {
      description:
        "How long a turn goes on in its own request once nobody waits for it there, in ms; then the queue goes on with it. Ends well inside the 30 s that the platform leaves it.",
      ...wholeNumber.words(0, 18_000),
      default: "15000",
    },
    wholeNumber(0, 18_000),
  ),
  HANGO_CALLER_WAIT_SECONDS: variable.defaulted(
    {
      description: "How long a run waits for the results of tools that its caller runs, in s; then it fails.",
      ...wholeNumber.words(1, 604_800),
      default: "86400",
    },
    wholeNumber(1, 604_800),
  ),
  HANGO_SUBAGENT_MAX_DEPTH: variable.defaulted(
    {
      description:
        "How deep subagents may be nested: with 1 a session has subagents and they have none; with 0 there are none. Each level multiplies what a turn can cost.",
      ...wholeNumber.words(0, 3),
      default: "1",
    },
    wholeNumber(0, 3),
  ),
  HANGO_PROVIDER_MAX_RETRIES: variable.defaulted(
    {
      description:
        "How often a model call that failed in passing, or whose answer broke off, is made again, within the turn's time.",
      ...wholeNumber.words(0, 10),
      default: "2",
    },
    wholeNumber(0, 10),
  ),
  HANGO_MODEL_PROFILES: variable.optional(
    {
      description:
        "What hango does not know of a model, or your account has otherwise: its limits, who serves it, whether its chat template wants alternating roles, its prices in USD per million tokens. See docs/providers.md.",
      allowed:
        'JSON like {"model": {"max_input_tokens": 200000, "max_output_tokens": 64000, "provider": "openai", "strict_alternation": true, "prices": {"input": 1, "output": 4}}}, limits positive whole numbers, at least one member',
    },
    parseModelProfiles,
  ),
  HANGO_SUMMARIZER_MODEL: variable.optional(
    {
      description: "Model that writes the summaries of compacted sessions; without it, the session's own.",
      allowed: "a model name without white space",
    },
    text(/^\S+$/),
  ),
  HANGO_CONTEXT_TRIGGER_FRAC: variable.defaulted(
    {
      description: "Share of the model's window at which a session is compacted.",
      ...fraction.words,
      default: "0.85",
    },
    fraction,
  ),
  HANGO_CONTEXT_KEEP_FRAC: variable.defaulted(
    {
      description: "Share of the messages that a compaction keeps as they are, the newest ones.",
      ...fraction.words,
      default: "0.10",
    },
    fraction,
  ),
  HANGO_TOOL_ARG_MAX_TOKENS: variable.defaulted(
    {
      description:
        "Longest text in the arguments and results of older tool calls, in tokens, once a session comes near its limit; the middle of longer ones is left out.",
      ...wholeNumber.words(16, 1_000_000),
      default: "500",
    },
    wholeNumber(16, 1_000_000),
  ),
  HANGO_MICRO_COMPACTION: variable.defaulted(
    {
      description:
        "Whether sessions are compacted between turns, one exchange at a time. Each pass rewrites what was sent, so the prompt after it is not read from the provider's cache (docs/micro-compaction.md).",
      ...truth.words,
      default: "false",
    },
    truth,
  ),
  HANGO_MICRO_COMPACTION_EVERY_N_TURNS: variable.defaulted(
    {
      description: "After how many normally finished turns such a pass is made.",
      ...wholeNumber.words(1, MAX_MICRO_TURNS),
      default: String(DEFAULT_EVERY_N_TURNS),
    },
    wholeNumber(1, MAX_MICRO_TURNS),
  ),
  HANGO_MICRO_COMPACTION_DEFRAG_TOKENS: variable.defaulted(
    {
      description: "By how much the summary of such passes may grow before it is written anew, in tokens.",
      ...wholeNumber.words(MIN_DEFRAG_TOKENS, MAX_DEFRAG_TOKENS),
      default: String(DEFAULT_DEFRAG_TOKENS),
    },
    wholeNumber(MIN_DEFRAG_TOKENS, MAX_DEFRAG_TOKENS),
  ),
  HANGO_REQUEST_MAX_BYTES: variable.defaulted(
    {
      description:
        "Largest request that is sent to the provider, in bytes; media beyond it are shown as references (V10).",
      ...wholeNumber.words(65_536, REQUEST_HARD_LIMIT_BYTES),
      default: "8388608",
    },
    wholeNumber(65_536, REQUEST_HARD_LIMIT_BYTES),
  ),
  HANGO_RETENTION_DAYS: variable.optional(
    {
      description:
        "Sessions that were not used for so many days are erased, as `DELETE /v1/sessions/{id}` does it. Without it they stay.",
      ...wholeNumber.words(1, 36_500),
    },
    wholeNumber(1, 36_500),
  ),
  HANGO_EVENT_RETENTION_DAYS: variable.defaulted(
    {
      description:
        "Days after which the stored events of a finished run are removed, and what a finished webhook delivery carried. The messages of a session stay.",
      ...wholeNumber.words(1, 36_500),
      default: "30",
    },
    wholeNumber(1, 36_500),
  ),
  HANGO_ALLOW_PRIVATE_URLS: variable.defaulted(
    {
      description: "Whether callbacks and HTTP tools may reach private and link-local addresses. For development.",
      ...truth.words,
      default: "false",
    },
    truth,
  ),
  HANGO_CAPTURE_CONTENT: variable.defaulted(
    {
      description:
        "Whether prompts, answers, and what tools are called with and return appear in spans. Secrets are taken out, and metrics and logs never hold content. See docs/telemetry.md.",
      ...truth.words,
      default: "false",
    },
    truth,
  ),
  HANGO_DB_TIMEOUT_MS: variable.defaulted(
    {
      description: "Longest wait for one round trip to the database, in ms.",
      ...wholeNumber.words(100, 60_000),
      default: "10000",
    },
    wholeNumber(100, 60_000),
  ),
  HANGO_DB_FETCH_ENDPOINT: variable.optional(
    {
      description:
        "Where SQL over HTTP is answered, when it is not Neon's own address for the host of `DATABASE_URL`. The local platform sets it.",
      allowed: "an http:// or https:// URL",
    },
    url(["https:", "http:"]),
  ),
  HANGO_LOG_LEVEL: variable.defaulted(
    {
      description: "The least severe line that is logged.",
      ...oneOf.words(["debug", "info", "warn", "error"]),
      default: "info",
    },
    oneOf(["debug", "info", "warn", "error"]),
  ),
  HANGO_SSE_HEARTBEAT_MS: variable.defaulted(
    {
      description: "Longest silence on an event stream before a comment is sent, in ms.",
      ...wholeNumber.words(100, 60_000),
      default: "15000",
    },
    wholeNumber(100, 60_000),
  ),
  OTEL_EXPORTER_OTLP_ENDPOINT: variable.optional(
    {
      description: "Base address of an OpenTelemetry collector (OTLP over HTTP). Without it nothing is sent.",
      allowed: "an http:// or https:// URL",
    },
    url(["https:", "http:"]),
  ),
  OTEL_EXPORTER_OTLP_HEADERS: variable.optional(
    {
      description: "Headers for the collector.",
      allowed: "name=value pairs separated by commas, values percent-encoded",
      secret: true,
    },
    headerList,
  ),
  OTEL_SERVICE_NAME: variable.defaulted(
    { description: "Name under which telemetry is reported.", allowed: "a name without white space", default: "hango" },
    text(/^\S+$/),
  ),
  FILES: binding<R2Bucket>(
    { description: "The bucket with session files, media and offloaded history.", allowed: "an R2 bucket" },
    ["get", "put", "list", "delete", "head"],
    true,
  ),
  QUEUE: binding<Queue>({ description: "Work that outlives its request.", allowed: "a Queue" }, ["send"], true),
  RATE_LIMITER: binding<RateLimit | undefined>(
    { description: "Limits requests per key. Without it there is no such limit.", allowed: "a rate limit" },
    ["limit"],
    false,
  ),
};

const schema = z.object(variables);

/** Thrown at start-up. The message lists every problem and never holds a secret. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    const count = problems.length === 1 ? "a problem" : `${problems.length} problems`;
    super(`The configuration has ${count}:\n${problems.map((problem) => `- ${problem}`).join("\n")}`);
    this.problems = problems;
  }
}

/**
 * Checks the variables that are given, for a start-up that has no bindings yet: what is wrong with each, and unknown ones.
 * @param env names and values; a variable that is missing is no problem here
 * @returns a line per problem, without secrets
 */
export const variableProblems = (env: Readonly<Record<string, string | undefined>>): readonly string[] =>
  Object.entries(variables).flatMap(([name, field]) => {
    const value = env[name];
    if (field.meta()?.kind !== "variable" || value === undefined || value === "") return [];
    return (z.object({ [name]: field }).safeParse({ [name]: value }).error?.issues ?? []).map(problemOf);
  });

/** Where OpenAI itself answers. */
const OPENAI_URL = "https://api.openai.com/v1";

/** Models that are named by variables and whose provider has no address. A session is told so when it names one. */
const unservedModels = (v: z.infer<typeof schema>): readonly string[] => {
  if (v.HANGO_OPENAI_BASE_URL !== undefined || v.OPENAI_API_KEY !== undefined) return [];
  const profiles = v.HANGO_MODEL_PROFILES ?? new Map<string, ModelLimits>();
  const named: readonly (readonly [variable: string, model: string | undefined])[] = [
    ["HANGO_DEFAULT_MODEL", v.HANGO_DEFAULT_MODEL],
    ["HANGO_SUMMARIZER_MODEL", v.HANGO_SUMMARIZER_MODEL],
    ...[...profiles.keys()].map((model) => ["HANGO_MODEL_PROFILES", model] as const),
  ];
  return named.flatMap(([name, model]) =>
    model !== undefined && providerOf(model, profiles) === "openai"
      ? [
          `${name}: ${JSON.stringify(model)} is served over chat completions; set HANGO_OPENAI_BASE_URL, or OPENAI_API_KEY for OpenAI itself`,
        ]
      : [],
  );
};

export type Config = ReturnType<typeof parseConfig>;

/**
 * Reads the Worker's environment.
 * @param env what the platform hands to the handlers; unset and empty are the same
 * @throws ConfigError naming every wrong, missing or unknown variable, what was given and what is allowed
 */
export const parseConfig = (env: unknown) => {
  const given = typeof env === "object" && env !== null ? env : {};
  const names = Object.keys(variables);
  const parsed = schema.safeParse(Object.fromEntries(names.map((name) => [name, Reflect.get(given, name)])));
  const problems = [...(parsed.error?.issues.map(problemOf) ?? []), ...unknownVariables(Object.keys(given), names)];
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  const v = parsed.data;
  const unserved = unservedModels(v);
  if (unserved.length > 0) throw new ConfigError(unserved);
  return {
    databaseUrl: v.DATABASE_URL,
    databaseTimeoutMs: v.HANGO_DB_TIMEOUT_MS,
    databaseFetchEndpoint: v.HANGO_DB_FETCH_ENDPOINT,
    anthropic: { apiKey: v.ANTHROPIC_API_KEY, baseUrl: v.ANTHROPIC_BASE_URL },
    /** Undefined where no server speaks chat completions. */
    openai:
      v.HANGO_OPENAI_BASE_URL === undefined && v.OPENAI_API_KEY === undefined
        ? undefined
        : {
            apiKey: v.OPENAI_API_KEY,
            baseUrl: v.HANGO_OPENAI_BASE_URL ?? OPENAI_URL,
          },
    /** Of a model call, whoever serves it. */
    providerMaxRetries: v.HANGO_PROVIDER_MAX_RETRIES,
    adminKey: v.HANGO_ADMIN_KEY,
    /** Undefined but while the operator's key is changed. */
    previousAdminKey: v.HANGO_ADMIN_KEY_PREVIOUS,
    defaultModel: v.HANGO_DEFAULT_MODEL,
    modelProfiles: v.HANGO_MODEL_PROFILES ?? (new Map() as ModelProfiles),
    context: {
      summarizerModel: v.HANGO_SUMMARIZER_MODEL,
      triggerFrac: v.HANGO_CONTEXT_TRIGGER_FRAC,
      keepFrac: v.HANGO_CONTEXT_KEEP_FRAC,
      toolArgMaxTokens: v.HANGO_TOOL_ARG_MAX_TOKENS,
      microCompaction: {
        on: v.HANGO_MICRO_COMPACTION,
        everyNTurns: v.HANGO_MICRO_COMPACTION_EVERY_N_TURNS,
        defragTokens: v.HANGO_MICRO_COMPACTION_DEFRAG_TOKENS,
      },
    },
    maxOutputTokens: v.HANGO_MAX_TOKENS,
    maxSteps: v.HANGO_MAX_STEPS,
    toolTimeoutMs: v.HANGO_TOOL_TIMEOUT_MS,
    turnTimeoutMs: v.HANGO_TURN_TIMEOUT_MS,
    detachGraceMs: v.HANGO_DETACH_GRACE_MS,
    subagentMaxDepth: v.HANGO_SUBAGENT_MAX_DEPTH,
    callerWaitSeconds: v.HANGO_CALLER_WAIT_SECONDS,
    requestMaxBytes: v.HANGO_REQUEST_MAX_BYTES,
    retentionDays: v.HANGO_RETENTION_DAYS,
    eventRetentionDays: v.HANGO_EVENT_RETENTION_DAYS,
    allowPrivateUrls: v.HANGO_ALLOW_PRIVATE_URLS,
    captureContent: v.HANGO_CAPTURE_CONTENT,
    logLevel: v.HANGO_LOG_LEVEL,
    sseHeartbeatMs: v.HANGO_SSE_HEARTBEAT_MS,
    telemetry: {
      endpoint: v.OTEL_EXPORTER_OTLP_ENDPOINT,
      headers: v.OTEL_EXPORTER_OTLP_HEADERS ?? {},
      serviceName: v.OTEL_SERVICE_NAME,
    },
    files: v.FILES,
    queue: v.QUEUE,
    rateLimiter: v.RATE_LIMITER,
  } as const;
};
