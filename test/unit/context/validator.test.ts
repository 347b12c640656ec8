import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { problemWords } from "../../../src/context/problems.ts";
import { type ValidatorOptions, validateMessages } from "../../../src/context/validator.ts";
import type { LogRow, Role, ViewMessage } from "../../../src/protocol/messages.ts";
import { log, toolResult, toolUse } from "../../support/log.ts";
import { randomLog } from "../../support/random-log.ts";

const text = (words: string) => ({ type: "text", text: words });
const message = (role: Role, blocks: readonly unknown[] | string, more: Partial<ViewMessage> = {}): ViewMessage => ({
  role,
  content: typeof blocks === "string" ? blocks : JSON.stringify(blocks),
  media: [],
  ...more,
});
const user = (...blocks: readonly unknown[]) => message("user", blocks);
const assistant = (...blocks: readonly unknown[]) => message("assistant", blocks);
const ask = user(text("go"));
const calls = (...ids: readonly string[]) => assistant(...ids.map(toolUse));
const results = (...ids: readonly string[]) => user(...ids.map((id) => toolResult({ id })));
const viewOf = (rows: readonly LogRow[]) =>
  rows.map(({ role, content, media }): ViewMessage => ({ role, content, media }));

const problems = (messages: readonly ViewMessage[], options: Partial<ValidatorOptions> = {}) =>
  validateMessages(messages, { maxMarks: 4, ...options });

