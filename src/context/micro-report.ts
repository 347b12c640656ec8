/** What micro-compaction has brought a session (section 11), in the order in which it counts: headroom, long pauses avoided, tokens. */

/** Sizes of the whole request before and after one generation, by our estimates, in tokens. */
export interface GenerationStep {
  readonly isMicro: boolean;
  readonly before: number;
  readonly after: number;
}

export interface MicroReport {
  /** The request as it is now, as a share of the trigger; null where the window of the model is not known. */
  readonly occupancy: number | null;
  /** Compactions at the trigger that there would have been without; null likewise. An estimate, see `avoidedCompactions`. */
  readonly batchCompactionsAvoided: number | null;
  /** Compactions that there were nevertheless. */
  readonly batchCompactions: number;
  readonly passes: number;
  readonly tokensSaved: number;
}

/** A share with three digits. */
export const occupancyOf = (tokens: number, triggerTokens: number | null): number | null =>
  triggerTokens === null ? null : Math.round((tokens / Math.max(1, triggerTokens)) * 1_000) / 1_000;

/**
 * How often the request would have reached its trigger, had no pass been made: it is taken to grow by what was said between two generations
 * and never to shrink by a pass; each time it is at the trigger, a compaction is counted, after which it is as large as the real one was then. A
 * compaction that did happen makes both the same. What a compaction would have left is smaller in truth, mostly, so this rather
 * counts one too many than one too few in a very long session.
 */
export const avoidedCompactions = (steps: readonly GenerationStep[], now: number, triggerTokens: number): number => {
  let avoided = 0;
  let real = 0;
  let without = 0;
  const grow = (to: number): void => {
    without += Math.max(0, to - real);
    real = to;
  };
  const crosses = (): boolean => without >= triggerTokens && real < triggerTokens;
  for (const { isMicro, before, after } of steps) {
    grow(before);
    if (crosses()) {
      avoided++;
      without = after;
    }
    real = after;
    if (!isMicro) without = after;
  }
  grow(now);
  return crosses() ? avoided + 1 : avoided;
};

/** @param tokensNow of the next request @param triggerTokens null where the window of the model is not known */
export const microReport = (
  steps: readonly GenerationStep[],
  tokensNow: number,
  triggerTokens: number | null,
): MicroReport => {
  const passes = steps.filter(({ isMicro }) => isMicro);
  return {
    occupancy: occupancyOf(tokensNow, triggerTokens),
    batchCompactionsAvoided: triggerTokens === null ? null : avoidedCompactions(steps, tokensNow, triggerTokens),
    batchCompactions: steps.length - passes.length,
    passes: passes.length,
    tokensSaved: passes.reduce((sum, { before, after }) => sum + before - after, 0),
  };
};
