import { beforeEach, describe, expect, it } from "vitest";
import type { FileSystem } from "../../../src/files/filesystem.ts";
import { memoryFileSystem } from "../../../src/files/memory.ts";
import { fileTools } from "../../../src/files/tools/file-tools.ts";
import type { ToolResult } from "../../../src/protocol/tool.ts";
import { at } from "./contract.ts";

let fs: FileSystem;
let grepScanBytes = 16 * 1_048_576;
const estimateTokens = (text: string) => Math.ceil(text.length / 4);
const call = async (name: string, input: unknown, over = fs): Promise<ToolResult> => {
  const tool = fileTools(over, { estimateTokens, grepScanBytes }).find((each) => each.name === name);
  if (tool === undefined) throw new Error(name);
  return tool.call(input, { callId: "toolu_1", inputText: "{}", signal: new AbortController().signal });
};
const text = async (path: string) => {
  const read = await fs.read(at(path));
  return read === undefined ? undefined : new TextDecoder().decode(read.bytes);
};
const failure = (words: string) => ({ isError: true, content: expect.stringContaining(words) });
const lines = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `line ${from + index}\n`).join("");

beforeEach(() => {
  fs = memoryFileSystem(() => 1);
  grepScanBytes = 16 * 1_048_576;
});

describe("every file tool", () => {
  it.each([
    ["ls", { path: "../x" }],
    ["read_file", { file_path: "/a/../../x" }],
    ["write_file", { file_path: "/%2e%2e/x", content: "" }],
    ["edit_file", { file_path: "/a\\b", old_string: "a", new_string: "b" }],
    ["glob", { pattern: "*", path: "/\u2025" }],
    ["grep", { pattern: "x", path: "/a\u0000" }],
    ["delete_file", { file_path: "" }],
  ])("refuses a path that could leave the session: %s %j", async (name, input) => {
    expect(await call(name, input)).toEqual(failure("is refused"));
  });

  it.each([
    ["write_file", { file_path: "/conversation_history/s.md", content: "" }],
    ["write_file", { file_path: "/large_tool_results", content: "" }],
    ["edit_file", { file_path: "/large_tool_results/x", old_string: "a", new_string: "b" }],
    ["delete_file", { file_path: "/conversation_history/s.md" }],
  ])("leaves hango's own directories alone: %s %j", async (name, input) => {
    await fs.append(at("/conversation_history/s.md"), "a", { first: 1, last: 1 });
    await fs.write(at("/large_tool_results/x"), "a");
    expect(await call(name, input)).toEqual(failure("read-only"));
    expect([await text("/conversation_history/s.md"), await text("/large_tool_results/x")]).toEqual(["a", "a"]);
  });

  it.each([
    ["read_file", { file_path: "/no.md" }],
    ["edit_file", { file_path: "/no.md", old_string: "a", new_string: "b" }],
    ["delete_file", { file_path: "/no.md" }],
    ["grep", { pattern: "x", path: "/no.md" }],
    ["ls", { path: "/no" }],
  ])("says what to do when there is no such file: %s", async (name, input) => {
    expect(await call(name, input)).toEqual(failure("There is no"));
  });

  it("says that a path is a directory", async () => {
    await fs.write(at("/d/x"), "");
    expect(await call("read_file", { file_path: "/d" })).toEqual(
      failure('is a directory, not a file. List it with ls {"path":"/d"}'),
    );
  });

  it("answers invalid input with what was expected", async () => {
    expect(await call("read_file", { path: 1 })).toEqual(failure('"file_path"'));
  });
});

