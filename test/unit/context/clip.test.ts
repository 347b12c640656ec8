import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CLIP_KEEP_RECENT,
  clipContent,
  MIN_CLIP_TOKENS,
  minReclaimTokens,
  nextClipBoundary,
} from "../../../src/context/clip.ts";
import { estimateTokens } from "../../../src/context/estimate.ts";
import { EMPTY_VIEW, type ViewState } from "../../../src/context/view-state.ts";
import type { MessageId, RunId } from "../../../src/protocol/ids.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow, Role } from "../../../src/protocol/messages.ts";

const MAX = 100;
const NOTE = /…\[clipped: ([\d,]+) of ([\d,]+) characters\]…/;

const clip = (content: string, role: Role, maxTokens = MAX) => clipContent(content, role, maxTokens, estimateTokens);
const call = (input: string, id = "toolu_1") =>
  `[{"type":"tool_use","id":"${id}","name":"write_file","input":${input}}]`;
const result = (content: string, rest = "") =>
  `[{"type":"tool_result","tool_use_id":"toolu_1","content":${content}${rest}}]`;
const long = (length: number) => "abcdefghi\n".repeat(Math.ceil(length / 10)).slice(0, length);

/** A text of any script, escapes and lone surrogates included, often long enough to be clipped. */
const anyText = fc
  .tuple(fc.string({ unit: "binary", maxLength: 30 }), fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 200 })))
  .map(([piece, times]) => piece.repeat(times));
const anyInput = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    anyText,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(anyText, tie("value"), { maxKeys: 4 }),
  ),
})).value;
const anyPart = fc.oneof(
  fc.record({ type: fc.constant("text"), text: anyText }),
  fc.record({
    type: fc.constantFrom("image", "document"),
    source: fc.record({ type: fc.constant("base64"), media_type: fc.constant("image/png"), data: anyText }),
  }),
  fc.record({ type: fc.constant("search_result"), title: anyText }),
);
const anyCall = fc.record({
  type: fc.constant("tool_use"),
  id: anyText,
  name: anyText,
  input: fc.dictionary(anyText, anyInput),
});
const anyResult = fc.record(
  {
    type: fc.constant("tool_result"),
    tool_use_id: anyText,
    content: fc.oneof(anyText, fc.array(anyPart, { maxLength: 4 })),
    is_error: fc.boolean(),
  },
  { requiredKeys: ["type", "tool_use_id"] },
);
const anyOther = fc.oneof(
  fc.record({ type: fc.constant("text"), text: anyText }),
  fc.record({ type: fc.constant("thinking"), thinking: anyText, signature: anyText }),
  fc.record({
    type: fc.constant("server_tool_use"),
    id: anyText,
    name: anyText,
    input: fc.dictionary(anyText, anyText),
  }),
  fc.record({
    type: fc.constant("web_search_tool_result"),
    tool_use_id: anyText,
    content: fc.array(fc.record({ encrypted_content: anyText })),
  }),
);
const anyContent = fc
  .tuple(fc.constantFrom("assistant" as const, "user" as const), fc.constantFrom(undefined, 1, "\t"))
  .chain(([role, space]) =>
    fc
      .array(fc.oneof(role === "assistant" ? anyCall : anyResult, anyOther), { minLength: 1, maxLength: 4 })
      .map((blocks) => ({ role, content: JSON.stringify(blocks, null, space) })),
  );

type Json = unknown;
const isObject = (value: Json): value is Record<string, Json> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Every difference of two values as [path, before, after]. */
const differences = (a: Json, b: Json, path = ""): readonly (readonly [string, Json, Json])[] => {
  if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) {
    return a.flatMap((item, index) => differences(item, b[index], `${path}/${index}`));
  }
  if (isObject(a) && isObject(b) && JSON.stringify(Object.keys(a)) === JSON.stringify(Object.keys(b))) {
    return Object.keys(a).flatMap((key) => differences(a[key], b[key], `${path}/${key}`));
  }
  return Object.is(a, b) ? [] : [[path, a, b]];
};