describe("a request that may be sent (C7)", () => {
  it("passes: batches, thinking, images, several messages of one role", () => {
    const { rows } = log()
      .user("a")
      .user("b")
      .tools("x", "y")
      .answered()
      .injected("note")
      .thinking("hm", "ok")
      .user("c");
    expect(problems(viewOf(rows))).toEqual([]);
  });

  it("passes for every valid log that ends with a user's message", () => {
    fc.assert(
      fc.property(randomLog({ inFlight: false, maxSteps: 15 }), (rows) => {
        expect(problems([...viewOf(rows), user(text("and now?"))])).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });
});

describe("calls and results (C7)", () => {
  it.each([
    ["a call without a result", [ask, calls("x"), user(text("hm"))], [{ kind: "unanswered_call", index: 1, id: "x" }]],
    [
      "a batch that is answered in part",
      [ask, calls("x", "y"), results("y")],
      [{ kind: "unanswered_call", index: 1, id: "x" }],
    ],
    [
      "a message between a call and its result",
      [ask, calls("x"), user(text("wait")), results("x")],
      [
        { kind: "unanswered_call", index: 1, id: "x" },
        { kind: "unexpected_result", index: 3, id: "x" },
      ],
    ],
    [
      "results split over two messages",
      [ask, calls("x", "y"), results("x"), results("y")],
      [
        { kind: "unanswered_call", index: 1, id: "y" },
        { kind: "unexpected_result", index: 3, id: "y" },
      ],
    ],
    ["a result without a call", [ask, results("x")], [{ kind: "unexpected_result", index: 1, id: "x" }]],
    [
      "a result in the first message",
      [results("x"), assistant(text("a")), ask],
      [{ kind: "unexpected_result", index: 0, id: "x" }],
    ],
    [
      "a result after other content",
      [ask, calls("x"), user(text("first"), toolResult({ id: "x" }))],
      [{ kind: "late_result", index: 2, id: "x" }],
    ],
    [
      "two results of one call",
      [ask, calls("x"), results("x", "x")],
      [{ kind: "duplicate_result", index: 2, id: "x" }],
    ],
    [
      "one id for two calls",
      [ask, calls("x"), results("x"), calls("x"), results("x")],
      [{ kind: "duplicate_call", index: 3, id: "x" }],
    ],
    [
      "a call in a user's message",
      [ask, user(toolUse("x")), results("x")],
      [
        { kind: "misplaced_call", index: 1, id: "x" },
        { kind: "unexpected_result", index: 2, id: "x" },
      ],
    ],
  ])("finds %s", (_, messages, expected) => {
    expect(problems(messages)).toEqual(expected);
  });

  it("reads ids that are written with escapes, and no marks of blocks inside of strings", () => {
    const escaped = message(
      "assistant",
      '[{"type":"tool_use","id":"\\u0078","name":"t","input":{"type":"tool_result"}}]',
    );
    const quoted = user(toolResult({ id: "x", text: '{"type":"tool_use","id":"q"}' }));
    expect(problems([ask, escaped, quoted])).toEqual([]);
  });
});

describe("calls that the provider answers itself (V6)", () => {
  const call = { type: "server_tool_use", id: "s", name: "web_search", input: {} };
  const found = { type: "web_search_tool_result", tool_use_id: "s", content: [] };
  it.each([
    ["passes a pair in one message", [ask, assistant(call, found), ask], []],
    ["passes a pair in two answers of one run", [ask, assistant(call), assistant(found, text("a")), ask], []],
    [
      "finds a call without its result",
      [ask, assistant(call), ask],
      [{ kind: "unanswered_server_call", index: 1, id: "s" }],
    ],
    [
      "finds a result without its call",
      [ask, assistant(found), ask],
      [{ kind: "unexpected_server_result", index: 1, id: "s" }],
    ],
  ])("%s", (_, messages, expected) => {
    expect(problems(messages)).toEqual(expected);
  });

  it("passes an open call in an answer that paused, at the end only", () => {
    const paused = [ask, assistant(text("I will."), call)];
    expect(problems(paused, { pauseTurn: true })).toEqual([]);
    expect(problems(paused)).toEqual([
      { kind: "last_not_user", index: 1 },
      { kind: "unanswered_server_call", index: 1, id: "s" },
    ]);
    expect(problems([...paused, ask], { pauseTurn: true })).toEqual([
      { kind: "last_not_assistant", index: 2 },
      { kind: "unanswered_server_call", index: 1, id: "s" },
    ]);
  });
});

describe("messages by themselves (C7)", () => {
  it.each([
    ["no message", [], [{ kind: "no_messages", index: 0 }]],
    ["a first message of the assistant", [assistant(text("a")), ask], [{ kind: "first_not_user", index: 0 }]],
    ["a last message of the assistant", [ask, assistant(text("a"))], [{ kind: "last_not_user", index: 1 }]],
    ["a message without blocks", [user()], [{ kind: "empty_message", index: 0 }]],
    ["a content that is no array", [message("user", '"hello"')], [{ kind: "malformed", index: 0 }]],
    ["a content that breaks off", [message("user", '[{"type":"text')], [{ kind: "malformed", index: 0 }]],
    ["an empty text", [user(text(""))], [{ kind: "blank_text", index: 0 }]],
    [
      "a text of escaped white space",
      [message("user", '[{"type":"text","text":"\\n\\u00a0"}]')],
      [{ kind: "blank_text", index: 0 }],
    ],
    [
      "half of a pair",
      [user(text("a")), message("user", '[{"type":"text","text":"a\ud83d"}]')],
      [{ kind: "bad_unicode", index: 1 }],
    ],
    [
      "half of a pair, escaped",
      [message("user", '[{"type":"text","text":"a\\ud83d"}]')],
      [{ kind: "bad_unicode", index: 0 }],
    ],
    [
      "a second handoff",
      [message("user", [text("h")], { handoff: true }), message("user", [text("h")], { handoff: true })],
      [{ kind: "second_handoff", index: 1 }],
    ],
  ])("finds %s", (_, messages, expected) => {
    expect(problems(messages)).toEqual(expected);
  });

  it("finds a blank text inside of a result", () => {
    const blank = user(toolResult({ id: "x", blocks: [text("a"), text(" ")] }));
    expect(problems([ask, calls("x"), blank])).toEqual([{ kind: "blank_text", index: 2 }]);
  });

  it("says each problem in words, without a message's content", () => {
    expect(problems([ask, calls("x"), user(text("secret"))]).map(problemWords)).toEqual([
      "message 1 holds the call x, and the next message does not answer it",
    ]);
  });
});

describe("cache marks (C7, section 10)", () => {
  const marked = (...blocks: readonly unknown[]) => message("user", blocks, { cacheMark: true });
  it("counts marks of messages and marks that stand in the stored blocks", () => {
    const own = user({ ...text("a"), cache_control: { type: "ephemeral" } });
    expect(problems([marked(text("a")), own], { maxMarks: 2 })).toEqual([]);
    expect(problems([marked(text("a")), own], { maxMarks: 1 })).toEqual([
      { kind: "too_many_marks", index: 1, marks: 2 },
    ]);
  });

  it("finds a mark on thinking", () => {
    const thought = { type: "thinking", thinking: "hm", signature: "s" };
    expect(problems([ask, message("assistant", [text("a"), thought], { cacheMark: true }), ask])).toEqual([
      { kind: "bad_mark", index: 1 },
    ]);
  });

  it("finds a mark on a blank text", () => {
    expect(problems([marked(text("a"), text(""))])).toEqual([
      { kind: "blank_text", index: 0 },
      { kind: "bad_mark", index: 0 },
    ]);
  });
});

describe("the live ask (C4, C7)", () => {
  const wanted = user(text("migrate"), text("keep ids"));
  const row = { kind: "row", content: wanted.content } as const;
  it.each([
    ["its row as it is", [wanted, assistant(text("a")), ask], row],
    ["its row reworked for the wire", [user(text("h"), text("migrate"), text("keep ids")), ask], row],
    [
      "its text restated in the handoff",
      [message("user", [text("summary\n\nmigrate\n\nkeep ids")], { handoff: true })],
      { kind: "pinned", text: "migrate\n\nkeep ids" },
    ],
  ] as const)("passes with %s", (_, messages, liveAsk) => {
    expect(problems(messages, { liveAsk })).toEqual([]);
  });

  it.each([
    ["nowhere", [ask], row],
    ["in part", [user(text("migrate"))], row],
    ["restated outside of a handoff", [user(text("migrate"))], { kind: "pinned", text: "migrate" }],
    ["in the assistant's words", [ask, message("assistant", wanted.content), ask], row],
  ] as const)("finds it %s", (_, messages, liveAsk) => {
    expect(problems(messages, { liveAsk })).toEqual([{ kind: "no_live_ask", index: messages.length - 1 }]);
  });
});
