import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { estimateTokens } from "../../../src/context/estimate.ts";
import {
  defaultEstimator,
  type Estimator,
  estimateRequest,
  estimateRow,
  mediaItems,
} from "../../../src/context/estimate-request.ts";
import { imageTokens, PDF_PAGE_TOKENS, UNREADABLE_IMAGE_TOKENS } from "../../../src/context/media-cost.ts";
import type { ModelRequest, ToolDefinition, ViewMessage } from "../../../src/protocol/messages.ts";
import { pdfPages } from "../../../src/protocol/pdf-pages.ts";

const says = (text: string): ViewMessage => ({
  role: "user",
  content: JSON.stringify([{ type: "text", text }]),
  media: [],
});

const tool = (name: string): ToolDefinition => ({
  kind: "function",
  name,
  description: "Reads a page of a file.",
  inputSchema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
});

const REQUEST: ModelRequest = {
  model: "claude-sonnet-4-5",
  maxTokens: 1_000,
  system: [{ text: "You are a careful assistant." }],
  tools: [tool("read_file")],
  messages: [says("What does the log say?")],
};

const row = (...blocks: readonly unknown[]): number => estimateRow(JSON.stringify(blocks));

/** A PNG's signature and the part of its header that holds the size. */
const png = (width: number, height: number): string => {
  const bytes = Buffer.alloc(64);
  bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  bytes.writeUInt32BE(width, 16);
  bytes.writeUInt32BE(height, 20);
  return bytes.toString("base64");
};

const image = (data: string): unknown => ({ type: "image", source: { type: "base64", media_type: "image/png", data } });
const pdf = (data: string): unknown => ({
  type: "document",
  source: { type: "base64", media_type: "application/pdf", data },
});

describe("estimateRequest: the whole request (E1)", () => {
  const parts = fc.record({
    system: fc.array(
      fc.string().map((text) => ({ text })),
      { maxLength: 3 },
    ),
    tools: fc.array(fc.stringMatching(/^[a-z_]{1,12}$/).map(tool), { maxLength: 3 }),
    messages: fc.array(fc.string({ unit: "grapheme" }).map(says), { minLength: 1, maxLength: 4 }),
  });

  it("grows when only the tool list grows, when only a system block does, and when only a message is added", () => {
    fc.assert(
      fc.property(parts, fc.string({ minLength: 1 }), (some, text) => {
        const request = { ...REQUEST, ...some };
        const before = estimateRequest(request).tokens;
        const memory = some.system.map((block) => ({ text: block.text + text }));
        expect([
          estimateRequest({ ...request, tools: [...some.tools, tool("grep")] }).tokens > before,
          estimateRequest({ ...request, system: [...some.system, { text }] }).tokens > before,
          estimateRequest({ ...request, system: memory }).tokens >= before,
          estimateRequest({ ...request, messages: [...some.messages, says(text)] }).tokens > before,
        ]).toEqual([true, true, true, true]);
      }),
    );
  });

  it("is the sum of its parts and an envelope", () => {
    const { tokens, systemTokens, toolsTokens, messagesTokens } = estimateRequest(REQUEST);
    expect(tokens - systemTokens - toolsTokens - messagesTokens).toBe(5);
    expect(messagesTokens).toBe(estimateRow(REQUEST.messages[0]?.content ?? ""));
  });

  it("takes the cached cost of rows that are unchanged and measures the others", () => {
    const messages = [says("one"), says("two"), says("three")];
    const read: string[] = [];
    const estimator: Estimator = { scale: () => 1, text: (text) => read.push(text) && estimateTokens(text) };
    const known = estimateRequest(
      { ...REQUEST, system: [], tools: [], messages },
      { estimator, knownTokens: (_, index) => (index === 1 ? undefined : 1_000) },
    );
    expect({ tokens: known.messagesTokens, read }).toEqual({
      tokens: 2_000 + estimateRow(says("two").content),
      read: ["two"],
    });
  });

  it("counts a quarter more for tokenizers from 4.7 on (E3)", () => {
    const older = [
      "claude-3-opus-20240229",
      "claude-sonnet-4-20250514",
      "claude-opus-4-5-20251101",
      "claude-sonnet-4-6",
    ];
    const newer = ["claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5", "claude-fable-5-2", "claude-opus-5-5"];
    expect(older.map(defaultEstimator.scale)).toEqual(older.map(() => 1));
    expect(newer.map(defaultEstimator.scale)).toEqual(newer.map(() => 1.25));
    expect(defaultEstimator.scale("another-model")).toBe(1);
  });
});

