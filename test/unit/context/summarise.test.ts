import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { acceptSummary, summarySize } from "../../../src/context/acceptance.ts";
import { estimateTokens } from "../../../src/context/estimate.ts";
import { END_MARK, PREFIXES, renderHandoff } from "../../../src/context/handoff.ts";
import type { SummariserPort, SummaryAnswer, SummaryCall, SummaryFailure } from "../../../src/context/ports.ts";
import { EMPTY_SECTIONS } from "../../../src/context/sections.ts";
import { type SummariseInput, summarise } from "../../../src/context/summarise.ts";
import type { SummaryRow } from "../../../src/context/summary-input.ts";
import { EMPTY_VIEW, type Generation } from "../../../src/context/view-state.ts";
import { seq } from "../../../src/protocol/ids.ts";

const USAGE = { inputTokens: 100, outputTokens: 10, cacheReadTokens: 1, cacheWriteTokens: 2 };

class CallFailed extends Error {
  readonly failure: SummaryFailure;
  constructor(failure: SummaryFailure) {
    super("Overloaded: this text must not be stored");
    this.failure = failure;
  }
}

type Reply = (call: SummaryCall, number: number) => Partial<SummaryAnswer> | SummaryFailure;

/** A summariser that answers by a function and keeps what it was asked. */
const summariser = (reply: Reply, windowTokens = 200_000) => {
  const calls: SummaryCall[] = [];
  const port: SummariserPort = {
    model: "small",
    windowTokens,
    call: (call) => {
      calls.push(call);
      const answer = reply(call, calls.length);
      if (typeof answer === "string") return Promise.reject(new CallFailed(answer));
      return Promise.resolve({ text: "", stopReason: "end_turn", usage: USAGE, model: "small-1", ...answer });
    },
    failureOf: (error) => (error instanceof CallFailed ? error.failure : "transient"),
  };
  return { port, calls };
};

const rowsOf = (count: number, from = 1, length = 60): readonly SummaryRow[] =>
  Array.from({ length: count }, (_, index) => {
    const at = from + index;
    const text = `message ${at} ${"word ".repeat(length / 5)}`;
    return { seq: seq(at), role: "user", origin: "user", content: JSON.stringify([{ type: "text", text }]) };
  });

const input = (port: SummariserPort, over: Partial<SummariseInput> = {}): SummariseInput => ({
  rows: rowsOf(10),
  base: null,
  pinned: null,
  focus: null,
  size: summarySize(50_000, 200_000),
  port,
  redact: (text) => text.replaceAll("hunter2", "[redacted]"),
  estimateTokens,
  ...over,
});

