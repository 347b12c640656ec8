import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BULKY_RESULT_TOKENS, demoteContent, demotionOrder, planDemotion } from "../../../src/context/demote.ts";
import { estimateTokens } from "../../../src/context/estimate.ts";
import { EMPTY_SECTIONS } from "../../../src/context/sections.ts";
import { EMPTY_VIEW, type Generation, type ViewState } from "../../../src/context/view-state.ts";
import type { MessageId, RunId } from "../../../src/protocol/ids.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow, Role } from "../../../src/protocol/messages.ts";

const only = (...ids: readonly string[]) => new Set(ids);
const note = (what: string, at: number) =>
  `[result of ${what} left out here; it is in the history file at message ${at}]`;
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "A".repeat(3_000) } };
const reference = { type: "image", source: { type: "base64", media_type: "image/png", data: "hango:media/sha256-00" } };

const anyText = fc
  .tuple(fc.string({ unit: "binary", maxLength: 30 }), fc.nat(40))
  .map(([piece, times]) => piece.repeat(times));
const anyResult = fc.record(
  {
    type: fc.constant("tool_result"),
    tool_use_id: fc.constantFrom("a", "b", "c\u0000", "d"),
    content: fc.oneof(
      anyText,
      fc.array(
        fc.oneof(
          fc.record({ type: fc.constant("text"), text: anyText }),
          fc.constant(image),
          fc.record({ type: anyText }),
        ),
        {
          maxLength: 4,
        },
      ),
    ),
    is_error: fc.boolean(),
  },
  { requiredKeys: ["type", "tool_use_id"] },
);
const anyContent = fc.array(fc.oneof(anyResult, fc.record({ type: fc.constant("text"), text: anyText })), {
  minLength: 1,
  maxLength: 5,
});

describe("demoting a result (ladder step 4, V2, V9)", () => {
  it("changes the content of the named results alone, to a shorter one-line note; idempotent and valid", () => {
    let demotions = 0;
    fc.assert(
      fc.property(anyContent, fc.constantFrom(undefined, 1), fc.nat(1_000_000), (blocks, space, at) => {
        const content = JSON.stringify(blocks, null, space);
        const demoted = demoteContent(content, only("a", "c\u0000"), at);
        if (demoted === content) return;
        demotions++;
        expect(demoted.length).toBeLessThan(content.length);
        expect(demoteContent(demoted, only("a", "c\u0000"), at)).toBe(demoted);
        const after = JSON.parse(demoted);
        blocks.forEach((block, index) => {
          const named =
            block.type === "tool_result" && "tool_use_id" in block && ["a", "c\u0000"].includes(block.tool_use_id);
          const before = JSON.parse(JSON.stringify(block));
          if (!named || JSON.stringify(after[index]) === JSON.stringify(before)) expect(after[index]).toEqual(before);
          else
            expect(after[index]).toEqual({
              ...before,
              content: expect.stringMatching(/^\[result of [^\n]+ at message \d+\]$/),
            });
        });
      }),
    );
    expect(demotions).toBeGreaterThan(20);
  });

  it("keeps every other byte, and the user's words beside the result", () => {
    const content = (body: string) =>
      `[ {"tool_use_id":"a" ,"type":"tool_result", "content": ${body} ,"is_error" :true,"cache_control":{"2":1.0,"1":2}},{"type":"text","text":"\\u00e9 go on"} ]`;
    expect(demoteContent(content(JSON.stringify("\n".repeat(14_000))), only("a"), 12)).toBe(
      content(JSON.stringify(note("14,000 characters", 12))),
    );
  });

  it("labels what is no text by kind and number", () => {
    const body = [image, { type: "text", text: "seen" }, reference, { type: "tool_reference", tool_name: "x" }];
    const result = { type: "tool_result", tool_use_id: "a" };
    const demoted = demoteContent(JSON.stringify([{ ...result, content: body }]), only("a"), 3);
    expect(JSON.parse(demoted)).toEqual([
      { ...result, content: note("4 characters and 2 images and 1 tool reference", 3) },
    ]);
    const pictures = demoteContent(JSON.stringify([{ ...result, content: [image] }]), only("a"), 3);
    expect(JSON.parse(pictures)).toEqual([{ ...result, content: note("1 image", 3) }]);
  });

  it("answers the very same string where there is nothing to demote or nothing to gain", () => {
    const contents = [
      [{ type: "tool_result", tool_use_id: "a", content: "short" }],
      [{ type: "tool_result", tool_use_id: "a" }],
      [{ type: "tool_result", tool_use_id: "b", content: "x".repeat(9_000) }],
      [{ type: "text", text: `"tool_result" ${"x".repeat(9_000)}` }],
      [{ type: "web_search_tool_result", tool_use_id: "a", content: "x".repeat(9_000) }],
    ].map((blocks) => JSON.stringify(blocks));
    for (const content of contents) expect(demoteContent(content, only("a"), 1)).toBe(content);
    expect(demoteContent("never read", only(), 1)).toBe("never read");
  });

  it("demotes 5 MB", () => {
    const content = JSON.stringify([{ type: "tool_result", tool_use_id: "a", content: "abcdefghi\n".repeat(500_000) }]);
    // Quadratic work on so much would outlast the test's time limit.
    expect(demoteContent(content, only("a"), 1).length).toBeLessThan(10_000);
  });
});

