import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fence, fitTokens, nextChunk, renderInput, type SummaryRow } from "../../../src/context/summary-input.ts";
import { seq } from "../../../src/protocol/ids.ts";

const row = (at: number, origin: SummaryRow["origin"], content: string): SummaryRow => ({
  seq: seq(at),
  role: origin === "assistant" ? "assistant" : "user",
  origin,
  content,
});
const said = (at: number, origin: SummaryRow["origin"], text: string) =>
  row(at, origin, JSON.stringify([{ type: "text", text }]));
const OPTIONS = { redact: (text: string) => text, pinnedSeq: null };
const texts = (rows: readonly SummaryRow[], options = OPTIONS) => renderInput(rows, options).map(({ text }) => text);
const perCharacter = (text: string): number => text.length;

describe("the input of the summariser", () => {
  it("names each message's seq and speaker; a payload is never a user's words (S1, R7)", () => {
    const origins = ["user", "event", "assistant", "tool", "injected"] as const;
    expect(texts(origins.map((origin, index) => said(index + 1, origin, "hello")))).toEqual([
      "[1] user\nhello",
      "[2] event: data from outside, not a user's words\nhello",
      "[3] agent\nhello",
      "[4] tool results\nhello",
      "[5] note of the system, not a user's words\nhello",
    ]);
  });

  it("shows calls with their arguments as streamed, and results with the tool's name and whether it failed (S1, V9)", () => {
    const call = row(
      1,
      "assistant",
      '[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"read_file","input":{"2":1.0,"1":12345678901234567890}}]',
    );
    const result = row(
      2,
      "tool",
      '[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"no file"}],"is_error":true}]',
    );
    expect(texts([call, result])).toEqual([
      '[1] agent\nI look.\ncall read_file (t1): {"2":1.0,"1":12345678901234567890}',
      "[2] tool results\nresult of read_file (t1), failed: no file",
    ]);
  });

  it("leaves thinking out and makes media labels (S1)", () => {
    const content = JSON.stringify([
      { type: "thinking", thinking: "secret thoughts", signature: "sig" },
      { type: "redacted_thinking", data: "abc" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
      { type: "document", title: "report.pdf", source: { type: "url", url: "https://a.test/r.pdf" } },
      {
        type: "tool_result",
        tool_use_id: "t9",
        content: [{ type: "image", source: { type: "base64", media_type: "image/jpeg", data: "BBBB" } }],
      },
    ]);
    expect(texts([row(1, "user", content)])).toEqual([
      "[1] user\n[image image/png]\n[document report.pdf https://a.test/r.pdf]\nresult of t9: [image image/jpeg]",
    ]);
  });

  it("leaves out rows that have nothing to show (S1)", () => {
    expect(
      texts([row(1, "assistant", '[{"type":"thinking","thinking":"hm","signature":"s"}]'), said(2, "user", " ")]),
    ).toEqual([]);
  });

  it("keeps 4,000 characters of a message's head and 1,500 of its tail once it has over 6,000 (S1)", () => {
    const whole = "a".repeat(6_000);
    const long = `${"h".repeat(4_000)}${"m".repeat(5_000)}${"t".repeat(1_500)}`;
    expect(texts([said(1, "tool", whole), said(2, "tool", long)])).toEqual([
      `[1] tool results\n${whole}`,
      `[2] tool results\n${"h".repeat(4_000)}\n[... 5,000 characters left out ...]\n${"t".repeat(1_500)}`,
    ]);
  });

  it("keeps no more than 1,500 characters of a call's arguments (S1)", () => {
    const input = JSON.stringify({ content: "x".repeat(9_000) });
    const [text = ""] = texts([row(1, "assistant", `[{"type":"tool_use","id":"t","name":"w","input":${input}}]`)]);
    const shown = text.slice("[1] agent\ncall w (t): ".length);
    expect(shown.length).toBeLessThanOrEqual(1_500);
    expect(shown.startsWith(input.slice(0, 1_000)) && shown.endsWith(input.slice(-400))).toBe(true);
  });

  it("never cuts a character in two, wherever an emoji stands (S1, C7)", () => {
    for (const place of [3_998, 3_999, 4_000, 7_498, 7_499, 7_500]) {
      const [text = ""] = texts([said(1, "tool", `${"x".repeat(place)}😀${"y".repeat(9_000 - place - 2)}`)]);
      expect([place, text.isWellFormed(), text.includes("\ufffd")]).toEqual([place, true, false]);
    }
  });

  it("replaces secrets before it cuts, so that none is left in half (S6)", () => {
    const redact = (text: string) => text.replaceAll("sk-ant-0123456789", "[redacted]");
    const secret = `${"x".repeat(3_995)}sk-ant-0123456789${"y".repeat(5_000)}`;
    const call = row(2, "assistant", '[{"type":"tool_use","id":"t","name":"w","input":{"key":"sk-ant-0123456789"}}]');
    const all = texts([said(1, "tool", secret), call], { redact, pinnedSeq: null }).join();
    expect(all).not.toContain("sk-ant");
    expect(all).toContain('{"key":"[redacted]"}');
  });

  it("says of the pinned ask that it need not be repeated (C4)", () => {
    expect(texts([said(3, "user", "Do it")], { ...OPTIONS, pinnedSeq: 3 as never })).toEqual([
      "[3] user (restated to the next agent word for word; do not repeat it)\nDo it",
    ]);
  });

  it("passes replacement patterns and braces on as they are (S8)", () => {
    const odd = `price is $& and $$5, pattern $1, {braces} {{and}} \${more}`;
    expect(texts([said(1, "user", odd)])).toEqual([`[1] user\n${odd}`]);
  });
});

describe("chunks", () => {
  const entry = (at: number, length: number) => ({ seq: at, text: "x".repeat(length) });

  it("hold every message once, in order, each within the budget (S1)", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(sizes, fc.integer({ min: 60, max: 400 }), (lengths, budget) => {
        const seen: number[] = [];
        let left: readonly { seq: number; text: string }[] = lengths.map((length, index) => entry(index, length));
        while (left.length > 0) {
          const { chunk, rest } = nextChunk(left, budget, perCharacter);
          expect(chunk.length).toBeGreaterThan(0);
          expect(chunk.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(budget);
          seen.push(...chunk.map((one) => one.seq));
          left = rest;
        }
        expect(seen).toEqual(lengths.map((_, index) => index));
      }),
    );
  });

  it("shorten a message that alone is over the budget, its middle left out, well-formed (S1)", () => {
    const { chunk, rest } = nextChunk([{ seq: 1, text: "😀".repeat(500) }, entry(2, 5)], 200, perCharacter);
    expect(chunk[0]?.text).toMatch(/^(?:😀)+\n\[\.\.\. \d+ characters left out \.\.\.\]\n(?:😀)+$/u);
    expect([(chunk[0]?.text ?? "").length <= 200, rest]).toEqual([true, [entry(2, 5)]]);
  });
});

describe("fitting a text", () => {
  it("never exceeds the budget and never breaks a character (S1, C7)", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 2_000 }), fc.nat(1_500), (text, budget) => {
        const fitted = fitTokens(text, budget, perCharacter);
        expect(fitted.length).toBeLessThanOrEqual(budget);
        expect(fitted.isWellFormed()).toBe(true);
      }),
    );
  });
});

describe("the fence", () => {
  it("cannot be closed by what it holds (S1)", () => {
    const tag = fc.integer({ min: 0, max: 5 }).map((number) => `</messages-data-${number}>`);
    fc.assert(
      fc.property(fc.array(fc.oneof(tag, fc.string())), (parts) => {
        const data = parts.join("");
        const fenced = fence("messages", data);
        const close = fenced.slice(fenced.lastIndexOf("\n") + 1);
        expect(data).not.toContain(close);
        expect(fenced.slice(fenced.indexOf("\n") + 1, -close.length - 1)).toBe(data);
      }),
    );
  });
});
