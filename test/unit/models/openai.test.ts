import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { StreamDelta } from "../../../src/models/provider.ts";
import type { ModelRequest } from "../../../src/protocol/messages.ts";
import { calling, chatProviderOn, chunk, content, done, finish, reasoning, usage } from "./chat-wire.ts";
import {
  failureOf,
  fakeTimers,
  json,
  options,
  request as requestOf,
  silence,
  sse,
  startWire,
  type Wire,
} from "./wire.ts";

let wire: Wire;
beforeAll(async () => {
  wire = await startWire();
});
afterEach(() => {
  wire.requests.length = 0;
});
afterAll(() => wire.close());

const request = (changes: Partial<ModelRequest> = {}) => requestOf({ model: "openai/qwen", ...changes });

const generate = async (...events: readonly string[]) => {
  wire.play(sse(...events));
  const timers = fakeTimers();
  const deltas: StreamDelta[] = [];
  const response = await chatProviderOn(wire, timers).generate(
    request(),
    options(timers, { onDelta: (delta) => deltas.push(delta) }),
  );
  return { response, deltas };
};

const failing = async (...events: readonly string[]) => {
  wire.play(sse(...events));
  const timers = fakeTimers();
  return failureOf(chatProviderOn(wire, timers, { maxRetries: 0 }).generate(request(), options(timers)));
};

const refused = async (status: number, body: unknown) => {
  wire.play(json(status, body));
  const timers = fakeTimers();
  return failureOf(chatProviderOn(wire, timers, { maxRetries: 0 }).generate(request(), options(timers)));
};

