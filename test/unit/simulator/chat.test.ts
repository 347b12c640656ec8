import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { templateProblem } from "../../../src/local/simulator/chat-template.ts";
import type { Simulator } from "../../../src/local/simulator/server.ts";
import { startSimulator } from "../../../src/local/simulator/server.ts";

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator();
});
afterEach(() => simulator.reset());
afterAll(() => simulator.close());

const sdk = () => new OpenAI({ apiKey: "sk-sim-test", baseURL: `${simulator.url}/v1`, maxRetries: 0 });

type Message = Readonly<Record<string, unknown>>;
const user = (content: unknown): Message => ({ role: "user", content });
const said = (content: unknown): Message => ({ role: "assistant", content });
const calls = (...ids: readonly string[]): Message => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "ls", arguments: "{}" } })),
});
const result = (id: string, content: unknown = "x"): Message => ({ role: "tool", tool_call_id: id, content });
const tool = {
  type: "function",
  function: {
    name: "ls",
    description: "Lists a directory.",
    parameters: { type: "object", properties: { path: { type: "string" } } },
  },
};

const post = async (body: unknown) => {
  const response = await fetch(`${simulator.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, text, json: text.startsWith("{") ? JSON.parse(text) : undefined };
};
const ask = (messages: readonly Message[], more: Message = {}) => ({ model: "sim-chat", messages, ...more });

const collected = async <T>(items: AsyncIterable<T>): Promise<readonly T[]> => {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
};

describe("OpenAI's SDK against the simulator", () => {
  const params = { model: "sim-chat", messages: [{ role: "user" as const, content: "hello" }] };

  it("streams text, reasoning and parallel calls, whose arguments arrive byte for byte (V9)", async () => {
    const raw = '{"10": 1.0, "2":12345678901234567890, "s":"\\u00e9"}';
    simulator.enqueue({
      reply: {
        content: [
          { type: "thinking", thinking: "hm" },
          { type: "text", text: "Two calls. 😀" },
          { type: "tool_use", name: "ls", input_json: raw },
          { type: "tool_use", id: "", name: "pwd" },
        ],
      },
    });
    const stream = await sdk().chat.completions.create({
      ...params,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await collected(stream);
    const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta as Record<string, unknown>));
    const pieces = deltas.flatMap(
      ({ tool_calls }) => (tool_calls ?? []) as OpenAI.ChatCompletionChunk.Choice.Delta.ToolCall[],
    );
    expect(deltas.map(({ content }) => content ?? "").join("")).toBe("Two calls. 😀");
    expect(deltas.map(({ reasoning_content: text }) => text ?? "").join("")).toBe("hm");
    const argumentsOf = (at: number) =>
      pieces.flatMap(({ index, function: made }) => (index === at ? [made?.arguments ?? ""] : [])).join("");
    expect([argumentsOf(0), argumentsOf(1)]).toEqual([raw, "{}"]);
    expect(pieces.filter(({ id }) => id !== undefined).map(({ id }) => id)).toEqual([
      expect.stringMatching(/^call_[0-9a-f]{24}$/),
      "",
    ]);
    expect(chunks.at(-1)?.usage).toMatchObject({ prompt_tokens: expect.any(Number), total_tokens: expect.any(Number) });
    expect(chunks.flatMap(({ choices }) => choices.map(({ finish_reason: reason }) => reason)).at(-1)).toBe(
      "tool_calls",
    );
  });

  it("gets the same answer whole, and what a prefix cache had of an equal prompt", async () => {
    const long = { ...params, messages: [{ role: "user" as const, content: "word ".repeat(2_000) }] };
    simulator.script([{ reply: { content: "yes" } }, { reply: { content: "yes" } }]);
    const first = await sdk().chat.completions.create(long);
    const second = await sdk().chat.completions.create(long);
    expect(first.choices[0]).toMatchObject({ message: { role: "assistant", content: "yes" }, finish_reason: "stop" });
    expect(first.usage?.prompt_tokens_details?.cached_tokens).toBe(0);
    expect(second.usage?.prompt_tokens_details?.cached_tokens).toBe(second.usage?.prompt_tokens);
  });

  it("reads the window where the server tells it", async () => {
    const models = await collected(await sdk().models.list());
    expect(models.map(({ id }) => id)).toEqual(["sim-chat", "sim-reasoner", "sim-strict"]);
    expect(models).toMatchObject([{}, { max_model_len: 128_000 }, { meta: { n_ctx: 32_768 } }]);
  });

  it("lets the small agent call a tool and quote its result", async () => {
    const first = await post(ask([user("list /a")], { tools: [tool] }));
    const message = first.json.choices[0].message;
    expect(message.tool_calls).toEqual([
      { id: expect.any(String), type: "function", function: { name: "ls", arguments: '{"path":"/a"}' } },
    ]);
    const second = await post(
      ask([user("list /a"), message, result(message.tool_calls[0].id, "b.md")], { tools: [tool] }),
    );
    expect(second.json.choices[0]).toMatchObject({ finish_reason: "stop" });
    expect(second.json.choices[0].message.content).toContain("b.md");
  });

  it("summarises where a summary is asked for, and is a script's purpose", async () => {
    simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: "short" } });
    const { json } = await post(
      ask([{ role: "system", content: "You write a summary of a conversation." }, user("a")]),
    );
    expect(json.choices[0].message.content).toBe("short");
    expect(simulator.requests[0]).toMatchObject({ purpose: "summarize", path: "/v1/chat/completions", status: 200 });
  });
});

describe("what the simulator of chat completions refuses", () => {
  it.each([
    ["an unknown field", ask([user("a")], { top_k: 1 }), "Unrecognized request argument supplied: top_k"],
    ["an unknown field of a message", ask([{ ...user("a"), x: 1 }]), "messages.0.x"],
    ["no message", ask([]), "messages"],
    ["an empty text", ask([user("")]), "messages.0.content"],
    ["an answer that says nothing", ask([user("a"), said(null), user("b")]), "messages.1.content"],
    ["a stray result", ask([user("a"), result("x")]), "must be a response to a preceeding message"],
    [
      "a call without its result",
      ask([user("a"), calls("x", "y"), result("x"), user("b")]),
      "did not have response messages: y",
    ],
    [
      "a call whose result comes late",
      ask([user("a"), calls("x"), user("b"), result("x")]),
      "did not have response messages: x",
    ],
    ["two results of one call", ask([user("a"), calls("x"), result("x"), result("x")]), "must be a response"],
    ["two calls of one id", ask([user("a"), calls("x", "x"), result("x")]), "ids must be unique"],
    ["an id that is too long", ask([user("a"), calls("x".repeat(41)), result("x".repeat(41))]), "string too long"],
    [
      "arguments that are no JSON",
      ask([
        user("a"),
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "x", type: "function", function: { name: "ls", arguments: "{" } }],
        },
        result("x"),
      ]),
      "arguments",
    ],
    [
      "reasoning behind an answer",
      ask([user("a"), { ...said("b"), reasoning_content: "hm" }, user("c")]),
      "reasoning_content",
    ],
    ["an answer at the end", ask([user("a"), said("b")]), "the last message must be"],
    [
      "stream options without a stream",
      ask([user("a")], { stream_options: { include_usage: true } }),
      "stream_options",
    ],
    [
      "a tool without parameters",
      ask([user("a")], { tools: [{ type: "function", function: { name: "ls" } }] }),
      "tools.0.function.parameters",
    ],
  ])("%s", async (_what, body, words) => {
    const { status, json } = await post(body);
    expect(status).toBe(400);
    expect(json.error).toMatchObject({ type: "invalid_request_error" });
    expect(json.error.message).toContain(words);
  });

  it("a model that it does not serve", async () => {
    const { status, json } = await post({ ...ask([user("a")]), model: "claude-sonnet-5-5" });
    expect([status, json.error.code]).toEqual([404, "model_not_found"]);
  });

  it.each([
    [
      "openai",
      2_000,
      {
        code: "context_length_exceeded",
        message: expect.stringMatching(/maximum context length is 1000 tokens.*resulted in \d+ tokens/),
      },
    ],
    [
      "vllm",
      400,
      { code: 400, message: expect.stringMatching(/maximum context length is 1000 tokens.*requested \d+ tokens/) },
    ],
    [
      "llama.cpp",
      2_000,
      { code: 400, type: "exceed_context_size_error", n_ctx: 1_000, n_prompt_tokens: expect.any(Number) },
    ],
  ] as const)("a prompt over the window, in the words of %s", async (server, words, error) => {
    simulator.setModels({ small: { server, maxInputTokens: 1_000 } });
    const { status, json } = await post({ ...ask([user("word ".repeat(words))], { max_tokens: 700 }), model: "small" });
    expect(status).toBe(400);
    expect(json.error).toMatchObject(error);
  });
});

describe("a strict template (R8)", () => {
  const strict = (messages: readonly Message[]) => post({ ...ask(messages), model: "sim-strict" });
  const id = "abcDEF123";

  it("answers 500 to the shape that made a session unrecoverable", async () => {
    const { status, json } = await strict([user("handoff"), calls(id), result(id), user("go on")]);
    expect(status).toBe(500);
    expect(json.error.message).toMatch(/^Jinja Exception: .*roles must alternate/);
  });

  it.each([
    ["an exchange", [user("a"), said("b"), user("c")], 200],
    ["an exchange with tool traffic", [user("a"), calls(id), result(id), said("b"), user("c")], 200],
    ["tool traffic at the end", [user("a"), said("b"), user("c"), calls(id), result(id)], 200],
    ["a system message first", [{ role: "system", content: "s" }, user("a")], 200],
    ["two of the user's", [user("a"), user("b")], 500],
    ["two answers", [user("a"), said("b"), said("c"), user("d")], 500],
    ["an answer first", [said("a"), user("b")], 500],
    ["a system message later", [user("a"), said("b"), { role: "system", content: "s" }, user("c")], 500],
  ] as const)("sees %s", async (_what, messages, status) => {
    expect((await strict(messages)).status).toBe(status);
  });

  it("wants ids of nine letters and digits, and gives such", async () => {
    const { json } = await strict([user("a"), calls("call_1"), result("call_1")]);
    expect(json.error.message).toContain("length 9");
    const made = await post({ ...ask([user("list /a")], { tools: [tool] }), model: "sim-strict" });
    expect(made.json.choices[0].message.tool_calls[0].id).toMatch(/^[0-9a-z]{9}$/);
  });

  it("is no business of another model", async () => {
    expect((await post(ask([user("a"), user("b")]))).status).toBe(200);
    expect(templateProblem([{ role: "user", toolCallIds: [] }])).toBeUndefined();
  });
});

describe("faults of the simulator of chat completions", () => {
  const streamed = (entry: Parameters<Simulator["enqueue"]>[0]) => {
    simulator.enqueue(entry);
    return post(ask([user("hello")], { stream: true }));
  };
  const long = { content: "one two three four five six seven eight nine ten eleven twelve" };

  it("cut a stream before its reason", async () => {
    const { text } = await streamed({ reply: long, fault: { kind: "cut", clean: true, after_pieces: 1 } });
    expect(text).toContain("one two");
    expect(text).not.toMatch(/"finish_reason":"|\[DONE\]/);
  });

  it("send an error inside a stream, a status, an overflow, a refusal, a short answer", async () => {
    expect((await streamed({ reply: long, fault: { kind: "error_event", message: "boom" } })).text).toContain(
      'data: {"error":{"message":"boom"',
    );
    expect(await streamed({ fault: { kind: "status", status: 503, message: "busy" } })).toMatchObject({
      status: 503,
      json: { error: { message: "busy" } },
    });
    expect((await streamed({ fault: { kind: "overflow", tokens: 9, limit: 8 } })).json.error.message).toContain(
      "maximum context length is 8 tokens. However, your messages resulted in 9 tokens",
    );
    expect((await streamed({ fault: { kind: "refusal" } })).text).toContain('"finish_reason":"content_filter"');
    expect((await streamed({ reply: long, fault: { kind: "truncate", tokens: 2 } })).text).toContain(
      '"finish_reason":"length"',
    );
  });

  it("leave the usage out where the script says so", async () => {
    simulator.enqueue({ reply: { content: "x", usage: { none: true } } });
    const { text } = await post(ask([user("a")], { stream: true, stream_options: { include_usage: true } }));
    expect(text).not.toContain("usage");
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  });
});
