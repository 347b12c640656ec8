/** Whether the model providers answer, take the key and know the models: requests that cost nothing, and none that runs a model. */
import { isRecord } from "../../protocol/is-record.ts";
import { wireModel } from "../../protocol/model-name.ts";
import { below, type Check, type Finding, failed, hasCredentials, ok, shown, skipped, unreachable } from "./check.ts";

export interface MessagesApi {
  /** Without `/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Models that the configuration names and that are served here; may be none. */
  readonly models: readonly string[];
}

export interface ChatServer {
  /** With `/v1`, as the server has it. */
  readonly baseUrl: string;
  /** Undefined for a server that wants none. */
  readonly apiKey: string | undefined;
  readonly models: readonly string[];
}

/** The version of the Messages API that its SDK names. */
const VERSION = "2023-06-01";

/** Names of the variables, for what to do. */
interface Variables {
  readonly key: string;
  readonly url: string;
}

const ANTHROPIC: Variables = { key: "ANTHROPIC_API_KEY", url: "ANTHROPIC_BASE_URL" };
const OPENAI: Variables = { key: "OPENAI_API_KEY", url: "HANGO_OPENAI_BASE_URL" };

/** What an answer's status says beyond "here it is"; undefined for that, and for 404, which each protocol reads in its own way. */
const refusal = (status: number, variables: Variables): Finding | undefined => {
  if ((status >= 200 && status < 300) || status === 404) return undefined;
  if (status === 401) return failed(`refused the key (401): set ${variables.key} to one that is valid`);
  if (status === 403) return failed(`does not allow this key to ask (403): see what ${variables.key} may do`);
  if (status === 429) return failed("its rate limit is reached (429): turns would fail now, try again later");
  if (status >= 500) return failed(`is failing (${status}): turns would fail now, try again later`);
  return failed(`answers ${status} at ${variables.url}: is that the right server?`);
};

interface Answer {
  readonly status: number;
  /** Undefined for a body that is no JSON. */
  readonly json: unknown;
}

const get = async (
  fetcher: typeof fetch,
  url: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Answer> => {
  // A redirect is not followed: the key would go along to whatever it names.
  const response = await fetcher(url, { headers, signal, redirect: "manual" });
  const body = await response.text();
  try {
    return { status: response.status, json: JSON.parse(body) };
  } catch {
    return { status: response.status, json: undefined };
  }
};

const quoted = (models: readonly string[]): string => models.map((model) => JSON.stringify(model)).join(", ");

const NO_CREDENTIALS = "holds a user or password, which requests refuse: put the key into its own variable";

/** Asks for the description of each model; where the configuration names none that is served here, for the list. */
export const messagesApiCheck = ({ baseUrl, apiKey, models }: MessagesApi, fetcher: typeof fetch): Check => ({
  name: "provider",
  run: async (signal) => {
    if (hasCredentials(baseUrl)) return failed(`${ANTHROPIC.url} ${NO_CREDENTIALS}`);
    const at = `the Messages API at ${shown(baseUrl)}`;
    const headers = { "x-api-key": apiKey, "anthropic-version": VERSION };
    const paths =
      models.length === 0 ? ["/v1/models?limit=1"] : models.map((m) => `/v1/models/${encodeURIComponent(m)}`);
    try {
      const answers = await Promise.all(paths.map((path) => get(fetcher, below(baseUrl, path), headers, signal)));
      for (const [index, { status, json }] of answers.entries()) {
        const refused = refusal(status, ANTHROPIC);
        if (refused !== undefined) return { ...refused, detail: `${at} ${refused.detail}` };
        const error = isRecord(json) && isRecord(json.error) ? json.error.type : undefined;
        if (status === 404 && error === "not_found_error" && models[index] !== undefined)
          return failed(
            `${at} knows no model ${JSON.stringify(models[index])}: see HANGO_DEFAULT_MODEL and HANGO_SUMMARIZER_MODEL`,
          );
        if (status === 404)
          return skipped(`${at} answers, but describes no models (404): neither key nor model can be checked for free`);
        if (!isRecord(json)) return failed(`${at} answers with something that is no JSON: see ${ANTHROPIC.url}`);
      }
    } catch (error) {
      if (signal.aborted) throw error;
      return failed(`${at} ${unreachable(error)}: see ${ANTHROPIC.url}`);
    }
    return ok(`${at} takes the key${models.length === 0 ? "" : ` and knows ${quoted(models)}`}`);
  },
});

/** Asks for the list of models. A server that serves a single one answers to any name. */
export const chatCheck = ({ baseUrl, apiKey, models }: ChatServer, fetcher: typeof fetch): Check => ({
  name: "chat",
  run: async (signal) => {
    if (hasCredentials(baseUrl)) return failed(`${OPENAI.url} ${NO_CREDENTIALS}`);
    const at = `chat completions at ${shown(baseUrl)}`;
    const headers: Record<string, string> = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
    try {
      const { status, json } = await get(fetcher, below(baseUrl, "/models"), headers, signal);
      const refused = refusal(status, OPENAI);
      if (refused !== undefined) return { ...refused, detail: `${at}: ${refused.detail}` };
      const list = isRecord(json) && Array.isArray(json.data) ? json.data.filter(isRecord) : undefined;
      if (status === 404 || list === undefined)
        return skipped(
          `${at} list no models: neither key nor model can be checked for free (does the address end in /v1?)`,
        );
      const ids = list.map(({ id }) => id);
      const missing = models.filter((model) => ids.length !== 1 && !ids.includes(wireModel(model)));
      if (missing.length > 0)
        return failed(`${at} know no model ${quoted(missing)}: see HANGO_DEFAULT_MODEL and HANGO_SUMMARIZER_MODEL`);
      const key = apiKey === undefined ? "answer without a key" : "take the key";
      return ok(`${at} ${key}${models.length === 0 ? "" : ` and know ${quoted(models)}`}`);
    } catch (error) {
      if (signal.aborted) throw error;
      return failed(`${at}: ${unreachable(error)}: see ${OPENAI.url}`);
    }
  },
});