describe("a streamed chat completion", () => {
  it("becomes text, with the prompt's tokens split by what the cache had (E4)", async () => {
    const { response, deltas } = await generate(
      chunk('{"role":"assistant","content":""}'),
      content("Hello", " world"),
      finish("stop", '{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}'),
    );
    expect(response).toEqual({
      id: "chatcmpl-1",
      model: "openai/qwen",
      content: '[{"type":"text","text":"Hello world"}]',
      text: "Hello world",
      calls: [],
      stopReason: "end_turn",
      usage: { inputTokens: 40, outputTokens: 7, cacheReadTokens: 60, cacheWriteTokens: 0 },
    });
    expect(deltas.filter(({ kind }) => kind !== "progress")).toEqual([
      { kind: "text", index: 0, offset: 0, text: "Hello" },
      { kind: "text", index: 0, offset: 5, text: " world" },
    ]);
  });

  it("keeps the arguments of parallel calls as they were streamed (V9)", async () => {
    const raw = '{"10": 1.0, "2":12345678901234567890, "s":"\\u00e9"}';
    const { response } = await generate(
      content("Both."),
      calling(0, "call_abc123XYZ", "ls", raw.slice(0, 9)),
      calling(1, "call_def456UVW", "read_file"),
      chunk(`{"tool_calls":[{"index":0,"function":{"arguments":${JSON.stringify(raw.slice(9))}}}]}`),
      finish("tool_calls"),
    );
    expect(response.content).toBe(
      `[{"type":"text","text":"Both."},{"type":"tool_use","id":"call_abc123XYZ","name":"ls","input":${raw}},{"type":"tool_use","id":"call_def456UVW","name":"read_file","input":{}}]`,
    );
    expect(response.calls).toEqual([
      { id: "call_abc123XYZ", name: "ls", inputText: raw },
      { id: "call_def456UVW", name: "read_file", inputText: "{}" },
    ]);
    expect(response.stopReason).toBe("tool_use");
  });

  it.each(["reasoning_content", "reasoning"])("keeps %s with its call, unsigned (V5)", async (member) => {
    const { response, deltas } = await generate(
      reasoning("Look ", member),
      reasoning("first.", member),
      content("I look."),
      calling(0, "call_abc123XYZ", "ls", "{}"),
      finish("tool_calls"),
    );
    expect(response.content).toBe(
      '[{"type":"thinking","thinking":"Look first.","signature":""},{"type":"text","text":"I look."},{"type":"tool_use","id":"call_abc123XYZ","name":"ls","input":{}}]',
    );
    expect(deltas.filter(({ kind }) => kind !== "progress")).toEqual([
      { kind: "thinking", index: 0, offset: 0, text: "Look " },
      { kind: "thinking", index: 0, offset: 5, text: "first." },
      { kind: "text", index: 1, offset: 0, text: "I look." },
    ]);
  });

  it.each([
    ["missing", ""],
    ["counted", "call_0"],
    ["named after the tool", "read_filecontents"],
    ["not storable", "functions.ls:0abcdefgh1"],
  ])("whose call's id is %s gets one of ours", async (_what, id) => {
    const { response } = await generate(calling(0, id, "ls", "{}"), calling(1, id, "ls", "{}"), finish("tool_calls"));
    expect(response.calls.map((call) => call.id)).toEqual(["call_new1", "call_new2"]);
  });

  it("whose id was used before in the request, or comes twice, gets one of ours", async () => {
    const timers = fakeTimers();
    wire.play(
      sse(
        calling(0, "call_abc123XYZ", "ls"),
        calling(1, "call_def456UVW", "ls"),
        calling(2, "call_def456UVW", "ls"),
        finish("tool_calls"),
      ),
    );
    const said = '[{"type":"tool_use","id":"call_abc123XYZ","name":"ls","input":{}}]';
    const done = '[{"type":"tool_result","tool_use_id":"call_abc123XYZ","content":"x"}]';
    const response = await chatProviderOn(wire, timers).generate(
      request({
        messages: [
          { role: "user", content: '[{"type":"text","text":"Hi"}]', media: [] },
          { role: "assistant", content: said, media: [] },
          { role: "user", content: done, media: [] },
        ],
      }),
      options(timers),
    );
    expect(response.calls.map((call) => call.id)).toEqual(["call_new1", "call_def456UVW", "call_new2"]);
  });

  it.each([
    [
      "no index",
      chunk('{"tool_calls":[{"id":"","function":{"name":"ls","arguments":"{}"}}]}') +
        chunk('{"tool_calls":[{"id":"","function":{"name":"pwd","arguments":"{}"}}]}'),
    ],
    [
      "the same index for all",
      chunk('{"tool_calls":[{"index":0,"id":"a1","function":{"name":"ls","arguments":"{}"}}]}') +
        chunk('{"tool_calls":[{"index":0,"id":"b2","function":{"name":"pwd","arguments":"{}"}}]}'),
    ],
    [
      "arguments as an object",
      chunk(
        '{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":{}}},{"index":1,"function":{"name":"pwd","arguments":{}}}]}',
      ),
    ],
  ])("has two calls where the server sends %s", async (_what, chunks) => {
    const { response } = await generate(chunks, finish("stop"));
    expect(response.calls).toEqual([
      { id: "call_new1", name: "ls", inputText: "{}" },
      { id: "call_new2", name: "pwd", inputText: "{}" },
    ]);
    expect(response.stopReason).toBe("tool_use");
  });

  it.each([
    ["", "{}", undefined],
    ["null", "{}", undefined],
    ['{"path":"/a', '{"path":"/a', true],
    ["[1]", "[1]", true],
  ])("with the arguments %j has the input %j", async (args, inputText, invalid) => {
    const { response } = await generate(calling(0, "call_abc123XYZ", "ls", args), finish("tool_calls"));
    expect(response.calls).toEqual([
      { id: "call_abc123XYZ", name: "ls", inputText, ...(invalid === undefined ? {} : { invalid }) },
    ]);
    expect(JSON.parse(response.content)[0].input).toEqual(invalid ? { invalid_json: args } : {});
  });

  it.each([
    ["stop", "end_turn"],
    ["length", "max_tokens"],
    ["content_filter", "refusal"],
    ["tool_calls", "end_turn"],
    ["eos_token", "end_turn"],
  ])("that ends with %s has the stop reason %s", async (reason, stopReason) => {
    const { response } = await generate(content("x"), finish(reason));
    expect(response.stopReason).toBe(stopReason);
  });

  it("that refuses in words is a refusal", async () => {
    const { response } = await generate(chunk('{"refusal":"I will not."}'), finish("stop"));
    expect(response).toMatchObject({ stopReason: "refusal", text: "I will not." });
  });

  it.each([
    ["nothing", ""],
    ["a null", usage("null")],
    ["zeros", usage('{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}')],
  ])("whose server says %s of the usage has no reading (E4)", async (_what, text) => {
    const { response } = await generate(content("x"), chunk("{}", "stop"), text, done);
    expect(response).toMatchObject({
      usageMissing: true,
      usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
    });
  });

  it("is whole with its finish reason, whatever becomes of the connection", async () => {
    const { response } = await generate(content("x"), chunk("{}", "stop"));
    expect(response).toMatchObject({ text: "x", stopReason: "end_turn", usageMissing: true });
  });

  it("whose server keeps the connection open after its end is waited for no longer than a second", async () => {
    const timers = fakeTimers();
    wire.play(silence(content("x"), chunk("{}", "stop")));
    const answer = chatProviderOn(wire, timers).generate(request(), options(timers));
    await expect.poll(() => timers.nextDueMs() - timers.nowMs()).toBe(1_000);
    timers.advance(1_000);
    expect(await answer).toMatchObject({ text: "x", stopReason: "end_turn" });
  });

  it("repairs half of a surrogate pair", async () => {
    const { response } = await generate(chunk('{"content":"a\\ud83d"}'), finish("stop"));
    expect(response.content).toBe('[{"type":"text","text":"a\\ufffd"}]');
  });
});

