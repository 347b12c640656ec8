import { describe, expect, it } from "vitest";
import { type CompactionSeen, type Driven, sessionWatcher } from "../../../../src/local/replay/drive.ts";
import { figuresOf, renderTable, totalsOf } from "../../../../src/local/replay/result.ts";
import { chooseWindow, shownTokens } from "../../../../src/local/replay/window.ts";

const change = (revision: number, generation: number | null, tokensBefore = 900): CompactionSeen => ({
  reason: "threshold",
  steps: generation === null ? ["clip"] : ["summarise"],
  generation,
  revision,
  tokensBefore,
  tokensAfter: 300,
  evicted: 4,
});

const driven = (more: Partial<Driven> = {}): Driven => ({
  sessionId: "ses_1",
  turns: [
    { turn: 1, calls: 2, contextTokens: 500, changes: [change(2, 1), change(3, null)] },
    { turn: 2, calls: 1, contextTokens: 600, changes: [change(4, 2), change(5, 3, 1_200)] },
  ],
  requests: { turnCalls: 3, summaryCalls: 3, countCalls: 1, rejected: [], prefixBreaks: 4 },
  failures: [],
  differences: [],
  messages: 6,
  revisions: 5,
  triggerTokens: 850,
  inputTokens: 2_000,
  cacheReadTokens: 1_500,
  ...more,
});

const judged = (more: Partial<Driven> = {}, times = 1) =>
  figuresOf({ name: "one", windowTokens: 1_000, times, driven: driven(more) });

const good = {
  session: "one",
  messages: 6,
  turns: 2,
  window_tokens: 1_000,
  provider_calls: 6,
  summary_calls: 3,
  count_calls: 1,
  compactions: 3,
  revisions: 5,
  prefix_breaks: 4,
  rejected_requests: 0,
  failed_runs: 0,
  tokens_before: 1_000,
  tokens_after: 300,
  cache_share: 0.75,
  problems: [],
  notes: [],
};

describe("the figures of a replayed session", () => {
  it("count compactions by summaries and revisions by what was recorded", () => {
    expect(judged()).toEqual(good);
    expect(judged({}, 3).notes).toEqual(["replayed 3 times in a row, since it is small"]);
  });

  it.each<[string, Partial<Driven>, readonly string[]]>([
    [
      "a refused request",
      { requests: { ...driven().requests, rejected: ["request 3 to /v1/messages: 400 no"] } },
      ["request 3 to /v1/messages: 400 no"],
    ],
    ["a failed run", { failures: ["turn 2 of 3: the run failed"] }, ["turn 2 of 3: the run failed"]],
    ["a log that differs", { differences: ["message 3 differs"] }, ["message 3 differs"]],
    ["too few compactions", { turns: driven().turns.slice(1) }, ["compacted 2 times instead of 3 or more"]],
    [
      "a prompt whose beginning changed without a revision (V2)",
      { requests: { ...driven().requests, prefixBreaks: 6 } },
      ["the prompt's beginning changed 6 times with 5 revisions"],
    ],
  ])("have a problem for %s", (_, more, problems) => {
    expect(judged(more).problems).toEqual(problems);
  });

  it("are added up, and shown in a table", () => {
    const totals = totalsOf(
      [judged(), { ...judged(), session: "two", compactions: 0, tokens_before: 0 }],
      [driven(), driven({ cacheReadTokens: 500 })],
    );
    expect(totals).toEqual({
      ...good,
      session: "2 sessions",
      messages: 12,
      turns: 4,
      provider_calls: 12,
      summary_calls: 6,
      count_calls: 2,
      compactions: 3,
      revisions: 10,
      prefix_breaks: 8,
      cache_share: 0.5,
    });
    expect(renderTable([judged()], totals).split("\n").slice(0, 5)).toEqual([
      "session     messages  turns  window  calls  compactions  revisions  rejected  failed  before  after   cache",
      "-".repeat(107),
      "one                6      2   1,000      6            3          5         0       0   1,000    300  75.0 %",
      "-".repeat(107),
      "2 sessions        12      4   1,000     12            3         10         0       0   1,000    300  50.0 %",
    ]);
  });
});

describe("what is seen of a session's events", () => {
  it("are sizes in the provider's tokens: an estimate times what the last prompt had of them", () => {
    const watcher = sessionWatcher();
    const tell = (type: string, data: object): void => watcher.onEvent(type, JSON.stringify(data));
    const usage = { input_tokens: 50, cache_read_input_tokens: 700, cache_creation_input_tokens: 50, output_tokens: 9 };
    tell("run.started", {});
    tell("context.usage", { estimate: 1_000, projected: 1_000, window: 2_000 });
    tell("message.completed", { message_id: "m", role: "assistant", usage });
    tell("message.completed", { message_id: "m", role: "user" });
    expect(watcher.take()).toEqual({ contextTokens: 800, changes: [] });
    const { tokensBefore: _before, tokensAfter: _after, ...rest } = change(2, 1);
    tell("context.compacted", { ...rest, tokens_before: 1_500, tokens_after: 500, path: null });
    expect(watcher.take()).toEqual({
      contextTokens: 800,
      changes: [{ ...rest, tokensBefore: 1_200, tokensAfter: 400 }],
    });
    expect(watcher.take()).toEqual({ contextTokens: 800, changes: [] });
  });
});

describe("the window of a replay", () => {
  it("is filled six times by a long session", () => {
    const size = { fixedTokens: 4_000, results: [], said: Array.from({ length: 600 }, () => 100) };
    expect(chooseWindow(size)).toEqual({ windowTokens: 14_000, fills: 6 });
  });

  it("holds what is always sent and the largest message, however small the session is", () => {
    const size = { fixedTokens: 4_000, results: [200], said: [1_500, 100] };
    expect(chooseWindow(size)).toEqual({ windowTokens: 10_000, fills: 0.3 });
  });

  it("counts results over a tenth of it as that much: the rest is in files", () => {
    expect(shownTokens({ fixedTokens: 1, results: [5_000, 10], said: [7] }, 10_000)).toBe(1_017);
  });
});
