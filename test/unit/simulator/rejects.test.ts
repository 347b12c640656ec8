import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Simulator } from "../../../src/local/simulator/server.ts";
import { startSimulator } from "../../../src/local/simulator/server.ts";
import { ask, assistant, call, MODEL, OLDER, post, result, text, tool, user } from "./harness.ts";

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator({ models: { "claude-small": { maxInputTokens: 200 } } });
});
afterAll(() => simulator.close());

const hi = user("hi");
const mark = { cache_control: { type: "ephemeral" } };
const hour = { cache_control: { type: "ephemeral", ttl: "1h" } };
const png = {
  type: "base64",
  media_type: "image/png",
  data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
};
const image = (source: unknown = png) => ({ type: "image", source });
const thinking = { type: "thinking", thinking: "hm", signature: "c2ln" };
const server = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} };

type Row = readonly [
  title: string,
  body: unknown,
  status: number,
  type: string,
  message: string,
  headers?: Record<string, string>,
];
type Fine = readonly [title: string, body: unknown, headers?: Record<string, string>];
const bad = "invalid_request_error";

const rows: readonly Row[] = [
  [
    "a tool result that answers nothing",
    ask([user([result("toolu_x")])]),
    400,
    bad,
    "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_x",
  ],
  [
    "a tool result two messages after its call",
    ask([hi, assistant([call("a")]), user([result("a")]), assistant("ok"), user([result("a")])]),
    400,
    bad,
    "messages.4.content.0: unexpected `tool_use_id`",
  ],
  [
    "a tool result after other content",
    ask([hi, assistant([call("a")]), user([text("x"), result("a")])]),
    400,
    bad,
    "messages.2.content.1: `tool_result` blocks must come before any other content, found after it: a",
  ],
  [
    "a tool call without a result",
    ask([hi, assistant([call("a"), call("b")]), user([result("a")])]),
    400,
    bad,
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b.",
  ],
  [
    "a tool call at the very end",
    ask([hi, assistant([call("a")])]),
    400,
    bad,
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a.",
  ],
  [
    "two results of one call",
    ask([hi, assistant([call("a")]), user([result("a"), result("a")])]),
    400,
    bad,
    "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a",
  ],
  [
    "a tool call id used twice",
    ask([hi, assistant([call("a")]), user([result("a")]), assistant([call("a")]), user([result("a")])]),
    400,
    bad,
    "messages.3.content.0.id: `tool_use` ids must be unique, found twice: a",
  ],
  [
    "a tool call id with odd characters",
    ask([hi, assistant([call("a b")]), user([result("a b")])]),
    400,
    bad,
    "messages.1.content.0.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
  ],
  [
    "a tool input that is no object",
    ask([hi, assistant([call("a", "text")]), user([result("a")])]),
    400,
    bad,
    "messages.1.content.0.input: Input should be a valid dictionary",
  ],
  [
    "a tool call in a user message",
    ask([user([call("a")])]),
    400,
    bad,
    "messages.0.content.0: `tool_use` blocks are not permitted in `user` messages",
  ],
  [
    "a tool result in an assistant message",
    ask([hi, assistant([result("a")]), hi]),
    400,
    bad,
    "messages.1.content.0: `tool_result` blocks are not permitted in `assistant` messages",
  ],
  [
    "an empty error result",
    ask([hi, assistant([call("a")]), user([{ ...result("a", ""), is_error: true }])]),
    400,
    bad,
    "messages.2.content.0.content: content cannot be empty if `is_error` is true",
  ],
  [
    "an empty text inside a result",
    ask([hi, assistant([call("a")]), user([result("a", [text("")])])]),
    400,
    bad,
    "messages.2.content.0.content.0.text: text content blocks must be non-empty",
  ],
  [
    "an empty text",
    ask([user([text("")])]),
    400,
    bad,
    "messages.0.content.0.text: text content blocks must be non-empty",
  ],
  [
    "a text of white space",
    ask([user([text(" \n\t")])]),
    400,
    bad,
    "messages.0.content.0.text: text content blocks must contain non-whitespace text",
  ],
  [
    "a content string of white space",
    ask([user("  ")]),
    400,
    bad,
    "messages.0.content: text content blocks must contain non-whitespace text",
  ],
  ["an empty content list", ask([user([])]), 400, bad, "messages.0.content: all messages must have non-empty content"],
  [
    "an empty content string",
    ask([hi, assistant(""), hi]),
    400,
    bad,
    "messages.1.content: all messages must have non-empty content",
  ],
  ["no messages", ask([]), 400, bad, "messages: at least one message is required"],
  ["messages that are no list", ask([], { messages: "hi" }), 400, bad, "messages: Input should be a valid list"],
  [
    "an assistant first",
    ask([assistant("hi"), hi]),
    400,
    bad,
    "messages.0.role: first message must use the `user` role",
  ],
  [
    "an invalid role",
    ask([{ role: "system", content: "hi" }]),
    400,
    bad,
    "messages.0.role: Input should be 'user' or 'assistant'",
  ],
  ["an unknown message field", ask([{ ...hi, id: "m1" }]), 400, bad, "messages.0.id: Extra inputs are not permitted"],
  [
    "an unknown block type",
    ask([user([{ type: "video" }])]),
    400,
    bad,
    "messages.0.content.0: Input tag 'video' found using 'type' does not match",
  ],
  [
    "an unknown block field",
    ask([user([text("hi", { note: 1 })])]),
    400,
    bad,
    "messages.0.content.0.note: Extra inputs are not permitted",
  ],
  ["an unknown top-level field", ask([hi], { seed: 1 }), 400, bad, "seed: Extra inputs are not permitted"],
  ["temperature", ask([hi], { temperature: 1 }), 400, bad, "temperature: Extra inputs are not permitted"],
  ["top_p", ask([hi], { top_p: 0.9 }), 400, bad, "top_p: Extra inputs are not permitted"],
  ["top_k", ask([hi], { top_k: 5 }), 400, bad, "top_k: Extra inputs are not permitted"],
  [
    "a fifth cache mark",
    ask([user([text("a", mark), text("b", mark), text("c", mark), text("d", mark), text("e", mark)])]),
    400,
    bad,
    "messages.0.content.4.cache_control: A maximum of 4 blocks with cache_control may be provided. Found 5.",
  ],
  [
    "a fifth cache mark inside a result",
    ask([hi, assistant([call("a")]), user([result("a", [text("x", mark)]), text("b", mark), text("c", mark)])], {
      system: [text("s", mark), text("t", mark)],
    }),
    400,
    bad,
    "messages.2.content.2.cache_control: A maximum of 4 blocks with cache_control may be provided. Found 5.",
  ],
  [
    "a cache mark on thinking",
    ask([hi, assistant([{ ...thinking, ...mark }, text("x")]), hi]),
    400,
    bad,
    "messages.1.content.0.cache_control: cache_control cannot be set for `thinking` blocks",
  ],
  [
    "a cache mark on an empty text",
    ask([user([text("", mark)])]),
    400,
    bad,
    "messages.0.content.0.cache_control: cache_control cannot be set for empty text blocks",
  ],
  [
    "a 1h mark after a 5m mark",
    ask([user([text("a", hour)])], { system: [text("s", mark)] }),
    400,
    bad,
    "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
  ],
  [
    "an unknown ttl",
    ask([user([text("a", { cache_control: { type: "ephemeral", ttl: "2h" } })])]),
    400,
    bad,
    "messages.0.content.0.cache_control.ttl: Input should be '5m' or '1h'",
  ],
  [
    "a prefill",
    ask([hi, assistant("Sure")]),
    400,
    bad,
    "messages.1: This model does not support assistant message prefill.",
  ],
  [
    "a prefill with white space at its end, on an older model",
    ask([hi, assistant("Sure ")], { model: OLDER }),
    400,
    bad,
    "messages.1.content: final assistant content cannot end with trailing whitespace",
  ],
  [
    "a foreign thinking signature",
    ask([hi, assistant([thinking, text("x")]), hi]),
    400,
    bad,
    "messages.1.content.0: Invalid `signature` in `thinking` block",
  ],
  [
    "a foreign thinking signature, on an older model",
    ask([hi, assistant([thinking, text("x")]), hi], { model: OLDER }),
    400,
    bad,
    "messages.1.content.0: Invalid `signature` in `thinking` block",
  ],
  [
    "a foreign redacted thinking",
    ask([hi, assistant([{ type: "redacted_thinking", data: "eHg=" }, text("x")]), hi]),
    400,
    bad,
    "messages.1.content.0: Invalid `signature` in `redacted_thinking` block",
  ],
  [
    "thinking without a signature",
    ask([hi, assistant([{ type: "thinking", thinking: "hm" }]), hi]),
    400,
    bad,
    "messages.1.content.0.signature: Field required",
  ],
  [
    "a pending call without its thinking, on an older model that thinks",
    ask([hi, assistant([call("a")]), user([result("a")])], {
      model: OLDER,
      max_tokens: 4_000,
      thinking: { type: "enabled", budget_tokens: 1_024 },
    }),
    400,
    bad,
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
  ],
  [
    "a thinking budget under the least",
    ask([hi], { thinking: { type: "enabled", budget_tokens: 100 } }),
    400,
    bad,
    "thinking.budget_tokens: Input should be greater than or equal to 1024",
  ],
  [
    "a thinking budget over max_tokens",
    ask([hi], { thinking: { type: "enabled", budget_tokens: 2_000 } }),
    400,
    bad,
    "max_tokens: `max_tokens` must be greater than `thinking.budget_tokens`",
  ],
  [
    "block binding without its beta",
    ask([hi], { thinking: { type: "adaptive", block_binding: {} } }),
    400,
    bad,
    "thinking.block_binding: Extra inputs are not permitted",
  ],
  ["no max_tokens", { model: MODEL, messages: [hi] }, 400, bad, "max_tokens: Field required"],
  ["max_tokens of 0", ask([hi], { max_tokens: 0 }), 400, bad, "max_tokens: Input should be greater than or equal to 1"],
  [
    "max_tokens over the model's",
    ask([hi], { max_tokens: 128_001 }),
    400,
    bad,
    `max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for ${MODEL}`,
  ],
  ["no model", { max_tokens: 5, messages: [hi] }, 400, bad, "model: Field required"],
  ["an unknown model", ask([hi], { model: "claude-none" }), 404, "not_found_error", "model: claude-none"],
  [
    "prompt and max_tokens over an old model's window",
    ask([user("word ".repeat(150_000))], { model: "claude-sonnet-4-20250514", max_tokens: 60_000 }),
    400,
    bad,
    "input length and `max_tokens` exceed context limit: 150008 + 60000 > 200000",
  ],
  [
    "a bad tool name",
    ask([hi], { tools: [tool("my tool")] }),
    400,
    bad,
    "tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
  ],
  [
    "two tools of one name",
    ask([hi], { tools: [tool("ls"), tool("ls")] }),
    400,
    bad,
    "tools.1.name: Tool names must be unique, found twice: ls",
  ],
  ["a tool without a schema", ask([hi], { tools: [{ name: "ls" }] }), 400, bad, "tools.0.input_schema: Field required"],
  [
    "a tool schema that is no object",
    ask([hi], { tools: [{ name: "ls", input_schema: { type: "string" } }] }),
    400,
    bad,
    "tools.0.input_schema.type: Input should be 'object'",
  ],
  [
    "an unknown tool field",
    ask([hi], { tools: [{ ...tool("ls"), parameters: {} }] }),
    400,
    bad,
    "tools.0.parameters: Extra inputs are not permitted",
  ],
  [
    "a choice of a tool that is not there",
    ask([hi], { tools: [tool("ls")], tool_choice: { type: "tool", name: "rm" } }),
    400,
    bad,
    "tool_choice.name: Tool 'rm' not found in provided tools",
  ],
  [
    "an empty system text",
    ask([hi], { system: [text("")] }),
    400,
    bad,
    "system.0.text: text content blocks must be non-empty",
  ],
  [
    "an unknown metadata field",
    ask([hi], { metadata: { session: "x" } }),
    400,
    bad,
    "metadata.session: Extra inputs are not permitted",
  ],
  [
    "an invalid image type",
    ask([user([image({ ...png, media_type: "image/tiff" })])]),
    400,
    bad,
    "messages.0.content.0.source.media_type: Input should be 'image/jpeg' or",
  ],
  [
    "an image that is no base64",
    ask([user([image({ ...png, data: "a*b=" })])]),
    400,
    bad,
    "messages.0.content.0.source.data: invalid base64 data",
  ],
  [
    "601 images",
    ask([user(Array.from({ length: 601 }, () => image()))]),
    400,
    bad,
    "messages.0.content.600: too many images and document pages: 601 > 600 maximum",
  ],
  [
    "101 images on a small window",
    ask([user(Array.from({ length: 101 }, () => image()))], { model: OLDER }),
    400,
    bad,
    "messages.0.content.100: too many images and document pages: 101 > 100 maximum",
  ],
  [
    "a server tool call without its result",
    ask([hi, assistant([server]), hi]),
    400,
    bad,
    "messages.1.content.0: `web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result` block",
  ],
  ["text that is no JSON", "{", 400, bad, "The request body is not valid JSON: "],
  [
    "half a surrogate pair, escaped",
    `{"model":"${MODEL}","max_tokens":5,"messages":[{"role":"user","content":"\\ud83d!"}]}`,
    400,
    bad,
    "The request body is not valid JSON: no low surrogate in string: char ",
  ],
  [
    "half a surrogate pair in a key of a tool input",
    `{"model":"${MODEL}","max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{"\\udc00":1}}]}]}`,
    400,
    bad,
    "The request body is not valid JSON: no low surrogate in string: char ",
  ],
  [
    "half a surrogate pair, in the bytes",
    Uint8Array.from([0x22, 0xed, 0xa0, 0x80, 0x22]),
    400,
    bad,
    "The request body is not valid JSON: it is not valid UTF-8",
  ],
  ["a body that is no object", "[]", 400, bad, "body: Input should be a valid dictionary"],
  ["no key", ask([hi]), 401, "authentication_error", "an API key is required", { authorization: "" }],
  ["no version", ask([hi]), 400, bad, "anthropic-version: header is required", { "anthropic-version": "" }],
  [
    "an unknown version",
    ask([hi]),
    400,
    bad,
    'anthropic-version: "2020-01-01" is not a valid version',
    { "anthropic-version": "2020-01-01" },
  ],
];

