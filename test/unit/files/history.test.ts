import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import type { FileSystem, SectionKey } from "../../../src/files/filesystem.ts";
import {
  appendHistory,
  HistoryNotVerified,
  historyPath,
  MAX_SECTION_BYTES,
  rebuildHistory,
} from "../../../src/files/history.ts";
import { type HistoryRow, renderHistory } from "../../../src/files/history-text.ts";
import { memoryFileSystem } from "../../../src/files/memory.ts";
import { isReadOnly } from "../../../src/files/path.ts";
import { type MessageId, seq } from "../../../src/protocol/ids.ts";
import type { Origin } from "../../../src/protocol/messages.ts";
import { sha256Hex } from "../../../src/protocol/sha256.ts";

const SESSION = "ses_1";
const row = (at: number, origin: Origin, content: string, changes: Partial<HistoryRow> = {}): HistoryRow => ({
  id: `msg_${at}` as MessageId,
  seq: seq(at),
  role: origin === "assistant" ? "assistant" : "user",
  origin,
  content,
  media: [],
  calls: [],
  tokens: 1,
  bytes: content.length,
  runId: null,
  createdAt: new Date(Date.UTC(2026, 0, 1, 0, 0, at)).toISOString(),
  ...changes,
});
const say = (at: number, text: string, origin: Origin = "user") =>
  row(at, origin, JSON.stringify([{ type: "text", text }]));
const says = (from: number, to: number, text = "words") =>
  Array.from({ length: to - from + 1 }, (_, index) => say(from + index, `${text} of ${from + index}`));

/** The lines outside of fences, as a reader of Markdown sees them. */
const ownLines = (markdown: string): readonly string[] => {
  const own: string[] = [];
  let fence: string | undefined;
  for (const line of markdown.split(/\r\n|\n|\r/)) {
    const run = /^ {0,3}(`{3,})([^`]*)$/.exec(line);
    if (fence === undefined) {
      if (run?.[1] === undefined) own.push(line);
      else fence = run[1];
    } else if (run?.[1] !== undefined && run[1].length >= fence.length && run[2]?.trim() === "") fence = undefined;
  }
  expect(fence).toBeUndefined();
  return own;
};

