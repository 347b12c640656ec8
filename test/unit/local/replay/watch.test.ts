import { describe, expect, it } from "vitest";
import { extendsPrompt, watchRequests } from "../../../../src/local/replay/watch.ts";
import type { ReceivedRequest } from "../../../../src/local/simulator/record.ts";

const MARK = { cache_control: { type: "ephemeral" } };
const user = (...texts: readonly object[]) => ({ role: "user", content: texts });
const text = (said: string, more: object = {}) => ({ type: "text", text: said, ...more });
const answer = { role: "assistant", content: [text("answer")] };

const body = (messages: readonly object[], more: object = {}) =>
  JSON.stringify({ model: "m-1", max_tokens: 5, tools: [], system: [text("system")], messages, ...more });

const request = (index: number, bodyText: string, more: Partial<ReceivedRequest> = {}): ReceivedRequest => ({
  index,
  method: "POST",
  path: "/v1/messages",
  headers: {},
  bodyText,
  body: undefined,
  status: 200,
  timeMs: 0,
  endedMs: null,
  purpose: "turn",
  error: undefined,
  outcome: "answered",
  ...more,
});

describe("whether a prompt extends another (V2)", () => {
  const before = body([user(text("one", MARK))]);

  it.each([
    ["the same", body([user(text("one"))]), true],
    ["more messages, the cache marks elsewhere", body([user(text("one")), answer, user(text("two", MARK))]), true],
    ["the last message continued", body([user(text("one"), text("more"))]), true],
    ["another beginning", body([user(text("won")), answer]), false],
    ["another system prompt", body([user(text("one")), answer], { system: [text("other")] }), false],
    ["another tool", body([user(text("one")), answer], { tools: [{ name: "a" }] }), false],
    ["another limit of the answer", body([user(text("one")), answer], { max_tokens: 9 }), true],
  ])("%s", (_, after, expected) => {
    expect(extendsPrompt(before, after)).toBe(expected);
  });
});

describe("the requests of a model", () => {
  it("are counted by what they are for, refused ones named, those of other models and earlier ones passed over", () => {
    const requests = [request(0, body([answer]))];
    const watched = watchRequests({ requests }, "m-1");
    const one = body([user(text("one"))]);
    requests.push(
      request(1, one),
      request(2, body([user(text("x"))]).replace("m-1", "m-2"), { status: 400, error: "not ours" }),
      request(3, one, { path: "/v1/messages/count_tokens" }),
      request(4, body([user(text("sum up"))]), { purpose: "summarize" }),
    );
    watched.look();
    requests.push(
      request(5, body([user(text("one")), answer, user(text("two"))])),
      request(6, body([user(text("handoff")), user(text("two"))]), { status: 400, error: "messages.0: wrong" }),
    );
    watched.look();
    watched.look();
    expect(watched.seen()).toEqual({
      turnCalls: 3,
      summaryCalls: 1,
      countCalls: 1,
      rejected: ["request 6 to /v1/messages: 400 messages.0: wrong"],
      prefixBreaks: 1,
    });
  });
});