describe("the simulator refuses, as the API does (point 1)", () => {
  for (const [title, body, status, type, message, headers = {}] of rows) {
    it(title, async () => {
      const reply = await post(simulator, body, headers);
      expect({
        status: reply.status,
        type: reply.json.error.type,
        message: reply.json.error.message.slice(0, message.length),
      }).toEqual({ status, type, message });
      expect(reply.json).toEqual({
        type: "error",
        error: { type, message: expect.any(String) },
        request_id: reply.headers.get("request-id"),
      });
    });
  }
  it("has a table of at least 60 kinds, all of them different", () => {
    expect(new Set(rows.map(([title]) => title)).size).toBeGreaterThanOrEqual(60);
  });

  it("a prompt over the window, with the text that overflow handling looks for", async () => {
    const reply = await post(simulator, ask([user("word ".repeat(300))], { model: "claude-small" }));
    expect([reply.status, reply.json.error.type]).toEqual([400, "invalid_request_error"]);
    expect(reply.json.error.message).toMatch(/^prompt is too long: \d+ tokens > 200 maximum$/);
  });

  it("a body over 32 MB", async () => {
    const reply = await post(simulator, `"${"a".repeat(32 * 1024 * 1024)}"`);
    expect([reply.status, reply.json.error.type]).toEqual([413, "request_too_large"]);
  });

  it("a key that is not allowed, by either header", async () => {
    const strict = await startSimulator({ allowedKeys: ["good"] });
    const statuses = await Promise.all([
      post(strict, ask([hi])),
      post(strict, ask([hi]), { authorization: "Bearer good" }),
      post(strict, ask([hi]), { authorization: "", "x-api-key": "good" }),
      post(strict, ask([hi]), { authorization: "", "x-api-key": "bad" }),
    ]);
    expect(statuses.map((reply) => reply.status)).toEqual([401, 200, 200, 401]);
    await strict.close();
  });
});

