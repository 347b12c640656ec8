import Anthropic from "@anthropic-ai/sdk";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Simulator } from "../../../src/local/simulator/server.ts";
import { startSimulator } from "../../../src/local/simulator/server.ts";
import { KEY, MODEL, OLDER, sdk } from "./harness.ts";

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator();
});
afterEach(() => simulator.reset());
afterAll(() => simulator.close());

const params = { model: MODEL, max_tokens: 1_000, messages: [{ role: "user" as const, content: "hello" }] };

describe("the published SDK against the simulator (point 5)", () => {
  it("streams a message of text and parallel tool calls, whose raw input arrives byte for byte (V9)", async () => {
    const raw = '{"10": 1.0, "2":12345678901234567890, "s":"\\u0000\\u00e9 \\ud83d\\ude00"}';
    simulator.enqueue({
      reply: {
        content: [
          { type: "text", text: "Two calls. 😀" },
          { type: "tool_use", id: "toolu_1", name: "ls", input_json: raw },
          { type: "tool_use", id: "toolu_2", name: "ls" },
        ],
      },
    });
    const stream = sdk(simulator).messages.stream(params);
    const partial: string[] = [];
    stream.on("streamEvent", (event) => {
      if (event.type === "content_block_delta" && event.index === 1 && event.delta.type === "input_json_delta") {
        partial.push(event.delta.partial_json);
      }
    });
    const message = await stream.finalMessage();
    expect(partial.join("")).toBe(raw);
    expect(partial.length).toBeGreaterThan(2);
    expect(message.content).toEqual([
      { type: "text", text: "Two calls. 😀", citations: null },
      { type: "tool_use", id: "toolu_1", name: "ls", input: JSON.parse(raw), caller: { type: "direct" } },
      { type: "tool_use", id: "toolu_2", name: "ls", input: {}, caller: { type: "direct" } },
    ]);
    expect([message.role, message.model, message.stop_reason, message.type]).toEqual([
      "assistant",
      MODEL,
      "tool_use",
      "message",
    ]);
  });

  it("answers without streaming with the same message", async () => {
    const entry = {
      reply: {
        content: [
          { type: "thinking" as const, thinking: "hm" },
          { type: "text" as const, text: "yes" },
        ],
      },
    };
    simulator.script([entry, entry]);
    const streamed = await sdk(simulator).messages.stream(params).finalMessage();
    const whole = await sdk(simulator).messages.create(params);
    expect({ ...whole, id: "" }).toEqual({ ...streamed, id: "", parsed_output: undefined });
    expect(whole.id).not.toBe(streamed.id);
  });

  it("sends every event of the documented sequence, a ping among them", async () => {
    simulator.enqueue({
      reply: {
        content: [
          { type: "thinking", thinking: "hm" },
          { type: "text", text: "yes" },
        ],
      },
    });
    const response = await sdk(simulator)
      .messages.create({ ...params, stream: true })
      .asResponse();
    const names = [...(await response.text()).matchAll(/^event: (\w+)$/gm)].map((found) => found[1]);
    expect(names).toEqual([
      "message_start",
      "ping",
      "content_block_start",
      "content_block_delta",
      "content_block_delta",
      "content_block_stop",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
  });

  it("counts tokens, the same as the usage of the same request", async () => {
    const { max_tokens: _, ...counted } = params;
    const count = await sdk(simulator).messages.countTokens(counted);
    const message = await sdk(simulator).messages.create(params);
    expect(count).toEqual({ input_tokens: message.usage.input_tokens });
  });

  it("describes models, and knows none of another name", async () => {
    const known = await sdk(simulator).models.retrieve(OLDER);
    expect([known.id, known.max_input_tokens, known.max_tokens, known.lifecycle]).toEqual([
      OLDER,
      200_000,
      64_000,
      "active",
    ]);
    const ids = (await sdk(simulator).models.list()).data.map((model) => model.id);
    expect(ids).toContain("claude-haiku-5-5");
    await expect(sdk(simulator).models.retrieve("claude-none")).rejects.toBeInstanceOf(Anthropic.NotFoundError);
  });

  it("gives errors the SDK types: 401, 429 with retry-after, 529, overflow", async () => {
    simulator.script([
      { fault: { kind: "status", status: 401 } },
      { fault: { kind: "status", status: 429, retry_after: 7 } },
      { fault: { kind: "status", status: 529 } },
      { fault: { kind: "overflow", tokens: 208_310, limit: 200_000 } },
    ]);
    const failures: unknown[] = [];
    for (let index = 0; index < 4; index += 1) {
      const error: unknown = await sdk(simulator)
        .messages.create(params)
        .catch((thrown: unknown) => thrown);
      if (!(error instanceof Anthropic.APIError)) throw new Error("expected an APIError");
      failures.push([
        error.constructor.name,
        error.status,
        error.type,
        error.apiMessage,
        error.headers?.get("retry-after"),
      ]);
    }
    expect(failures).toEqual([
      ["AuthenticationError", 401, "authentication_error", "invalid x-api-key", null],
      ["RateLimitError", 429, "rate_limit_error", "This request would exceed your organization's rate limit.", "7"],
      ["OverloadedError", 529, "overloaded_error", "Overloaded", null],
      ["BadRequestError", 400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum", null],
    ]);
  });

  it("is retried by the SDK after an overload, and both requests are recorded", async () => {
    simulator.script([{ fault: { kind: "status", status: 529, retry_after: 0.001 } }, { reply: { content: "there" } }]);
    const message = await sdk(simulator, 1).messages.create(params);
    expect(message.content).toEqual([{ type: "text", text: "there", citations: null }]);
    expect(simulator.requests.map((one) => [one.method, one.path, one.status, one.outcome])).toEqual([
      ["POST", "/v1/messages", 529, "answered"],
      ["POST", "/v1/messages", 200, "answered"],
    ]);
    expect(simulator.requests[1]?.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(simulator.requests[1]?.bodyText).toBe(JSON.stringify(params));
    expect(simulator.requests[1]?.body).toEqual(params);
  });
});
