import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { wireCallId } from "../../../src/models/chat-call-ids.ts";
import { type ChatDialect, chatMessages } from "../../../src/models/chat-messages.ts";
import type { Role } from "../../../src/protocol/messages.ts";

const PLAIN: ChatDialect = { files: false, reasoning: true, strict: false };

const converted = (role: Role, content: string, dialect: ChatDialect = PLAIN) =>
  chatMessages({ role }, content, dialect).map((text): unknown => JSON.parse(text));
const user = (content: string, dialect?: ChatDialect) => converted("user", content, dialect);
const assistant = (content: string, dialect?: ChatDialect) => converted("assistant", content, dialect);

const PNG = '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}';
const PDF =
  '{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}';
const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };

describe("a user message as chat completions take it", () => {
  it("is text where it is text, and its literal stays as it is stored (V9)", () => {
    const literal = '"a \\u00e9 \\/ \\n"';
    expect(chatMessages({ role: "user" }, `[{"type":"text","text":${literal}}]`, PLAIN)).toEqual([
      `{"role":"user","content":${literal}}`,
    ]);
    expect(user('[{"type":"text","text":"a"},{"type":"text","text":"b"}]')).toEqual([
      { role: "user", content: "a\n\nb" },
    ]);
  });

  it("has images as data URLs, and what cannot be shown as its name", () => {
    const url = '{"type":"image","source":{"type":"url","url":"https://a.test/i.png"}}';
    expect(user(`[{"type":"text","text":"See"},${PNG},${url},${PDF}]`)).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "See" },
          image,
          { type: "image_url", image_url: { url: "https://a.test/i.png" } },
          { type: "text", text: "[document: application/pdf, not shown]" },
        ],
      },
    ]);
    expect(user(`[${PDF}]`, { ...PLAIN, files: true })).toEqual([
      {
        role: "user",
        content: [{ type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0=" } }],
      },
    ]);
    const note = '{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a note"}}';
    expect(user(`[${note}]`)).toEqual([{ role: "user", content: [{ type: "text", text: "a note" }] }]);
  });

  it("has its results first, as messages of the tools, a failed one marked in words", () => {
    expect(
      user(
        '[{"type":"tool_result","tool_use_id":"a","content":"x"},{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"no"},{"type":"text","text":"way"}],"is_error":true},{"type":"tool_result","tool_use_id":"c"},{"type":"text","text":"and now?"}]',
      ),
    ).toEqual([
      { role: "tool", tool_call_id: "a", content: "x" },
      { role: "tool", tool_call_id: "b", content: "[The call failed]\nno\nway" },
      { role: "tool", tool_call_id: "c", content: "" },
      { role: "user", content: "and now?" },
    ]);
  });

  it("shows the image of a result behind the results, and names it where a template counts roles (R8)", () => {
    const content = `[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"chart"},${PNG}]}]`;
    expect(user(content)).toEqual([
      { role: "tool", tool_call_id: "call_1", content: "chart\n[image: shown after the results]" },
      { role: "user", content: [{ type: "text", text: "Shown by the result of call_1:" }, image] },
    ]);
    expect(user(content, { ...PLAIN, strict: true })).toEqual([
      {
        role: "tool",
        tool_call_id: wireCallId("call_1", true),
        content: "chart\n[image: image/png, not shown]",
      },
    ]);
  });
});

describe("an answer as chat completions take it", () => {
  it("has its calls with the arguments that were streamed, byte for byte (V9)", () => {
    const input = '{"10": 1.0, "2":12345678901234567890, "s":"\\u00e9 \\"q\\""}';
    const content = `[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"ls","input":${input}}]`;
    expect(assistant(content)).toEqual([
      {
        role: "assistant",
        content: "I look.",
        tool_calls: [{ id: "toolu_1", type: "function", function: { name: "ls", arguments: input } }],
      },
    ]);
  });

  it("carries its reasoning beside its calls, and nowhere else (V5)", () => {
    const call = '{"type":"tool_use","id":"a","name":"ls","input":{}}';
    const thought = '{"type":"thinking","thinking":"hm","signature":""}';
    const signed = '{"type":"thinking","thinking":"secret","signature":"c2ln"}';
    const redacted = '{"type":"redacted_thinking","data":"ZGF0YQ=="}';
    const tool_calls = [{ id: "a", type: "function", function: { name: "ls", arguments: "{}" } }];
    expect(assistant(`[${thought},${call}]`)).toEqual([
      { role: "assistant", content: null, reasoning_content: "hm", tool_calls },
    ]);
    expect(assistant(`[${signed},${redacted},${call}]`)).toEqual([{ role: "assistant", content: null, tool_calls }]);
    expect(assistant(`[${thought},${call}]`, { ...PLAIN, reasoning: false })).toEqual([
      { role: "assistant", content: null, tool_calls },
    ]);
    expect(assistant(`[${thought},{"type":"text","text":"Done."}]`)).toEqual([{ role: "assistant", content: "Done." }]);
    expect(assistant(`[${thought}]`)).toEqual([{ role: "assistant", content: "(no text)" }]);
  });

  it("names what another provider did by itself", () => {
    expect(
      assistant(
        '[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]},{"type":"text","text":" Found."}]',
      ),
    ).toEqual([{ role: "assistant", content: '[web_search {"query":"x"}][web_search_tool_result] Found.' }]);
  });
});

describe("the id of a call on the wire", () => {
  it("is the stored one, unless OpenAI would find it too long", () => {
    expect(wireCallId("toolu_01A09q90qw90lq917835lq9", false)).toBe("toolu_01A09q90qw90lq917835lq9");
    expect(wireCallId("x".repeat(41), false)).toMatch(/^call_[0-9a-z]{9}$/);
  });

  it("has nine letters and digits where a template wants that, always the same, and different ones for different calls (R8)", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.stringMatching(/^[\w-]{1,64}$/), { minLength: 2, maxLength: 50 }), (ids) => {
        const sent = ids.map((id) => wireCallId(id, true));
        expect(sent.every((id) => /^[a-zA-Z0-9]{9}$/.test(id))).toBe(true);
        expect(new Set(sent).size).toBe(ids.length);
        expect(sent.map((id) => wireCallId(id, true))).toEqual(sent);
      }),
    );
  });
});
