/** How far back a turn reads (V7). */
import type { Config } from "../config.ts";
import { builtInWindows, UNKNOWN_WINDOW_TOKENS } from "../models/profiles.ts";
import { type LoadLimits, MAX_LOADED_BYTES } from "../store/loading.ts";

/** The windows that hango knows of, in the order in which the profile of a model is found (E7), for the database to choose from. */
export const loadLimits = ({ modelProfiles }: Pick<Config, "modelProfiles">): LoadLimits => ({
  configured: Object.fromEntries(
    [...modelProfiles].flatMap(([model, { maxInputTokens }]) =>
      maxInputTokens === undefined ? [] : [[model, maxInputTokens] as const],
    ),
  ),
  builtIn: builtInWindows(),
  otherwise: UNKNOWN_WINDOW_TOKENS,
  maxBytes: MAX_LOADED_BYTES,
});
