/** Sums of what model calls used. */
import type { Used } from "../store/statements.ts";

export const NOTHING: Used = {
  usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
  costUsd: null,
};

const combine = (a: Used, b: Used, sign: 1 | -1): Used => ({
  usage: {
    inputTokens: a.usage.inputTokens + sign * b.usage.inputTokens,
    outputTokens: a.usage.outputTokens + sign * b.usage.outputTokens,
    cacheReadTokens: a.usage.cacheReadTokens + sign * b.usage.cacheReadTokens,
    cacheWriteTokens: a.usage.cacheWriteTokens + sign * b.usage.cacheWriteTokens,
  },
  costUsd: a.costUsd === null && b.costUsd === null ? null : (a.costUsd ?? 0) + sign * (b.costUsd ?? 0),
});

export const plus = (a: Used, b: Used): Used => combine(a, b, 1);
export const minus = (a: Used, b: Used): Used => combine(a, b, -1);
