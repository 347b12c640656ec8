/** When a delivery that failed is tried again. */

/** Waits in seconds after the first, second, ... attempt; the last one goes on until the delivery is a day old (issue: 24 h). */
const WAITS_SECONDS = [5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800] as const;

/** Waits are shortened by up to this share, so that what failed together does not come back together. */
const JITTER = 0.2;

/**
 * The wait before the next attempt, in seconds.
 * @param attempt how many were made, at least 1
 * @param random from 0 up to 1
 */
export const retryDelaySeconds = (attempt: number, random: number): number => {
  const wait = WAITS_SECONDS[Math.min(attempt, WAITS_SECONDS.length) - 1] ?? WAITS_SECONDS[0];
  return wait * (1 - JITTER * random);
};