describe("a failed chat completion", () => {
  it("is one without a finish reason, [DONE] or not", async () => {
    expect(await failing(content("half"), done)).toMatchObject({ kind: "stream_cut" });
    expect(await failing(content("half"))).toMatchObject({ kind: "stream_cut" });
    expect(await failing()).toMatchObject({ kind: "stream_cut" });
  });

  it("is one with an error inside the stream", async () => {
    const error = (text: string) => `data: {"error":${text}}\n\n`;
    expect(await failing(content("half"), error('{"message":"boom","type":"server_error"}'))).toMatchObject({
      kind: "server",
    });
    expect(await failing(error('{"code":429,"message":"slow down"}'))).toMatchObject({ kind: "rate_limited" });
    expect(
      await failing(
        error('{"code":400,"message":"request (12406 tokens) exceeds the available context size (8192 tokens)"}'),
      ),
    ).toMatchObject({ kind: "context_overflow", statedLimit: 8_192, statedSize: 12_406 });
  });

  it("is one whose chunk is no JSON", async () => {
    expect(await failing(content("half"), 'data: {"choices":[{\n\n')).toMatchObject({ kind: "stream_cut" });
  });

  it("is one with a finish reason that is none", async () => {
    expect(await failing(content("x"), finish("insufficient_system_resource"))).toMatchObject({ kind: "server" });
  });

  it("ends when the caller aborts it, before and in the middle", async () => {
    const timers = fakeTimers();
    const abort = new AbortController();
    wire.play(silence(content("half")));
    const begun = Promise.withResolvers<void>();
    const answer = failureOf(
      chatProviderOn(wire, timers).generate(
        request(),
        options(timers, { signal: abort.signal, onDelta: () => begun.resolve() }),
      ),
    );
    await begun.promise;
    abort.abort();
    expect(await answer).toMatchObject({ kind: "aborted" });
    expect(
      await failureOf(chatProviderOn(wire, timers).generate(request(), options(timers, { signal: abort.signal }))),
    ).toMatchObject({ kind: "aborted" });
  });

  it("ends when nothing comes for too long, and at the deadline", async () => {
    for (const [waitMs, changes, what] of [
      [120_000, {}, "idle"],
      [50_000, { deadlineMs: 1_050_000 }, "deadline"],
    ] as const) {
      const timers = fakeTimers();
      wire.play(silence(content("half")));
      const begun = Promise.withResolvers<void>();
      const answer = failureOf(
        chatProviderOn(wire, timers).generate(
          request(),
          options(timers, { ...changes, onDelta: () => begun.resolve() }),
        ),
      );
      await begun.promise;
      timers.advance(waitMs);
      expect(await answer).toMatchObject({ failure: { kind: "timeout", what } });
    }
  });

  it.each([
    [
      "OpenAI's key",
      401,
      {
        error: {
          message: "Incorrect API key provided: sk-abc123",
          type: "invalid_request_error",
          code: "invalid_api_key",
        },
      },
      "authentication",
    ],
    [
      "OpenAI's credit",
      429,
      { error: { message: "You exceeded your current quota", type: "insufficient_quota", code: "insufficient_quota" } },
      "quota",
    ],
    [
      "OpenAI's rate limit",
      429,
      { error: { message: "Rate limit reached", type: "tokens", code: "rate_limit_exceeded" } },
      "rate_limited",
    ],
    [
      "a model that is none",
      404,
      { error: { message: "The model `x` does not exist", type: "invalid_request_error", code: "model_not_found" } },
      "not_found",
    ],
    [
      "vLLM without a wrapper",
      400,
      { object: "error", message: "bad tools", type: "BadRequestError", code: 400 },
      "invalid_request",
    ],
    ["Ollama's text", 404, { error: "model 'x' not found" }, "not_found"],
    ["FastAPI's detail", 422, { detail: [{ loc: ["body"], msg: "field required" }] }, "invalid_request"],
    ["Gemini's list", 503, [{ error: { code: 503, message: "overloaded", status: "UNAVAILABLE" } }], "overloaded"],
    ["a proxy's page", 502, "<html>Bad Gateway</html>", "server"],
    [
      "a template's exception",
      500,
      {
        error: {
          code: 500,
          message:
            "Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles",
          type: "server_error",
        },
      },
      "invalid_request",
    ],
  ])("reads %s", async (_what, status, body, kind) => {
    const error = await refused(status, body);
    expect(error).toMatchObject({ kind });
    expect(error.message).not.toContain("sk-abc123");
  });

  it("says what helps where a template refuses the roles, and does not try again (R8)", async () => {
    const timers = fakeTimers();
    const text = "Jinja Exception: conversation roles must alternate user/assistant/user/assistant/...";
    wire.play(json(500, { error: { code: 500, message: text, type: "server_error" } }));
    const error = await failureOf(chatProviderOn(wire, timers).generate(request(), options(timers)));
    expect(error.message).toContain("set `context.strict_alternation`");
    expect(wire.requests).toHaveLength(1);
  });

  it.each([
    [
      "OpenAI",
      {
        error: {
          message:
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 131302 tokens.",
          type: "invalid_request_error",
          code: "context_length_exceeded",
        },
      },
      128_000,
      131_302,
    ],
    [
      "OpenAI's code alone",
      { error: { message: "Too much.", type: "invalid_request_error", code: "context_length_exceeded" } },
      undefined,
      undefined,
    ],
    [
      "llama.cpp, numbers beside the message",
      {
        error: {
          code: 400,
          message: "the request exceeds the available context size, try increasing it",
          type: "exceed_context_size_error",
          n_prompt_tokens: 12_406,
          n_ctx: 8_192,
        },
      },
      8_192,
      12_406,
    ],
    [
      "vLLM",
      {
        object: "error",
        message:
          "This model's maximum context length is 32768 tokens. However, you requested 40101 tokens (36005 in the messages, 4096 in the completion).",
        type: "BadRequestError",
        code: 400,
      },
      32_768,
      40_101,
    ],
    ["Ollama", { error: "prompt too long; exceeded max context length by 4 tokens" }, undefined, undefined],
    [
      "Gemini",
      [
        {
          error: {
            code: 400,
            message: "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            status: "INVALID_ARGUMENT",
          },
        },
      ],
      1_048_575,
      1_196_265,
    ],
  ])("reads an overflow of %s (section 8)", async (_what, body, statedLimit, statedSize) => {
    const error = await refused(400, body);
    expect(error).toMatchObject({ kind: "context_overflow", statedLimit, statedSize });
  });

  it.each([
    [
      "nothing said and fewer tokens than allowed",
      finish("length", '{"prompt_tokens":8190,"completion_tokens":1}'),
      "overflow",
    ],
    ["nothing said or counted", chunk("{}", "length") + done, "overflow"],
    [
      "all of what it may have thought",
      reasoning("hm") + finish("length", '{"prompt_tokens":50,"completion_tokens":1000}'),
      "answer",
    ],
    ["something said", content("x") + finish("length", '{"prompt_tokens":8190,"completion_tokens":2}'), "answer"],
  ])("cut off by length with %s (section 8)", async (_what, events, outcome) => {
    if (outcome === "overflow") expect(await failing(events)).toMatchObject({ kind: "context_overflow" });
    else expect((await generate(events)).response.stopReason).toBe("max_tokens");
  });

  it("is tried again where that may help, and not where it cannot", async () => {
    const timers = fakeTimers();
    wire.play(json(503, { error: { message: "loading model", type: "unavailable_error" } }, { "retry-after-ms": "1" }));
    wire.play(sse(content("x"), finish("stop")));
    expect(await chatProviderOn(wire, timers).generate(request(), options(timers))).toMatchObject({ text: "x" });
    expect(wire.requests).toHaveLength(2);
    wire.play(
      json(500, {
        error: { code: 500, message: "the request exceeds the available context size", type: "server_error" },
      }),
    );
    await failureOf(chatProviderOn(wire, timers).generate(request(), options(timers)));
    expect(wire.requests).toHaveLength(3);
  });
});

