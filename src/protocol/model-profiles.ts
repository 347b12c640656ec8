/** What a deployment says of models, in `HANGO_MODEL_PROFILES` (E7). */
import { z } from "zod";
import type { ProviderName } from "./model-name.ts";

const tokenLimit = z.int().positive();
const price = z.number().min(0);
const modelProfilesSchema = z.record(
  z.string().min(1),
  z
    .strictObject({
      max_input_tokens: tokenLimit.optional(),
      max_output_tokens: tokenLimit.optional(),
      provider: z.enum(["anthropic", "openai"]).optional(),
      strict_alternation: z.boolean().optional(),
      prices: z
        .strictObject({ input: price, output: price, cache_read: price.optional(), cache_write: price.optional() })
        .optional(),
    })
    .refine((profile) => Object.values(profile).some((value) => value !== undefined)),
);

/** What the deployer knows of a model better than the built-in table: what is absent is as it would be. */
export interface ModelLimits {
  /** Tokens. */
  readonly maxInputTokens?: number;
  readonly maxOutputTokens?: number;
  readonly provider?: ProviderName;
  /** The model's chat template enforces alternating roles (R8). */
  readonly strictAlternation?: boolean;
  /** USD per million tokens. */
  readonly prices?: {
    readonly input: number;
    readonly output: number;
    readonly cacheRead: number;
    readonly cacheWrite: number;
  };
}

/** By model name. A map, because names come from callers and an object would answer to "constructor". */
export type ModelProfiles = ReadonlyMap<string, ModelLimits>;

type GivenProfile = z.infer<typeof modelProfilesSchema>[string];

const profileOf = (given: GivenProfile): ModelLimits => {
  const { max_input_tokens, max_output_tokens, provider, strict_alternation, prices } = given;
  return {
    ...(max_input_tokens === undefined ? {} : { maxInputTokens: max_input_tokens }),
    ...(max_output_tokens === undefined ? {} : { maxOutputTokens: max_output_tokens }),
    ...(provider === undefined ? {} : { provider }),
    ...(strict_alternation === undefined ? {} : { strictAlternation: strict_alternation }),
    ...(prices === undefined
      ? {}
      : {
          prices: {
            input: prices.input,
            output: prices.output,
            // A server that has no price of its own for its cache takes the full one.
            cacheRead: prices.cache_read ?? prices.input,
            cacheWrite: prices.cache_write ?? prices.input,
          },
        }),
  };
};

/**
 * Reads `HANGO_MODEL_PROFILES`: `{"model": {"max_input_tokens": n, "max_output_tokens": n, "provider": "openai", ...}}`.
 * @returns the profiles, or undefined when the text is not JSON of that shape with positive whole numbers
 */
export const parseModelProfiles = (json: string): ModelProfiles | undefined => {
  let given: unknown;
  try {
    given = JSON.parse(json);
  } catch {
    return undefined;
  }
  const parsed = modelProfilesSchema.safeParse(given);
  if (!parsed.success) return undefined;
  return new Map(Object.entries(parsed.data).map(([model, profile]) => [model, profileOf(profile)]));
};
