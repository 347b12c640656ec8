import { describe, expect, it } from "vitest";
import { parseRecording } from "../../../../src/local/demo/recording.ts";

const META =
  '{"type": "meta", "id": "s1", "licence": "MIT", "copyright": "Somebody", "system": "Be kind.", "tools": []}';
const file = (...lines: readonly string[]): string => [META, ...lines].join("\n");

describe("a recording", () => {
  it("is a meta line and messages whose blocks keep their bytes (V9)", () => {
    const call = '{"type": "tool_use", "id": "t1", "name": "sum", "input": {"10": 1.0, "2": 12345678901234567890}}';
    expect(
      parseRecording(file('{"role": "user", "content": "Hello"}', "", `{"content": [ ${call} ], "role": "assistant"}`)),
    ).toEqual({
      id: "s1",
      licence: "MIT",
      copyright: "Somebody",
      system: "Be kind.",
      tools: [],
      messages: [
        {
          role: "user",
          blocks: [{ type: "text", value: { type: "text", text: "Hello" }, text: '{"type":"text","text":"Hello"}' }],
        },
        { role: "assistant", blocks: [{ type: "tool_use", value: JSON.parse(call), text: call }] },
      ],
    });
  });

  it("needs no system prompt, tools, licence or copyright", () => {
    expect(parseRecording('{"type":"meta","id":"s2"}')).toEqual({
      id: "s2",
      licence: "unknown",
      copyright: "unknown",
      system: "",
      tools: [],
      messages: [],
    });
  });

  it.each([
    ["an empty file", "\n \n", "the file is empty"],
    ["a first line that is a message", '{"role":"user","content":"a"}', "line 1 is not the meta line of a recording"],
    ["a line that is no JSON", file('{"role":'), "line 2 is not JSON"],
    ["a line with another role", file('{"role":"system","content":"a"}'), "line 2 is not a message"],
    ["a message without content", file('{"role":"user"}'), "line 2 has no content"],
    [
      "a block without a type",
      file('{"role":"user","content":[{"text":"a"}]}'),
      "line 2 has a content block without a type",
    ],
  ])("does not accept %s", (_what, text, problem) => {
    expect(() => parseRecording(text)).toThrow(problem);
  });
});