describe("ls", () => {
  it("lists files with sizes and directories once, without reading through them", async () => {
    for (let index = 0; index < 2_500; index++) await fs.write(at(`/d/${index}`), "");
    await fs.write(at("/a.md"), "12345");
    await fs.write(at("/z"), "1");
    await fs.append(at("/h/s.md"), "abc", { first: 1, last: 1 });
    let listed = 0;
    const counted: FileSystem = {
      ...fs,
      list: (options) => {
        listed++;
        return fs.list(options);
      },
    };
    expect(await call("ls", {}, counted)).toEqual({ content: "/a.md (5 bytes)\n/d/\n/h/\n/z (1 byte)" });
    expect(listed).toBe(2);
    expect(await call("ls", { path: "h" })).toEqual({ content: "/h/s.md (3 bytes)" });
  });

  it("says when there is nothing, when it stops, and when the path is a file", async () => {
    expect(await call("ls", { path: "/" })).toEqual({ content: "There are no files yet. Create one with write_file." });
    for (let index = 0; index < 501; index++) await fs.write(at(`/${index}`), "");
    expect((await call("ls", {})).content).toContain("[Stopped after 500 entries.");
    expect(await call("ls", { path: "/7" })).toEqual({ content: "/7 (0 bytes) is a file. Read it with read_file." });
  });
});

describe("read_file", () => {
  it("numbers lines and tells the size", async () => {
    await fs.write(at("/a"), "one\r\ntwo\n\nfour");
    expect(await call("read_file", { file_path: "a" })).toEqual({
      content:
        "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n\n[Lines 1 to 4, to the end; 4 lines, 14 bytes in all.]",
    });
  });

  it("tells the call that reads on, and that call reads on", async () => {
    await fs.write(at("/a"), lines(1, 5_000));
    const first = await call("read_file", { file_path: "/a" });
    expect(String(first.content).split("\n").slice(-3)).toEqual([
      "  2000\tline 2000",
      "",
      '[Lines 1 to 2,000; 5,000 lines, 48,893 bytes in all. To read on: read_file {"file_path":"/a","offset":2001}]',
    ]);
    expect(await call("read_file", { file_path: "/a", offset: 4_999, limit: 1 })).toEqual({
      content:
        '  4999\tline 4999\n\n[Line 4,999; 5,000 lines, 48,893 bytes in all. To read on: read_file {"file_path":"/a","offset":5000}]',
    });
    expect((await call("read_file", { file_path: "/a", offset: 5_000, limit: 1 })).content).toContain(
      "[Line 5,000, to the end;",
    );
    expect(await call("read_file", { file_path: "/a", offset: 5_001 })).toEqual(
      failure("There is no line 5,001 in /a: it has 5,000 lines."),
    );
  });

  it("says that a file is empty, or binary", async () => {
    await fs.write(at("/empty"), "");
    await fs.write(at("/bin"), new Uint8Array(20_000));
    expect(await call("read_file", { file_path: "/empty" })).toEqual({
      content: "/empty exists and is empty (0 bytes).",
    });
    expect(await call("read_file", { file_path: "/bin" })).toEqual(failure("/bin is a binary file of 19.5 KB"));
  });

  it("shows images and PDFs as such, by their bytes, up to 5 MB", async () => {
    const png = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0]);
    await fs.write(at("/x.txt"), png);
    await fs.write(at("/x.pdf"), "%PDF-1.7 ...");
    const large = new Uint8Array(5 * 1_048_576 + 1);
    large.set(png);
    await fs.write(at("/large.png"), large);
    expect(await call("read_file", { file_path: "/x.txt" })).toEqual({
      content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgoA" } }],
    });
    expect(await call("read_file", { file_path: "/x.pdf" })).toEqual({
      content: [
        { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERi0xLjcgLi4u" } },
      ],
    });
    expect(await call("read_file", { file_path: "/large.png" })).toEqual(failure("up to 5.0 MB can be shown"));
  });

  it("splits long lines, and pages through one line of any length without a gap", async () => {
    const long = Array.from({ length: 40_000 }, (_, index) => `${index}é\u{1f600} `).join("");
    await fs.write(at("/a"), `first\n${long}\nlast`);
    let input: unknown = { file_path: "/a", offset: 2 };
    let shown = "";
    for (let pages = 0; input !== undefined; pages++) {
      expect(pages).toBeLessThan(20);
      const content = String((await call("read_file", input)).content);
      expect([content.length < 60_000, content.isWellFormed(), content.includes("\ufffd")]).toEqual([
        true,
        true,
        false,
      ]);
      const [body = "", footer = ""] = content.split("\n\n[");
      for (const line of body.split("\n")) {
        const [label = "", part = ""] = line.split("\t");
        expect(part.length).toBeLessThanOrEqual(2_000);
        if (/^ *2(\.\d+)?$/.test(label)) shown += part;
      }
      const next = /To read on: read_file (\{.*\})\]$/.exec(footer)?.[1];
      input = next === undefined ? undefined : JSON.parse(next);
      if (next === undefined) expect(body.endsWith("\n     3\tlast")).toBe(true);
    }
    expect(shown === long).toBe(true);
  });

  it("stays within 20,000 tokens and 60,000 characters whatever the script", async () => {
    await fs.write(at("/cjk"), `${"\u6f22".repeat(1_500)}\n`.repeat(100));
    await fs.write(at("/ascii"), `${"a b ".repeat(100)}\n`.repeat(1_000));
    const tools = fileTools(fs, {
      estimateTokens: (each) => [...each].reduce((sum, char) => sum + (char > "\u2e80" ? 1 : 0.3), 0),
    });
    for (const path of ["/cjk", "/ascii"]) {
      const result = await tools
        .find((tool) => tool.name === "read_file")
        ?.call({ file_path: path }, { callId: "x", inputText: "{}", signal: new AbortController().signal });
      const content = String(result?.content);
      const tokens = [...content].reduce((sum, char) => sum + (char > "\u2e80" ? 1 : 0.3), 0);
      expect([
        tokens <= 20_000,
        content.length <= 60_000,
        content.length > 15_000,
        content.includes("To read on"),
      ]).toEqual([true, true, true, true]);
    }
  });

  it("reads about as much as it shows, deep in a large file", async () => {
    await fs.write(at("/big"), lines(1, 1_500_000));
    let bytes = 0;
    const counted: FileSystem = {
      ...fs,
      read: async (path, options) => {
        const read = await fs.read(path, options);
        bytes += read?.bytes.length ?? 0;
        return read;
      },
    };
    const { content } = await call("read_file", { file_path: "/big", offset: 1_234_567, limit: 3 }, counted);
    expect(String(content).split("\n").slice(0, 3)).toEqual([
      "1234567\tline 1234567",
      "1234568\tline 1234568",
      "1234569\tline 1234569",
    ]);
    expect(bytes).toBeLessThan(1_048_576);
  });

  it("shows sections as one file", async () => {
    await fs.append(at("/conversation_history/s.md"), "three\n", { first: 3, last: 4 });
    await fs.append(at("/conversation_history/s.md"), "one\ntwo\n", { first: 1, last: 2 });
    expect(await call("read_file", { file_path: "/conversation_history/s.md", offset: 2 })).toEqual({
      content: "     2\ttwo\n     3\tthree\n\n[Lines 2 to 3, to the end; 3 lines, 14 bytes in all.]",
    });
  });
});

