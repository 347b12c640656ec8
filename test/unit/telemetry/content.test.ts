import { describe, expect, it } from "vitest";
import type { ModelRequest, ModelResponse } from "../../../src/protocol/messages.ts";
import { capturedContent, noContent } from "../../../src/telemetry/content.ts";
import { everySecret, leaked } from "../../support/secrets.ts";

const message = (role: "user" | "assistant", ...blocks: readonly object[]) => ({
  role,
  content: JSON.stringify(blocks),
  media: [],
});

const requestOf = (...messages: ReturnType<typeof message>[]): ModelRequest => ({
  model: "m",
  maxTokens: 10,
  system: [{ text: "Be kind." }],
  tools: [],
  messages,
});

const response = {
  content: JSON.stringify([
    { type: "thinking", thinking: "Hm.", signature: "s" },
    { type: "text", text: "Yes." },
  ]),
  stopReason: "end_turn",
} as ModelResponse;

const parsed = (value: unknown) => JSON.parse(String(value));

describe("content of spans", () => {
  it("is none unless it is captured", () => {
    const request = requestOf(message("user", { type: "text", text: "Hello" }));
    expect([
      noContent.request(request),
      noContent.response(response),
      noContent.toolCall("{}"),
      noContent.toolResult("x"),
    ]).toEqual([{}, {}, {}, {}]);
  });

  it("captured, has the names and the shape of the GenAI conventions", () => {
    const told = capturedContent.request(
      requestOf(
        message("user", { type: "text", text: "Hello" }, { type: "image", source: { type: "base64", data: "AAAA" } }),
        message("assistant", { type: "tool_use", id: "t1", name: "ls", input: { path: "/" } }),
        message("user", { type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "a" }] }),
      ),
    );
    expect(parsed(told["gen_ai.system_instructions"])).toEqual([{ type: "text", content: "Be kind." }]);
    expect(parsed(told["gen_ai.input.messages"])).toEqual([
      { role: "user", parts: [{ type: "text", content: "Hello" }, { type: "image" }] },
      { role: "assistant", parts: [{ type: "tool_call", id: "t1", name: "ls", arguments: '{"path":"/"}' }] },
      { role: "user", parts: [{ type: "tool_call_response", id: "t1", response: '[{"type":"text","content":"a"}]' }] },
    ]);
    expect(parsed(capturedContent.response(response)["gen_ai.output.messages"])).toEqual([
      {
        role: "assistant",
        parts: [
          { type: "reasoning", content: "Hm." },
          { type: "text", content: "Yes." },
        ],
        finish_reason: "end_turn",
      },
    ]);
    expect(capturedContent.toolCall('{"a":1}')).toEqual({ "gen_ai.tool.call.arguments": '{"a":1}' });
    expect(capturedContent.toolResult("b")).toEqual({ "gen_ai.tool.call.result": "b" });
  });

  it("keeps the newest of a long conversation, and says how many are left out", () => {
    const messages = Array.from({ length: 100 }, (_, at) =>
      message("user", { type: "text", text: `${at} ${"x".repeat(2_000)}` }),
    );
    const text = String(capturedContent.request(requestOf(...messages))["gen_ai.input.messages"]);
    const shown = parsed(text);
    expect(text.length).toBeLessThan(66_000);
    expect(shown.at(-1).parts[0].content).toMatch(/^99 x/);
    expect(shown[0].parts[0].content).toBe(`(${100 - (shown.length - 1)} earlier messages are left out)`);
  });

  it("(S6) holds no secret, also where a long text is cut in the middle of one", () => {
    const secrets = everySecret();
    for (let before = 3_900; before <= 4_000; before += 7) {
      const text = `${"word ".repeat(before / 5)}${secrets}`;
      const told = capturedContent.request(requestOf(message("user", { type: "text", text })));
      expect(leaked(JSON.stringify(told))).toEqual([]);
    }
    expect(leaked(JSON.stringify(capturedContent.toolCall(JSON.stringify({ secrets }))))).toEqual([]);
    expect(leaked(JSON.stringify(capturedContent.toolResult([{ type: "text", text: secrets }])))).toEqual([]);
  });

  it("never throws: what is no JSON is left out", () => {
    expect(capturedContent.request(requestOf({ role: "user", content: "[", media: [] }))).toEqual({});
  });
});
