/** What hango knows about models without asking: windows, output limits, list prices (messages-api.md; context.md E7). */
import type { ModelProfiles } from "../protocol/model-profiles.ts";

/** List prices in USD per million tokens. */
export interface Prices {
  readonly input: number;
  readonly output: number;
  /** Writing to the prompt cache, 5 minutes. */
  readonly cacheWrite: number;
  readonly cacheRead: number;
}

export interface PriceList extends Prices {
  /** Prices of every token whose position in prompt and answer is beyond a size. */
  readonly above?: { readonly tokens: number; readonly prices: Prices };
}

export interface ModelProfile {
  readonly model: string;
  /** Most tokens of a prompt. */
  readonly maxInputTokens: number;
  /** Most tokens of an answer. */
  readonly maxOutputTokens: number;
  /** Whether the answer counts inside the window, so that room for it is kept free (context.md, "Window"). */
  readonly outputInWindow: boolean;
  /** Whether a thinking block is valid only after the bytes it was written after (V5). */
  readonly thinkingBound: boolean;
  /** Most images and PDF pages of a request (E6). */
  readonly maxMediaItems: number;
  /** null when the price is not known. */
  readonly prices: PriceList | null;
  /** Whether the table or the configuration knows the model; if not, the defaults of E7 apply and it is logged once. */
  readonly known: boolean;
}

/** Share of the window at which hango compacts unless told otherwise (E7: 0.85). */
const DEFAULT_TRIGGER_FRAC = 0.85;

/** Where an unknown model's session is compacted, in tokens (E7). */
export const UNKNOWN_TRIGGER_TOKENS = 170_000;

/** How many of the last messages are kept verbatim with an unknown model (E7, C1). */
export const UNKNOWN_KEEP_MESSAGES = 6;

/** The window that an unknown model is taken to have: the one that puts the default trigger at 170,000 tokens. */
export const UNKNOWN_WINDOW_TOKENS = UNKNOWN_TRIGGER_TOKENS / DEFAULT_TRIGGER_FRAC;

/** The smallest output limit among the models that the table knows; asking for less is never an error. */
const UNKNOWN_MAX_OUTPUT_TOKENS = 32_000;

type Limits = Omit<ModelProfile, "model" | "known" | "prices">;

const CURRENT: Limits = {
  maxInputTokens: 1_000_000,
  maxOutputTokens: 128_000,
  outputInWindow: false,
  thinkingBound: false,
  maxMediaItems: 600,
};
const BOUND: Limits = { ...CURRENT, thinkingBound: true };
const OLDER: Limits = {
  maxInputTokens: 200_000,
  maxOutputTokens: 64_000,
  outputInWindow: true,
  thinkingBound: false,
  maxMediaItems: 100,
};

const prices = (input: number, output: number, cacheWrite: number, cacheRead: number): Prices => ({
  input,
  output,
  cacheWrite,
  cacheRead,
});

interface Entry {
  readonly limits: Limits;
  readonly prices: PriceList | null;
}

/** By name without a date. A map, because names come from callers and an object would answer to "constructor". */
const TABLE: ReadonlyMap<string, Entry> = new Map<string, Entry>([
  ["claude-fable-5-2", { limits: BOUND, prices: prices(8, 40, 10, 0.2) }],
  ["claude-fable-5-1", { limits: BOUND, prices: null }],
  ["claude-opus-5-5", { limits: BOUND, prices: prices(4, 20, 5, 0.2) }],
  ["claude-sonnet-5-5", { limits: BOUND, prices: prices(2, 10, 2.5, 0.1) }],
  [
    "claude-haiku-5-5",
    {
      limits: BOUND,
      prices: {
        ...prices(0.1, 0.5, 0.125, 0.01),
        above: { tokens: 100_000, prices: prices(0.5, 2.5, 0.625, 0.05) },
      },
    },
  ],
  ["claude-opus-5", { limits: CURRENT, prices: prices(5, 25, 6.25, 0.5) }],
  ["claude-sonnet-5", { limits: CURRENT, prices: prices(2, 10, 2.5, 0.2) }],
  ["claude-haiku-4-5", { limits: OLDER, prices: prices(1, 5, 1.25, 0.1) }],
  ["claude-sonnet-4-5", { limits: OLDER, prices: prices(3, 15, 3.75, 0.3) }],
  ["claude-opus-4-5", { limits: OLDER, prices: prices(5, 25, 6.25, 0.5) }],
]);

/** `claude-haiku-4-5-20251001` and `claude-haiku-4-5-latest` are `claude-haiku-4-5`. */
const withoutDate = (model: string): string => model.replace(/-(?:\d{8}|latest)$/, "");

/**
 * The profile of a model: the configuration's word first, then the table's, then the documented default (E7).
 * @param model as the request names it
 * @param overrides `HANGO_MODEL_PROFILES`, or limits learned from the Models API in the same shape; by exact name
 */
export const profileFor = (model: string, overrides: ModelProfiles): ModelProfile => {
  const entry = TABLE.get(model) ?? TABLE.get(withoutDate(model));
  const override = overrides.get(model);
  const limits: Limits = entry?.limits ?? {
    ...OLDER,
    maxInputTokens: UNKNOWN_WINDOW_TOKENS,
    maxOutputTokens: UNKNOWN_MAX_OUTPUT_TOKENS,
  };
  const maxInputTokens = override?.maxInputTokens ?? limits.maxInputTokens;
  return {
    ...limits,
    model,
    maxInputTokens,
    // An answer longer than the window cannot be; matters where only a small window is configured.
    maxOutputTokens: Math.min(override?.maxOutputTokens ?? limits.maxOutputTokens, maxInputTokens),
    prices: override?.prices ?? entry?.prices ?? null,
    known: entry !== undefined || override?.maxInputTokens !== undefined,
  };
};

/** The windows that the table knows, in tokens, by name without a date: for whoever has to choose before it knows the model. */
export const builtInWindows = (): Readonly<Record<string, number>> =>
  Object.fromEntries([...TABLE].map(([model, { limits }]) => [model, limits.maxInputTokens]));
