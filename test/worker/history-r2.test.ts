/** What reading a long history costs on R2: measured in bytes that leave the bucket. */
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FileSystem } from "../../src/files/filesystem.ts";
import { appendHistory, historyPath, MAX_SECTION_BYTES } from "../../src/files/history.ts";
import type { HistoryRow } from "../../src/files/history-text.ts";
import { countLines } from "../../src/files/line-index.ts";
import { r2FileSystem } from "../../src/files/r2.ts";
import { fileTools } from "../../src/files/tools/file-tools.ts";
import { type MessageId, seq } from "../../src/protocol/ids.ts";

const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    modules: true,
    script: "export default { fetch: () => new Response(null) }",
    compatibilityDate: "2026-01-01",
    r2Buckets: ["FILES"],
  }),
);
afterAll(() => miniflare.dispose());

const SESSION = "ses_1";
const ROWS = 1_200;
const PER_COMPACTION = 300;
const MB = 1_048_576;

/** A message of 17 KB in lines of 60 characters. */
const rowOf = (at: number): HistoryRow => {
  const lines = Array.from({ length: 290 }, (_, line) => `message ${at}, line ${line}: ${"lorem ipsum ".repeat(3)}`);
  const content = JSON.stringify([{ type: "text", text: [...lines, `needle-${at}`].join("\n") }]);
  return {
    id: `msg_${at}` as MessageId,
    seq: seq(at),
    role: "user",
    origin: "user",
    content,
    media: [],
    calls: [],
    tokens: 1,
    bytes: content.length,
    runId: null,
    createdAt: "2026-01-01T00:00:00.000Z",
  };
};

describe("a history of 20 MB on R2", () => {
  let bytesRead = 0;
  let fs: FileSystem;
  let lines = 0;
  const counting = (bucket: R2Bucket): R2Bucket =>
    new Proxy(bucket, {
      get: (target, name) =>
        name === "get"
          ? async (key: string, options: R2GetOptions) => {
              const object = await target.get(key, options);
              const range = object?.range;
              const length = range !== undefined && "length" in range ? range.length : object?.size;
              bytesRead += length ?? 0;
              return object;
            }
          : Reflect.get(target, name, target).bind(target),
    });
  const call = async (name: string, input: unknown) => {
    bytesRead = 0;
    const tool = fileTools(fs, { estimateTokens: (text) => Math.ceil(text.length / 4) }).find(
      (each) => each.name === name,
    );
    return tool?.call(input, { callId: "toolu_1", inputText: "{}", signal: new AbortController().signal });
  };
  const path = historyPath(SESSION);

  beforeAll(async () => {
    const bucket = (await miniflare.getR2Bucket("FILES")) as unknown as R2Bucket;
    fs = r2FileSystem(counting(bucket), "tenants/tnt_1/sessions/ses_1", async () => undefined);
    for (let first = 1; first <= ROWS; first += PER_COMPACTION) {
      const rows = Array.from({ length: PER_COMPACTION }, (_, index) => rowOf(first + index));
      await appendHistory(fs, SESSION, { first, last: first + PER_COMPACTION - 1 }, rows);
    }
    const stat = await fs.stat(path);
    lines = stat?.lines === undefined ? 0 : countLines(stat.lines, stat.sizeBytes);
    expect(stat?.sizeBytes).toBeGreaterThan(20 * MB);
    expect(stat?.sections?.every(({ sizeBytes }) => sizeBytes <= MAX_SECTION_BYTES)).toBe(true);
  });

  it("costs less than 256 KB to read the last 50 lines of (R2)", async () => {
    const answer = await call("read_file", { file_path: path, offset: lines - 49 });
    expect(answer?.content).toContain(`needle-${ROWS}`);
    expect(answer?.content).toContain(
      `Lines ${(lines - 49).toLocaleString("en")} to ${lines.toLocaleString("en")}, to the end`,
    );
    expect(bytesRead).toBeLessThan(262_144);
  });

  it("costs less than 384 KB to read 50 lines in the middle of (R2)", async () => {
    const answer = await call("read_file", { file_path: path, offset: Math.floor(lines / 2), limit: 50 });
    expect(String(answer?.content).split("\n").length).toBe(52);
    expect(bytesRead).toBeLessThan(393_216);
  });

  it.each([
    ["files_with_matches", {}],
    ["content", { limit: 1 }],
  ])("costs no more than its newest section to find what is there, as %s (R2)", async (mode, input) => {
    const newest = (await fs.stat(path))?.sections?.at(-1);
    const answer = await call("grep", { pattern: `needle-${ROWS}`, path, output_mode: mode, ...input });
    expect(answer?.content).toContain(mode === "content" ? `needle-${ROWS}` : path);
    // A line that a chunk cuts is read again with the next one.
    expect(bytesRead).toBeLessThanOrEqual((newest?.sizeBytes ?? 0) + 1_024);
  });

  it("is searched 16 MB a call, from the newest section back, and then to its end (R2)", async () => {
    const first = await call("grep", { pattern: "needle-1", path, output_mode: "content", limit: 500 });
    const readFirst = bytesRead;
    const cursor = /"cursor": ("[^"]+")/.exec(String(first?.content))?.[1] ?? "";
    const second = await call("grep", {
      pattern: "needle-1",
      path,
      output_mode: "content",
      limit: 500,
      cursor: JSON.parse(cursor),
    });
    expect([readFirst < 17.5 * MB, readFirst + bytesRead < 22.5 * MB]).toEqual([true, true]);
    const found = [first, second].flatMap((each) => String(each?.content).match(/needle-1\d*$/gm) ?? []);
    expect(new Set(found).size).toBe(312);
    expect([found.length, String(second?.content).includes("cursor")]).toEqual([312, false]);
  });

  it("finds a message by its heading, whose line number read_file takes", async () => {
    const found = await call("grep", { pattern: "## #1100 ", path, output_mode: "content", limit: 1 });
    const line = Number(/(\d+)\D{1,3}## #1100 /.exec(String(found?.content))?.[1]);
    const page = await call("read_file", { file_path: path, offset: line, limit: 4 });
    expect(String(page?.content)).toContain("## #1100 user, origin user, 2026-01-01T00:00:00.000Z");
    expect(String(page?.content)).toContain("message 1100, line 0");
  });
});
