import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withCacheMark } from "../../../src/models/cache-mark.ts";
import { ModelError } from "../../../src/models/errors.ts";
import { anthropicBody, anthropicCountBody, MAX_BODY_BYTES, utf8Bytes } from "../../../src/models/request-body.ts";
import type { ModelRequest, ViewMessage } from "../../../src/protocol/messages.ts";

const noMedia = () => Promise.reject(new Error("no media expected"));
const user = (content: string, changes: Partial<ViewMessage> = {}): ViewMessage => ({
  role: "user",
  content,
  media: [],
  ...changes,
});
const request = (changes: Partial<ModelRequest> = {}): ModelRequest => ({
  model: "m",
  maxTokens: 100,
  system: [],
  tools: [],
  messages: [user('[{"type":"text","text":"Hi"}]')],
  ...changes,
});
const body = (changes: Partial<ModelRequest>, promptCaching = true) =>
  anthropicBody(request(changes), { stream: true, promptCaching }, noMedia);

const MARK = '"cache_control":{"type":"ephemeral"}';

describe("a request body", () => {
  it("holds every part in one order", async () => {
    expect(
      await anthropicBody(
        request({
          system: [{ text: "You are hango.", cacheMark: true }, { text: "Today." }],
          tools: [
            { kind: "function", name: "ls", description: "Lists", inputSchema: { type: "object", properties: {} } },
            { kind: "provider", name: "web_search", definition: { type: "web_search_20260209", name: "web_search" } },
          ],
          thinking: { type: "adaptive" },
        }),
        { stream: false, promptCaching: true, user: 'u"1' },
        noMedia,
      ),
    ).toBe(
      '{"model":"m","max_tokens":100,"metadata":{"user_id":"u\\"1"},' +
        '"tools":[{"name":"ls","description":"Lists","input_schema":{"type":"object","properties":{}}},{"type":"web_search_20260209","name":"web_search"}],' +
        `"system":[{"type":"text","text":"You are hango.",${MARK}},{"type":"text","text":"Today."}],` +
        '"thinking":{"type":"adaptive"},' +
        '"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}',
    );
  });

  it("has message contents byte for byte, whatever a parse would make of them (V9)", async () => {
    const contents = [
      '[ {"type":"tool_use","id":"t","name":"x","input":{"10":1,"2":1.0,"big":9007199254740993,"e":1E5,"nul":"\\u0000","\\u0061":"\\/🌍"}} ]',
      '[{"type":"thinking","thinking":"","signature":"a+/="},{"type":"text","text":"\\u00e9é"}]',
      '[{"text":"order","type":"text","extra":null}]\n',
    ];
    const text = await body({ messages: contents.map((content) => user(content)) });
    expect(text).toContain(
      `"messages":[${contents.map((content) => `{"role":"user","content":${content}}`).join(",")}]`,
    );
  });

  it("leaves out blank system blocks, moves their mark to the block before, and repairs lone surrogates", async () => {
    const text = await body({
      system: [{ text: "A\ud800" }, { text: " \n", cacheMark: true }, { text: "B" }, { text: "" }],
    });
    expect(text).toContain(`"system":[{"type":"text","text":"A\ufffd",${MARK}},{"type":"text","text":"B"}],`);
  });

  it("names no system and no tools where there are none", async () => {
    expect(await body({ system: [{ text: "", cacheMark: true }] })).toBe(
      '{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}',
    );
  });

  it("has no mark where the provider has no prompt caching (section 10)", async () => {
    const marked = {
      system: [{ text: "S", cacheMark: true }],
      messages: [user('[{"type":"text","text":"Hi"}]', { cacheMark: true })],
    };
    expect(await body(marked, false)).not.toContain("cache_control");
    expect(await anthropicCountBody(request(marked), noMedia)).not.toContain("cache_control");
    expect((await body(marked)).split(MARK)).toHaveLength(3);
  });

  it("asks for media only where a message has some, one message after another (V10)", async () => {
    const asked: [string, readonly string[]][] = [];
    const text = await anthropicBody(
      request({
        messages: [
          user('["a"]', { media: ["h1", "h2"] }),
          user('[{"type":"text","text":"hango:media/sha256-h1"}]'),
          user('["b"]', { media: ["h3"] }),
        ],
      }),
      { stream: true, promptCaching: true },
      async (content, media) => {
        asked.push([content, media]);
        return `["${media.join("+")}"]`;
      },
    );
    expect(asked).toEqual([
      ['["a"]', ["h1", "h2"]],
      ['["b"]', ["h3"]],
    ]);
    expect(text).toContain(
      '"messages":[{"role":"user","content":["h1+h2"]},{"role":"user","content":[{"type":"text","text":"hango:media/sha256-h1"}]},{"role":"user","content":["h3"]}]',
    );
  });

  it("may have exactly 32 MB, counted in bytes, and not one more", async () => {
    const empty = utf8Bytes(await body({ messages: [user('[""]')] }));
    const fill = (bytes: number) =>
      body({ messages: [user(`["${"é".repeat((bytes - empty) >> 1)}${"a".repeat((bytes - empty) % 2)}"]`)] });
    expect(utf8Bytes(await fill(MAX_BODY_BYTES))).toBe(MAX_BODY_BYTES);
    await expect(fill(MAX_BODY_BYTES + 1)).rejects.toThrow(ModelError);
  });

  it("is measured as it is encoded", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(utf8Bytes(text)).toBe(new TextEncoder().encode(text).byteLength);
      }),
    );
  });
});

