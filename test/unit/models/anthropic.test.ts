import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StreamDelta } from "../../../src/models/provider.ts";
import {
  block,
  end,
  event,
  type FakeTimers,
  failure,
  failureOf,
  fakeTimers,
  inputDelta,
  json,
  options,
  providerOn,
  request,
  sse,
  start,
  startWire,
  text,
  thinking,
  toolUse,
  type Wire,
} from "./wire.ts";

let wire: Wire;
let timers: FakeTimers;
beforeEach(async () => {
  wire = await startWire();
  timers = fakeTimers();
});
afterEach(() => wire.close());

const generate = () => providerOn(wire, timers).generate(request(), options(timers));

describe("an answer", () => {
  it("is the text, the usage with its cache counters, and the stop reason", async () => {
    wire.play(
      sse(
        start(
          '{"input_tokens":12,"cache_read_input_tokens":300,"cache_creation_input_tokens":40,"output_tokens":1,"service_tier":"standard"}',
        ),
        event("ping", '{"type":"ping"}'),
        text(0, "Hel", "lo ", "🌍"),
        end("end_turn", '{"output_tokens":9,"input_tokens":null}'),
      ),
    );
    expect(await generate()).toEqual({
      id: "msg_1",
      model: "claude-sonnet-5-5",
      content: '[{"type":"text","text":"Hello 🌍"}]',
      text: "Hello 🌍",
      calls: [],
      stopReason: "end_turn",
      usage: { inputTokens: 12, outputTokens: 9, cacheReadTokens: 300, cacheWriteTokens: 40 },
    });
    expect(timers.pending()).toBe(0);
  });

  it("takes usage that only the last event has", async () => {
    wire.play(
      sse(
        start('{"input_tokens":0,"output_tokens":0}'),
        text(0, "a"),
        end(
          "end_turn",
          '{"input_tokens":5,"output_tokens":6,"cache_read_input_tokens":7,"cache_creation_input_tokens":8}',
        ),
      ),
    );
    expect((await generate()).usage).toEqual({
      inputTokens: 5,
      outputTokens: 6,
      cacheReadTokens: 7,
      cacheWriteTokens: 8,
    });
  });

  it("tells of text and thinking with their offsets, and of everything else as progress", async () => {
    wire.play(
      sse(
        start(),
        thinking(0, "hm", "c2ln"),
        text(1, "one ", "🌍", "two"),
        toolUse(2, "t", "ls", "{}"),
        end("tool_use"),
      ),
    );
    const seen: StreamDelta[] = [];
    await providerOn(wire, timers).generate(request(), options(timers, { onDelta: (delta) => seen.push(delta) }));
    expect(seen.filter(({ kind }) => kind !== "progress")).toEqual([
      { kind: "thinking", index: 0, offset: 0, text: "hm" },
      { kind: "text", index: 1, offset: 0, text: "one " },
      { kind: "text", index: 1, offset: 4, text: "🌍" },
      { kind: "text", index: 1, offset: 6, text: "two" },
    ]);
    // The start, three blocks opened, a signature, a piece of input, the end.
    expect(seen.filter(({ kind }) => kind === "progress")).toHaveLength(7);
  });

  it("holds parallel tool calls in order, with their input as streamed (V9)", async () => {
    wire.play(
      sse(
        start(),
        text(0, "Both."),
        toolUse(1, "toolu_a", "read_file", '{"path": "', '/a.md"', "}"),
        toolUse(2, "toolu_b", "grep", '{ "n":1.0,\n"10":1,"2":2,', '"big":90071992547409931}'),
        end("tool_use"),
      ),
    );
    const answer = await generate();
    expect(answer.calls).toEqual([
      { id: "toolu_a", name: "read_file", inputText: '{"path": "/a.md"}' },
      { id: "toolu_b", name: "grep", inputText: '{ "n":1.0,\n"10":1,"2":2,"big":90071992547409931}' },
    ]);
    expect(answer.content).toBe(
      '[{"type":"text","text":"Both."},' +
        '{"type":"tool_use","id":"toolu_a","name":"read_file","input":{"path": "/a.md"}},' +
        '{"type":"tool_use","id":"toolu_b","name":"grep","input":{ "n":1.0,\n"10":1,"2":2,"big":90071992547409931}}]',
    );
  });

  it("has an empty object where a tool has no input", async () => {
    wire.play(sse(start(), toolUse(0, "t1", "ls"), toolUse(1, "t2", "ls", "", " "), end("tool_use")));
    const answer = await generate();
    expect(answer.calls).toEqual([
      { id: "t1", name: "ls", inputText: "{}" },
      { id: "t2", name: "ls", inputText: "{}" },
    ]);
    expect(answer.content).toBe(
      '[{"type":"tool_use","id":"t1","name":"ls","input":{}},{"type":"tool_use","id":"t2","name":"ls","input":{}}]',
    );
  });

  it("takes tool input that a server sends whole with the block", async () => {
    wire.play(sse(start(), block(0, '{"type":"tool_use","id":"t","name":"ls","input":{"path":"/"}}'), end("tool_use")));
    expect((await generate()).calls).toEqual([{ id: "t", name: "ls", inputText: '{"path":"/"}' }]);
  });

  it.each([
    ["cut off by max_tokens", '{"path":"/a.md","content":"line \\"', "max_tokens"],
    ["malformed", "{path:1}", "tool_use"],
    ["an array", "[1]", "tool_use"],
    ["a string", '"x"', "tool_use"],
  ] as const)("keeps tool input that is %s as text in a valid block, and says so", async (_, raw, reason) => {
    wire.play(sse(start(), toolUse(0, "t", "write_file", raw), end(reason)));
    const answer = await generate();
    expect(answer.calls).toEqual([{ id: "t", name: "write_file", inputText: raw, invalid: true }]);
    expect(JSON.parse(answer.content)).toEqual([
      { type: "tool_use", id: "t", name: "write_file", input: { invalid_json: raw } },
    ]);
    expect(answer.stopReason).toBe(reason);
  });

  it("repairs lone surrogates in tool input and text, and leaves pairs alone, even when split over events", async () => {
    wire.play(
      sse(
        start(),
        block(
          0,
          '{"type":"text","text":""}',
          '{"type":"text_delta","text":"a\\ud83d"}',
          '{"type":"text_delta","text":"\\ude00b\\ud83d"}',
        ),
        toolUse(1, "t", "x", '{"a":"\\ud83d', '\\ude00","b":"\\ud83d!"}'),
        block(
          2,
          '{"type":"tool_use","id":"u","name":"x","input":{}}',
          '{"type":"input_json_delta","partial_json":"{\\"a\\":\\"\\ud83d"}',
          '{"type":"input_json_delta","partial_json":"\\ude00\\udc00\\"}"}',
        ),
        end("tool_use"),
      ),
    );
    const answer = await generate();
    expect(answer.text).toBe("a😀b\ufffd");
    expect(answer.calls.map(({ inputText }) => inputText)).toEqual([
      '{"a":"\\ud83d\\ude00","b":"\\ufffd!"}',
      '{"a":"😀\ufffd"}',
    ]);
    expect(answer.content.isWellFormed()).toBe(true);
  });

  it("drops empty and blank text, which the API would not take back", async () => {
    wire.play(sse(start(), text(0), text(1, " \n"), text(2, "x"), end("end_turn")));
    const answer = await generate();
    expect([answer.content, answer.text]).toEqual(['[{"type":"text","text":"x"}]', "x"]);
  });

  it("drops thinking that was cut off before its signature", async () => {
    wire.play(
      sse(
        start(),
        block(0, '{"type":"thinking","thinking":"","signature":""}', '{"type":"thinking_delta","thinking":"so"}'),
        end("max_tokens"),
      ),
    );
    expect(await generate()).toMatchObject({ content: "[]", stopReason: "max_tokens" });
  });

  it("may say nothing", async () => {
    wire.play(sse(start(), end("end_turn")));
    expect(await generate()).toMatchObject({ content: "[]", text: "", calls: [], stopReason: "end_turn" });
  });

  it.each(["end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "compaction"])(
    "may stop with %s",
    async (reason) => {
      wire.play(sse(start(), text(0, "x"), end(reason)));
      expect((await generate()).stopReason).toBe(reason);
    },
  );

  it("keeps server tools, citations, redacted thinking and blocks of the future as they came", async () => {
    wire.play(
      sse(
        start(),
        block(0, '{"type":"redacted_thinking","data":"b3BhcXVl"}'),
        block(
          1,
          '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{},"caller":{"type":"direct"}}',
          inputDelta('{"query":'),
          inputDelta(' "x"}'),
        ),
        block(
          2,
          '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://a.example","encrypted_content":"ZQ=="}]}',
        ),
        block(
          3,
          '{"type":"text","text":"","citations":null}',
          '{"type":"citations_delta","citation":{"type":"web_search_result_location","cited_text":"é","url":"https://a.example"}}',
          '{"type":"text_delta","text":"Cited."}',
        ),
        block(4, '{"type":"text","text":"","citations":null}', '{"type":"text_delta","text":"Plain."}'),
        block(
          5,
          '{"type":"hologram","depth":3,"words":"a"}',
          '{"type":"hologram_delta","words":"b"}',
          '{"type":"hologram_delta","words":"c","mark":"d"}',
        ),
        end("pause_turn"),
      ),
    );
    const answer = await generate();
    expect(answer.content).toBe(
      '[{"type":"redacted_thinking","data":"b3BhcXVl"},' +
        '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "x"},"caller":{"type":"direct"}},' +
        '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://a.example","encrypted_content":"ZQ=="}]},' +
        '{"type":"text","text":"Cited.","citations":[{"type":"web_search_result_location","cited_text":"é","url":"https://a.example"}]},' +
        '{"type":"text","text":"Plain."},' +
        '{"type":"hologram","depth":3,"words":"abc","mark":"d"}]',
    );
    // Calls of the server's own tools are not ours to answer.
    expect(answer.calls).toEqual([]);
  });

  it("goes back byte for byte in the next request (V9)", async () => {
    const input =
      '{"10": "ten", "2": "two", "one": 1.0, "big": 9007199254740993, "exp": 1E5, "nul": "\\u0000", "esc": "\\u00e9\\/", "emoji": "🌍👩‍👩‍👧", "dup": 1, "dup": 2}';
    wire.play(
      sse(
        start(),
        thinking(0, "I should…\u0000\u2028", "EqQBCkYIBxgCKkA+/=="),
        text(1, 'Quote " back \\ nul \u0000 emoji 🌍 line\u2028end'),
        toolUse(2, "toolu_1", "write_file", ...(input.match(/.{1,7}/gsu) ?? [])),
        end("tool_use"),
      ),
    );
    const first = await generate();
    expect(first.calls).toEqual([{ id: "toolu_1", name: "write_file", inputText: input }]);

    wire.play(sse(start(), text(0, "Done."), end("end_turn")));
    const answered = '[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]';
    const [ask] = request().messages;
    await providerOn(wire, timers).generate(
      request({
        messages: [
          ...(ask ? [ask] : []),
          { role: "assistant", content: first.content, media: [] },
          { role: "user", content: answered, media: [], cacheMark: true },
        ],
      }),
      options(timers),
    );
    const [, second] = wire.requests;
    expect(second?.body).toContain(`{"role":"assistant","content":${first.content}}`);
    expect(first.content).toContain(`"input":${input}}`);
    expect(JSON.parse(second?.body ?? "")).toMatchObject({
      messages: [
        {},
        { content: [{ thinking: "I should…\u0000\u2028", signature: "EqQBCkYIBxgCKkA+/==" }, {}, { id: "toolu_1" }] },
        { content: [{ cache_control: { type: "ephemeral" } }] },
      ],
    });
  });
});

describe("a request", () => {
  it("goes out as the text that was built, with the key as a bearer token and the SDK's version header", async () => {
    wire.play(sse(start(), text(0, "x"), end("end_turn")));
    await providerOn(wire, timers).generate(request(), options(timers, { user: "u-1" }));
    const [sent] = wire.requests;
    expect(sent?.path).toBe("/v1/messages");
    expect(sent?.body).toBe(
      '{"model":"claude-sonnet-5-5","max_tokens":1000,"stream":true,"metadata":{"user_id":"u-1"},"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}',
    );
    expect(sent?.headers).toMatchObject({
      authorization: "Bearer sk-ant-test-key",
      "anthropic-version": "2026-10-21",
      "content-type": "application/json",
    });
    expect(sent?.headers).not.toHaveProperty("traceparent");
  });

  it("takes no key, address or token from the environment", async () => {
    const env = { ANTHROPIC_API_KEY: "sk-env", ANTHROPIC_AUTH_TOKEN: "env", ANTHROPIC_BASE_URL: "http://127.0.0.1:9" };
    Object.assign(process.env, env);
    try {
      wire.play(sse(start(), text(0, "x"), end("end_turn")));
      await generate();
      expect(wire.requests[0]?.headers).toMatchObject({ authorization: "Bearer sk-ant-test-key" });
      expect(wire.requests[0]?.headers).not.toHaveProperty("x-api-key");
    } finally {
      for (const name of Object.keys(env)) delete process.env[name];
    }
  });

  it("has its media put back (V10)", async () => {
    wire.play(sse(start(), text(0, "A cat."), end("end_turn")));
    const stored =
      '[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"hango:media/sha256-aa"}}]';
    const provider = providerOn(wire, timers, {
      resolveMedia: async (content, media) => content.replace(`hango:media/sha256-${media[0]}`, "aGVsbG8="),
    });
    await provider.generate(
      request({
        messages: [{ role: "user", content: stored, media: ["aa"], cacheMark: true }],
      }),
      options(timers),
    );
    expect(wire.requests[0]?.body).toContain(
      '[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGVsbG8="},"cache_control":{"type":"ephemeral"}}]',
    );
  });

  it("over 32 MB is refused before it is sent", async () => {
    const content = `[{"type":"text","text":"${"é".repeat(16_000_000)}"}]`;
    const error = await failureOf(
      providerOn(wire, timers).generate(request({ messages: [{ role: "user", content, media: [] }] }), options(timers)),
    );
    expect(error.failure).toEqual({ kind: "too_large", sizeBytes: 32_000_128, limitBytes: 32_000_000 });
    expect(wire.requests).toEqual([]);
  });
});

describe("the provider's other questions", () => {
  it("counts the tokens of the same prompt, without marks and limits", async () => {
    wire.play(json(200, { input_tokens: 1234 }));
    const count = await providerOn(wire, timers).countTokens(
      request({
        system: [{ text: "S", cacheMark: true }],
        messages: [{ role: "user", content: '[{"type":"text","text":"\\u0041 1.0"}]', media: [], cacheMark: true }],
      }),
      options(timers),
    );
    expect(count).toBe(1234);
    expect(wire.requests[0]).toMatchObject({
      path: "/v1/messages/count_tokens",
      body: '{"model":"claude-sonnet-5-5","system":[{"type":"text","text":"S"}],"messages":[{"role":"user","content":[{"type":"text","text":"\\u0041 1.0"}]}]}',
    });
  });

  it("does not repeat a failed count (E5)", async () => {
    wire.play(failure(529, "overloaded_error", "Overloaded"));
    expect((await failureOf(providerOn(wire, timers).countTokens(request(), options(timers)))).kind).toBe("overloaded");
    expect(wire.requests).toHaveLength(1);
  });

  it("knows a model's limits from the Models API", async () => {
    wire.play(json(200, { id: "claude-x", max_input_tokens: 500_000, max_tokens: 32_000, type: "model" }));
    expect(await providerOn(wire, timers).modelInfo("claude-x", options(timers))).toEqual({
      id: "claude-x",
      maxInputTokens: 500_000,
      maxOutputTokens: 32_000,
    });
    expect(wire.requests[0]).toMatchObject({ method: "GET", path: "/v1/models/claude-x", body: "" });
  });

  it.each([
    ["is unknown", failure(404, "not_found_error", "model: nope")],
    ["has no stated limits", json(200, { id: "x", max_input_tokens: null, max_tokens: null })],
  ])("has nothing to say of a model that %s", async (_, answer) => {
    wire.play(answer);
    expect(await providerOn(wire, timers).modelInfo("x", options(timers))).toBeUndefined();
  });
});
