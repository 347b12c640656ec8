import { describe, expect, it } from "vitest";
import { answersOf, splitTurns } from "../../../../src/local/demo/split.ts";
import { calls, model, result, says, user } from "./builders.ts";

const split = (...messages: Parameters<typeof splitTurns>[0]["messages"]) => splitTurns({ messages });

describe("splitting a recording into turns", () => {
  it("begins a turn with each user message that is more than results, and keeps results in the running turn", () => {
    const conversation = [
      user(says("find it")),
      model(says("I look."), calls("t1", "search", '{"q": "a"}'), calls("t2", "open")),
      user(result("t1", "one"), result("t2", [{ type: "text", text: "two" }], true)),
      model(says("Here.")),
      user(says("thanks")),
      model(says("Welcome.")),
    ];
    expect(split(...conversation)).toEqual({
      turns: [
        {
          messages: conversation.slice(0, 4),
          results: [
            { toolUseId: "t1", name: "search", inputText: '{"q": "a"}', content: "one", isError: false },
            { toolUseId: "t2", name: "open", inputText: "{}", content: [{ type: "text", text: "two" }], isError: true },
          ],
        },
        { messages: conversation.slice(4), results: [] },
      ],
      unanswered: 0,
    });
  });

  it("cuts a message of results and text in two: results end the turn, the text begins the next", () => {
    const { turns, unanswered } = split(
      user(says("go")),
      model(calls("t1")),
      user(result("t1"), says("stop")),
      model(says("Stopped.")),
    );
    expect(turns.map((turn) => turn.messages)).toEqual([
      [user(says("go")), model(calls("t1")), user(result("t1"))],
      [user(says("stop")), model(says("Stopped."))],
    ]);
    expect(unanswered).toBe(0);
  });

  it("keeps a turn that ends with results", () => {
    const conversation = [user(says("go")), model(calls("t1")), user(result("t1"))];
    expect(split(...conversation).turns.map((turn) => turn.messages)).toEqual([conversation]);
  });

  it("leaves out an input at the end that was not answered", () => {
    const { turns, unanswered } = split(user(says("a")), model(says("b")), user(says("bye")));
    expect(turns.map((turn) => turn.messages)).toEqual([[user(says("a")), model(says("b"))]]);
    expect(unanswered).toBe(1);
  });

  it("leaves out an answer at the end whose calls were not answered, and with it a turn that has no other", () => {
    const { turns, unanswered } = split(user(says("a")), model(says("b")), user(says("c")), model(calls("t1")));
    expect(turns.map((turn) => answersOf(turn))).toEqual([[model(says("b"))]]);
    expect(unanswered).toBe(2);
  });

  it.each([
    ["begins with an answer", [model(says("a"))], "message 1 is not a user's"],
    [
      "has two user messages in a row",
      [user(says("a")), user(says("b"))],
      "message 2 has the role of the one before it",
    ],
    [
      "leaves a call without a result",
      [user(says("a")), model(calls("t1")), user(says("b"))],
      "message 3 answers 0 of 1 calls",
    ],
    [
      "answers a call twice",
      [user(says("a")), model(calls("t1"), calls("t2")), user(result("t1"), result("t1"))],
      "message 3 answers 2 of 2",
    ],
    [
      "answers a call that was not made",
      [user(says("a")), model(calls("t1")), user(result("t9"))],
      "message 3 answers a call that was not made",
    ],
    ["has no answer", [user(says("a"))], "nothing in it was answered"],
    ["is empty", [], "nothing in it was answered"],
  ])("does not accept a recording that %s", (_what, messages, problem) => {
    expect(() => split(...messages)).toThrow(problem);
  });

  it("does not accept a turn with more model calls than a turn may have", () => {
    const rounds = (count: number) =>
      Array.from({ length: count }, (_, index) => [model(calls(`t${index}`)), user(result(`t${index}`))]).flat();
    expect(split(user(says("go")), ...rounds(100)).turns).toHaveLength(1);
    expect(() => split(user(says("go")), ...rounds(101))).toThrow(
      "turn 1 has 101 model calls; hango runs at most 100 in a turn",
    );
  });
});
