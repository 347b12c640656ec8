/** What the subagents of a run use, while they do: its budget is theirs too. */
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

export interface SubagentUse {
  /**
   * Counts a subagent in from now on.
   * @param used all that it has used, its own subagents included
   * @param before of that, what is counted already: it was begun by an earlier part of the run
   * @returns to be called when it has ended
   */
  watch(used: () => Used, before: Used): () => void;
  total(): Used;
  /** The run has, or had, a subagent. */
  any(): boolean;
}

/** @param before what the subagents of earlier parts of the run used; null where there were none */
export const createSubagentUse = (before: Used | null): SubagentUse => {
  let ended = before ?? NOTHING;
  let any = before !== null;
  const live = new Set<() => Used>();
  return {
    watch: (used, counted) => {
      any = true;
      const more = (): Used => minus(used(), counted);
      live.add(more);
      return () => {
        if (live.delete(more)) ended = plus(ended, more());
      };
    },
    total: () => [...live].reduce((sum, more) => plus(sum, more()), ended),
    any: () => any,
  };
};
