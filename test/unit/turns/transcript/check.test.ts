import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkPage, type LogEnd } from "../../../../src/turns/transcript/check.ts";
import { type DraftMessage, TranscriptError } from "../../../../src/turns/transcript/draft.ts";
import { readPage } from "../../../../src/turns/transcript/page.ts";
import { recordedSessions } from "../../../support/sessions.ts";

const EMPTY: LogEnd = { role: null, calls: [] };
const NONE: ReadonlySet<string> = new Set();

const text = (role: string, words: string) => ({ role, content: words });
const user = (words = "hi") => text("user", words);
const assistant = (words = "ok") => text("assistant", words);
const calls = (...ids: readonly string[]) => ({
  role: "assistant",
  content: ids.map((id) => ({ type: "tool_use", id, name: `tool_${id}`, input: {} })),
});
const results = (...ids: readonly string[]) => ({
  role: "user",
  content: ids.map((id) => ({ type: "tool_result", tool_use_id: id, content: id })),
});
const drafts = (messages: readonly unknown[]): readonly DraftMessage[] => readPage(JSON.stringify({ messages }));
const check = (messages: readonly unknown[], end = EMPTY, known = NONE) => checkPage(drafts(messages), end, known);

const problem = (messages: readonly unknown[], end = EMPTY, known = NONE): readonly [string, string] => {
  try {
    check(messages, end, known);
  } catch (error) {
    if (error instanceof TranscriptError) return [error.path, error.message];
    throw error;
  }
  throw new Error("was accepted");
};

/** Imports pages one after the other, as the store would tell of the earlier ones. */
const importPages = (pages: readonly (readonly DraftMessage[])[]) => {
  let end = EMPTY;
  let rows = 0;
  const known = new Set<string>();
  const open = new Map<string, { readonly row: number; readonly id: string; readonly name: string }>();
  for (const page of pages) {
    const first = page[0];
    for (const id of first?.results.map((result) => result.id) ?? []) open.delete(id);
    for (const { index, id, name } of checkPage(page, end, known)) open.set(id, { row: rows + index, id, name });
    for (const message of page) for (const { id } of message.calls) known.add(id);
    rows += page.length;
    const last = page.at(-1);
    if (last !== undefined) end = { role: last.role, calls: last.calls.map(({ id }) => id) };
  }
  return [...open.values()].sort((a, b) => a.row - b.row);
};