describe("write_file and delete_file", () => {
  it("write, replace and delete", async () => {
    expect(await call("write_file", { file_path: "/a/b.md", content: "é\nx" })).toEqual({
      content: "Wrote /a/b.md: 2 lines, 4 bytes.",
    });
    expect(await call("write_file", { file_path: "/a/b.md", content: "" })).toEqual({
      content: "Wrote /a/b.md: 0 lines, 0 bytes.",
    });
    expect([await text("/a/b.md"), await call("delete_file", { file_path: "/a/b.md" }), await text("/a/b.md")]).toEqual(
      ["", { content: "Deleted /a/b.md." }, undefined],
    );
  });
});

describe("edit_file", () => {
  const edit = (old_string: string, new_string: string, replace_all?: boolean) =>
    call("edit_file", {
      file_path: "/a",
      old_string,
      new_string,
      ...(replace_all === undefined ? {} : { replace_all }),
    });

  it("replaces the one exact match, taking nothing in it for a pattern", async () => {
    await fs.write(at("/a"), "one $& .*\ntwo\n", { contentType: "text/x-test" });
    expect(await edit("$& .*", "$1 $$ $`")).toEqual({
      content: "Edited /a: 1 replacement (line 1). The file now has 17 bytes.",
    });
    expect([await text("/a"), (await fs.stat(at("/a")))?.contentType]).toEqual(["one $1 $$ $`\ntwo\n", "text/x-test"]);
  });

  it("refuses several matches unless all are meant, and tells where they are", async () => {
    await fs.write(at("/a"), "x\ny\nx x\n");
    expect(await edit("x", "z")).toEqual(failure("old_string is in /a 3 times (lines 1, 3, 3). Nothing was changed."));
    expect(await text("/a")).toBe("x\ny\nx x\n");
    expect(await edit("x", "xx", true)).toEqual({
      content: "Edited /a: 3 replacements (lines 1, 3, 3). The file now has 11 bytes.",
    });
    expect(await text("/a")).toBe("xx\ny\nxx xx\n");
  });

  it.each([
    ["absent", "line 12345678", "Read the file again and copy the text exactly"],
    ["indented differently", "foo:\n    bar", 'line 1: "  foo:\\r"'],
    ["copied with line numbers", "     1\t  foo:", "Leave out the line numbers"],
    ["over CRLF lines", "foo:\n  bar", "\\r\\n"],
  ])("gives a hint when the text is %s", async (_, old, words) => {
    await fs.write(at("/a"), "  foo:\r\n  bar\r\n");
    expect(await edit(old, "x")).toEqual(failure("old_string is not in /a. Nothing was changed."));
    expect(await edit(old, "x")).toEqual(failure(words));
  });

  it("refuses an empty old text, an edit that changes nothing, and bytes that are not UTF-8", async () => {
    await fs.write(at("/a"), "x");
    expect(await edit("", "y")).toEqual(failure("old_string is empty"));
    expect(await edit("x", "x")).toEqual(failure("are the same"));
    await fs.write(at("/a"), new Uint8Array([0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0xff]));
    expect(await edit("x", "y", true)).toEqual(failure("is not UTF-8 text"));
  });

  it("keeps a byte order mark", async () => {
    await fs.write(at("/a"), "\ufeffx");
    await edit("x", "y");
    expect((await fs.read(at("/a")))?.bytes).toEqual(new Uint8Array([0xef, 0xbb, 0xbf, 0x79]));
  });

  it("loses none of many edits at once (compare-and-swap)", async () => {
    const names = Array.from({ length: 15 }, (_, index) => `<${index}>`);
    await fs.write(at("/a"), names.join("\n"));
    const results = await Promise.all(names.map((name) => edit(name, `done${name}`)));
    expect(results.every((result) => result.isError === undefined)).toBe(true);
    expect(await text("/a")).toBe(names.map((name) => `done${name}`).join("\n"));
  });

  it("gives up after a bounded number of lost races, and changes nothing then", async () => {
    await fs.write(at("/a"), "x");
    let writes = 0;
    const contended: FileSystem = {
      ...fs,
      write: async () => {
        writes++;
        return { conflict: true };
      },
    };
    expect(await call("edit_file", { file_path: "/a", old_string: "x", new_string: "y" }, contended)).toEqual(
      failure("was changed by others 20 times"),
    );
    expect(writes).toBe(20);
  });
});

