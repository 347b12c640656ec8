import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { memoryMiddleware } from "../../../src/agent/memory.ts";
import { memoryBudget } from "../../../src/agent/memory-text.ts";
import { defaultEstimator, estimateRequest } from "../../../src/context/estimate-request.ts";
import { volatileHash } from "../../../src/context/volatile.ts";
import { BucketUnavailable } from "../../../src/files/bucket-error.ts";
import type { FileSystem } from "../../../src/files/filesystem.ts";
import { memoryFileSystem } from "../../../src/files/memory.ts";
import type { FilePath } from "../../../src/files/path.ts";
import type { RequestDraft, RunContext } from "../../../src/protocol/middleware.ts";

const estimateTokens = defaultEstimator.text;

type Files = Readonly<Record<string, string | Uint8Array>>;

/** A filesystem that notes what it is asked, and how many reads are under way at once. */
const filesWith = async (contents: Files) => {
  const files = memoryFileSystem(() => 0);
  for (const [path, content] of Object.entries(contents)) await files.write(path as FilePath, content);
  const asked: string[] = [];
  const seen = { now: 0, most: 0, longest: 0 };
  const watched: FileSystem = {
    ...files,
    list: (options) => {
      asked.push(`list ${options.prefix} ${options.objectOnly}`);
      return files.list(options);
    },
    read: async (path, options) => {
      asked.push(`read ${path}`);
      seen.longest = Math.max(seen.longest, options?.range?.lengthBytes ?? Number.POSITIVE_INFINITY);
      seen.most = Math.max(seen.most, ++seen.now);
      try {
        return await files.read(path, options);
      } finally {
        seen.now--;
      }
    },
  };
  return { files: watched, asked, seen };
};

const runOf = (windowTokens: number): RunContext =>
  ({
    windowTokens,
    state: { messages: [], private: { volatile: new Map<string, string>() } },
  }) as unknown as RunContext;

/** What a turn that begins now has of memory. */
const turn = async (files: FileSystem, windowTokens = 200_000) => {
  const run = runOf(windowTokens);
  const middleware = memoryMiddleware({ files, estimateTokens });
  await middleware.beforeTurn?.(run);
  const assemble = (): RequestDraft => {
    const draft: RequestDraft = { system: [{ text: "Be kind." }], tools: [], providerTools: [], messages: [] };
    middleware.assemble?.(draft, run);
    return draft;
  };
  const { system } = assemble();
  return { run, assemble, blocks: system.length - 1, text: system[1]?.text ?? "" };
};

const memoryOf = async (contents: Files, windowTokens?: number): Promise<string> =>
  (await turn((await filesWith(contents)).files, windowTokens)).text;

const pathsIn = (text: string): readonly string[] =>
  [...text.matchAll(/<memory path="(.+?)">/g)].map(([, path = ""]) => path);

const words = (count: number, word = "word"): string =>
  Array.from({ length: count }, (_, at) => `${word} ${at}`).join("\n");

