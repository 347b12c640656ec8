/** What a turn may still cost (api.md: `budget`). */

export interface Budget {
  /** What the session had cost before this turn, in USD at list price. */
  readonly sessionUsd: number;
  /** Most that the session may cost; undefined for no limit. */
  readonly sessionMaxUsd: number | undefined;
  /** Most that this turn may cost; undefined for no limit. */
  readonly turnMaxUsd: number | undefined;
}

/**
 * Whether another model call may be made. What a call will cost is not known before: a budget that is not reached yet can be passed by one call. A model
 * without a price costs nothing here, and reaches no budget.
 * @param turnUsd what this turn has cost so far; null where no call had a price
 */
export const withinBudget = ({ sessionUsd, sessionMaxUsd, turnMaxUsd }: Budget, turnUsd: number | null): boolean => {
  const spent = turnUsd ?? 0;
  return (
    (sessionMaxUsd === undefined || sessionUsd + spent < sessionMaxUsd) &&
    (turnMaxUsd === undefined || spent < turnMaxUsd)
  );
};
