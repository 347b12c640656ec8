/** Whether the models can be reached with the keys that are set, without a call that costs anything. */
import type { Config } from "../../config.ts";
import { isRecord } from "../../protocol/is-record.ts";
import { providerOf, wireModel } from "../../protocol/model-name.ts";
import { type Answered, ask, statusInWords } from "./asking.ts";
import { type Check, CheckFailed, CheckSkipped, hostOf } from "./check.ts";

export type ProviderSettings = Pick<Config, "anthropic" | "openai" | "defaultModel" | "modelProfiles"> & {
  readonly context: Pick<Config["context"], "summarizerModel">;
};

export interface ProviderChecks {
  readonly config: ProviderSettings;
  readonly fetch: typeof fetch;
  readonly timeoutMs: number;
}

const VERSION = "2023-06-01";

/** Whose list of models is complete: any other server may serve what it does not list. */
const ANTHROPIC_HOST = "api.anthropic.com";

const withoutSlash = (url: string): string => url.replace(/\/+$/, "");

/** The models that variables name and this provider serves. */
const modelsOf = ({ defaultModel, context, modelProfiles }: ProviderSettings, provider: "anthropic" | "openai") =>
  [...new Set([defaultModel, ...(context.summarizerModel === undefined ? [] : [context.summarizerModel])])].filter(
    (model) => providerOf(model, modelProfiles) === provider,
  );

/** What helps against an answer that is none. */
const advice = (status: number, variable: string): string => {
  if (status === 401) return `set ${variable} to a valid key`;
  if (status === 403) return `the key in ${variable} may not do this`;
  if (status === 429) return "its rate limit is reached, or there is no credit";
  if (status >= 500) return "it has a problem of its own; try again";
  return `see ${variable} and the address`;
};

const refused = (answer: Answered, host: string, variable: string): CheckFailed =>
  new CheckFailed(`${host} answered ${statusInWords(answer)}: ${advice(answer.status, variable)}`);

const isOk = ({ status }: Answered): boolean => status >= 200 && status < 300;

/** `GET /v1/models/{model}` of the Messages API, for each model that it is to serve; the list, where it is to serve none by default. */
const messagesCheck = ({ config, fetch, timeoutMs }: ProviderChecks): Check => ({
  name: "provider",
  timeoutMs,
  look: async (signal) => {
    const { apiKey, baseUrl } = config.anthropic;
    const host = hostOf(baseUrl);
    const models = modelsOf(config, "anthropic");
    const headers = { "x-api-key": apiKey, "anthropic-version": VERSION };
    const paths = models.length === 0 ? ["?limit=1"] : models.map((model) => `/${encodeURIComponent(model)}`);
    const answers = await Promise.all(
      paths.map((path) => ask(fetch, `${withoutSlash(baseUrl)}/v1/models${path}`, { headers, signal })),
    );
    for (const [index, answer] of answers.entries()) {
      if (isOk(answer)) continue;
      if (answer.status !== 404) throw refused(answer, host, "ANTHROPIC_API_KEY");
      if (host !== ANTHROPIC_HOST)
        throw new CheckSkipped(
          `${host} answers, but describes no models: whether the key and ${models[index]} work, a turn will tell`,
        );
      throw new CheckFailed(
        `${host} does not know the model ${models[index]}: see HANGO_DEFAULT_MODEL and HANGO_SUMMARIZER_MODEL`,
      );
    }
    const known = models.length === 0 ? "" : `; it knows ${models.join(" and ")}`;
    return `${host} accepts ANTHROPIC_API_KEY${known}`;
  },
});

const listed = (json: unknown): readonly string[] =>
  isRecord(json) && Array.isArray(json.data)
    ? json.data.flatMap((each: unknown) => (isRecord(each) && typeof each.id === "string" ? [each.id] : []))
    : [];

/** `GET /models` of the server of chat completions. One that serves a single model answers to any name. */
const chatCheck = ({ config, fetch, timeoutMs }: ProviderChecks): Check => ({
  name: "chat",
  timeoutMs,
  look: async (signal) => {
    const { openai } = config;
    if (openai === undefined) throw new CheckSkipped("no HANGO_OPENAI_BASE_URL or OPENAI_API_KEY is set");
    const host = hostOf(openai.baseUrl);
    const headers = openai.apiKey === undefined ? {} : { Authorization: `Bearer ${openai.apiKey}` };
    const answer = await ask(fetch, `${withoutSlash(openai.baseUrl)}/models`, { headers, signal });
    if (answer.status === 404)
      throw new CheckFailed(
        `${host} answered 404: HANGO_OPENAI_BASE_URL has to end as the server has it, mostly with /v1`,
      );
    if (!isOk(answer)) throw refused(answer, host, "OPENAI_API_KEY");
    const names = listed(answer.json);
    const missing = modelsOf(config, "openai").filter((model) => names.length > 1 && !names.includes(wireModel(model)));
    if (missing.length > 0)
      throw new CheckFailed(
        `${host} does not list ${missing.join(" and ")}: see HANGO_DEFAULT_MODEL and HANGO_SUMMARIZER_MODEL`,
      );
    return `${host} answers and lists ${names.length} ${names.length === 1 ? "model" : "models"}`;
  },
});

/** The checks of every provider that a configuration may name. */
export const providerChecks = (options: ProviderChecks): readonly Check[] => [
  messagesCheck(options),
  chatCheck(options),
];
