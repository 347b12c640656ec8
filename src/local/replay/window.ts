/** How small a window a recording can be replayed in: small enough to outgrow it often, large enough to hold what is never cut. */
import type { Recording } from "../demo/recording.ts";
import type { JsonObject } from "../simulator/json.ts";
import { countBlock, countText } from "../simulator/tokens.ts";

/** hango's own tools and their instructions, in tokens of the simulator's tokenizer. */
const OWN_TOKENS = 3_000;
/** How often a session is to fill its window. */
const FILLS = 6;
/** The smallest window that a session can be set to (api.md). */
const LEAST_TOKENS = 1_000;
/** Share of the window over which a tool's result goes to a file (context.md, "Window"). */
const OFFLOAD_FRAC = 0.1;
/** Of a window, what is left for the largest message that is never cut beside what is always sent: the trigger lies at 0.85. */
const FREE_FRAC = 0.55;

/** A recording whose messages fill its window less often is too small to show several compactions. */
export const LEAST_FILLS = 5;

export interface Size {
  /** System prompt and tools, in tokens. */
  readonly fixedTokens: number;
  /** Tokens of the results of tools, one by one. */
  readonly results: readonly number[];
  /** Tokens of everything else that was said, message by message. */
  readonly said: readonly number[];
}

/**
 * Counts a recording as the simulator does.
 * @param factor the model's tokens per token of the simulator's tokenizer
 */
export const sizeOf = ({ system, tools, messages }: Recording, factor: number): Size => {
  const tokens = (count: number): number => Math.ceil(count * factor);
  const cost = (block: { readonly value: object; readonly text: string }): number =>
    tokens(countBlock(block.value as JsonObject, block.text));
  const results = messages.flatMap(({ blocks }) => blocks.filter(({ type }) => type === "tool_result").map(cost));
  const said = messages.map(({ blocks }) =>
    blocks.filter(({ type }) => type !== "tool_result").reduce((sum, block) => sum + cost(block), 0),
  );
  const fixed = OWN_TOKENS + countText(system) + countText(JSON.stringify(tools));
  return { fixedTokens: tokens(fixed), results, said };
};

/** What the messages cost in a window, whose large results are in files. */
export const shownTokens = ({ results, said }: Size, windowTokens: number): number =>
  said.reduce((sum, one) => sum + one, 0) +
  results.reduce((sum, one) => sum + Math.min(one, OFFLOAD_FRAC * windowTokens), 0);

export interface ChosenWindow {
  readonly windowTokens: number;
  /** How often the messages fill what the window leaves for them. */
  readonly fills: number;
}

/** The window for a recording, in tokens. */
export const chooseWindow = (size: Size): ChosenWindow => {
  const largest = Math.max(0, ...size.said);
  const least = Math.max(LEAST_TOKENS, Math.ceil((size.fixedTokens + largest) / FREE_FRAC));
  const whole = shownTokens(size, Number.POSITIVE_INFINITY);
  const windowTokens = Math.max(least, size.fixedTokens + Math.ceil(whole / FILLS));
  return { windowTokens, fills: shownTokens(size, windowTokens) / (windowTokens - size.fixedTokens) };
};
