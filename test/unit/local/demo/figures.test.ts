import { describe, expect, it } from "vitest";
import type { Run } from "../../../../src/local/demo/client.ts";
import { figuresOf, percentile } from "../../../../src/local/demo/figures.ts";
import { createProgress, renderTable } from "../../../../src/local/demo/report.ts";

const run = (steps: number, overheadMs: number, tokens: readonly [number, number, number, number]): Run => ({
  id: "run_1",
  status: "completed",
  steps,
  usage: {
    input_tokens: tokens[0],
    cache_read_input_tokens: tokens[1],
    cache_creation_input_tokens: tokens[2],
    output_tokens: tokens[3],
  },
  db_round_trips: 2 * steps,
  overhead_ms: overheadMs,
});

const measured = {
  runs: [run(1, 10, [100, 0, 900, 50]), run(4, 100, [200, 2_800, 1_000, 70]), run(1, 20, [10, 2_990, 0, 5])],
  toolMs: [0, 40.26, 0],
  messages: 12,
  toolCalls: 5,
};

const figures = {
  turns: 3,
  messages: 12,
  provider_calls: 6,
  tool_calls: 5,
  input_tokens: 8_000,
  output_tokens: 125,
  cache_read_tokens: 5_790,
  cache_write_tokens: 1_900,
  cache_share: 0.7238,
  db_round_trips: 12,
  db_round_trips_per_turn: 4,
  overhead_ms: { p50: 20, p95: 100 },
  overhead_without_tools_ms: { p50: 20, p95: 59.7 },
  overhead_per_call_ms: { p50: 20, p95: 25 },
};

describe("the demo's figures", () => {
  it.each([
    [[], 0.5, 0],
    [[7], 0.95, 7],
    [[3, 1, 2], 0.5, 2],
    [[4, 3, 2, 1], 0.5, 2],
    [Array.from({ length: 100 }, (_, index) => index + 1), 0.95, 95],
    [Array.from({ length: 20 }, (_, index) => index + 1), 0.95, 19],
  ])("takes the percentile by nearest rank: %j at %d is %d", (values, part, expected) => {
    expect(percentile(values, part)).toBe(expected);
  });

  it("add up the runs; the whole prompt is the input, and the cache's share is of the whole", () => {
    expect(figuresOf(measured)).toEqual(figures);
  });

  it("are all zero for no runs", () => {
    const { overhead_ms, overhead_without_tools_ms, overhead_per_call_ms, ...counts } = figuresOf({
      runs: [],
      toolMs: [],
      messages: 0,
      toolCalls: 0,
    });
    expect(new Set(Object.values(counts))).toEqual(new Set([0]));
    const zero = { p50: 0, p95: 0 };
    expect([overhead_ms, overhead_without_tools_ms, overhead_per_call_ms]).toEqual([zero, zero, zero]);
  });

  it("end in a table", () => {
    expect(renderTable(figures).split("\n").slice(0, 13)).toEqual([
      "-----------------------------------------------------",
      "turns                                               3",
      "messages in the log                                12",
      "provider calls                                      6",
      "tool calls                                          5",
      "input tokens                                    8,000",
      "output tokens                                     125",
      "cache share of the input                       72.4 %",
      "database round trips                  12 (4.0 a turn)",
      "own overhead a turn, p50 / p95 (1)        20 / 100 ms",
      "the same without tools (2)               20 / 59.7 ms",
      "own overhead a model call, p50 / p95       20 / 25 ms",
      "-----------------------------------------------------",
    ]);
  });
});

describe("the demo's progress", () => {
  const end = {
    steps: 2,
    usage: { input_tokens: 10, cache_read_input_tokens: 2_000, cache_creation_input_tokens: 90, output_tokens: 50 },
  };
  const play = (isTty: boolean): readonly string[] => {
    const written: string[] = [];
    let nowMs = 0;
    const progress = createProgress({ write: (text) => void written.push(text), isTty, turns: 12, now: () => nowMs });
    progress.begin(3);
    nowMs = 1_260;
    progress.answered();
    nowMs = 2_500;
    progress.end(end);
    progress.begin(4);
    progress.stop();
    return written;
  };

  it("is a plain line for each turn where no terminal is", () => {
    expect(play(false)).toEqual(["turn  3/12    2.5 s    2 calls  2,100 tokens in, 50 out\n"]);
  });

  it("counts up in place on a terminal", () => {
    expect(play(true)).toEqual([
      "\r\x1b[2Kturn  3/12    0.0 s    0 calls",
      "\r\x1b[2Kturn  3/12    1.3 s    1 call ",
      "\r\x1b[2Kturn  3/12    2.5 s    2 calls  2,100 tokens in, 50 out\n",
      "\r\x1b[2Kturn  4/12    0.0 s    0 calls",
      "\n",
    ]);
  });
});