describe("clipping a message (ladder step 2, V2, V9)", () => {
  it("changes nothing but over-long strings, each to its head, a note and its tail within the limit; idempotent, valid, shorter", () => {
    let clippings = 0;
    fc.assert(
      fc.property(anyContent, ({ role, content }) => {
        const clipped = clip(content, role);
        if (clipped === content) return;
        clippings++;
        expect(clipped.length).toBeLessThan(content.length);
        expect(clip(clipped, role)).toBe(clipped);
        const changes = differences(JSON.parse(content), JSON.parse(clipped));
        expect(changes.length).toBeGreaterThan(0);
        for (const [path, before, after] of changes) {
          expect(path).toMatch(role === "assistant" ? /^\/\d+\/input\// : /^\/\d+\/content(\/\d+\/text)?$/s);
          if (typeof before !== "string" || typeof after !== "string") throw new Error(`no string at ${path}`);
          expect(estimateTokens(before)).toBeGreaterThan(MAX);
          expect(estimateTokens(after)).toBeLessThanOrEqual(MAX);
          expect(after.isWellFormed()).toBe(true);
          const note = NOTE.exec(after);
          const head = after.slice(0, note?.index);
          const tail = after.slice((note?.index ?? 0) + (note?.[0].length ?? 0));
          expect(before.toWellFormed().startsWith(head) && before.toWellFormed().endsWith(tail)).toBe(true);
          expect(note?.slice(1).map((number) => Number(number.replaceAll(",", "")))).toEqual([
            before.length - head.length - tail.length,
            before.length,
          ]);
        }
      }),
      { numRuns: 500 },
    );
    expect(clippings).toBeGreaterThan(50);
  });

  it("leaves no clippable string over the limit unless a note would make it longer", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), anyInput), (input) => {
        const strings = (value: Json): readonly string[] =>
          typeof value === "string"
            ? [value]
            : isObject(value) || Array.isArray(value)
              ? Object.values(value).flatMap(strings)
              : [];
        const over = strings(JSON.parse(clip(call(JSON.stringify(input)), "assistant"))).filter(
          (text) => estimateTokens(text) > MAX,
        );
        for (const text of over) expect(text.length).toBeLessThan(2 * MAX);
      }),
    );
  });

  it("keeps every other byte: number forms, key order, integer-like and repeated keys, spaces, escapes", () => {
    const content = (text: string) =>
      ` [ {"type" : "tool_use","id":"a\\u0062","name":"w", "input":{"2":1.0,"1":12345678901234567890,"x":-0e+5,"2":"\\/","deep":[[{"t":"${text}"}]] , "${"k".repeat(2_000)}":null}} ,{"type":"text","text":"\\u00e9"} ] `;
    const [before, after] = content("\u0000").split("\u0000");
    const clipped = clip(content("x".repeat(3_000)), "assistant");
    expect(clipped.startsWith(before ?? "") && clipped.endsWith(after ?? "")).toBe(true);
    expect(clipped).toMatch(NOTE);
  });

  it("shows the head, a note with the sizes, and the tail", () => {
    const text = `${"h".repeat(7_000)}${"t".repeat(7_000)}`;
    const [block] = JSON.parse(clip(call(JSON.stringify({ text })), "assistant"));
    expect(block.input.text).toMatch(/^h{100,}…\[clipped: 1\d,\d\d\d of 14,000 characters\]…t{50,}$/);
  });

  it("uses the limit: a clipped string is not much shorter than allowed", () => {
    for (const text of [
      long(14_000),
      "漢字".repeat(3_000),
      "😀".repeat(3_000),
      JSON.stringify(long(9_000)),
      "x".repeat(3_000),
    ]) {
      const [block] = JSON.parse(clip(result(JSON.stringify(text)), "user", 500));
      expect(estimateTokens(block.content)).toBeGreaterThan(400);
    }
  });

  it("never splits a character where a cut falls on one", () => {
    for (let shift = 0; shift < 8; shift++) {
      const clipped = clip(
        result(JSON.stringify("x".repeat(shift) + "😀".repeat(2_000) + "y".repeat(shift % 3))),
        "user",
      );
      const [block] = JSON.parse(clipped);
      expect(block.content.isWellFormed()).toBe(true);
      expect(block.content).not.toContain("\ufffd");
      expect(clipped).toMatch(NOTE);
    }
  });

  it("clips the text blocks of a result, and leaves its media, its id and is_error", () => {
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "A".repeat(5_000) } };
    const document = { type: "document", source: { type: "text", media_type: "text/plain", data: long(5_000) } };
    const content = JSON.stringify([image, { type: "text", text: long(5_000) }, document]);
    const [block] = JSON.parse(clip(result(content, ',"is_error":true'), "user"));
    expect(block).toEqual({
      type: "tool_result",
      tool_use_id: "toolu_1",
      content: [image, { type: "text", text: expect.stringMatching(NOTE) }, document],
      is_error: true,
    });
  });

  it("never touches text, thinking, or what the provider's own tools were asked and said (V6)", () => {
    const text = long(9_000);
    const contents = [
      ["user", [{ type: "text", text: `"tool_result" ${text}` }]],
      [
        "assistant",
        [
          { type: "text", text: `"tool_use" ${text}` },
          { type: "thinking", thinking: text, signature: text },
        ],
      ],
      [
        "assistant",
        [
          { type: "server_tool_use", id: "s", name: "web_search", input: { query: text } },
          { type: "tool_use", id: "t", name: "n", input: {} },
        ],
      ],
      [
        "assistant",
        [{ type: "web_search_tool_result", tool_use_id: "s", content: [{ type: "tool_use", input: { text } }] }],
      ],
      ["assistant", [{ type: "mcp_tool_result", tool_use_id: "s", content: [{ type: "text", text }] }]],
      ["assistant", [{ type: "compaction", content: text }]],
    ] as const;
    for (const [role, blocks] of contents) {
      const content = JSON.stringify(blocks);
      expect(clip(content, role)).toBe(content);
    }
  });

  it("goes on counting the whole text when a clipped text is clipped again, shorter", () => {
    const once = clip(result(JSON.stringify(long(14_000))), "user", 500);
    const [block] = JSON.parse(clip(once, "user", MIN_CLIP_TOKENS));
    const note = NOTE.exec(block.content);
    expect(note?.[2]).toBe("14,000");
    expect(Number(note?.[1]?.replace(",", ""))).toBe(14_000 - (block.content.length - (note?.[0].length ?? 0)));
    expect(block.content.match(/clipped/g)).toHaveLength(1);
  });

  it("does not take a quoted note for its own", () => {
    const text = `…[clipped: 12 of 34 characters]…${long(14_000)}`;
    const [block] = JSON.parse(clip(result(JSON.stringify(text)), "user", 500));
    expect(block.content).toContain(`of ${(14_032).toLocaleString("en-US")} characters]…`);
  });

  it("answers the very same string where the limit leaves no room for a note", () => {
    const content = result(JSON.stringify(long(9_000)));
    expect(clip(content, "user", 3)).toBe(content);
  });

  it("clips 5 MB, whatever its shape", () => {
    const shapes: readonly (readonly [Role, string])[] = [
      ["assistant", call(JSON.stringify({ content: long(5_000_000) }))],
      ["user", result(JSON.stringify(long(5_000_000)))],
      ["user", result(JSON.stringify("漢".repeat(1_700_000)))],
      ["assistant", call(JSON.stringify({ values: Array.from({ length: 700_000 }, (_, at) => String(at % 10_000)) }))],
      ["assistant", call(`${'{"a":['.repeat(400_000)}${"]}".repeat(400_000)}`)],
      [
        "user",
        result(
          `[${Array(20_000)
            .fill(JSON.stringify({ type: "text", text: long(200) }))
            .join(",")}]`,
        ),
      ],
      ["user", JSON.stringify([{ type: "image", source: { type: "base64", data: "A".repeat(5_000_000) } }])],
    ];
    for (const [role, content] of shapes) {
      // Quadratic work on so much would outlast the test's time limit.
      expect(() => clip(content, role, 500)).not.toThrow();
    }
  });
});

