/** Which provider serves a model, by its name and what the deployment says of it. */

/** `anthropic`: the Messages API. `openai`: chat completions, of OpenAI or of any server that speaks them. */
export type ProviderName = "anthropic" | "openai";

/** Begins the name of a model that is served over chat completions; the server is sent the name without it. */
export const OPENAI_PREFIX = "openai/";

/** What a deployment may say of a model's provider. */
export type ProviderHints = ReadonlyMap<string, { readonly provider?: ProviderName }>;

/**
 * The provider of a model: what `HANGO_MODEL_PROFILES` says of it, else `openai` for a name that begins with `openai/`, else `anthropic`.
 * Two models with different answers have different providers (G10).
 */
export const providerOf = (model: string, profiles: ProviderHints): ProviderName =>
  profiles.get(model)?.provider ?? (model.startsWith(OPENAI_PREFIX) ? "openai" : "anthropic");

/** The name that a chat completions server knows a model by. */
export const wireModel = (model: string): string =>
  model.startsWith(OPENAI_PREFIX) ? model.slice(OPENAI_PREFIX.length) : model;

/**
 * Whether a model's provider has an address here.
 * @param config as far as it says which provider has one; every deployment has the Messages API
 */
export const isServed = (
  model: string,
  config: { readonly modelProfiles: ProviderHints; readonly openai: unknown },
): boolean => providerOf(model, config.modelProfiles) === "anthropic" || config.openai !== undefined;
