import { describe, expect, it } from "vitest";
import { alternate, firstOutOfTurn } from "../../../src/context/alternation.ts";
import { problemsOf } from "../../../src/context/validator.ts";
import { createRenderer, drivesCall } from "../../../src/context/view.ts";
import { EMPTY_VIEW, type Generation, type ViewState } from "../../../src/context/view-state.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { Role, ViewMessage } from "../../../src/protocol/messages.ts";

const message = (role: Role, ...blocks: readonly object[]): ViewMessage => ({
  role,
  content: JSON.stringify(blocks),
  media: [],
});
const text = (value: string) => ({ type: "text", text: value });
const user = (value: string) => message("user", text(value));
const said = (value: string) => message("assistant", text(value));
const calls = (...ids: readonly string[]) =>
  message("assistant", ...ids.map((id) => ({ type: "tool_use", id, name: "ls", input: {} })));
const result = (id: string) => ({ type: "tool_result", tool_use_id: id, content: "x" });
const results = (...ids: readonly string[]) => message("user", ...ids.map(result));
const handoff: ViewMessage = { ...user("[Handoff]"), handoff: true };

/** One letter a message: U, A, C (calls), T (results), and what was put in between as u and a. */
const shape = (messages: readonly ViewMessage[]): string =>
  messages
    .map(({ role, content }) => {
      if (content.includes("(no answer here)")) return "a";
      if (content.includes("(no message here)")) return "u";
      if (content.includes("tool_use"))
        return content.includes("tool_use_id") ? (content.includes('"text"') ? "TU" : "T") : "C";
      return role === "user" ? "U" : "A";
    })
    .join("");

const shaped = (messages: readonly ViewMessage[], drivesAlone = false) => shape(alternate(messages, drivesAlone));

describe("a view for a strict template (R8)", () => {
  it.each([
    ["an ordinary exchange stays as it is", [user("1"), said("2"), user("3")], "UAU"],
    [
      "tool traffic is not counted",
      [user("1"), calls("a"), results("a"), calls("b"), results("b"), said("2"), user("3")],
      "UCTCTAU",
    ],
    ["two messages of the user in a row", [user("1"), user("2")], "UaU"],
    ["what the user says during tool traffic", [user("1"), calls("a"), results("a"), user("2")], "UCTaU"],
    [
      "what stands behind results in the same message",
      [user("1"), calls("a"), message("user", result("a"), text("2"))],
      "UCTaU",
    ],
    [
      "results with text where an answer came before",
      [user("1"), said("2"), calls("a"), message("user", result("a"), text("3"))],
      "UACTU",
    ],
    ["two answers in a row", [user("1"), said("2"), said("3"), user("4")], "UAuAU"],
    [
      "an answer, tool traffic, an answer",
      [user("1"), said("2"), calls("a"), results("a"), said("3"), user("4")],
      "UACTuAU",
    ],
    ["the handoff before calls", [handoff, calls("a"), results("a"), said("1"), user("2")], "UCTAU"],
    ["the handoff before an answer", [handoff, said("1"), user("2")], "UAU"],
    [
      "the lesson's shape: a handoff, tool traffic, then the user",
      [handoff, calls("a"), results("a"), user("2")],
      "UCTaU",
    ],
  ] as const)("%s", (_title, messages, expected) => {
    const got = alternate(messages, false);
    expect(shape(got).replaceAll("TU", "T|U").replaceAll("|", "")).toBe(expected);
    expect(firstOutOfTurn(got)).toBeUndefined();
  });

  it("answers the very list where nothing has to be done", () => {
    const messages = [user("1"), calls("a"), results("a"), said("2"), user("3")];
    expect(alternate(messages, false)).toBe(messages);
  });

  it("merges the handoff into the user message that directly follows it, which then asks for an answer (R1)", () => {
    const [first, ...rest] = alternate([handoff, user("2"), said("3"), user("4")], false);
    expect(first).toEqual({
      role: "user",
      content: '[{"type":"text","text":"[Handoff]"},{"type":"text","text":"2"}]',
      media: [],
      handoff: true,
      merged: true,
    });
    expect(shape(rest)).toBe("AU");
    expect(drivesCall(alternate([handoff, user("2")], false), EMPTY_VIEW)).toBe(true);
    expect(drivesCall(alternate([handoff], false), EMPTY_VIEW)).toBe(false);
  });

  it("does not merge a handoff that may have been sent alone: what was sent stays the beginning (V2, C4)", () => {
    const before = alternate([handoff], true);
    const after = alternate([handoff, user("2")], true);
    expect(after.slice(0, 1)).toEqual(before);
    expect(shaped([handoff, user("2")], true)).toBe("UaU");
  });

  it("names the first message that a template would refuse (C7)", () => {
    expect(firstOutOfTurn([user("1"), calls("a"), results("a"), user("2")])).toBe(3);
    expect(firstOutOfTurn([said("1")])).toBe(0);
    expect(problemsOf([user("1"), user("2")], 4, true)).toEqual([
      "message 1 has the role of the message before it, as a strict template counts them",
    ]);
    expect(problemsOf([user("1"), user("2")], 4, false)).toEqual([]);
  });
});

describe("the renderer of a session on a strict template (R8)", () => {
  const row = (at: number, { role, content }: ViewMessage) => ({
    id: `msg_${at}` as never,
    seq: seq(at),
    role,
    origin: role === "user" ? ("user" as const) : ("assistant" as const),
    content,
    media: [],
    calls: [],
    tokens: 5,
    bytes: content.length,
    runId: "run_1" as never,
  });
  const renderer = (strictAlternation: boolean) =>
    createRenderer({
      sessionId: "ses_1",
      estimateTokens: (value) => value.length,
      messageTokens: ({ content }, known) => known ?? content.length,
      strictAlternation,
    });
  const generation: Generation = {
    number: 1,
    base: 0,
    covered: [{ from: seq(1), to: seq(2) }],
    summary: "It began.",
    sections: { users: [] } as never,
    pinned: null,
    history: { kind: "api" },
    prefixVersion: 1,
    rendered: "What was done.",
  };
  const view: ViewState = { ...EMPTY_VIEW, revision: 1, generation };
  const rows = [user("1"), said("2"), user("3"), user("4")].map((each, at) => row(at + 1, each));

  it("counts what it puts in and what it merges", () => {
    const plain = renderer(false).measure(rows, view);
    const strict = renderer(true).measure(rows, view);
    expect(shape(plain.messages)).toBe("UUU");
    expect(shape(strict.messages)).toBe("UaU");
    expect(strict.messages[0]?.content).toContain('{"type":"text","text":"3"}');
    expect(strict.tokens).toBe(strict.messages.slice(0, 2).reduce((sum, { content }) => sum + content.length, 5));
    expect(strict.bytes).toBeGreaterThan(plain.bytes);
  });
});
