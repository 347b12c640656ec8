/** The figures of a load: turns in a time, and how long they took beyond the model. */

export interface TurnTimes {
  /** The run's own count: time not spent waiting for the provider. */
  readonly overheadMs: number;
  /** What the client waited for the answer, without what the simulator took. */
  readonly clientMs: number;
}

/** The value that this share of the values does not exceed (nearest rank); NaN of none. @param share between 0 and 1 */
export const percentile = (values: readonly number[], share: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
};

const SHARES = [0.5, 0.95, 0.99, 1];

/** The figures as a table for a person. */
export const loadTable = (turns: readonly TurnTimes[], tookMs: number): string => {
  const line = (name: string, cells: readonly string[]): string =>
    name.padEnd(34) + cells.map((cell) => cell.padStart(8)).join("");
  const ofTimes = (name: string, values: readonly number[]): string =>
    line(
      name,
      SHARES.map((share) => percentile(values, share).toFixed(0)),
    );
  return [
    `${turns.length} turns in ${(tookMs / 1_000).toFixed(1)} s: ${((turns.length / tookMs) * 1_000).toFixed(1)} turns/s`,
    "",
    line("ms", ["p50", "p95", "p99", "most"]),
    ofTimes(
      "the run's own (overhead_ms)",
      turns.map(({ overheadMs }) => overheadMs),
    ),
    ofTimes(
      "the client's, without the model",
      turns.map(({ clientMs }) => clientMs),
    ),
  ].join("\n");
};