describe("a section of the history", () => {
  it("holds an index and then every message with its parts (M1)", () => {
    const hash = "a".repeat(64);
    const image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"hango:media/sha256-${hash}"}}`;
    const result = `[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":[{"type":"text","text":"no such\\nfile"},${image}]}]`;
    const rows = [
      say(3, "Fix  the\nlogin bug"),
      row(
        4,
        "assistant",
        '[{"type":"thinking","thinking":"Let me look.","signature":"c2ln"},{"type":"text","text":"Looking."},' +
          '{"type":"tool_use","id":"toolu_1","name":"bash","input":{"n": 1.0,"command":"cat \\"a\\"","script":["x\\ny"]}}]',
      ),
      row(7, "tool", result, { media: [hash], bytes: result.length - 83 + 163_840 }),
    ];
    expect(renderHistory(rows, { first: 1, last: 8 })).toBe(`# Messages 1 to 8

- Number: 3 messages
- Time: 2026-01-01T00:00:03.000Z to 2026-01-01T00:00:07.000Z
- Tools called: bash (1)
- A message begins at its heading: search for "## #3 " to find message 3. What it says is between fences, in full.

## Index

- #3 user: Fix the login bug
- #4 assistant: Looking. [calls bash]
- #7 tool: [bash error] no such file [image image/png]

## #3 user, origin user, 2026-01-01T00:00:03.000Z

\`\`\`text
Fix  the
login bug
\`\`\`

## #4 assistant, origin assistant, 2026-01-01T00:00:04.000Z

### Thinking

\`\`\`text
Let me look.
\`\`\`

\`\`\`text
Looking.
\`\`\`

### Call of bash (toolu_1)

\`\`\`json
{"n": 1.0,"command":"cat \\"a\\"","script":["x\\ny"]}
\`\`\`
The same, strings unescaped:
\`\`\`text
command: cat "a"
\`\`\`
The same, script[0]:
\`\`\`text
x
y
\`\`\`

## #7 user, origin tool, 2026-01-01T00:00:07.000Z

### Result of bash (toolu_1): error

\`\`\`text
no such
file
\`\`\`

[image image/png, 120.0 KB, sha256-${hash}]
`);
  });

  it.each([
    [
      "an image in the row",
      { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
      "[image image/png, 3 bytes, kept in message 1 of the log]",
    ],
    [
      "a document's text",
      { type: "document", title: "The plan", source: { type: "text", media_type: "text/plain", data: "its text" } },
      "\nits text\n",
    ],
    [
      "a document's title",
      { type: "document", title: "The plan", source: { type: "text", media_type: "text/plain", data: "its text" } },
      '{"title":"The plan"}',
    ],
    [
      "a document of blocks",
      { type: "document", source: { type: "content", content: [{ type: "text", text: "inner" }] } },
      "\ninner\n",
    ],
    [
      "media by address",
      { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
      "https://example.com/a.png",
    ],
    ["citations", { type: "text", text: "see", citations: [{ cited_text: "the source" }] }, "the source"],
    [
      "a call that the provider runs",
      { type: "server_tool_use", id: "srv_1", name: "web_search", input: { query: "weather" } },
      '### Call of web_search (srv_1)\n\n```json\n{"query":"weather"}\n',
    ],
    [
      "its result",
      { type: "web_search_tool_result", tool_use_id: "srv_1", content: [{ type: "web_search_result", title: "Rain" }] },
      '{"type":"web_search_result","title":"Rain"}',
    ],
    [
      "a result without content",
      { type: "tool_result", tool_use_id: "toolu_9" },
      "### Result of a call before these messages (toolu_9): ok\n\n(empty)\n",
    ],
    [
      "a block of a kind that is not known",
      { type: "new_block", value: "strange" },
      '### Block of type new_block\n\n```json\n{"type":"new_block","value":"strange"}\n',
    ],
    ["text with NUL, as JSON", { type: "text", text: "a\0b" }, '```json\n"a\\u0000b"\n'],
  ])("shows %s", (_, block, shown) => {
    expect(renderHistory([row(1, "user", JSON.stringify([block]))])).toContain(shown);
  });

  it("leaves out signatures, encrypted thinking and the payloads of unknown blocks", () => {
    const payload = "QUJD".repeat(100);
    const text = renderHistory([
      row(
        1,
        "assistant",
        JSON.stringify([
          { type: "thinking", thinking: "hm", signature: "SIGNATURE" },
          { type: "redacted_thinking", data: "ENCRYPTED" },
          { type: "new", inside: [{ source: { type: "base64", data: payload } }] },
        ]),
      ),
    ]);
    expect(["SIGNATURE", "ENCRYPTED", payload].filter((each) => text.includes(each))).toEqual([]);
    expect(text).toContain('"data":"[300 bytes, kept in message 1 of the log]"');
  });

  it("keeps every text, tool input and result verbatim, and lets no content pass for a heading of its own", () => {
    const piece = fc.constantFrom(
      "```",
      "````\n",
      "\n",
      "\r",
      "## #2 user",
      "\n```\n## #9 user, origin user, x\n",
      '"',
      "\\",
      "\0",
      "ü",
      "😀",
      "~~~",
      "`",
      " ",
    );
    const words = fc
      .oneof(
        fc
          .array(fc.oneof(piece, fc.string({ maxLength: 4, unit: "binary" })), { maxLength: 8 })
          .map((all) => all.join("")),
        fc.string({ unit: "grapheme" }),
      )
      .map((text) => text.toWellFormed());
    const input = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        words,
        fc.integer(),
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(words, tie("value"), { maxKeys: 3 }),
      ),
    })).value;
    const ascii = (json: string) =>
      json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    const leavesOf = (value: unknown): readonly string[] => {
      if (typeof value === "string") return [value];
      return typeof value === "object" && value !== null ? Object.values(value).flatMap(leavesOf) : [];
    };
    fc.assert(
      fc.property(
        words,
        fc.dictionary(words, input, { maxKeys: 4 }),
        words,
        words,
        fc.boolean(),
        (text, args, result, id, escaped) => {
          const spell = (value: unknown) => (escaped ? ascii(JSON.stringify(value)) : JSON.stringify(value));
          const inputText = spell(args);
          const markdown = renderHistory([
            row(1, "user", spell([{ type: "text", text }])),
            row(2, "assistant", `[{"type":"tool_use","id":${spell(id)},"name":${spell(text)},"input":${inputText}}]`),
            row(3, "tool", spell([{ type: "tool_result", tool_use_id: id, content: result }])),
            row(
              4,
              "tool",
              spell([{ type: "tool_result", tool_use_id: id, content: [{ type: "text", text: result }] }]),
            ),
          ]);
          const shown = (leaf: string) => markdown.includes(leaf.includes("\0") ? JSON.stringify(leaf) : leaf);
          expect([text, result].filter((leaf) => !shown(leaf))).toEqual([]);
          expect(
            leavesOf(args).filter((leaf) => !(shown(leaf) || (leaf.includes("\0") && markdown.includes(spell(leaf))))),
          ).toEqual([]);
          expect(markdown).toContain(inputText);
          expect(markdown.includes("\0")).toBe(false);
          const headings = ownLines(markdown).filter((line) => line.startsWith("## #"));
          expect(headings.map((line) => line.slice(0, 6))).toEqual(["## #1 ", "## #2 ", "## #3 ", "## #4 "]);
          expect(ownLines(markdown).filter((line) => /^- #\d/.test(line)).length).toBe(4);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("has index lines of one line and 120 characters at most, however long a message is", () => {
    const markdown = renderHistory([say(1, `${"😀 \n".repeat(500)}`), say(2, "x".repeat(5_000))]);
    const lines = ownLines(markdown).filter((line) => line.startsWith("- #"));
    expect(
      lines.map((line) => [line.slice(0, 9), line.length <= 120 && line.length > 110, line.isWellFormed()]),
    ).toEqual([
      ["- #1 user", true, true],
      ["- #2 user", true, true],
    ]);
  });
});

describe("the history of a session", () => {
  let fs: FileSystem;
  const path = historyPath(SESSION);
  const text = async () => new TextDecoder().decode((await fs.read(path))?.bytes);
  const keys = async () => ((await fs.stat(path))?.sections ?? []).map(({ key }) => `${key.first}-${key.last}`);
  beforeEach(() => {
    fs = memoryFileSystem(() => 1);
  });

  it("is a file that only hango writes", () => {
    expect([path, isReadOnly(path)]).toEqual(["/conversation_history/ses_1.md", true]);
  });

  it("is told by what was read back of it (M1)", async () => {
    const rows = says(1, 3);
    const section = renderHistory(rows, { first: 1, last: 4 });
    const told = { sizeBytes: section.length, sha256: await sha256Hex(section) };
    expect(await appendHistory(fs, SESSION, { first: 1, last: 4 }, rows)).toEqual({
      path,
      ...told,
      sections: [{ key: { first: 1, last: 4 }, ...told }],
    });
    expect(await text()).toBe(section);
  });

  it("is the same after a repeated attempt, and shows a section within another no more (M1)", async () => {
    await appendHistory(fs, SESSION, { first: 1, last: 3 }, says(1, 3));
    const once = await text();
    await appendHistory(fs, SESSION, { first: 1, last: 3 }, says(1, 3));
    expect(await text()).toBe(once);
    await appendHistory(fs, SESSION, { first: 1, last: 5 }, says(1, 5));
    expect([await keys(), await text()]).toEqual([["1-5"], renderHistory(says(1, 5))]);
  });

  it.each([
    ["size", { sizeBytes: 1, sha256: "" }],
    ["hash", { sha256: "0".repeat(64) }],
  ])("is refused when the backend reads back another %s (M1)", async (_, wrong) => {
    const lying: FileSystem = { ...fs, append: async (...args) => ({ ...(await fs.append(...args)), ...wrong }) };
    await expect(appendHistory(lying, SESSION, { first: 1, last: 3 }, says(1, 3))).rejects.toThrow(HistoryNotVerified);
  });

  it.each<readonly [string, SectionKey, readonly HistoryRow[]]>([
    ["none", { first: 1, last: 3 }, []],
    ["before the range", { first: 2, last: 3 }, says(1, 3)],
    ["after the range", { first: 1, last: 2 }, says(1, 3)],
    ["out of order", { first: 1, last: 3 }, says(1, 3).reverse()],
  ])("does not take rows that are not those of the range: %s", async (_, range, rows) => {
    await expect(appendHistory(fs, SESSION, range, rows)).rejects.toThrow(RangeError);
    expect(await fs.stat(path)).toBeUndefined();
  });

  it("is cut into sections of bounded size, which tile the range and are cut alike by every attempt", async () => {
    const large = (to: number) => says(2, to, "x".repeat(1_500_000));
    const { sections, sizeBytes } = await appendHistory(fs, SESSION, { first: 1, last: 9 }, large(7));
    expect(sections.map(({ key, sizeBytes: size }) => [key.first, key.last, size <= MAX_SECTION_BYTES])).toEqual([
      [1, 3, true],
      [4, 5, true],
      [6, 9, true],
    ]);
    expect((await fs.stat(path))?.sizeBytes).toBe(sizeBytes);
    await appendHistory(fs, SESSION, { first: 1, last: 12 }, large(8));
    expect(await keys()).toEqual(["1-3", "4-5", "6-9", "8-12"]);
  });

  it("keeps a single message that is larger than a section whole", async () => {
    const rows = [say(1, "a"), say(2, "b".repeat(MAX_SECTION_BYTES)), say(3, "c")];
    await appendHistory(fs, SESSION, { first: 1, last: 3 }, rows);
    expect(await keys()).toEqual(["1-1", "2-2", "3-3"]);
  });

  describe("rebuilt from the log (M1)", () => {
    const asked: string[] = [];
    const log = async function* (first: number, last: number) {
      asked.push(`${first}-${last}`);
      yield* says(first, Math.min(last, 50));
    };
    beforeEach(() => {
      asked.length = 0;
    });
    const rebuild = async (...needed: readonly SectionKey[]) =>
      (await rebuildHistory(fs, SESSION, needed, log)).map(({ key }) => `${key.first}-${key.last}`);

    it("is the text that the lost section had", async () => {
      await appendHistory(fs, SESSION, { first: 1, last: 10 }, says(1, 10));
      await appendHistory(fs, SESSION, { first: 11, last: 30 }, says(11, 30));
      const whole = await text();
      fs = memoryFileSystem(() => 1);
      await appendHistory(fs, SESSION, { first: 1, last: 10 }, says(1, 10));
      expect(await rebuild({ first: 1, last: 10 }, { first: 11, last: 30 })).toEqual(["11-30"]);
      expect([await text(), asked]).toEqual([whole, ["11-30"]]);
    });

    it("asks for nothing when all is there, and only for the gaps otherwise", async () => {
      await appendHistory(fs, SESSION, { first: 5, last: 10 }, says(5, 10));
      await appendHistory(fs, SESSION, { first: 15, last: 20 }, says(15, 20));
      expect([await rebuild({ first: 6, last: 9 }), await rebuild()]).toEqual([[], []]);
      expect(await rebuild({ first: 1, last: 25 })).toEqual(["1-4", "11-14", "21-25"]);
      expect([asked, await rebuild({ first: 1, last: 25 })]).toEqual([["1-4", "11-14", "21-25"], []]);
    });

    it("writes nothing where the log has no rows", async () => {
      expect([await rebuild({ first: 60, last: 70 }).catch(String), await keys()]).toEqual([[], []]);
    });

    it("takes rows as a list, too", async () => {
      await rebuildHistory(fs, SESSION, [{ first: 1, last: 2 }], async (first, last) => says(first, last));
      expect(await text()).toBe(renderHistory(says(1, 2)));
    });
  });
});