describe("summarising", () => {
  it("makes one call where the slice fits, with the ceiling as its limit (S5, S7)", async () => {
    const { port, calls } = summariser(() => ({ text: "It was done." }));
    expect(await summarise(input(port))).toEqual({
      kind: "summary",
      text: "It was done.",
      stopReason: "end_turn",
      model: "small-1",
      usage: USAGE,
      calls: 1,
    });
    expect(calls.map(({ maxTokens }) => maxTokens)).toEqual([40_000]);
  });

  it("merges a larger slice piece by piece, each message once, each call within the summariser's window (S1)", async () => {
    const { port, calls } = summariser((_, number) => ({ text: `So far ${number}.` }), 6_000);
    const outcome = await summarise(input(port, { rows: rowsOf(200, 1, 200), size: summarySize(20_000, 20_000) }));
    expect(outcome).toMatchObject({ kind: "summary", text: `So far ${calls.length}.`, calls: calls.length });
    expect(outcome.usage).toEqual({
      inputTokens: 100 * calls.length,
      outputTokens: 10 * calls.length,
      cacheReadTokens: calls.length,
      cacheWriteTokens: 2 * calls.length,
    });
    expect(calls.length).toBeGreaterThan(2);
    calls.forEach(({ system, prompt, maxTokens }, index) => {
      expect(estimateTokens(system) + estimateTokens(prompt) + maxTokens).toBeLessThanOrEqual(6_000);
      if (index > 0) expect(prompt).toContain(`<summary-data-1>\nSo far ${index}.\n</summary-data-1>`);
    });
    const all = calls.map(({ prompt }) => prompt).join("\n");
    expect(Array.from(all.matchAll(/^\[(\d+)\] user$/gm), ([, at]) => Number(at))).toEqual(
      Array.from({ length: 200 }, (_, index) => index + 1),
    );
  });

  it("gives the summary of the base apart (S1)", async () => {
    const { port, calls } = summariser(() => ({ text: "New." }));
    await summarise(input(port, { base: { summary: `${PREFIXES[0]}\n\nOld facts.\n\n${END_MARK}` } }));
    expect(calls[0]?.prompt).toContain("<summary-data-1>\nOld facts.\n</summary-data-1>");
  });

  it("gives the earlier summary no more than its share of the window, its middle left out (S1)", async () => {
    const { port, calls } = summariser(() => ({ text: "New." }), 6_000);
    const summary = `It began here. ${"Much was done. ".repeat(20_000)}It ended there.`;
    await summarise(input(port, { base: { summary }, size: summarySize(20_000, 20_000) }));
    for (const { system, prompt, maxTokens } of calls) {
      expect(estimateTokens(system) + estimateTokens(prompt) + maxTokens).toBeLessThanOrEqual(6_000);
    }
    expect(calls[0]?.prompt).toMatch(/It began here\..*characters left out.*It ended there\./s);
  });

  it("keeps secrets from the summariser and out of what it wrote (S6)", async () => {
    const { port, calls } = summariser(() => ({ text: "The password was hunter2." }));
    const rows: readonly SummaryRow[] = [
      { seq: seq(1), role: "user", origin: "user", content: '[{"type":"text","text":"use hunter2"}]' },
    ];
    const outcome = await summarise(input(port, { rows, focus: "hunter2", base: { summary: "It is hunter2." } }));
    expect(outcome).toMatchObject({ kind: "summary", text: "The password was [redacted]." });
    expect(calls[0]?.prompt).not.toContain("hunter2");
  });

  it.each(["timeout", "overloaded", "authentication", "quota", "network", "transient"] as const)(
    "answers with the class of a call that failed: %s, and no text (S5, G2)",
    async (failure) => {
      const { port } = summariser(() => failure);
      expect(await summarise(input(port))).toEqual({
        kind: "failed",
        failure,
        reason: "the call failed",
        usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
        calls: 1,
      });
    },
  );

  it.each([
    [{ text: "Cut", stopReason: "max_tokens" }, "truncated"],
    [{ text: " \n " }, "empty"],
    [{ text: "I'm sorry, I can't help with that." }, "refused"],
    [{ text: "API Error: 529 overloaded_error" }, "malformed"],
    [{ text: "words ".repeat(40_000) }, "too_long"],
  ] as const)("does not use an answer that is no summary: %# (S5)", async (answer, failure) => {
    const { port } = summariser(() => answer);
    expect(await summarise(input(port))).toMatchObject({ kind: "failed", failure, usage: USAGE, calls: 1 });
  });

  it("stops at the first piece that fails: half a summary is none (S5)", async () => {
    const { port, calls } = summariser((_, number) => (number === 2 ? "network" : { text: "So far." }), 6_000);
    const outcome = await summarise(input(port, { rows: rowsOf(200, 1, 200), size: summarySize(20_000, 20_000) }));
    expect([outcome, calls.length]).toMatchObject([{ kind: "failed", failure: "network", usage: USAGE }, 2]);
  });

  it("tries smaller pieces when the provider finds a call too long, and gives up after the second halving (S1)", async () => {
    const once = summariser((_, number) => (number === 1 ? "too_long" : { text: "Fine." }));
    expect(await summarise(input(once.port))).toMatchObject({ kind: "summary", text: "Fine." });
    const always = summariser(() => "too_long");
    expect(await summarise(input(always.port))).toMatchObject({ kind: "failed", failure: "too_long", calls: 3 });
  });

  it("does not call a summariser whose window is too small for a message (S1)", async () => {
    const { port, calls } = summariser(() => ({ text: "x" }), 900);
    expect([await summarise(input(port)), calls]).toMatchObject([
      { kind: "failed", failure: "too_long", calls: 0 },
      [],
    ]);
  });

  it("never nests: an echoing summariser over five generations stays bounded, with one prefix and one end mark (S1)", async () => {
    const echoes: readonly Reply[] = [
      ({ prompt }) => ({ text: prompt }),
      ({ prompt }) => ({ text: `${PREFIXES[0]}\n\n${prompt}\n\n${END_MARK}` }),
      ({ prompt }) => ({ text: prompt.slice(0, 8_000) }),
    ];
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(...echoes), { minLength: 5, maxLength: 5 }),
        fc.integer({ min: 5, max: 40 }),
        async (replies, rows) => {
          const generations: Generation[] = [];
          const size = summarySize(5_000, 100_000);
          let next = 1;
          for (const reply of replies) {
            const covered = rowsOf(rows, next);
            const base = generations.at(-1) ?? null;
            const outcome = await summarise(input(summariser(reply).port, { rows: covered, base, size }));
            if (outcome.kind === "failed") continue;
            next += rows;
            const generation: Generation = {
              number: generations.length + 1,
              base: generations.length,
              covered: [{ from: seq(1), to: seq(next - 1) }],
              summary: outcome.text,
              sections: EMPTY_SECTIONS,
              pinned: { seq: seq(1), text: "message 1 is the ask" },
              history: { kind: "api" },
              prefixVersion: 1,
            };
            generations.push(generation);
            const text = renderHandoff({ ...EMPTY_VIEW, generation }, "ses_1") ?? "";
            const count = (part: string) => text.split(part).length - 1;
            expect([count(PREFIXES[0] ?? "?"), count(END_MARK), count("[Request of message")]).toEqual([1, 1, 1]);
            expect(estimateTokens(outcome.text)).toBeLessThanOrEqual(size.ceilingTokens);
          }
          expect(generations.length).toBeGreaterThan(0);
        },
      ),
      { numRuns: 30 },
    );
  });

  it("hands on an answer that the whole gate can judge (S5)", async () => {
    const { port } = summariser(() => ({ text: "It was done." }));
    const outcome = await summarise(input(port));
    if (outcome.kind === "failed") throw new Error(outcome.reason);
    const check = { targetTokens: 2_000, replacedTokens: 500, newViewEstimate: 1, oldViewEstimate: 600, problems: [] };
    expect(acceptSummary({ ...outcome, ...check, estimateTokens })).toEqual({ kind: "accepted" });
  });
});
