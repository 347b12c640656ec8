import { describe, expect, it } from "vitest";
import { askText, endsTurn, isUserOriginated, liveAsk, openAsk } from "../../../src/context/ask.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { log, toolResult } from "../../support/log.ts";
import { imageBlock } from "../../support/random-log.ts";

const only = (rows: readonly LogRow[]): LogRow => {
  const [row] = rows;
  if (row === undefined || rows.length !== 1) throw new Error("not one row");
  return row;
};

describe("isUserOriginated (R2)", () => {
  it.each([
    ["a user's text", log().user("hello"), true],
    ["an event", log().event('{"status":"paid"}'), true],
    ["an image alone", log().row("user", [imageBlock]), true],
    [
      "a text after a blank one",
      log().row("user", [
        { type: "text", text: " " },
        { type: "text", text: "x" },
      ]),
      true,
    ],
    [
      "a blank text, its space written as escapes",
      log().row("user", '[{"type":"text","text":"\\n\\u0020\\t"}]'),
      false,
    ],
    ["results alone", log().row("user", [toolResult({ id: "a" })]), false],
    ["results and a blank text", log().row("user", [toolResult({ id: "a" }), { type: "text", text: "" }]), false],
    [
      "results and words of the user",
      log().row("user", [toolResult({ id: "a" }), { type: "text", text: "stop" }]),
      true,
    ],
    [
      "results of tools and a note beside them",
      log().row("tool", [toolResult({ id: "a" }), { type: "text", text: "note" }]),
      false,
    ],
    ["injected text", log().injected("a reminder"), false],
    ["an answer", log().assistant("hello"), false],
  ])("%s", (_, { rows }, expected) => {
    expect(isUserOriginated(only(rows))).toBe(expected);
  });
});

describe("the live and the open ask (C4)", () => {
  it("takes the newest request as live, whether it is answered or not", () => {
    const { rows } = log().user("first").assistant("done").user("second").assistant("done").injected("note");
    expect([liveAsk(rows), openAsk(rows)]).toEqual([rows[2], undefined]);
  });

  it("takes a request as open while only calls, results and injected rows follow", () => {
    const { rows } = log().user("first").assistant("done").user("second").loop(3).injected("note").tools("x");
    expect(openAsk(rows)).toBe(rows[2]);
  });

  it("takes the newest of two requests of one turn", () => {
    const { rows } = log().user("first").tools("a").answered().user("also this").tools("b").answered();
    expect(openAsk(rows)).toBe(rows[3]);
  });

  it("does not take an answer that paused in a server tool as the end of a turn (V6)", () => {
    const call = { type: "server_tool_use", id: "s", name: "web_search", input: {} };
    const found = { type: "web_search_tool_result", tool_use_id: "s", content: [] };
    const paused = log()
      .user("search")
      .row("assistant", [{ type: "text", text: "I will." }, call]).rows;
    const ended = log()
      .user("search")
      .row("assistant", [call, found, { type: "text", text: "Found." }]).rows;
    expect([openAsk(paused), openAsk(ended)]).toEqual([paused[0], undefined]);
    expect(ended.map(endsTurn)).toEqual([false, true]);
  });

  it("finds none in a session that no user ever spoke in (R7)", () => {
    const { rows } = log().injected("start").assistant("ok").loop(2);
    expect([liveAsk(rows), openAsk(rows)]).toEqual([undefined, undefined]);
  });

  it("does not take a foreign handoff in the assistant's name as an answer", () => {
    const { rows } = log().user("go").injected("summary");
    const foreign = rows.map((row) => (row.origin === "injected" ? { ...row, role: "assistant" as const } : row));
    expect(openAsk(foreign)).toBe(foreign[0]);
  });

  it("reads the text of an ask verbatim, with labels for media", () => {
    const { rows } = log().row("user", [
      { type: "text", text: ' a "b"\n' },
      imageBlock,
      { type: "text", text: "c $& {{d}}" },
    ]);
    expect(askText(only(rows))).toBe(' a "b"\n\n\n[image]\n\nc $& {{d}}');
  });
});