describe("a chat completion's request", () => {
  const sent = async (changes: Partial<ModelRequest>, settings: Parameters<typeof chatProviderOn>[2] = {}) => {
    const timers = fakeTimers();
    wire.play(sse(content("x"), finish("stop")));
    await chatProviderOn(wire, timers, settings).generate(request(changes), options(timers, { user: "u1" }));
    const recorded = wire.requests.at(-1);
    return { ...recorded, body: recorded?.body ?? "" };
  };

  it("is streamed with its usage, under the name that the server knows", async () => {
    const { path, headers, body } = await sent({
      system: [{ text: "Be brief." }, { text: " " }, { text: "Memory." }],
      tools: [
        { kind: "function", name: "ls", description: "Lists.", inputSchema: { type: "object" } },
        { kind: "provider", name: "web_search", definition: { type: "web_search_20260101", name: "web_search" } },
      ],
      thinking: { type: "adaptive" },
    });
    expect(path).toBe("/v1/chat/completions");
    expect(headers?.authorization).toBe("Bearer sk-test-key");
    expect(body).toBe(
      '{"model":"qwen","stream":true,"stream_options":{"include_usage":true},"max_tokens":1000,"user":"u1","tools":[{"type":"function","function":{"name":"ls","description":"Lists.","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"Be brief.\\n\\nMemory."},{"role":"user","content":"Hi"}]}',
    );
  });

  it("has no Authorization where no key is set", async () => {
    const { headers } = await sent({}, { apiKey: undefined });
    expect(headers).not.toHaveProperty("authorization");
  });

  it("names another limit and leaves reasoning out for OpenAI itself", async () => {
    const said =
      '[{"type":"thinking","thinking":"hm","signature":""},{"type":"tool_use","id":"call_abc123XYZ","name":"ls","input":{}}]';
    const messages = [
      { role: "user" as const, content: '[{"type":"text","text":"Hi"}]', media: [] },
      { role: "assistant" as const, content: said, media: [] },
      {
        role: "user" as const,
        content: '[{"type":"tool_result","tool_use_id":"call_abc123XYZ","content":"a"}]',
        media: [],
      },
    ];
    const toOpenAi: typeof fetch = (_input, init) => fetch(`${wire.url}/v1/chat/completions`, init);
    const { body } = await sent({ messages }, { baseURL: "https://api.openai.com/v1", fetch: toOpenAi });
    expect(body).toContain('"max_completion_tokens":1000');
    expect(body).not.toContain("reasoning_content");
    expect((await sent({ messages })).body).toContain('"reasoning_content":"hm"');
  });
});

