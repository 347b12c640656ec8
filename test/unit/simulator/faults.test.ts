import Anthropic from "@anthropic-ai/sdk";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { ScriptEntry } from "../../../src/local/simulator/script.ts";
import type { Simulator } from "../../../src/local/simulator/server.ts";
import { startSimulator } from "../../../src/local/simulator/server.ts";
import { ask, MODEL, post, sdk, user } from "./harness.ts";

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator();
});
afterEach(() => simulator.reset());
afterAll(() => simulator.close());

const params = { model: MODEL, max_tokens: 1_000, messages: [{ role: "user" as const, content: "hello" }] };
const long = { content: "one two three four five six seven eight nine ten eleven twelve thirteen fourteen" };

/** Streams a reply and tells what arrived before it ended or failed. */
const stream = async (entry: ScriptEntry) => {
  simulator.enqueue(entry);
  const running = sdk(simulator).messages.stream(params);
  let seen = "";
  running.on("text", (piece) => {
    seen += piece;
  });
  const end: unknown = await running.finalMessage().catch((error: unknown) => error);
  return { seen, end };
};

describe("what a replay relies on", () => {
  it("a reply that the window has no room for waits for a smaller request where it is asked to", async () => {
    const whole = "word ".repeat(200).trim();
    simulator.setModels({ [MODEL]: { maxInputTokens: 150 } });
    simulator.script([{ reply: { content: whole }, until_whole: true }, { reply: { content: "next" } }]);
    const large = await post(simulator, ask([user("large")]));
    simulator.setModels({ [MODEL]: { maxInputTokens: 1_000 } });
    const answers = [await post(simulator, ask([user("small")])), await post(simulator, ask([user("small")]))];
    expect(large.json.stop_reason).toBe("model_context_window_exceeded");
    expect(answers.map(({ json }) => json.content[0]?.text)).toEqual([whole, "next"]);
  });

  it("a model that is added by a name with a date is like the model of that name", async () => {
    simulator.setModels({ "claude-opus-4-1-20250805": { maxInputTokens: 5_000 } });
    const { max_input_tokens, max_tokens } = await sdk(simulator).models.retrieve("claude-opus-4-1-20250805");
    expect({ max_input_tokens, max_tokens }).toEqual({ max_input_tokens: 5_000, max_tokens: 32_000 });
  });

  it("what a tool of the provider found does not count against the limit of the answer", async () => {
    const found = { type: "web_search_tool_result", tool_use_id: "srv_1", content: [{ text: "word ".repeat(500) }] };
    const call = { type: "server_tool_use" as const, id: "srv_1", name: "web_search", input: {} };
    simulator.enqueue({ reply: { content: [call, found, { type: "text", text: "Found." }] } });
    const { json } = await post(simulator, ask([user("search")], { max_tokens: 50 }));
    expect(json.stop_reason).toBe("end_turn");
    expect(json.content.map(({ type }) => type)).toEqual(["server_tool_use", "web_search_tool_result", "text"]);
  });

  it("the record says what an error answer said", async () => {
    await post(simulator, ask([]));
    await post(simulator, ask([user("hi")]));
    expect(simulator.requests.map(({ status, error }) => [status, error])).toEqual([
      [400, expect.stringContaining("messages")],
      [200, undefined],
    ]);
  });
});

