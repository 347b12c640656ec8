/** The provider of a model, ready to be called. */
import type { Config } from "../config.ts";
import type { ModelRequest } from "../protocol/messages.ts";
import { type ProviderName, providerOf, wireModel } from "../protocol/model-name.ts";
import { anthropicProvider } from "./anthropic.ts";
import type { ProviderSettings } from "./call.ts";
import { chatBody } from "./chat-body.ts";
import { ModelError } from "./errors.ts";
import { chatOptions, openAiProvider } from "./openai.ts";
import type { Capabilities, Provider, ResolveMedia } from "./provider.ts";
import { anthropicBody } from "./request-body.ts";

/** What of the configuration says where models are. */
export type ProviderConfig = Pick<Config, "anthropic" | "openai" | "modelProfiles" | "providerMaxRetries">;

export interface ProviderWiring extends Omit<ProviderSettings, "baseURL"> {
  /** Makes an id for a call whose own cannot be kept. */
  readonly newCallId: () => string;
  /** What the session says of its model's template; undefined for what the configuration says (R8). */
  readonly strictAlternation?: boolean | undefined;
}

/** Whether a model's template enforces alternating roles (R8): the session's word, then the configuration's. */
export const isStrict = (
  model: string,
  config: Pick<Config, "modelProfiles">,
  sessionsWord: boolean | undefined,
): boolean => sessionsWord ?? config.modelProfiles.get(model)?.strictAlternation ?? false;

const UNSERVED = "chat completions have no address here: set HANGO_OPENAI_BASE_URL or OPENAI_API_KEY";

/** Stands for a provider that was taken out of the configuration while sessions still name its models. */
const unserved = (name: ProviderName): Provider => {
  const refuse = async () => {
    throw new ModelError({ kind: "not_found" }, { detail: UNSERVED });
  };
  const capabilities: Capabilities = {
    promptCaching: false,
    tokenCounting: false,
    strictAlternation: false,
    thinking: "unsigned",
  };
  return { name, capabilities, generate: refuse, countTokens: refuse, modelInfo: refuse };
};

/** The provider that serves a model. Does no I/O. */
export const providerFor = (model: string, config: ProviderConfig, wiring: ProviderWiring): Provider => {
  const name = providerOf(model, config.modelProfiles);
  const strictAlternation = isStrict(model, config, wiring.strictAlternation);
  const maxRetries = config.providerMaxRetries;
  switch (name) {
    case "anthropic": {
      const { apiKey, baseUrl: baseURL } = config.anthropic;
      return anthropicProvider({ maxRetries, ...wiring, apiKey, baseURL, capabilities: { strictAlternation } });
    }
    case "openai": {
      if (config.openai === undefined) return unserved(name);
      const { apiKey, baseUrl: baseURL } = config.openai;
      return openAiProvider({ maxRetries, ...wiring, apiKey, baseURL, strictAlternation });
    }
    default:
      return name satisfies never;
  }
};

/**
 * The body that a call of this request would send, as JSON text.
 * @param provider as `providerFor` made it for the request's model
 * @throws ModelError of kind `too_large`
 */
export const requestBody = (
  request: ModelRequest,
  { name, capabilities }: Pick<Provider, "name" | "capabilities">,
  config: Pick<Config, "openai">,
  user: string | null,
  resolve: ResolveMedia,
): Promise<string> => {
  const { promptCaching, strictAlternation } = capabilities;
  const named = user === null ? {} : { user };
  if (name !== "openai") return anthropicBody(request, { stream: true, promptCaching, ...named }, resolve);
  const dialect = chatOptions({ baseURL: config.openai?.baseUrl ?? "", strictAlternation });
  return chatBody(request, { ...dialect, model: wireModel(request.model), ...named }, resolve);
};