describe("estimateRow: what is sent (E2)", () => {
  it("reads strings as the text that they are, not as their JSON", () => {
    const text = 'line "one"\n\tline two\\ é 中';
    expect(row({ type: "text", text })).toBe(3 + 1 + estimateTokens(text));
  });

  it("counts a call with its name, its arguments and their envelopes", () => {
    const call = { type: "tool_use", id: "toolu_1", name: "grep", input: { pattern: "a b", deep: { n: [1, 2] } } };
    const texts = ["grep", "pattern", "a b", "deep", '{"n":[1,2]}'];
    expect(row(call)).toBe(3 + 41 + 2 * 16 + texts.reduce((sum, text) => sum + estimateTokens(text), 0));
  });

  it("counts a result of text, and one of blocks, by what is in it", () => {
    const of = (content: unknown): number => row({ type: "tool_result", tool_use_id: "toolu_1", content });
    expect(of("some text")).toBe(3 + 1 + estimateTokens("some text"));
    expect(of([{ type: "text", text: "some text" }, image(png(750, 100))])).toBe(
      3 + 1 + 1 + 1 + estimateTokens("some text") + 100,
    );
    expect(of(undefined)).toBe(4);
  });

  it("counts a signature beyond the text that it repeats at a quarter of its characters", () => {
    const thinking = (text: string, signature: string): number => row({ type: "thinking", thinking: text, signature });
    const text = "The table has no index on the date.".repeat(20);
    const sealing = "A".repeat(Math.ceil((text.length * 4) / 3) + 232);
    expect(thinking(text, sealing)).toBe(3 + 7 + estimateTokens(text));
    expect(thinking(text, `${sealing}${"B".repeat(4_000)}`)).toBe(3 + 7 + estimateTokens(text) + 1_000);
    expect(thinking("", "C".repeat(4_232))).toBe(3 + 7 + 1_000);
  });

  it("counts redacted thinking and encrypted content at a quarter of its characters", () => {
    expect(row({ type: "redacted_thinking", data: "D".repeat(800) })).toBe(3 + 1 + 200);
    const found = (size: number): number =>
      row({
        type: "web_search_tool_result",
        content: [{ type: "web_search_result", encrypted_content: "E".repeat(size) }],
      });
    expect(found(8_000) - found(4_000)).toBe(1_000);
  });

  it("counts images by their dimensions and never the text of their data", () => {
    expect(row(image(png(750, 500)))).toBe(3 + 1 + 500);
    expect(row(image(`${png(750, 500)}${"A".repeat(1_000_000)}`))).toBe(3 + 1 + 500);
    expect(row(image(png(9_000, 9_000)))).toBe(3 + 1 + 1_600);
  });

  it("counts a reference to stored media at a constant (V10)", () => {
    const reference = `hango:media/sha256-${"0".repeat(64)}`;
    expect(row(image(reference))).toBe(3 + 1 + UNREADABLE_IMAGE_TOKENS);
    expect(row(pdf(reference))).toBe(3 + 1 + PDF_PAGE_TOKENS);
  });

  it("counts the pages that a reference to a stored PDF tells of (V10, E6)", () => {
    const block = pdf(`hango:media/sha256-${"0".repeat(64)};pages=10`);
    expect(row(block)).toBe(3 + 1 + 10 * PDF_PAGE_TOKENS);
    expect(mediaItems(JSON.stringify([block]))).toBe(10);
  });

  it("counts text that is no JSON as text", () => {
    expect(estimateRow("[{")).toBe(3 + estimateTokens("[{"));
  });

  it("never shrinks when a block is added", () => {
    const block = fc.oneof(
      fc.string().map((text) => ({ type: "text", text })),
      fc.record({
        type: fc.constant("tool_use"),
        name: fc.string(),
        input: fc.dictionary(fc.string(), fc.jsonValue()),
      }),
      fc.record({ type: fc.constant("tool_result"), content: fc.string() }),
      fc.record({ type: fc.constant("thinking"), thinking: fc.string(), signature: fc.base64String() }),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(fc.array(block), block, (blocks, more) => {
        expect(row(...blocks, more)).toBeGreaterThan(row(...blocks));
      }),
    );
  });
});

describe("media (E2, E6)", () => {
  it("reads dimensions from PNG, GIF, JPEG and WebP headers", () => {
    const gif = Buffer.concat([Buffer.from("GIF89a"), Buffer.from([0xee, 0x02, 0x64, 0x00]), Buffer.alloc(8)]);
    const frame = [0xff, 0xc0, 0x00, 0x11, 0x08, 0x00, 0x64, 0x02, 0xee, 0x03, 0, 0, 0, 0, 0, 0];
    const jpeg = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0x00, 0x04, 0x00, 0x00, ...frame]);
    const webp = Buffer.alloc(32);
    webp.write("RIFF", 0);
    webp.write("WEBPVP8X", 8);
    webp.writeUIntLE(749, 24, 3);
    webp.writeUIntLE(99, 27, 3);
    const all = [png(750, 100), ...[gif, jpeg, webp].map((bytes) => bytes.toString("base64"))];
    expect(all.map(imageTokens)).toEqual([100, 100, 100, 100]);
  });

  it("takes an unreadable image for a large one", () => {
    expect(["", "%%%", "AAAA", png(0, 0)].map(imageTokens)).toEqual([1_600, 1_600, 1_600, 1_600]);
  });

  it("counts the pages of a PDF, or takes its size", () => {
    const pages = Buffer.from("%PDF-1.7 << /Type /Pages >> << /Type /Page >> << /Type/Page /X 1 >>").toString("base64");
    expect([
      pdfPages(pages),
      pdfPages(Buffer.from("%PDF-1.7").toString("base64")),
      pdfPages("A".repeat(400_000)),
    ]).toEqual([2, 1, 4]);
  });

  it("counts images and pages of a message, nested ones too", () => {
    const content = [
      { type: "text", text: '"type":"image"' },
      image(png(1, 1)),
      { type: "tool_result", tool_use_id: "a", content: [image(png(1, 1)), pdf("A".repeat(400_000))] },
      { type: "document", source: { type: "text", data: "words" } },
    ];
    expect([mediaItems(JSON.stringify(content)), mediaItems("[]"), mediaItems('{"type":"image"')]).toEqual([6, 0, 0]);
  });
});
