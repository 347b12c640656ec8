/** What a replay cost, from the run objects that the API shows. */
import type { Run } from "./client.ts";

export interface Spread {
  readonly p50: number;
  readonly p95: number;
}

export interface Figures {
  readonly turns: number;
  /** Rows of the log. */
  readonly messages: number;
  readonly provider_calls: number;
  readonly tool_calls: number;
  /** The whole prompts, whatever part of them came from the cache. */
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  /** Tokens read from the cache, as a part of all input tokens; 0 to 1. */
  readonly cache_share: number;
  readonly db_round_trips: number;
  readonly db_round_trips_per_turn: number;
  /** Per turn, in ms. */
  readonly overhead_ms: Spread;
  /** Per turn, in ms: the part of the overhead in which no call was at the tool server. */
  readonly overhead_without_tools_ms: Spread;
  /** Per model call, in ms: a turn's overhead divided by its calls. */
  readonly overhead_per_call_ms: Spread;
}

/** The value below which this part of the values lies: nearest rank. @returns 0 for no values */
export const percentile = (values: readonly number[], part: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? 0;
};

const tenth = (value: number): number => Math.round(value * 10) / 10;

const spread = (values: readonly number[]): Spread => ({
  p50: tenth(percentile(values, 0.5)),
  p95: tenth(percentile(values, 0.95)),
});

export interface Measured {
  /** One for each turn, in order. */
  readonly runs: readonly Run[];
  /** Time with a call at the tool server, in ms, for each turn, in order. */
  readonly toolMs: readonly number[];
  readonly messages: number;
  readonly toolCalls: number;
}

/** Adds up the runs of a replay. */
export const figuresOf = ({ runs, toolMs, messages, toolCalls }: Measured): Figures => {
  const sum = (read: (run: Run) => number): number => runs.reduce((total, run) => total + read(run), 0);
  const cacheRead = sum(({ usage }) => usage.cache_read_input_tokens);
  const cacheWrite = sum(({ usage }) => usage.cache_creation_input_tokens);
  const input = sum(({ usage }) => usage.input_tokens) + cacheRead + cacheWrite;
  const roundTrips = sum((run) => run.db_round_trips ?? 0);
  const overhead = runs.map((run) => run.overhead_ms ?? 0);
  return {
    turns: runs.length,
    messages,
    provider_calls: sum((run) => run.steps),
    tool_calls: toolCalls,
    input_tokens: input,
    output_tokens: sum(({ usage }) => usage.output_tokens),
    cache_read_tokens: cacheRead,
    cache_write_tokens: cacheWrite,
    cache_share: input === 0 ? 0 : Math.round((cacheRead / input) * 10_000) / 10_000,
    db_round_trips: roundTrips,
    db_round_trips_per_turn: runs.length === 0 ? 0 : tenth(roundTrips / runs.length),
    overhead_ms: spread(overhead),
    overhead_without_tools_ms: spread(overhead.map((ms, index) => Math.max(0, ms - (toolMs[index] ?? 0)))),
    overhead_per_call_ms: spread(runs.map((run) => (run.overhead_ms ?? 0) / Math.max(1, run.steps))),
  };
};
