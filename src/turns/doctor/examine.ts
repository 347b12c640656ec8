/** The doctor inside the Worker: every check, with what the Worker itself works with. */
import journal from "../../../drizzle/meta/_journal.json" with { type: "json" };
import type { Config } from "../../config.ts";
import { providerOf } from "../../protocol/model-name.ts";
import { asking } from "../../store/health.ts";
import type { Deps } from "../deps.ts";
import { bucketCheck, queueCheck } from "./bindings.ts";
import { CHECK_TIMEOUT_MS, type Check, type CheckResult, ok, runChecks } from "./check.ts";
import { databaseCheck, type KnownMigration, migrationsCheck } from "./database.ts";
import { otlpCheck } from "./otlp.ts";
import { chatCheck, messagesApiCheck } from "./provider.ts";

/** The migrations that this build was made with: the journal goes into the bundle. */
export const builtMigrations: readonly KnownMigration[] = journal.entries.map(({ tag, when }) => ({ tag, when }));

/** A check for each provider that the configuration names, with the models that it names there. */
export const providerChecks = (
  config: Pick<Config, "anthropic" | "openai" | "defaultModel" | "context" | "modelProfiles">,
  fetcher: typeof fetch,
): readonly Check[] => {
  const named = new Set([config.defaultModel, config.context.summarizerModel ?? config.defaultModel]);
  const servedBy = (name: "anthropic" | "openai") =>
    [...named].filter((model) => providerOf(model, config.modelProfiles) === name);
  return [
    messagesApiCheck({ ...config.anthropic, models: servedBy("anthropic") }, fetcher),
    ...(config.openai === undefined ? [] : [chatCheck({ ...config.openai, models: servedBy("openai") }, fetcher)]),
  ];
};

/** What is right for development and worth a word in a deployment. */
const remarks = (config: Config): readonly string[] => [
  ...(config.allowPrivateUrls ? ["HANGO_ALLOW_PRIVATE_URLS is true: tools and callbacks reach private addresses"] : []),
  ...(config.captureContent ? ["HANGO_CAPTURE_CONTENT is true: spans hold prompts and answers"] : []),
  ...(config.rateLimiter === undefined ? ["RATE_LIMITER is not bound: requests are not limited"] : []),
];

/** A Worker whose configuration is wrong answers nothing at all, so here it is right. */
const configurationCheck = (config: Config): Check => ({
  name: "configuration",
  run: async () => ok(["every variable and binding is as it should be", ...remarks(config)].join("; ")),
});

/**
 * Runs every check. Costs a few round trips, one small object in R2 that is removed again, one message and no model call.
 * @param name for the object
 */
export const examine = (deps: Deps, name: string): Promise<readonly CheckResult[]> => {
  const ask = asking(deps.db);
  return runChecks(
    [
      configurationCheck(deps.config),
      databaseCheck(ask, deps.now),
      migrationsCheck(ask, async () => builtMigrations),
      bucketCheck(deps, name),
      queueCheck(deps),
      ...providerChecks(deps.config, deps.fetch),
      otlpCheck(deps.config.telemetry, deps.fetch),
    ],
    { now: deps.now, timeoutMs: CHECK_TIMEOUT_MS },
  );
};