describe("the simulator accepts", () => {
  const fine: readonly Fine[] = [
    ["consecutive messages of one role", ask([hi, hi, assistant("a"), assistant("b"), hi])],
    [
      "parallel calls and their results in any order",
      ask([hi, assistant([call("a"), call("b")]), user([result("b"), result("a"), text("go on")])]),
    ],
    ["an empty result", ask([hi, assistant([call("a")]), user([result("a", "")])])],
    ["an assistant message last that paused in a server tool (V6)", ask([hi, assistant([text("I search."), server])])],
    ["a prefill on an older model", ask([hi, assistant("Sure")], { model: OLDER })],
    [
      "four cache marks, the longer first",
      ask([user([text("a", mark), text("b", mark)])], { system: [text("s", hour), text("t", hour)] }),
    ],
    ["a cache mark for the whole request", ask([hi], mark)],
    ["600 images", ask([user(Array.from({ length: 600 }, () => image()))])],
    ["sampling parameters under the old version", ask([hi], { temperature: 1 }), { "anthropic-version": "2023-06-01" }],
    [
      "a whole surrogate pair, escaped",
      `{"model":"${MODEL}","max_tokens":50,"messages":[{"role":"user","content":"\\ud83d\\ude00 \\u0000"}]}`,
    ],
  ];
  for (const [title, body, headers = {}] of fine) {
    it(title, async () => {
      const reply = await post(simulator, body, headers);
      expect(reply.status, reply.text).toBe(200);
    });
  }
});
