import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TranscriptError } from "../../../../src/turns/transcript/draft.ts";
import { readPage } from "../../../../src/turns/transcript/page.ts";
import { recordedSessions } from "../../../support/sessions.ts";

const read = (...messages: readonly string[]) => readPage(`{"messages":[${messages.join(",")}]}`);
const content = (role: string, text: string) =>
  read(`{"role":"${role}","content":${text}}`).map((each) => each.content);

const problem = (body: string): readonly [string, string] => {
  try {
    readPage(body);
  } catch (error) {
    if (error instanceof TranscriptError) return [error.path, error.message];
    throw error;
  }
  throw new Error("was read");
};
const user = (text: string) => `{"messages":[{"role":"user","content":${text}}]}`;
const assistant = (text: string) => `{"messages":[{"role":"assistant","content":${text}}]}`;

describe("a page in Messages format", () => {
  it.each([
    ["spaces and line breaks", '[ {"type" : "text",\n\t"text":"a" } ]'],
    ["number forms", '[{"type":"tool_use","id":"a","name":"f","input":{"x":1.0,"y":1e5,"z":12345678901234567890}}]'],
    ["key order and integer-like keys", '[{"input":{"b":1,"2":1,"1":1},"name":"f","id":"a","type":"tool_use"}]'],
    ["escapes", '[{"type":"text","text":"\\u0041\\/\\u0000\\ud83d\\ude00é"}]'],
    ["duplicate keys", '[{"type":"text","text":"a","text":"b"}]'],
  ])("keeps the bytes of a content: %s (V9)", (_, text) => {
    expect(content("assistant", text)).toEqual([text]);
  });

  it("takes the last of duplicate members, as a parser does (V9)", () => {
    expect(read('{"content":"first","role":"user","content":"last"}').map((each) => each.content)).toEqual([
      '[{"type":"text","text":"last"}]',
    ]);
  });

  it("splices the literal of a string into a text block (V9)", () => {
    expect(content("user", ' "\\u0041 \\"b\\"" ')).toEqual(['[{"type":"text","text":"\\u0041 \\"b\\""}]']);
  });

  it("keeps the content of any JSON value in tool input byte for byte (V9)", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom(0, 1, "\t"), (input, indent) => {
        const text = JSON.stringify([{ type: "tool_use", id: "a", name: "f", input }], undefined, indent);
        expect(content("assistant", text)).toEqual([text.toWellFormed()]);
      }),
    );
  });

  it("replaces lone surrogates, and says where", () => {
    expect(read('{"role":"user","content":"a\\ud800b"}', '{"role":"user","content":"c"}')).toMatchObject([
      { content: '[{"type":"text","text":"a\\ufffdb"}]', repaired: true },
      { content: '[{"type":"text","text":"c"}]', repaired: false },
    ]);
  });

  it("names calls, results and texts with their places", () => {
    const [first, second, third] = read(
      '{"role":"user","content":"hi"}',
      '{"role":"assistant","content":[{"type":"text","text":"ok"},{"type":"tool_use","id":"a","name":"f","input":{}}]}',
      '{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"now"}]}',
    );
    expect([first, second, third]).toMatchObject([
      { role: "user", texts: ["hi"], calls: [], results: [], path: "messages[0]" },
      { texts: null, calls: [{ id: "a", name: "f", path: "messages[1].content[1].id" }], results: [] },
      { texts: null, calls: [], results: [{ id: "a", path: "messages[2].content[0].tool_use_id" }] },
    ]);
  });

  it("passes over the other fields of a stored answer", () => {
    const stored =
      '{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"a"}],"usage":{}}';
    expect(read(stored)).toMatchObject([{ role: "assistant", content: '[{"type":"text","text":"a"}]' }]);
  });

  it("takes the blocks of server tools, thinking, compaction and cache marks as they are", () => {
    const blocks = JSON.stringify([
      { type: "compaction", content: "earlier" },
      { type: "thinking", thinking: "", signature: "s" },
      { type: "redacted_thinking", data: "x" },
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} },
      { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] },
      { type: "some_future_tool_result", tool_use_id: "srvtoolu_1" },
      { type: "text", text: "a", cache_control: { type: "ephemeral" }, citations: null },
    ]);
    expect(content("assistant", blocks)).toEqual([blocks]);
  });

  it("takes an image in a result as MCP servers write it, and as nothing else", () => {
    const image = '{"type":"image","data":"AA==","mimeType":"image/png"}';
    const result = `[{"type":"tool_result","tool_use_id":"a","content":[${image}]}]`;
    expect(content("user", result)).toEqual([result]);
    expect(problem(user(`[${image}]`))).toEqual(["messages[0].content[0].source", "expected an object, got nothing"]);
  });

  it.each(recordedSessions().map((session) => [session.name, session] as const))(
    "reads the recorded session %s without changing a byte (V9)",
    (_, session) => {
      const drafts = read(...session.messages.map(({ line }) => line));
      expect(drafts.map((draft) => draft.content)).toEqual(session.messages.map((message) => message.content));
    },
  );

  it.each([
    ["{", "body", "expected JSON"],
    ["[]", "body", "expected an object with `messages`, got an empty array"],
    ["{}", "messages", "expected an array of at least one message, got nothing"],
    ['{"messages":[]}', "messages", "expected an array of at least one message, got an empty array"],
    ['{"messages":[1],"limit":1}', "limit", "unknown field; expected `format` and `messages`"],
    ['{"messages":[1],"format":"xml"}', "format", 'expected messages or chat_completions, got "xml"'],
    ['{"messages":[1]}', "messages[0]", "expected a message, got 1"],
    ['{"messages":[{"content":"a"}]}', "messages[0].role", "expected user or assistant, got nothing"],
    ['{"messages":[{"role":"tool","content":"a"}]}', "messages[0].role", 'expected user or assistant, got "tool"'],
    [
      '{"messages":[{"role":"system","content":"a"}]}',
      "messages[0].role",
      'expected user or assistant (the system prompt is the session\'s own `system`, not part of its log), got "system"',
    ],
    [user("7"), "messages[0].content", "expected a text or an array of at least one content block, got 7"],
    [
      user("[]"),
      "messages[0].content",
      "expected a text or an array of at least one content block, got an empty array",
    ],
    [user('" \\n"'), "messages[0].content", 'expected a text that is not blank, got " \\n"'],
    [user("[null]"), "messages[0].content[0]", "expected a content block, got null"],
    [user('[{"text":"a"}]'), "messages[0].content[0].type", "expected a string, got nothing"],
    [user('[{"type":"text","text":""}]'), "messages[0].content[0].text", 'expected a text that is not blank, got ""'],
    [user('[{"type":"text"}]'), "messages[0].content[0].text", "expected a string, got nothing"],
    [
      user('[{"type":"text","text":"a"},{"type":"thinking","thinking":"a"}]'),
      "messages[0].content[1].type",
      'expected one of text, image, document, tool_result, search_result, container_upload, got "thinking"',
    ],
    [
      user('[{"type":"tool_use","id":"a","name":"f","input":{}}]'),
      "messages[0].content[0].type",
      'expected one of text, image, document, tool_result, search_result, container_upload, got "tool_use"',
    ],
    [user('[{"type":"image"}]'), "messages[0].content[0].source", "expected an object, got nothing"],
    [
      user('[{"type":"image","source":{"type":"path"}}]'),
      "messages[0].content[0].source.type",
      'expected one of base64, url, file, text, content, got "path"',
    ],
    [
      user('[{"type":"image","source":{"type":"base64","data":"AA=="}}]'),
      "messages[0].content[0].source.media_type",
      "expected a string, got nothing",
    ],
    [
      user('[{"type":"document","source":{"type":"url"}}]'),
      "messages[0].content[0].source.url",
      "expected a string, got nothing",
    ],
    [
      user('[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"a"}]'),
      "messages[0].content[1].type",
      'expected tool results before every other block of their message, got "tool_result"',
    ],
    [user('[{"type":"tool_result"}]'), "messages[0].content[0].tool_use_id", "expected a string, got nothing"],
    [
      user('[{"type":"tool_result","tool_use_id":"a","content":7}]'),
      "messages[0].content[0].content",
      "expected a string or an array of blocks, got 7",
    ],
    [
      user('[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_use"}]}]'),
      "messages[0].content[0].content[0].type",
      'expected one of text, image, document, search_result, tool_reference, got "tool_use"',
    ],
    [
      user('[{"type":"tool_result","tool_use_id":"a","is_error":"no"}]'),
      "messages[0].content[0].is_error",
      'expected true or false, got "no"',
    ],
    [
      assistant('[{"type":"image","source":{"type":"url","url":"u"}}]'),
      "messages[0].content[0].type",
      'expected one of text, thinking, redacted_thinking, tool_use, compaction, container_upload, got "image"',
    ],
    [
      assistant('[{"type":"tool_result","tool_use_id":"a"}]'),
      "messages[0].content[0].type",
      'expected one of text, thinking, redacted_thinking, tool_use, compaction, container_upload, got "tool_result"',
    ],
    [
      assistant('[{"type":"tool_use","id":"a.b","name":"f","input":{}}]'),
      "messages[0].content[0].id",
      'expected an id of the characters A-Z, a-z, 0-9, _ and -, got "a.b"',
    ],
    [
      assistant('[{"type":"tool_use","id":"a","name":"f g","input":{}}]'),
      "messages[0].content[0].name",
      'expected a name of 1 to 128 of the characters A-Z, a-z, 0-9, _ and -, got "f g"',
    ],
    [
      assistant('[{"type":"tool_use","id":"a","name":"f","input":"{}"}]'),
      "messages[0].content[0].input",
      'expected an object, got "{}"',
    ],
    [assistant('[{"type":"thinking"}]'), "messages[0].content[0].thinking", "expected a string, got nothing"],
    [
      assistant('[{"type":"text","text":"a"},{"type":"compaction","content":"b"}]'),
      "messages[0].content[1].type",
      'expected a compaction block to be the first (V6), got "compaction"',
    ],
    [assistant('[{"type":"server_tool_use"}]'), "messages[0].content[0].id", "expected a string, got nothing"],
  ])("is refused with the place and what was expected: %s", (body, path, message) => {
    expect(problem(body)).toEqual([path, message]);
  });
});
