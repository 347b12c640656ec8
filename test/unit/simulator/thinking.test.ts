import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { startSimulator } from "../../../src/local/simulator/server.ts";
import type { AnswerJson } from "./harness.ts";
import { ask, assistant, MODEL, OLDER, post, result, text, tool, user } from "./harness.ts";

const simulator = await startSimulator();
beforeEach(() => simulator.reset());
afterAll(() => simulator.close());

const thoughts = { type: "thinking" as const, thinking: "Let me think. ☕" };
const tools = [tool("ls")];
const request = (more: Readonly<Record<string, unknown>> = {}) =>
  ask([user([text("hello")])], { system: "You help.", tools, ...more });

/** Lets the simulator think and call a tool; answers its blocks. */
const think = async (more: Readonly<Record<string, unknown>> = {}, stream = false): Promise<AnswerJson["content"]> => {
  simulator.enqueue({
    reply: {
      content: [
        thoughts,
        { type: "text", text: "I look." },
        { type: "tool_use", id: "toolu_1", name: "ls", input_json: '{"2":1.0,"1":2}' },
      ],
    },
  });
  const reply = await post(simulator, request({ ...more, ...(stream ? { stream } : {}) }));
  expect(reply.status, reply.text).toBe(200);
  return reply.json.content;
};

/** The follow-up, its JSON text with the tool input as it was streamed. */
const followUp = (content: readonly unknown[], more: Readonly<Record<string, unknown>> = {}): string =>
  JSON.stringify({
    ...request(),
    messages: [user([text("hello")]), assistant(content), user([result("toolu_1")])],
    ...more,
  }).replace('{"1":2,"2":1}', '{"2":1.0,"1":2}');
const bound =
  "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation";
const forged = "messages.1.content.0: Invalid `signature` in `thinking` block";