const row = (at: number, role: Role, content: string, calls: readonly string[] = []): LogRow => ({
  id: `msg_${at}` as MessageId,
  seq: seq(at),
  role,
  origin: role === "assistant" ? "assistant" : "tool",
  content,
  media: [],
  calls,
  tokens: 1,
  bytes: content.length,
  runId: "run_1" as RunId,
});

/** Rounds of a call and its result: odd seqs call, even seqs answer. */
const rounds = (count: number, argument: string, answer: string): readonly LogRow[] =>
  Array.from({ length: count }, (_, index) => {
    const id = `toolu_${index}`;
    const name = index % 2 === 0 ? "write_file" : "execute";
    return [
      row(2 * index + 1, "assistant", JSON.stringify([{ type: "tool_use", id, name, input: { argument } }]), [id]),
      row(2 * index + 2, "user", JSON.stringify([{ type: "tool_result", tool_use_id: id, content: answer }])),
    ];
  }).flat();

const boundary = (rows: readonly LogRow[], view: ViewState = EMPTY_VIEW, windowTokens = 200_000) =>
  nextClipBoundary(rows, view, windowTokens, estimateTokens);

/** What the view loses when rows below the boundary are clipped, by clipping them. */
const lost = (rows: readonly LogRow[], before: number) =>
  rows
    .filter((each) => each.seq < before)
    .map((each) => estimateTokens(each.content) - estimateTokens(clip(each.content, each.role, EMPTY_VIEW.clipTokens)))
    .reduce((sum, tokens) => sum + tokens, 0);

