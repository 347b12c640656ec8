/** The doctor on the operator's machine: what its environment configures, looked at from here. */
import pg from "pg";
import { type Config, ConfigError, parseConfig, variables } from "../../config.ts";
import { unknownVariables } from "../../protocol/variables.ts";
import { knownMigrations } from "../../store/migrations.ts";
import { type CheckResult, runChecks } from "../../turns/doctor/check.ts";
import { configurationInWords } from "../../turns/doctor/configuration.ts";
import { type AskDatabase, databaseChecks } from "../../turns/doctor/database.ts";
import { providerChecks } from "../../turns/doctor/provider.ts";
import { telemetryCheck } from "../../turns/doctor/telemetry.ts";
import { withVerifiedTls } from "../connection-string.ts";
import { runnerVariables, workerEnvironment } from "../settings.ts";

export interface FromHere {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly fetch: typeof fetch;
  /** ms. */
  readonly now: () => number;
}

/** For a call of a service that answers in a fraction of it; a Neon database that has to wake up takes a second. */
const TIMEOUT_MS = 8_000;

const nothing = (): undefined => undefined;

/** Stand for the bindings, which only the Worker has: they are skipped below. */
const BINDINGS = {
  FILES: { get: nothing, put: nothing, list: nothing, delete: nothing, head: nothing },
  QUEUE: { send: nothing },
} as const;

/** @returns the configuration that a Worker would have with this environment, or a line per problem */
const read = (env: FromHere["env"]): Config | readonly string[] => {
  const known = [...Object.keys(variables), ...Object.keys(runnerVariables)];
  const unknown = unknownVariables(
    Object.keys(env).filter((name) => (env[name] ?? "") !== ""),
    known,
  );
  try {
    const config = parseConfig({ ...workerEnvironment(env), ...BINDINGS });
    return unknown.length > 0 ? unknown : config;
  } catch (error) {
    if (error instanceof ConfigError) return [...error.problems, ...unknown];
    throw error;
  }
};

/** A connection of its own, opened by the first statement. */
const connection = (connectionString: string): { readonly ask: AskDatabase; readonly close: () => Promise<void> } => {
  let opening: Promise<pg.Client> | undefined;
  const open = async (): Promise<pg.Client> => {
    const client = new pg.Client({
      connectionString: withVerifiedTls(connectionString),
      connectionTimeoutMillis: TIMEOUT_MS,
      application_name: "hango doctor",
    });
    // A lost connection also rejects the query that runs; unheard, the event would end the process.
    client.on("error", () => undefined);
    await client.connect();
    return client;
  };
  return {
    ask: async (statement) => {
      opening ??= open();
      return (await (await opening).query(statement)).rows;
    },
    close: async () => {
      const client = await opening?.catch(() => undefined);
      await client?.end().catch(() => undefined);
    },
  };
};

const skipped = (name: CheckResult["name"], detail: string): CheckResult => ({ name, status: "skipped", detail });

const ONLY_INSIDE = "only the Worker reaches it: npm run doctor -- https://your-hango";

/**
 * Checks what an environment configures, as far as it is reached from this machine; what only the Worker reaches is skipped.
 * @returns a result for each check, and one for each problem of the configuration
 */
export const checkFromHere = async ({ env, fetch, now }: FromHere): Promise<readonly CheckResult[]> => {
  const config = read(env);
  const isRead = "databaseUrl" in config;
  const url = isRead ? config.databaseUrl : undefined;
  const database = url === undefined ? undefined : connection(url);
  try {
    const unknown = "the configuration is wrong";
    const [server, migrations] =
      database === undefined
        ? [skipped("database", unknown), skipped("migrations", unknown)]
        : await runChecks(databaseChecks({ ask: database.ask, now, known: knownMigrations, timeoutMs: TIMEOUT_MS }));
    const others = isRead
      ? await runChecks([
          ...providerChecks({ config, fetch, timeoutMs: TIMEOUT_MS }),
          telemetryCheck({ settings: config.telemetry, fetch }),
        ])
      : [skipped("provider", unknown), skipped("chat", unknown), skipped("telemetry", unknown)];
    const configuration: readonly CheckResult[] = isRead
      ? [{ name: "configuration", status: "ok", detail: configurationInWords(config) }]
      : config.map((problem) => ({ name: "configuration", status: "failed", detail: problem }));
    return [
      ...configuration,
      ...[server, migrations].filter((each) => each !== undefined),
      skipped("files", ONLY_INSIDE),
      skipped("queue", ONLY_INSIDE),
      ...others,
    ];
  } finally {
    await database?.close();
  }
};
