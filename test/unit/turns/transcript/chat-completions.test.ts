import { describe, expect, it } from "vitest";
import { toolCallId } from "../../../../src/turns/transcript/chat-completions.ts";
import { checkPage } from "../../../../src/turns/transcript/check.ts";
import { TranscriptError } from "../../../../src/turns/transcript/draft.ts";
import { readPage } from "../../../../src/turns/transcript/page.ts";

const body = (messages: string) => `{"format":"chat_completions","messages":[${messages}]}`;
const read = (...messages: readonly string[]) => readPage(body(messages.join(",")));
const rows = (...messages: readonly string[]) => read(...messages).map(({ role, content }) => [role, content]);
const call = (id: string, args: string) =>
  `{"id":"${id}","type":"function","function":{"name":"f","arguments":${JSON.stringify(args)}}}`;
const calling = (...calls: readonly string[]) =>
  `{"role":"assistant","content":null,"tool_calls":[${calls.join(",")}]}`;
const toolUse = (id: string, input: string) => `{"type":"tool_use","id":"${id}","name":"f","input":${input}}`;

const problem = (message: string): readonly [string, string] => {
  try {
    read(message);
  } catch (error) {
    if (error instanceof TranscriptError) return [error.path, error.message];
    throw error;
  }
  throw new Error("was read");
};