const row = (at: number, role: Role, blocks: readonly unknown[], calls: readonly string[] = []): LogRow => ({
  id: `msg_${at}` as MessageId,
  seq: seq(at),
  role,
  origin: role === "assistant" ? "assistant" : "tool",
  content: JSON.stringify(blocks),
  media: [],
  calls,
  tokens: 1,
  bytes: 1,
  runId: "run_1" as RunId,
});

/** Rounds of one batch each: the lengths of its results, null for one that is not there yet. */
const rounds = (...batches: readonly (readonly (number | null)[])[]): readonly LogRow[] =>
  batches.flatMap((lengths, index) => {
    const ids = lengths.map((_, at) => `${index}${"abc".charAt(at)}`);
    const results = lengths.flatMap((length, at) =>
      length === null ? [] : [{ type: "tool_result", tool_use_id: ids[at], content: "x".repeat(length) }],
    );
    const calls = ids.map((id) => ({ type: "tool_use", id, name: "t", input: {} }));
    const asked = row(2 * index + 1, "assistant", calls, ids);
    return results.length === 0
      ? [asked]
      : [asked, row(2 * index + 2, "user", [...results, { type: "text", text: "u".repeat(9_000) }])];
  });

const order = (rows: readonly LogRow[], view: ViewState = EMPTY_VIEW) =>
  demotionOrder(rows, view, estimateTokens).map(({ callId }) => callId);
const plan = (rows: readonly LogRow[], tokensToFree: number, view: ViewState = EMPTY_VIEW) =>
  planDemotion(rows, view, tokensToFree, estimateTokens);

const covering = (from: number, to: number): Generation => ({
  number: 1,
  base: 0,
  covered: [{ from: seq(from), to: seq(to) }],
  summary: "",
  sections: EMPTY_SECTIONS,
  pinned: null,
  history: { kind: "api" },
  prefixVersion: 1,
});