describe("how far clipping advances (ladder step 2)", () => {
  it(`stops before the newest ${CLIP_KEEP_RECENT} messages, and says what it reclaims and of which tools`, () => {
    const rows = rounds(14, "w".repeat(9_000), "r".repeat(6_000));
    const found = boundary(rows);
    expect(found).toEqual({
      clippedBefore: 9,
      skills: [],
      reclaimedTokens: expect.any(Number),
      clippedByTool: { write_file: 4, execute: 4 },
    });
    expect(Math.abs((found?.reclaimedTokens ?? 0) - lost(rows, 9))).toBeLessThan(20);
  });

  it("commits nothing that reclaims less than the minimum, which is smaller in a small window", () => {
    const rows = rounds(11, "w".repeat(5_000), "r".repeat(5_000));
    expect(boundary(rows)).toBeNull();
    expect(boundary(rows, EMPTY_VIEW, 20_000)?.clippedBefore).toBe(3);
    expect([minReclaimTokens(200_000), minReclaimTokens(20_000)]).toEqual([4_096, 1_000]);
  });

  it("has nowhere to go in a short log, in one without tools, and in one that is clipped already", () => {
    const rows = rounds(40, "w".repeat(9_000), "r");
    const found = boundary(rows);
    expect(boundary(rows.slice(0, CLIP_KEEP_RECENT))).toBeNull();
    expect(boundary([])).toBeNull();
    expect(boundary(rows, { ...EMPTY_VIEW, clippedBefore: found?.clippedBefore ?? seq(1) })).toBeNull();
    const talk = Array.from({ length: 90 }, (_, at) =>
      row(at + 1, at % 2 === 0 ? "user" : "assistant", JSON.stringify([{ type: "text", text: long(9_000) }])),
    );
    expect(boundary(talk)).toBeNull();
  });

  it("counts only what the view shows in full: not covered, hidden, demoted or clipped rows", () => {
    const rows = rounds(30, "w", "r".repeat(9_000));
    const view: ViewState = {
      ...EMPTY_VIEW,
      clippedBefore: seq(13),
      hidden: [{ from: seq(15), to: seq(18) }],
      demoted: ["toolu_10"],
    };
    const whole = boundary(rows.slice(0, 2).concat(rounds(30, "w", "r")), EMPTY_VIEW);
    expect(whole).toBeNull();
    const found = boundary(rows, view, 20_000);
    // Rows 13 to 40, without 15 to 18, and without the result of toolu_10 (row 22): 11 results of 14.
    expect(found?.clippedBefore).toBe(41);
    expect(Object.values(found?.clippedByTool ?? {}).reduce((sum, count) => sum + count, 0)).toBe(11);
  });
});