describe("a cache mark (section 10)", () => {
  it.each([
    ["the last block", '[{"type":"text","text":"a"},{"type":"text","text":"b"}]', 1],
    ["a tool result", '[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"}]"}]}]', 0],
    ["an image", '[{"type":"image","source":{"type":"url","url":"https://a.example"}}]', 0],
    ["a tool use", '[{"type":"tool_use","id":"t","name":"x","input":{"a":[{},"\\"]}"]}}]', 0],
    ["the block before thinking", '[{"type":"text","text":"a"},{"type":"thinking","thinking":"","signature":"s"}]', 0],
    ["the block before redacted thinking", '[{"type":"text","text":"a"},{"type":"redacted_thinking","data":"x"}]', 0],
    ["the block before a blank text", '[{"type":"text","text":"a"},{"type":"text","text":" "}]', 0],
  ])("is put on %s, and changes nothing else", (_, content, index) => {
    const marked = withCacheMark(content);
    const expected: unknown[] = JSON.parse(content);
    expected[index] = { ...Object(expected[index]), cache_control: { type: "ephemeral" } };
    expect(JSON.parse(marked)).toEqual(expected);
    expect(marked.replace(`,${MARK}`, "")).toBe(content);
  });

  it.each([
    ["of thinking only", '[{"type":"thinking","thinking":"","signature":"s"}]'],
    ["of blank text only", '[{"type":"text","text":""}]'],
    ["that is empty", "[]"],
    ["whose block has a mark", `[{"type":"text","text":"a",${MARK}}]`],
  ])("is not put into a message %s", (_, content) => {
    expect(withCacheMark(content)).toBe(content);
  });

  it("survives any text", () => {
    const blocks = fc.array(
      fc.record({ type: fc.constant("text"), text: fc.string({ unit: "grapheme" }), "10": fc.jsonValue() }),
      { minLength: 1 },
    );
    fc.assert(
      fc.property(blocks, fc.constantFrom(undefined, 1), (value, indent) => {
        const content = JSON.stringify(value, null, indent);
        const at = value.findLastIndex(({ text }) => text.trim() !== "");
        const marked: unknown[] = JSON.parse(withCacheMark(content));
        expect(marked).toEqual(
          JSON.parse(
            JSON.stringify(
              value.map((block, i) => (i === at ? { ...block, cache_control: { type: "ephemeral" } } : block)),
            ),
          ),
        );
      }),
    );
  });
});