describe("a chat completions server's description of a model (E7)", () => {
  it.each([
    [
      "vLLM",
      {
        data: [
          { id: "qwen", max_model_len: 32_768 },
          { id: "other", max_model_len: 5 },
        ],
      },
      32_768,
    ],
    [
      "llama.cpp, whatever the name",
      { data: [{ id: "/models/a.gguf", meta: { n_ctx: 8_192, n_ctx_train: 131_072 } }] },
      8_192,
    ],
    [
      "llama.cpp, older, which knows only what it was trained for",
      { data: [{ id: "qwen", meta: { n_ctx_train: 131_072 } }] },
      undefined,
    ],
    ["OpenRouter", { data: [{ id: "qwen", context_length: 65_536 }] }, 65_536],
    ["OpenAI, which says nothing", { data: [{ id: "qwen", object: "model" }] }, undefined],
    [
      "a server without the model",
      {
        data: [
          { id: "a", max_model_len: 1 },
          { id: "b", max_model_len: 2 },
        ],
      },
      undefined,
    ],
    ["what is no list", { models: [] }, undefined],
  ])("is read from %s", async (_what, body, maxInputTokens) => {
    const timers = fakeTimers();
    wire.play(json(200, body));
    expect(await chatProviderOn(wire, timers).modelInfo("openai/qwen", options(timers))).toEqual(
      maxInputTokens === undefined ? undefined : { id: "openai/qwen", maxInputTokens, maxOutputTokens: null },
    );
    expect(wire.requests.at(-1)).toMatchObject({ method: "GET", path: "/v1/models" });
  });
});