describe("glob", () => {
  it("finds files at any depth, sorted, and says so when there are none", async () => {
    for (const path of ["/b.md", "/a/c.md", "/a/d.ts"]) await fs.write(at(path), "1");
    expect(await call("glob", { pattern: "*.md" })).toEqual({ content: "/a/c.md (1 byte)\n/b.md (1 byte)" });
    expect(await call("glob", { pattern: "*.{ts,js}", path: "/a" })).toEqual({ content: "/a/d.ts (1 byte)" });
    expect(await call("glob", { pattern: "*.css" })).toEqual({
      content: 'No file matches "*.css" among 3 files in /.',
    });
    expect(await call("glob", { pattern: "[a" })).toEqual(failure("is not understood"));
  });

  it("stops at 500 matches and says so", async () => {
    for (let index = 0; index < 501; index++) await fs.write(at(`/${index}`), "");
    expect((await call("glob", { pattern: "**" })).content).toContain("[Stopped after 500 matches; there are more.");
  });
});

describe("grep", () => {
  beforeEach(async () => {
    await fs.write(at("/a.md"), "alpha\nBeta (x+)\ngamma\nbeta\n");
    await fs.write(at("/d/b.ts"), "const beta = 1;\r\n");
    await fs.write(at("/d/c.bin"), new Uint8Array([0, 98, 101, 116, 97]));
  });

  it("takes the pattern literally, and names the files, by default", async () => {
    expect(await call("grep", { pattern: "beta" })).toEqual({
      content: "/a.md\n/d/b.ts\n[2 files with matches in 3 files (44 bytes) searched. 1 binary file left out.]",
    });
    expect(await call("grep", { pattern: "(x+)", output_mode: "content" })).toEqual({
      content: "/a.md:2: Beta (x+)\n[1 matching line in 3 files (44 bytes) searched. 1 binary file left out.]",
    });
    expect(await call("grep", { pattern: "delta", glob: "*.md" })).toEqual({
      content: "[No matches in 1 file (27 bytes) searched.]",
    });
  });

  it("counts, ignores case, keeps to a path or a glob", async () => {
    expect(
      await call("grep", { pattern: "BETA", case_sensitive: false, output_mode: "count", glob: "*.{md,ts}" }),
    ).toEqual({
      content: "/a.md: 2\n/d/b.ts: 1\n[2 files with matches in 2 files (44 bytes) searched.]",
    });
    expect((await call("grep", { pattern: "beta", path: "/d" })).content).toContain("[1 file with matches in 2 files");
    expect((await call("grep", { pattern: "beta", path: "/a.md", output_mode: "content" })).content).toContain(
      "/a.md:4: beta\n[1 matching line in 1 file ",
    );
  });

  it("takes regular expressions, and explains those it refuses", async () => {
    expect(
      await call("grep", { pattern: "^[bB]eta\\b.*", regex: true, output_mode: "content", path: "/a.md" }),
    ).toEqual({
      content: "/a.md:2: Beta (x+)\n/a.md:4: beta\n[2 matching lines in 1 file (27 bytes) searched.]",
    });
    expect((await call("grep", { pattern: ";$", regex: true })).content).toContain("/d/b.ts");
    expect(await call("grep", { pattern: "(a)\\1", regex: true })).toEqual(
      failure("backreferences (\\1) are not supported"),
    );
    expect(await call("grep", { pattern: "a\nb" })).toEqual(failure("line break"));
    expect(await call("grep", { pattern: "x", glob: "{a" })).toEqual(failure("is not understood"));
  });

  it("shows the lines around a match once, however close the matches are", async () => {
    await fs.write(at("/n"), lines(1, 30));
    const { content } = await call("grep", {
      pattern: "line (5|7|8|20)$",
      regex: true,
      output_mode: "content",
      context: 2,
      path: "/n",
    });
    expect(String(content).split("\n").slice(0, -1)).toEqual([
      ...[
        "/n-3- line 3",
        "/n-4- line 4",
        "/n:5: line 5",
        "/n-6- line 6",
        "/n:7: line 7",
        "/n:8: line 8",
        "/n-9- line 9",
        "/n-10- line 10",
      ],
      "--",
      ...["/n-18- line 18", "/n-19- line 19", "/n:20: line 20", "/n-21- line 21", "/n-22- line 22"],
    ]);
  });

  it("cuts long lines around the match", async () => {
    await fs.write(at("/long"), `${"x".repeat(5_000)}needle${"y".repeat(5_000)}\n`);
    const { content } = await call("grep", { pattern: "needle", output_mode: "content", path: "/long" });
    expect(content).toContain(`/long:1: ...${"x".repeat(100)}needle${"y".repeat(294)}... [10006 characters]`);
  });

  it("searches the newest section first, with the line numbers of the whole file", async () => {
    for (const section of [1, 2, 3])
      await fs.append(at("/conversation_history/s.md"), `head ${section}\nhit ${section}\n`, {
        first: section,
        last: section,
      });
    expect(
      (await call("grep", { pattern: "hit", output_mode: "content", path: "/conversation_history/" })).content,
    ).toBe(
      "/conversation_history/s.md:6: hit 3\n/conversation_history/s.md:4: hit 2\n/conversation_history/s.md:2: hit 1\n[3 matching lines in 1 file (39 bytes) searched.]",
    );
  });

  it.each(["content", "count", "files_with_matches"])(
    "goes on with a cursor until all is searched, missing and repeating nothing: %s",
    async (output_mode) => {
      fs = memoryFileSystem(() => 1);
      const expected: string[] = [];
      for (const path of ["/a", "/b/c", "/d"]) await fs.write(at(path), lines(1, 40));
      for (const section of [1, 2, 3])
        await fs.append(at("/c"), lines(section * 40 - 39, section * 40), { first: section, last: section });
      const numbers = (path: string, from: number, to: number) => {
        for (let line = from; line <= to; line++)
          if (String(line).includes("3")) expected.push(`${path}:${line}: line ${line}`);
      };
      numbers("/a", 1, 40);
      numbers("/b/c", 1, 40);
      numbers("/c", 81, 120);
      numbers("/c", 41, 80);
      numbers("/c", 1, 40);
      numbers("/d", 1, 40);
      for (const limit of [1, 3, 500]) {
        for (const scan of [1, 400, 1_000_000]) {
          grepScanBytes = scan;
          const found: string[] = [];
          let cursor: string | undefined;
          let calls = 0;
          do {
            const { content, isError } = await call("grep", {
              pattern: "3",
              output_mode,
              limit,
              ...(cursor === undefined ? {} : { cursor }),
            });
            expect([isError, ++calls < 200]).toEqual([undefined, true]);
            const all = String(content).split("\n");
            found.push(...all.slice(0, -1));
            const next = /"cursor": ("(?:[^"\\]|\\.)*")/.exec(all.at(-1) ?? "")?.[1];
            cursor = next === undefined ? undefined : JSON.parse(next);
          } while (cursor !== undefined);
          if (output_mode === "content") expect(found).toEqual(expected);
          if (output_mode === "count") {
            const sum = (path: string) =>
              found
                .filter((line) => line.startsWith(`${path}: `))
                .reduce((all, line) => all + Number(line.split(": ")[1]), 0);
            for (const path of ["/a", "/b/c", "/c", "/d"])
              expect([path, sum(path)]).toEqual([path, expected.filter((line) => line.startsWith(`${path}:`)).length]);
          }
          if (output_mode === "files_with_matches") expect([...new Set(found)]).toEqual(["/a", "/b/c", "/c", "/d"]);
        }
      }
    },
  );

  it.each(["nonsense", "at 1 2 /a", "after /../x", "after /elsewhere"])("refuses the cursor %j", async (cursor) => {
    expect(await call("grep", { pattern: "x", path: "/d", cursor })).toEqual(
      failure("The cursor does not belong to this search."),
    );
  });

  it("stops with a cursor when a hard pattern has used up its steps", async () => {
    let seed = 1;
    const letters = Array.from({ length: 1_000_000 }, () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % 97 === 0 ? "\n" : seed % 2 === 0 ? "a" : "b";
    }).join("");
    await fs.write(at("/hard"), letters);
    const { content } = await call("grep", { pattern: "(a|b)*a(a|b){300}c", regex: true, path: "/hard" });
    expect(content).toContain("Stopped at a limit before the end.");
  });
});
