/** What a schema cannot see of the models that a session names. */
import type { Config } from "../config.ts";
import { isServed } from "../protocol/model-name.ts";
import { invalid } from "./errors.ts";

const unserved = (model: string): string =>
  `${JSON.stringify(model)} is served over chat completions, which this deployment has no address of: name another model, or have HANGO_OPENAI_BASE_URL or OPENAI_API_KEY set (docs/providers.md)`;

/**
 * @param place where the settings stand in the request, with a dot at its end; empty at the top
 * @throws ApiError `invalid_request` for a model whose provider is not configured
 */
export const checkModels = (
  given: {
    readonly model?: string | undefined;
    readonly context?: { readonly summarizer_model?: string | undefined } | null | undefined;
    readonly subagents?: false | readonly { readonly model?: string | undefined }[] | null | undefined;
  },
  config: Pick<Config, "openai" | "modelProfiles">,
  place = "",
): void => {
  const subagents = Array.isArray(given.subagents) ? given.subagents : [];
  const named: readonly (readonly [string, string | undefined])[] = [
    ["model", given.model],
    ["context.summarizer_model", given.context?.summarizer_model],
    ...subagents.map(({ model }, index) => [`subagents[${index}].model`, model] as const),
  ];
  for (const [name, model] of named)
    if (model !== undefined && !isServed(model, config)) throw invalid(`${place}${name}`, unserved(model));
};
