/** The doctor on this machine: what the environment configures, and what of it can be reached without the Worker. */
import { CHECK_TIMEOUT_MS, type Check, type CheckResult, runChecks, skipped } from "../../turns/doctor/check.ts";
import { databaseCheck, migrationsCheck } from "../../turns/doctor/database.ts";
import { providerChecks } from "../../turns/doctor/examine.ts";
import { otlpCheck } from "../../turns/doctor/otlp.ts";
import { MIGRATIONS_DIR, readMigrations } from "../migrate.ts";
import { askingAt } from "./database.ts";
import { type Environment, readEnvironment } from "./environment.ts";

export interface HereOptions {
  readonly env: Environment;
  readonly fetch: typeof fetch;
  /** Ms. */
  readonly now: () => number;
  /** Of one check; `CHECK_TIMEOUT_MS` when absent. */
  readonly timeoutMs?: number;
}

const instead = ({ name }: Check, why: string): Check => ({ name, run: async () => skipped(why) });

const ONLY_THE_WORKER = "only the Worker reaches it: npm run doctor -- https://your.worker.example";

/** The results, in the order in which they are shown; a line for each problem of the configuration. */
export const examineHere = async ({
  env,
  fetch: fetcher,
  now,
  timeoutMs,
}: HereOptions): Promise<readonly CheckResult[]> => {
  const { config, problems, has } = readEnvironment(env);
  const configuration: readonly CheckResult[] =
    problems.length === 0
      ? [{ name: "configuration", status: "ok", detail: "every variable is as it should be", durationMs: 0 }]
      : problems.map((detail) => ({ name: "configuration", status: "failed", detail, durationMs: 0 }));
  const ask = askingAt({
    databaseUrl: config.databaseUrl,
    fetchEndpoint: config.databaseFetchEndpoint,
    timeoutMs: timeoutMs ?? CHECK_TIMEOUT_MS,
  });
  const needs = (name: string) => (check: Check) => (has(name) ? check : instead(check, `${name} is missing or wrong`));
  const checks: readonly Check[] = [
    ...[databaseCheck(ask, now), migrationsCheck(ask, () => readMigrations(MIGRATIONS_DIR))].map(needs("DATABASE_URL")),
    { name: "r2", run: async () => skipped(ONLY_THE_WORKER) },
    { name: "queue", run: async () => skipped(ONLY_THE_WORKER) },
    ...providerChecks(config, fetcher).map((check) =>
      check.name === "provider" ? needs("ANTHROPIC_API_KEY")(check) : check,
    ),
    otlpCheck(config.telemetry, fetcher),
  ];
  return [...configuration, ...(await runChecks(checks, { now, timeoutMs: timeoutMs ?? CHECK_TIMEOUT_MS }))];
};