describe("a page in chat-completions format", () => {
  it("becomes rows of the Messages API, texts by their literal and results joined (V9)", () => {
    expect(
      rows(
        '{"role":"user","content":"\\u0041/\\/"}',
        `{"role":"assistant","content":"Let me see.","tool_calls":[${call("a", '{ "x": 1.0 }')},${call("b", "{}")}]}`,
        '{"role":"tool","tool_call_id":"b","content":"\\u0042"}',
        '{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"A"}]}',
        '{"role":"user","content":[{"type":"text","text":"thanks"}],"name":"jo"}',
        '{"role":"assistant","content":"bye","reasoning_content":"hm"}',
      ),
    ).toEqual([
      ["user", '[{"type":"text","text":"\\u0041/\\/"}]'],
      ["assistant", `[{"type":"text","text":"Let me see."},${toolUse("a", '{ "x": 1.0 }')},${toolUse("b", "{}")}]`],
      [
        "user",
        '[{"type":"tool_result","tool_use_id":"b","content":"\\u0042"},{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"A"}]}]',
      ],
      ["user", '[{"type":"text","text":"thanks"}]'],
      ["assistant", '[{"type":"text","text":"bye"}]'],
    ]);
  });

  it.each([
    ["as the model wrote them", '{"b":1,"1":1.0,"n":12345678901234567890}', '{"b":1,"1":1.0,"n":12345678901234567890}'],
    ["empty", "", "{}"],
    ["cut off", '{"a":', '{"invalid_json":"{\\"a\\":"}'],
    ["no object", "[1]", '{"invalid_json":"[1]"}'],
    [
      "nested beyond reason",
      `{"a":${"[".repeat(200)}${"]".repeat(200)}}`,
      `{"invalid_json":"{\\"a\\":${"[".repeat(200)}${"]".repeat(200)}}"}`,
    ],
  ])("keeps arguments %s (V9)", (_, args, input) => {
    expect(rows(calling(call("a", args)))).toEqual([["assistant", `[${toolUse("a", input)}]`]]);
  });

  it("takes arguments that are an object already", () => {
    expect(rows(calling('{"id":"a","function":{"name":"f","arguments":{"x": 1.0}}}'))).toEqual([
      ["assistant", `[${toolUse("a", '{"x": 1.0}')}]`],
    ]);
  });

  it("turns data URLs into blocks, and other URLs into references", () => {
    expect(
      rows(
        '{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,BBBB"}}]}',
      ),
    ).toEqual([
      [
        "user",
        '[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"BBBB"}}]',
      ],
    ]);
  });

  it("joins what an assistant said in a row, and leaves its blank texts out", () => {
    expect(
      rows(
        '{"role":"assistant","content":"one"}',
        `{"role":"assistant","content":"","tool_calls":[${call("a", "{}")}]}`,
      ),
    ).toEqual([["assistant", `[{"type":"text","text":"one"},${toolUse("a", "{}")}]`]]);
    expect(rows('{"role":"assistant","content":null,"refusal":"No."}')).toEqual([
      ["assistant", '[{"type":"text","text":"No."}]'],
    ]);
  });

  it("makes ids that the Messages API takes, the same one each time and different ones apart", () => {
    expect([toolCallId("call_1-A"), toolCallId("a.b"), toolCallId("a:b")]).toEqual([
      "call_1-A",
      "a_b_108bf50c",
      "a_b_08bd8540",
    ]);
    const page = read(
      '{"role":"user","content":"hi"}',
      calling(call("a.b", "{}")),
      '{"role":"tool","tool_call_id":"a.b","content":"x"}',
    );
    expect(checkPage(page, { role: null, calls: [] }, new Set())).toEqual([]);
  });

  it("replaces lone surrogates, in arguments too, and says so", () => {
    expect(
      read('{"role":"user","content":"\\udc00"}', calling(call("a", '{"x":"\\ud800"}')), calling(call("b", "{}"))),
    ).toMatchObject([
      { content: '[{"type":"text","text":"\\ufffd"}]', repaired: true },
      { content: `[${toolUse("a", '{"x":"\\ufffd"}')},${toolUse("b", "{}")}]`, repaired: true },
    ]);
  });

  it("names the places of calls and results in the request", () => {
    expect(read(calling(call("a", "{}")), '{"role":"tool","tool_call_id":"a","content":""}')).toMatchObject([
      { calls: [{ id: "a", name: "f", path: "messages[0].tool_calls[0].id" }] },
      { results: [{ id: "a", path: "messages[1].tool_call_id" }], texts: null },
    ]);
  });

  it.each([
    [
      '{"role":"system","content":"Be brief."}',
      "messages[0].role",
      'expected user, assistant or tool (set the system prompt as the session\'s own `system` and leave this message out), got "system"',
    ],
    ['{"role":"function","content":"a"}', "messages[0].role", 'expected user, assistant or tool, got "function"'],
    ["7", "messages[0]", "expected a message, got 7"],
    ['{"role":"user"}', "messages[0].content", "expected a text or an array of at least one content part, got nothing"],
    ['{"role":"user","content":" "}', "messages[0].content", 'expected a text that is not blank, got " "'],
    ['{"role":"user","content":[7]}', "messages[0].content[0]", "expected a content part, got 7"],
    [
      '{"role":"user","content":[{"type":"input_audio"}]}',
      "messages[0].content[0].type",
      'expected one of text, image_url, file, got "input_audio"',
    ],
    [
      '{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///a"}}]}',
      "messages[0].content[0].image_url.url",
      'expected an http(s) URL or a base64 data URL, got "file:///a"',
    ],
    [
      '{"role":"user","content":[{"type":"file","file":{"file_data":"data:text/html;base64,AA"}}]}',
      "messages[0].content[0].file.file_data",
      'expected an image or a PDF, got "text/html"',
    ],
    [
      '{"role":"assistant","content":""}',
      "messages[0].content",
      'expected a text that is not blank, or tool_calls beside it, got ""',
    ],
    [
      '{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}',
      "messages[0].function_call",
      "expected tool_calls instead, and results with the role tool, got an object",
    ],
    [calling('{"id":"","function":{}}'), "messages[0].tool_calls[0].id", 'expected an id, got ""'],
    [calling('{"id":"a","type":"custom"}'), "messages[0].tool_calls[0].type", 'expected function, got "custom"'],
    [
      calling('{"id":"a","function":{"name":"f g","arguments":"{}"}}'),
      "messages[0].tool_calls[0].function.name",
      'expected a name of 1 to 128 of the characters A-Z, a-z, 0-9, _ and -, got "f g"',
    ],
    [
      calling('{"id":"a","function":{"name":"f","arguments":7}}'),
      "messages[0].tool_calls[0].function.arguments",
      "expected JSON text of an object, got 7",
    ],
    ['{"role":"tool","content":"a"}', "messages[0].tool_call_id", "expected a string, got nothing"],
    [
      '{"role":"tool","tool_call_id":"a","content":7}',
      "messages[0].content",
      "expected a text or an array of text parts, got 7",
    ],
  ])("is refused with the place and what was expected: %s", (message, path, words) => {
    expect(problem(message)).toEqual([path, words]);
  });
});
