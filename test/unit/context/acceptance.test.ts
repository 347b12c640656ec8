import { describe, expect, it } from "vitest";
import { acceptSummary, type SummaryCheck, summarySize } from "../../../src/context/acceptance.ts";
import { END_MARK, PREFIXES } from "../../../src/context/handoff.ts";

/** One token for each character, so that bounds can be met exactly. */
const perCharacter = (text: string): number => text.length;

const GOOD: SummaryCheck = {
  text: "The tables were migrated.",
  stopReason: "end_turn",
  targetTokens: 100,
  replacedTokens: 1_000,
  newViewEstimate: 5_000,
  oldViewEstimate: 10_000,
  problems: [],
  estimateTokens: perCharacter,
};
const outcome = (over: Partial<SummaryCheck>): string => {
  const answer = acceptSummary({ ...GOOD, ...over });
  return answer.kind === "accepted" ? "accepted" : answer.failure;
};

describe("the acceptance of a summary", () => {
  it("accepts a summary that ended, fits and makes the view smaller (S5)", () => {
    expect(acceptSummary(GOOD)).toEqual({ kind: "accepted" });
  });

  it.each([
    ["max_tokens", "truncated"],
    ["model_context_window_exceeded", "truncated"],
    ["refusal", "refused"],
    ["tool_use", "malformed"],
    ["pause_turn", "malformed"],
    ["stop_sequence", "malformed"],
    ["", "malformed"],
  ])("does not accept the stop reason %s: %s (S5)", (stopReason, failure) => {
    expect(outcome({ stopReason })).toBe(failure);
  });

  it.each(["", " \n\t", "…", "---", END_MARK, `${PREFIXES[0]}\n\n${END_MARK}`])(
    "does not accept %j: blank after stripping (S5)",
    (text) => {
      expect(outcome({ text, targetTokens: 10_000 })).toBe("empty");
    },
  );

  it.each([
    "I'm sorry, but I can't help with that.",
    "I cannot summarize this conversation.",
    "Sorry, this is not something I will do.",
    "I am unable to assist with this request.",
    "I won't write a summary of this.",
  ])("does not accept a refusal: %s (S5)", (text) => {
    expect(outcome({ text })).toBe("refused");
  });

  it.each([
    '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    '{"error": {"message": "invalid x-api-key"}}',
    "API Error: 529 overloaded_error",
    "Error: 401 authentication_error",
    "Error 500",
    "529 Overloaded error",
    "HTTP 503 Service Unavailable",
    "overloaded_error: try again",
  ])("never takes an error text for a summary: %s (S5)", (text) => {
    expect(outcome({ text })).toBe("malformed");
  });

  it.each([
    "The user reported an error 500 on /login; the cause was a missing index.",
    "Error handling was added to src/api.ts and tested.",
    "I read the log and found that I cannot be sure of the date.",
    "500 rows were copied; 3 failed with an error.",
    "404 pages were redesigned, as the user had asked.",
  ])("accepts a summary that speaks of errors: %s (S5)", (text) => {
    expect(outcome({ text })).toBe("accepted");
  });

  it("accepts up to four times the target and no more (S5)", () => {
    const size = (length: number) => outcome({ text: "x".repeat(length) });
    expect([size(400), size(401)]).toEqual(["accepted", "too_long"]);
  });

  it("does not accept a summary as large as what it replaces (S5)", () => {
    expect([outcome({ replacedTokens: 26 }), outcome({ replacedTokens: 25 })]).toEqual(["accepted", "would_grow"]);
  });

  it("does not accept a view that breaks a rule (S5, C7)", () => {
    expect(outcome({ problems: [{ kind: "orphan" }] })).toBe("invalid_view");
  });

  it("wants the view at least 5 % smaller (S5)", () => {
    expect([outcome({ newViewEstimate: 9_500 }), outcome({ newViewEstimate: 9_501 })]).toEqual([
      "accepted",
      "would_grow",
    ]);
  });
});

describe("the size of a summary", () => {
  it.each([
    { covered: 1_000, window: 200_000, target: 2_000, why: "the least" },
    { covered: 30_000, window: 200_000, target: 6_000, why: "a fifth" },
    { covered: 150_000, window: 200_000, target: 10_000, why: "the most" },
    { covered: 900_000, window: 1_000_000, target: 10_000, why: "the most, in a large window" },
    { covered: 60_000, window: 100_000, target: 5_000, why: "the most, scaled to the window" },
    { covered: 7_000, window: 8_000, target: 400, why: "both bounds scaled: the upper wins" },
    { covered: 100, window: 8_000, target: 400, why: "both bounds scaled" },
  ])("is $target tokens for $covered in a window of $window: $why (S5)", ({ covered, window, target }) => {
    expect(summarySize(covered, window)).toEqual({ targetTokens: target, ceilingTokens: 4 * target });
  });
});