describe("the order of a transcript", () => {
  it("takes turns, and users who speak twice, as separate rows", () => {
    expect(check([user(), user(), assistant(), user(), user()])).toEqual([]);
  });

  it("takes results in any order, all of them or some, and lists the calls without one (C3)", () => {
    expect(check([user(), calls("a", "b"), results("b", "a"), assistant()])).toEqual([]);
    expect(check([user(), calls("a", "b", "c"), results("b"), assistant()])).toEqual([
      { index: 1, id: "a", name: "tool_a" },
      { index: 1, id: "c", name: "tool_c" },
    ]);
  });

  it("lists the calls of a last message, and of one that the user talked over (C3)", () => {
    expect(check([user(), calls("a"), user("never mind"), calls("b")])).toEqual([
      { index: 1, id: "a", name: "tool_a" },
      { index: 3, id: "b", name: "tool_b" },
    ]);
  });

  it("goes on where the page before ended", () => {
    const end: LogEnd = { role: "assistant", calls: ["a", "b"] };
    expect(check([results("a"), calls("c")], end, new Set(["a", "b"]))).toEqual([
      { index: 1, id: "c", name: "tool_c" },
    ]);
    expect(check([assistant()], { role: "user", calls: [] })).toEqual([]);
  });

  const NOT_BEFORE = (id: string) =>
    `expected the id of a call in the assistant message directly before this one, which "${id}" is not; all results of a message stand in the one message after it`;

  it.each<readonly [string, readonly unknown[], LogEnd, readonly string[], string, string]>([
    [
      "an assistant first",
      [assistant()],
      EMPTY,
      [],
      "messages[0].role",
      "expected user: the first message of a session is the user's",
    ],
    [
      "an assistant twice",
      [user(), assistant(), assistant()],
      EMPTY,
      [],
      "messages[2].role",
      "expected user: the message before is the assistant's too; join the two into one",
    ],
    [
      "an assistant twice, over pages",
      [assistant()],
      { role: "assistant", calls: [] },
      [],
      "messages[0].role",
      "expected user: the message before is the assistant's too; join the two into one",
    ],
    ["a result first", [results("a")], EMPTY, [], "messages[0].content[0].tool_use_id", NOT_BEFORE("a")],
    [
      "a result without a call",
      [user(), calls("a"), results("b")],
      EMPTY,
      [],
      "messages[2].content[0].tool_use_id",
      NOT_BEFORE("b"),
    ],
    [
      "a result one message late",
      [user(), calls("a"), user(), results("a")],
      EMPTY,
      [],
      "messages[3].content[0].tool_use_id",
      NOT_BEFORE("a"),
    ],
    [
      "results in two messages",
      [user(), calls("a", "b"), results("a"), results("b")],
      EMPTY,
      [],
      "messages[3].content[0].tool_use_id",
      NOT_BEFORE("b"),
    ],
    [
      "a call answered twice",
      [user(), calls("a"), results("a", "a")],
      EMPTY,
      [],
      "messages[2].content[1].tool_use_id",
      'expected one result per call: "a" is answered twice',
    ],
    [
      "an id twice in a message",
      [user(), calls("a", "a")],
      EMPTY,
      [],
      "messages[1].content[1].id",
      'expected an id that is used once in the session: "a" is an earlier call\'s',
    ],
    [
      "an id twice in a page",
      [user(), calls("a"), results("a"), calls("a")],
      EMPTY,
      [],
      "messages[3].content[0].id",
      'expected an id that is used once in the session: "a" is an earlier call\'s',
    ],
    [
      "an id of an earlier page",
      [user(), calls("z")],
      { role: "assistant", calls: [] },
      ["z"],
      "messages[1].content[0].id",
      'expected an id that is used once in the session: "z" is an earlier call\'s',
    ],
  ])("refuses %s", (_, messages, end, known, path, message) => {
    expect(problem(messages, end, new Set(known))).toEqual([path, message]);
  });

  /** Random valid transcripts: each step is one of the things that can follow. */
  const transcripts = fc
    .array(
      fc.record({
        kind: fc.constantFrom("user", "assistant", "calls"),
        answered: fc.integer({ min: 0, max: 3 }),
        n: fc.integer({ min: 1, max: 3 }),
      }),
      {
        minLength: 1,
        maxLength: 40,
      },
    )
    .map((steps) => {
      const messages: unknown[] = [user()];
      let last = "user";
      steps.forEach(({ kind, answered, n }, step) => {
        if (kind === "user" || last === "assistant") {
          messages.push(user());
          last = "user";
          return;
        }
        if (kind === "assistant") {
          messages.push(assistant());
          last = "assistant";
          return;
        }
        const ids = Array.from({ length: n }, (_, index) => `c${step}_${index}`);
        messages.push(calls(...ids), answered === 0 ? user("stop") : results(...ids.slice(0, answered)));
        last = "user";
      });
      return messages;
    });

  it("gives the same however a transcript is cut into pages", () => {
    fc.assert(
      fc.property(transcripts, fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 10 }), (messages, cuts) => {
        const at = [...new Set([0, ...cuts.filter((cut) => cut < messages.length), messages.length])].sort(
          (a, b) => a - b,
        );
        const pages = at.slice(1).map((end, index) => drafts(messages.slice(at[index], end)));
        const whole = check(messages).map(({ index, id, name }) => ({ row: index, id, name }));
        expect(importPages(pages)).toEqual(whole);
      }),
      { numRuns: 300 },
    );
  });

  it.each(recordedSessions().map((session) => [session.name, session] as const))(
    "holds in the recorded session %s, whole and in pages of 7",
    (_, { messages }) => {
      const page = readPage(`{"messages":[${messages.map(({ line }) => line).join(",")}]}`);
      const pages = Array.from({ length: Math.ceil(page.length / 7) }, (_, index) =>
        page.slice(index * 7, index * 7 + 7),
      );
      expect([checkPage(page, EMPTY, NONE), importPages(pages)]).toEqual([[], []]);
    },
  );
});