describe("memory", () => {
  it("is nothing where there is none, for one list and no read", async () => {
    const { files, asked } = await filesWith({
      "/notes.md": "no memory",
      "/memories": "nor this",
      "/memories/empty.md": "",
    });
    const { blocks, run } = await turn(files);
    expect([blocks, run.state.private.volatile.size]).toEqual([0, 0]);
    expect(asked).toEqual(["list /memories/ true"]);
  });

  it("is one late block: AGENTS.md first, then the others by path, each under its own", async () => {
    const text = await memoryOf({
      "/memories/b.txt": "Second.",
      "/memories/AGENTS.md": "Whole.\n",
      "/memories/A.md": "First.",
      "/memories/people/ann.md": "Third.",
    });
    expect(text.slice(text.indexOf("<"))).toBe(
      [
        '<memory path="/memories/AGENTS.md">\nWhole.\n</memory>',
        '<memory path="/memories/A.md">\nFirst.\n</memory>',
        '<memory path="/memories/b.txt">\nSecond.\n</memory>',
        '<memory path="/memories/people/ann.md">\nThird.\n</memory>',
      ].join("\n\n"),
    );
    expect(text).toMatch(/^Your memory, as it was at the start of this turn\..*from the next turn on\./);
  });

  it("shows the beginning of a file that is too long, up to a line's end, with the call that reads on", async () => {
    const text = await memoryOf({ "/memories/AGENTS.md": words(20_000), "/memories/b.md": "Short." });
    const cut =
      /\nword (\d+)\n\[Cut here: the file has ([\d,]+) bytes\. To read on: read_file (\{.*\})\]\n<\/memory>/.exec(text);
    const last = Number(cut?.[1]);
    expect(last).toBeGreaterThan(1_000);
    expect(cut?.[2]).toBe("208,889");
    // Line 1 is "word 0".
    expect(JSON.parse(cut?.[3] ?? "null")).toEqual({ file_path: "/memories/AGENTS.md", offset: last + 2 });
    expect(pathsIn(text)).toEqual(["/memories/AGENTS.md", "/memories/b.md"]);
  });

  it("shows the beginning of one very long line", async () => {
    const text = await memoryOf({ "/memories/AGENTS.md": "word ".repeat(20_000) });
    expect(text).toMatch(
      /word word[^\n]*\n\[Cut here: the file has 100,000 bytes\. To read on: read_file \{"file_path":"\/memories\/AGENTS\.md","offset":1\}\]/,
    );
    expect(estimateTokens(text)).toBeGreaterThan(6_000);
  });

  it("names what has no room, and how to read it", async () => {
    const text = await memoryOf({
      "/memories/AGENTS.md": words(20_000),
      "/memories/b.md": words(3_000),
      "/memories/c.md": words(3_000),
    });
    expect(pathsIn(text)).toEqual(["/memories/AGENTS.md", "/memories/b.md"]);
    expect(text).toContain(
      'In your memory, but not shown here:\n- /memories/c.md (28.2 KB): read_file {"file_path":"/memories/c.md"}',
    );
  });

  it.each([
    ["bytes", new Uint8Array([1, 0, 2])],
    ["an image", new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])],
    ["Latin-1", new Uint8Array([...Buffer.from("caf"), 0xe9, ...Buffer.from(" au lait, and much more of it")])],
    ["a PDF", new Uint8Array(Buffer.from("%PDF-1.7 plain"))],
  ])("names %s and does not load it", async (_name, content) => {
    const text = await memoryOf({ "/memories/AGENTS.md": "Text.", "/memories/odd.md": content });
    expect(pathsIn(text)).toEqual(["/memories/AGENTS.md"]);
    expect(text).toMatch(/- \/memories\/odd\.md \(\d+ bytes\): not UTF-8 text$/);
  });

  it("loads text of any script; a read that ends within a character takes it for text all the same", async () => {
    const text = await memoryOf({ "/memories/AGENTS.md": "記憶は大切です。".repeat(20_000) });
    expect(text).toContain("記憶は大切です。記憶");
    expect(text).not.toContain("\ufffd");
  });

  it("reads at most 16 files, four at once, each only as far as it may be shown; knows 100 by name, and says that there are more", async () => {
    const many = Object.fromEntries(
      Array.from({ length: 150 }, (_, at) => [`/memories/0${1_000 + at}.md`, `Note ${at}.`]),
    );
    const { files, asked, seen } = await filesWith({ ...many, "/memories/AGENTS.md": "First of all." });
    const { text } = await turn(files);
    expect([asked.length, seen.most, seen.longest]).toEqual([1 + 16, 4, 64_000]);
    // It is beyond the page of the list, and is found all the same.
    expect(pathsIn(text).slice(0, 2)).toEqual(["/memories/AGENTS.md", "/memories/01000.md"]);
    expect(pathsIn(text)).toHaveLength(16);
    expect(text).toContain("- /memories/01015.md (8 bytes): read_file");
    expect(text).toMatch(/\n- more: ls \{"path":"\/memories\/"\}$/);
  });

  it("is of its directory alone, and of names that the file tools take", async () => {
    const text = await memoryOf({
      "/memories/AGENTS.md": "Mine.",
      "/memories/../secret.md": "Not mine.",
      "/memories/a\nb.md": "Nobody's.",
      "/memories2/x.md": "Another's.",
    });
    expect(text.slice(text.indexOf("<"))).toBe('<memory path="/memories/AGENTS.md">\nMine.\n</memory>');
  });

  it("reads no further than there is room for", async () => {
    const many = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`/memories/${10 + at}.md`, words(3_000)]));
    const { files, asked } = await filesWith(many);
    expect(pathsIn((await turn(files, 20_000)).text)).toEqual(["/memories/10.md"]);
    expect(asked).toHaveLength(1 + 4);
  });

  it("never takes more than a twentieth of a window, nor 16,000 tokens, whatever lies there", async () => {
    const content = fc.oneof(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc.integer({ min: 1, max: 6_000 }).map((count) => words(count)),
      fc.integer({ min: 1, max: 30_000 }).map((count) => "長い一行".repeat(count)),
      fc.uint8Array({ maxLength: 100 }),
    );
    const name = fc.oneof(
      fc.stringMatching(/^[a-z]{1,8}\.md$/),
      fc.constant("AGENTS.md"),
      fc.stringMatching(/^[a-z]{200}\.md$/),
    );
    const contents = fc
      .dictionary(name, content, { maxKeys: 24 })
      .map(
        (files): Files => Object.fromEntries(Object.entries(files).map(([key, value]) => [`/memories/${key}`, value])),
      );
    await fc.assert(
      fc.asyncProperty(contents, fc.constantFrom(4_000, 20_000, 200_000, 1_000_000), async (given, windowTokens) => {
        const text = await memoryOf(given, windowTokens);
        const body = text.slice(text.indexOf("\n\n") + 2);
        expect(estimateTokens(body)).toBeLessThanOrEqual(memoryBudget(windowTokens).totalTokens);
        expect(text.isWellFormed()).toBe(true);
        // Each file is shown or named, unless there were too many to name.
        const hasText = Object.entries(given).filter(([, value]) => value.length > 0);
        if (!/- (\d+ further|.*more:)/.test(text)) for (const [path] of hasText) expect(text).toContain(path);
      }),
      { numRuns: 60 },
    );
    expect([4_000, 200_000, 1_000_000].map((window) => memoryBudget(window).totalTokens)).toEqual([
      200, 10_000, 16_000,
    ]);
  });

  it("is read once a turn: what is written during the turn stands in the next one, and is another hash (V8)", async () => {
    const { files } = await filesWith({ "/memories/AGENTS.md": "Tea." });
    const first = await turn(files);
    await files.write("/memories/b.md" as FilePath, "Coffee.");
    expect(first.assemble()).toEqual(first.assemble());
    expect(first.assemble().system[1]?.text).toBe(first.text);
    const second = await turn(files);
    expect(second.text).toContain("Coffee.");
    const hashes = await Promise.all(
      [first, await turn(files), second].map(({ run }) => volatileHash(run.state.private.volatile)),
    );
    expect([hashes[1] === hashes[2], hashes[0] === hashes[1]]).toEqual([true, false]);
    const [named] = [...second.run.state.private.volatile];
    expect(hashes[2]).toBe(
      createHash("sha256")
        .update(JSON.stringify([named]))
        .digest("hex"),
    );
  });

  it("counts: the request's estimate grows when only memory grows (E1)", async () => {
    const sizeWith = async (text: string): Promise<number> => {
      const { assemble } = await turn((await filesWith({ "/memories/AGENTS.md": text })).files);
      const { system, messages } = assemble();
      return estimateRequest({ model: "claude-sonnet-5-5", maxTokens: 1, system, tools: [], messages }).tokens;
    };
    const sizes = [await sizeWith(""), await sizeWith("Tea."), await sizeWith(`Tea. ${words(100)}`)];
    expect(sizes).toEqual([...sizes].sort((a, b) => a - b));
    expect(new Set(sizes).size).toBe(3);
  });

  it.each(["list", "read"] as const)(
    "that cannot be had fails the turn: a %s that fails is passed on, not run without",
    async (operation) => {
      const { files } = await filesWith({ "/memories/AGENTS.md": "Tea." });
      const failing: FileSystem = {
        ...files,
        [operation]: () => Promise.reject(new BucketUnavailable("internal error (10001)")),
      };
      await expect(turn(failing)).rejects.toThrow(BucketUnavailable);
    },
  );
});