describe("which results are demoted (ladder step 4)", () => {
  it("takes bulky ones only, oldest first, the newest last", () => {
    const rows = rounds([9_000, 20, 9_000], [2 * BULKY_RESULT_TOKENS], [9_000], [30_000]);
    expect(order(rows)).toEqual(["0a", "0c", "2a", "3a"]);
  });

  it("says what each takes off the view", () => {
    const rows = rounds([9_000], [9_000, 4_000]);
    const candidates = demotionOrder(rows, EMPTY_VIEW, estimateTokens);
    for (const { callId, reclaimedTokens } of candidates) {
      const tokens = rows.map(
        ({ content, seq: at }) => estimateTokens(content) - estimateTokens(demoteContent(content, only(callId), at)),
      );
      expect(Math.abs(reclaimedTokens - tokens.reduce((sum, each) => sum + each, 0))).toBeLessThan(5);
    }
    expect(candidates).toHaveLength(3);
  });

  it("leaves a batch whole that still waits for results (C3), and takes it when all have come", () => {
    expect(order(rounds([9_000], [9_000, null]))).toEqual(["0a"]);
    expect(order(rounds([9_000], [9_000, 9_000]))).toEqual(["0a", "1a", "1b"]);
    // A call that nobody answered, further back, waits for nothing.
    expect(order(rounds([9_000, null], [9_000]))).toEqual(["0a", "1a"]);
  });

  it("passes over rows that are covered or hidden and results that are demoted already", () => {
    const rows = rounds([9_000], [9_000], [9_000], [9_000]);
    const view = { ...EMPTY_VIEW, generation: covering(1, 2), hidden: [{ from: seq(3), to: seq(4) }], demoted: ["2a"] };
    expect(order(rows, view)).toEqual(["3a"]);
  });

  it("counts a clipped row as it is shown: as no more than what clipping left of it", () => {
    const rows = rounds([90_000], [90_000]);
    const clipped = { ...EMPTY_VIEW, clippedBefore: seq(3) };
    const [first, second] = demotionOrder(rows, clipped, estimateTokens);
    expect(first?.reclaimedTokens).toBeLessThanOrEqual(clipped.clipTokens);
    expect(second?.reclaimedTokens).toBeGreaterThan(20_000);
    expect(order(rows, { ...clipped, clipTokens: BULKY_RESULT_TOKENS - 1 })).toEqual(["1a"]);
  });

  it("counts media at their cost, in the row or elsewhere (E2, V10)", () => {
    const result = (id: string, content: unknown) => ({ type: "tool_result", tool_use_id: id, content });
    const pdf = { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" } };
    const rows = [row(1, "assistant", [], ["i", "p"]), row(2, "user", [result("i", [reference]), result("p", [pdf])])];
    expect(
      demotionOrder(rows, EMPTY_VIEW, estimateTokens).map(({ callId, reclaimedTokens }) => [
        callId,
        reclaimedTokens > 1_000,
      ]),
    ).toEqual([
      ["i", true],
      ["p", true],
    ]);
  });

  it("plans as few as free enough, from the oldest on; all when they do not suffice; none for nothing", () => {
    const rows = rounds([9_000], [9_000], [9_000]);
    expect(plan(rows, 1)).toEqual(["0a"]);
    expect(plan(rows, 4_000)).toEqual(["0a", "1a"]);
    expect(plan(rows, 1_000_000)).toEqual(["0a", "1a", "2a"]);
    expect(plan(rows, 0)).toEqual([]);
    expect(plan([], 1_000)).toEqual([]);
  });

  it("frees what was asked for, or all that can be, whatever the log", () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.oneof(fc.nat(20_000), fc.constant(null)), { minLength: 1, maxLength: 3 }), {
          maxLength: 8,
        }),
        fc.integer({ min: 1, max: 30_000 }),
        (batches, tokensToFree) => {
          const rows = rounds(...batches);
          const ids = plan(rows, tokensToFree);
          const freed = rows
            .map(
              ({ content, seq: at }) =>
                estimateTokens(content) - estimateTokens(demoteContent(content, only(...ids), at)),
            )
            .reduce((sum, each) => sum + each, 0);
          expect(ids).toEqual(order(rows).slice(0, ids.length));
          if (ids.length < order(rows).length) expect(freed).toBeGreaterThan(tokensToFree - 2 * ids.length - 1);
        },
      ),
    );
  });
});