describe("scripted faults (point 6)", () => {
  it("an error event arrives inside a stream that began with 200", async () => {
    const { seen, end } = await stream({ reply: long, fault: { kind: "error_event", after_pieces: 2 } });
    expect(long.content.startsWith(seen) && seen.length > 20).toBe(true);
    expect(end).toBeInstanceOf(Anthropic.APIError);
    expect((end as InstanceType<typeof Anthropic.APIError>).type).toBe("overloaded_error");
    expect(simulator.requests[0]?.status).toBe(200);
  });

  it("a cut stream ends in a connection error after what was sent", async () => {
    const { seen, end } = await stream({ reply: long, fault: { kind: "cut", after_pieces: 2 } });
    expect(long.content.startsWith(seen) && seen.length > 20).toBe(true);
    expect(end).toBeInstanceOf(Error);
    expect(simulator.requests[0]?.outcome).toBe("cut");
  });

  it("a clean cut ends without a stop reason", async () => {
    simulator.enqueue({ reply: long, fault: { kind: "cut", clean: true, after_pieces: 1 } });
    const reply = await post(simulator, ask([user("hello")], { stream: true }));
    expect(reply.text.endsWith("\n\n")).toBe(true);
    expect(reply.text).not.toMatch(/message_delta|message_stop/);
  });

  it("a malformed event is no JSON", async () => {
    const { end } = await stream({ reply: long, fault: { kind: "malformed_event" } });
    expect(end).toBeInstanceOf(Error);
    expect(String(end)).toMatch(/JSON/);
  });

  it.each([
    ["before anything", undefined, 0],
    ["in the middle", 1, 200],
  ] as const)("silence %s lasts until the client goes away", async (_title, afterPieces, status) => {
    simulator.enqueue({
      reply: long,
      fault: { kind: "silence", ...(afterPieces === undefined ? {} : { after_pieces: afterPieces }) },
      hold: { name: "begun", at: "start" },
    });
    const abort = new AbortController();
    const running = sdk(simulator).messages.stream(params, { signal: abort.signal });
    const ended = running.finalMessage().catch((error: unknown) => error);
    await simulator.reached("begun");
    const firstText =
      afterPieces === undefined
        ? Promise.resolve()
        : new Promise<void>((resolve) => running.once("text", () => resolve()));
    simulator.release("begun");
    await firstText;
    abort.abort();
    expect(await ended).toBeInstanceOf(Anthropic.APIUserAbortError);
    await expect.poll(() => simulator.requests[0]).toMatchObject({ status, outcome: "aborted" });
  });

  it("a truncated output stops with max_tokens, and so does a reply longer than max_tokens", async () => {
    const { end } = await stream({ reply: long, fault: { kind: "truncate", tokens: 4 } });
    expect(end).toMatchObject({ content: [{ text: "one two three" }], stop_reason: "max_tokens" });
    simulator.enqueue({
      reply: {
        content: [
          { type: "text", text: "hello there" },
          { type: "tool_use", name: "ls", input: { path: "/a/long/path" } },
        ],
      },
    });
    const cut = await post(simulator, ask([user("hello")], { max_tokens: 5, stream: true }));
    expect(cut.text).toContain('"stop_reason":"max_tokens"');
    expect(cut.text).toContain("input_json_delta");
    expect(cut.text).not.toContain("/a/long/path");
  });

  it("an answer stops where the window is full", async () => {
    simulator.setModels({ [MODEL]: { maxInputTokens: 20 } });
    simulator.enqueue({ reply: long });
    const reply = await post(simulator, ask([user("hello")]));
    expect(reply.json).toMatchObject({ stop_reason: "model_context_window_exceeded", usage: { input_tokens: 11 } });
    expect(reply.json.usage.output_tokens).toBeLessThanOrEqual(9);
  });

  it("a refusal says why", async () => {
    const { end } = await stream({ fault: { kind: "refusal", explanation: "No." } });
    expect(end).toMatchObject({
      content: [],
      stop_reason: "refusal",
      stop_details: { type: "refusal", explanation: "No." },
    });
  });

  it("a paused turn goes on when the assistant message is sent back", async () => {
    const { end } = await stream({ fault: { kind: "pause_turn" } });
    const paused = end as {
      readonly content: readonly { readonly type: string; readonly id?: string }[];
      readonly stop_reason: string;
    };
    expect([paused.stop_reason, paused.content.map((block) => block.type)]).toEqual([
      "pause_turn",
      ["text", "server_tool_use"],
    ]);
    const messages = [
      user("hello"),
      {
        role: "assistant",
        content: paused.content.map((block) => ({ ...block, citations: undefined, caller: undefined })),
      },
    ];
    const resumed = await post(simulator, ask(messages));
    expect(resumed.json).toMatchObject({
      stop_reason: "end_turn",
      content: [{ type: "web_search_tool_result", tool_use_id: paused.content[1]?.id, content: [] }, { type: "text" }],
    });
    const after = await post(
      simulator,
      ask([...messages, { role: "assistant", content: [resumed.json.content[0]] }, user("thanks")]),
    );
    expect(after.status, after.text).toBe(200);
  });

  it("slow tokens arrive one by one, and in full", async () => {
    const { seen, end } = await stream({ reply: long, fault: { kind: "slow", ms_per_piece: 1 }, delay_ms: 1 });
    expect([seen, (end as { readonly stop_reason: string }).stop_reason]).toEqual([long.content, "end_turn"]);
  });

  it.each([400, 403, 404, 413, 500, 503])(
    "status %i comes with its error type and the given message",
    async (status) => {
      simulator.enqueue({ fault: { kind: "status", status, message: "because" } });
      const reply = await post(simulator, ask([user("hello")]));
      const type =
        { 400: "invalid_request_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large" }[
          status
        ] ?? "api_error";
      expect([reply.status, reply.json.error]).toEqual([status, { type, message: "because" }]);
    },
  );

  it("faults of other routes are scripted by path", async () => {
    simulator.enqueue({ match: { path: "/v1/messages/count_tokens" }, fault: { kind: "status", status: 500 } });
    const { max_tokens: _, ...counted } = params;
    const count = await post(simulator, counted, {}, "/v1/messages/count_tokens");
    expect(count.status).toBe(500);
    simulator.enqueue({ match: { path: `/v1/models/${MODEL}` }, fault: { kind: "status", status: 529 } });
    const error: unknown = await sdk(simulator)
      .models.retrieve(MODEL)
      .catch((thrown: unknown) => thrown);
    expect((error as InstanceType<typeof Anthropic.APIError>).status).toBe(529);
  });
});

