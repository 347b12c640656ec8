import { describe, expect, it } from "vitest";
import {
  countBlock,
  countText,
  createTokenMemory,
  cutToTokens,
  pdfPages,
} from "../../../src/local/simulator/tokens.ts";

describe("token counts (point 2)", () => {
  it("are those of the o200k encoding", () => {
    expect(["hello world", "", "日本語のテキスト", "<|endoftext|>"].map(countText)).toEqual([2, 0, 6, 7]);
  });

  it("of text without breaks stay within 2 % of the encoding, however long it is", () => {
    // Quadratic work on so much would outlast the test's time limit.
    const tokens = countText("a".repeat(200_000));
    expect(tokens).toBeGreaterThanOrEqual(25_000);
    expect(tokens).toBeLessThan(25_500);
    expect(countText("漢字仮名".repeat(10_000))).toBeGreaterThan(40_000);
  });

  it("of encrypted data in a result of the provider's tools are its size over 4", () => {
    const cost = (size: number): number => {
      const found = { type: "web_search_result", title: "T", encrypted_content: "Qx7/".repeat(size / 4) };
      const block = { type: "web_search_tool_result", tool_use_id: "s", content: [found] };
      return countBlock(block, JSON.stringify(block));
    };
    expect(cost(8_000) - cost(4_000)).toBe(1_000);
  });

  it("of blocks follow what the block holds", () => {
    const png = Buffer.alloc(32);
    png.write("\x89PNG", 0, "latin1");
    png.writeUInt32BE(300, 16);
    png.writeUInt32BE(500, 20);
    const image = { type: "image", source: { type: "base64", data: png.toString("base64") } };
    const pdf = Buffer.from("%PDF /Type /Pages /Type /Page x /Type/Page").toString("base64");
    const document = { type: "document", source: { type: "base64", data: pdf } };
    const blocks = [
      { type: "text", text: "hello world" },
      { type: "thinking", thinking: "hello world", signature: "x".repeat(1_000) },
      { type: "redacted_thinking", data: "x".repeat(400) },
      { type: "tool_result", tool_use_id: "a", content: [{ type: "text", text: "hello world" }] },
      image,
      { type: "image", source: { type: "url", url: "https://example.com" } },
      document,
    ];
    expect(blocks.map((block) => countBlock(block, JSON.stringify(block)))).toEqual([5, 5, 103, 17, 203, 1_603, 4_003]);
    expect(pdfPages(pdf)).toBe(2);
  });

  it("are remembered per block, the least used forgotten first", () => {
    const memory = createTokenMemory(2);
    const count = (digest: string, text: string) => memory(digest, { type: "text", text }, "");
    expect([count("a", "one"), count("b", "one two"), count("a", "ignored now"), count("c", "one")]).toEqual([
      4, 5, 4, 4,
    ]);
    expect([count("a", "one two three"), count("b", "one two three")]).toEqual([4, 6]);
  });

  it("cut a text to its longest beginning that fits, never inside a character", () => {
    expect(cutToTokens("one two three four", 2)).toBe("one two");
    expect(cutToTokens("one", 5)).toBe("one");
    expect(cutToTokens("😀😀😀", 1).isWellFormed()).toBe(true);
  });
});
