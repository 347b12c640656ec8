import { describe, expect, it } from "vitest";
import type { FileSystem } from "../../../src/files/filesystem.ts";
import { memoryFileSystem } from "../../../src/files/memory.ts";
import { offloadResult } from "../../../src/files/offload.ts";
import type { ToolResult } from "../../../src/protocol/tool.ts";
import { at } from "./contract.ts";

const offload = (
  result: ToolResult,
  { fs = memoryFileSystem(() => 1), callId = "toolu_1", thresholdTokens = 4_000 } = {},
) =>
  offloadResult({
    callId,
    toolName: "fetch",
    result,
    thresholdTokens,
    estimateTokens: (text) => Math.ceil(text.length / 4),
    fs,
  });
const fileText = async (fs: FileSystem, path: string) => new TextDecoder().decode((await fs.read(at(path)))?.bytes);
const lines = (count: number) => Array.from({ length: count }, (_, index) => `line ${index + 1}`).join("\n");

describe("a large tool result goes to a file (ladder step 1)", () => {
  it("leaves a result up to the threshold as it is, and writes nothing", async () => {
    const fs = memoryFileSystem(() => 1);
    const result = { content: "x".repeat(16_000), isError: true };
    expect(await offload(result, { fs })).toBe(result);
    expect(await fs.list({ prefix: "/", limit: 1 })).toEqual({ files: [] });
  });

  it("puts a preview in place of the text: head and tail lines, sizes, and the call that reads on", async () => {
    const fs = memoryFileSystem(() => 1);
    const text = `${lines(3_000)}\n`;
    expect(await offload({ content: text, isError: true }, { fs })).toEqual({
      isError: true,
      content: [
        "The result of fetch is too large to show: 3,000 lines, 28,893 bytes. All of it is in /large_tool_results/toolu_1; it begins and ends like this:",
        "",
        lines(20),
        "[... 28,643 characters left out, on 2,970 lines ...]",
        Array.from({ length: 10 }, (_, index) => `line ${2_991 + index}`).join("\n"),
        "",
        'To read it: read_file {"file_path":"/large_tool_results/toolu_1","offset":1,"limit":2000}. To search it: grep with "path": "/large_tool_results/toolu_1".',
      ].join("\n"),
    });
    expect(await fileText(fs, "/large_tool_results/toolu_1")).toBe(text);
  });

  it("marks what is left out of one very long line, and splits no character", async () => {
    const fs = memoryFileSystem(() => 1);
    const text = "\u{1f600}".repeat(50_000);
    const { content } = await offload({ content: `x${text}` }, { fs });
    expect(typeof content === "string" && content.isWellFormed() && content.length < 4_000).toBe(true);
    expect(content).toMatch(/^The result of fetch is too large to show: 1 line, 200,001 bytes\./);
    expect(content).toMatch(/\[\.\.\. 9\d,\d{3} characters of this one long line left out \.\.\.\]/);
    expect(await fileText(fs, "/large_tool_results/toolu_1")).toBe(`x${text}`);
  });

  it("keeps the full result when the file cannot be written", async () => {
    const fs: FileSystem = { ...memoryFileSystem(() => 1), write: async () => Promise.reject(new Error("R2 is away")) };
    const result = { content: lines(9_000) };
    expect(await offload(result, { fs })).toBe(result);
  });

  it("keeps images and documents, and puts one text where the first one stood", async () => {
    const fs = memoryFileSystem(() => 1);
    const image = {
      type: "image",
      source: { type: "base64", media_type: "image/png", data: "A".repeat(90_000) },
    } as const;
    const result: ToolResult = {
      content: [image, { type: "text", text: lines(3_000) }, image, { type: "text", text: "end" }],
    };
    const { content } = await offload(result, { fs });
    expect(content).toEqual([image, { type: "text", text: expect.stringContaining("3,001 lines") }, image]);
    expect(await fileText(fs, "/large_tool_results/toolu_1")).toBe(`${lines(3_000)}\nend`);
    expect(await offload({ content: [image] }, { fs })).toEqual({ content: [image] });
  });

  it("makes a safe, distinct file name of any call id", async () => {
    const fs = memoryFileSystem(() => 1);
    for (const callId of ["../../a", "../..\\a", "", "x".repeat(500), "a\u0000b", "toolu_1"]) {
      const { content } = await offload({ content: lines(3_000) }, { fs, callId });
      expect(content).toContain("/large_tool_results/");
    }
    const { files } = await fs.list({ prefix: "/large_tool_results/", limit: 100 });
    expect(files.length).toBe(6);
    for (const { path } of files) expect(path).toMatch(/^\/large_tool_results\/[A-Za-z0-9_-]{1,120}$/);
  });

  it("is smaller than the threshold in a small window too, and never larger than the result", async () => {
    const { content } = await offload({ content: lines(300) }, { thresholdTokens: 400 });
    expect(String(content).length / 4).toBeLessThan(400);
    const tiny = { content: "abc\ndef" };
    expect(await offload(tiny, { thresholdTokens: 1 })).toBe(tiny);
  });
});
