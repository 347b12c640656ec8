/** What a call costs by the list prices: an estimate for budgets and reports, no invoice. */
import type { Usage } from "../protocol/messages.ts";
import type { PriceList, Prices } from "./profiles.ts";

const PER_MILLION = 1_000_000;

/** The parts of a call in the order of their positions: what is read from the cache stands first, the answer last. */
const ORDER: readonly { readonly tokens: keyof Usage; readonly price: keyof Prices }[] = [
  { tokens: "cacheReadTokens", price: "cacheRead" },
  { tokens: "cacheWriteTokens", price: "cacheWrite" },
  { tokens: "inputTokens", price: "input" },
  { tokens: "outputTokens", price: "output" },
];

/**
 * The list-price cost of a call in USD. Where a model has a second price above a size, each token pays by its own position
 * in prompt and answer (messages-api.md). Cache writes count as 5-minute writes.
 * @param list `ModelProfile.prices`
 * @returns null when the price is not known
 */
export const costUsd = (list: PriceList | null, usage: Usage): number | null => {
  if (!list) return null;
  const boundary = list.above?.tokens ?? Number.POSITIVE_INFINITY;
  const upper: Prices = list.above?.prices ?? list;
  let position = 0;
  let cost = 0;
  for (const { tokens, price } of ORDER) {
    const amount = usage[tokens];
    const below = Math.min(amount, Math.max(0, boundary - position));
    cost += below * list[price] + (amount - below) * upper[price];
    position += amount;
  }
  return cost / PER_MILLION;
};