describe("signed thinking (point 4, V5)", () => {
  it("goes back unchanged, with moved cache marks and another max_tokens", async () => {
    const content = await think();
    const marks = {
      messages: [
        user([text("hello", { cache_control: { type: "ephemeral" } })]),
        assistant(content),
        user([result("toolu_1")]),
      ],
    };
    expect((await post(simulator, followUp(content))).status).toBe(200);
    expect((await post(simulator, followUp(content, { max_tokens: 5, ...marks }))).status).toBe(200);
  });

  it("may be left out", async () => {
    const content = await think();
    expect((await post(simulator, followUp(content.slice(1)))).status).toBe(200);
  });

  it.each<readonly [string, Readonly<Record<string, unknown>>]>([
    ["an earlier message changed", { messages: "Hello" }],
    ["the system prompt changed", { system: "You help!" }],
    ["a tool was added", { tools: [...tools, tool("rm")] }],
    ["the end user changed", { metadata: { user_id: "someone" } }],
    ["the model changed", { model: "claude-opus-5-5" }],
  ])("is refused after %s, on models that bind it", async (_title, change) => {
    const content = await think();
    const messages =
      change.messages === undefined
        ? {}
        : { messages: [user(change.messages), assistant(content), user([result("toolu_1")])] };
    const reply = await post(simulator, followUp(content, { ...change, ...messages }));
    expect([reply.status, reply.json.error?.message.slice(0, bound.length)]).toEqual([400, bound]);
  });

  it("is refused for another organisation", async () => {
    const content = await think();
    const reply = await post(simulator, followUp(content), { authorization: "Bearer other" });
    expect([reply.status, reply.json.error?.message.slice(0, bound.length)]).toEqual([400, bound]);
  });

  it.each([MODEL, OLDER])("is refused when its own text or signature changed (%s)", async (model) => {
    const content = await think({ model });
    const [block, ...rest] = content;
    const changed = await post(simulator, followUp([{ ...block, thinking: "Other." }, ...rest], { model }));
    const foreign = await post(simulator, followUp([{ ...block, signature: "ErUB3k==" }, ...rest], { model }));
    expect([changed.json.error?.message, foreign.json.error?.message]).toEqual([forged, forged]);
  });

  it("is not bound to what came before on older models, nor to the model", async () => {
    const content = await think({ model: OLDER });
    const reply = await post(simulator, followUp(content, { model: "claude-haiku-4-5", system: "Else." }));
    expect(reply.status, reply.text).toBe(200);
  });

  it("binds later thinking to earlier thinking and to the bytes of tool inputs (V9)", async () => {
    const first = await think();
    simulator.enqueue({ reply: { content: [thoughts, { type: "text", text: "Done." }] } });
    const second = (await post(simulator, followUp(first))).json.content;
    const third = (answer: readonly unknown[]) => ({
      messages: [
        user([text("hello")]),
        assistant(answer),
        user([result("toolu_1")]),
        assistant(second),
        user("thanks"),
      ],
    });
    expect((await post(simulator, followUp(first, third(first)))).status).toBe(200);
    const reserialised = JSON.stringify({ ...request(), ...third(first) });
    expect((await post(simulator, reserialised)).json.error?.message).toMatch(/^messages\.3\.content\.0: Invalid/);
    expect((await post(simulator, followUp(first, third(first.slice(1))))).json.error?.message).toMatch(
      /^messages\.3\.content\.0: Invalid/,
    );
  });

  it("is dropped instead of refused when the request says so under the beta", async () => {
    const content = await think();
    const thinking = { type: "adaptive", block_binding: { prefix_mismatch_behavior: "drop_block" } };
    const reply = await post(simulator, followUp(content, { system: "Else.", thinking }), {
      "anthropic-beta": "thinking-binding-controls-2026-08-01",
    });
    expect(reply.status, reply.text).toBe(200);
    expect(reply.json.input_transformations).toEqual([
      { type: "thinking_dropped", path: "messages.1.content.0", reason: "prefix_binding_mismatch" },
    ]);
  });

  it("is signed alike when streamed, redacted or omitted", async () => {
    simulator.script([
      { reply: { content: [{ type: "redacted_thinking" }, { type: "text", text: "a" }] } },
      { reply: { content: [thoughts, { type: "text", text: "b" }] } },
    ]);
    const redacted = (await post(simulator, ask([user("hi")]))).json.content;
    expect(
      (await post(simulator, ask([user("hi")], { stream: false, thinking: { type: "adaptive", display: "omitted" } })))
        .json.content,
    ).toMatchObject([{ thinking: "" }, {}]);
    expect((await post(simulator, ask([user("hi"), assistant(redacted), user("go")]))).status).toBe(200);
    expect((await post(simulator, ask([user("ho"), assistant(redacted), user("go")]))).json.error?.message).toMatch(
      /`redacted_thinking` block. The block is bound/,
    );
  });

  it("keeps a signature that a script gives, which is foreign when it comes back", async () => {
    simulator.enqueue({
      reply: {
        content: [
          { ...thoughts, signature: "recorded+/=" },
          { type: "text", text: "a" },
        ],
      },
    });
    const content = (await post(simulator, ask([user("hi")]))).json.content;
    expect(content[0]?.signature).toBe("recorded+/=");
    expect((await post(simulator, ask([user("hi"), assistant(content), user("go")]))).json.error?.message).toBe(forged);
  });

  it("comes from the unscripted agent when thinking is on, and not otherwise", async () => {
    const on = (await post(simulator, ask([user("hi")], { thinking: { type: "adaptive" } }))).json.content;
    const off = (await post(simulator, ask([user("hi")], { thinking: { type: "disabled" } }))).json.content;
    expect([on.map((block) => block.type), off.map((block) => block.type)]).toEqual([["thinking", "text"], ["text"]]);
    expect(
      (await post(simulator, ask([user("hi"), assistant(on), user("go")], { thinking: { type: "adaptive" } }))).status,
    ).toBe(200);
  });
});