describe("the script (point 6)", () => {
  const said = async (body: unknown): Promise<string> => (await post(simulator, body)).json.content[0]?.text ?? "";

  it("gives each request the first entry that matches it, and the agent the rest", async () => {
    simulator.script([
      { match: { model: "claude-haiku-5-5" }, reply: { content: "by model" } },
      { match: { session: "session-2" }, reply: { content: "by user" } },
      { match: { session: "nee+dle" }, reply: { content: "by expression" } },
      { match: { contains: "blue" }, reply: { content: "by text" } },
      { match: { purpose: "summarize" }, reply: { content: "by purpose" } },
      { reply: { content: "twice" }, times: 2 },
    ]);
    expect([
      await said(ask([user("a blue thing")])),
      await said(ask([user("hi")], { system: "You summarize conversations." })),
      await said(ask([user("hi")], { metadata: { user_id: "session-2" } })),
      await said(ask([user("hi")], { model: "claude-haiku-5-5" })),
      await said(ask([user("a needle")])),
      await said(ask([user("hi")])),
      await said(ask([user("hi")])),
    ]).toEqual(["by text", "by purpose", "by user", "by model", "by expression", "twice", "twice"]);
    expect(simulator.pending()).toBe(0);
    expect(await said(ask([user("hi")]))).toContain("I am a simulator");
  });

  it("keeps an entry for always, and refuses entries it does not understand", async () => {
    simulator.enqueue({ reply: { content: "again" }, times: "always" });
    expect([await said(ask([user("a")])), await said(ask([user("b")])), simulator.pending()]).toEqual([
      "again",
      "again",
      1,
    ]);
    const wrong = { reply: { content: [{ type: "tool_use", nme: "ls" }] } } as unknown as ScriptEntry;
    expect(() => simulator.enqueue(wrong)).toThrow(/Invalid input|wrong fields/);
  });

  it("reports the usage that an entry wants reported", async () => {
    simulator.enqueue({ reply: { content: "x", usage: { input_tokens: 170_000, cache_read_input_tokens: 5 } } });
    expect((await post(simulator, ask([user("hi")]))).json.usage).toMatchObject({
      input_tokens: 170_000,
      cache_read_input_tokens: 5,
      output_tokens: 2,
    });
  });

  it("holds an answer after its first piece until it is released", async () => {
    simulator.enqueue({ reply: long, hold: "gate" });
    const running = sdk(simulator).messages.stream(params);
    let seen = "";
    running.on("text", (piece) => {
      seen += piece;
    });
    await simulator.reached("gate");
    await expect.poll(() => seen.length).toBe(24);
    expect(simulator.requests[0]?.outcome).toBe("open");
    simulator.release("gate");
    await running.finalMessage();
    expect(seen).toBe(long.content);
  });
});

describe("the door for other processes (point 6)", () => {
  const door = async (path: string, body?: unknown) => {
    const response = await fetch(
      `${simulator.url}/_sim/${path}`,
      body === undefined ? {} : { method: "POST", body: JSON.stringify(body) },
    );
    return { status: response.status, json: (await response.json()) as Record<string, unknown> };
  };

  it("scripts, waits, releases, reads and resets over HTTP", async () => {
    expect(await door("script", [{ reply: { content: "from afar" }, hold: { name: "far", at: "start" } }])).toEqual({
      status: 200,
      json: { pending: 1 },
    });
    const answer = post(simulator, ask([user("hi")]));
    expect((await door("reached?name=far")).status).toBe(200);
    expect((await door("release", { name: "far" })).status).toBe(200);
    expect((await answer).json.content).toEqual([{ type: "text", text: "from afar", citations: null }]);
    const { json } = await door("requests");
    expect(json.requests).toEqual([
      expect.objectContaining({
        index: 0,
        status: 200,
        outcome: "answered",
        purpose: "turn",
        body: ask([user("hi")]),
        bodyText: JSON.stringify(ask([user("hi")])),
      }),
    ]);
    expect((await door("requests?since=1")).json).toEqual({ requests: [] });
    expect((await door("reset", {})).status).toBe(200);
    expect((await door("requests")).json).toEqual({ requests: [] });
  });

  it("changes models until the next reset", async () => {
    const { max_tokens: _, ...counted } = params;
    await door("models", { [MODEL]: { maxInputTokens: 5 }, "my-model": { maxInputTokens: 77 } });
    expect((await sdk(simulator).models.retrieve("my-model")).max_input_tokens).toBe(77);
    expect((await post(simulator, params)).json.error.message).toBe("prompt is too long: 11 tokens > 5 maximum");
    expect((await post(simulator, counted, {}, "/v1/messages/count_tokens")).json).toEqual({ input_tokens: 11 });
    await door("reset", {});
    expect((await post(simulator, params)).status).toBe(200);
  });

  it("answers what it does not understand with 400 or 404", async () => {
    expect((await door("script", [{ replies: 1 }])).status).toBe(400);
    expect((await door("script", [{ match: { session: "(" } }])).status).toBe(400);
    expect((await door("nothing", {})).status).toBe(404);
  });
});
