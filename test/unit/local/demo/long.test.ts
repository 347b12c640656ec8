import { describe, expect, it } from "vitest";
import { longTable, turnLine } from "../../../../src/local/demo/long.ts";
import type { SessionFigures } from "../../../../src/local/replay/result.ts";

const change = {
  reason: "threshold",
  steps: ["clip", "summarise"],
  generation: 1,
  revision: 2,
  tokensBefore: 17_899,
  tokensAfter: 13_397,
  evicted: 12,
};

describe("what the long demo shows", () => {
  it("is a line for each turn: its calls, its size, and what was done about it", () => {
    expect(turnLine({ turn: 7, calls: 1, contextTokens: 950, changes: [] })).toBe(
      "turn   7   1 call       950 tokens\n",
    );
    const demoted = { ...change, steps: ["demote"], generation: null, evicted: 0 };
    expect(turnLine({ turn: 72, calls: 18, contextTokens: 13_558, changes: [change, demoted] })).toBe(
      "turn  72  18 calls   13,558 tokens  clip + summarise: 17,899 to 13,397 tokens, 12 messages covered;  demote: 17,899 to 13,397 tokens\n",
    );
  });

  it("ends in a table", () => {
    const figures: SessionFigures = {
      session: "one",
      messages: 576,
      turns: 186,
      window_tokens: 28_000,
      provider_calls: 297,
      summary_calls: 9,
      count_calls: 40,
      compactions: 8,
      revisions: 10,
      prefix_breaks: 10,
      rejected_requests: 0,
      failed_runs: 0,
      tokens_before: 24_006,
      tokens_after: 14_713,
      cache_share: 0.9541,
      problems: [],
      notes: [],
    };
    expect(longTable(figures).split("\n")).toEqual([
      "----------------------------------------",
      "window, in tokens                 28,000",
      "turns                                186",
      "messages in the log                  576",
      "model calls of turns                 288",
      "model calls for summaries              9",
      "compactions                            8",
      "changes of the view in all            10",
      "tokens before a compaction, mean  24,006",
      "tokens after it, mean             14,713",
      "requests refused                       0",
      "runs failed                            0",
      "cache share of the input          95.4 %",
      "----------------------------------------",
    ]);
  });
});
