import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { markedMessages, promptCache } from "../../../src/context/cache.ts";
import { createRenderer } from "../../../src/context/view.ts";
import { EMPTY_VIEW, type ViewState } from "../../../src/context/view-state.ts";
import type { MessageId, RunId } from "../../../src/protocol/ids.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow, ViewMessage } from "../../../src/protocol/messages.ts";
import type { RequestDraft, RunContext } from "../../../src/protocol/middleware.ts";

const FLOOR = EMPTY_VIEW;
const renderView = (rows: readonly LogRow[], view: ViewState): readonly ViewMessage[] =>
  createRenderer({ sessionId: "ses_1", estimateTokens: (text) => text.length, messageTokens: () => 1 }).messages(
    rows,
    view,
  );

/** A log, row by row. */
const log = (imported = false) => {
  const rows: LogRow[] = [];
  const add = (role: LogRow["role"], content: string, calls: readonly string[] = []) => {
    const at = seq(rows.length + 1);
    rows.push({
      id: `msg_${at}` as MessageId,
      seq: at,
      role,
      origin: role,
      content,
      media: [],
      calls,
      tokens: 1,
      bytes: content.length,
      runId: imported ? null : ("run_1" as RunId),
    });
    return builder;
  };
  const builder = {
    user: (text: string) => add("user", JSON.stringify([{ type: "text", text }])),
    assistant: (text: string) => add("assistant", JSON.stringify([{ type: "text", text }])),
    calls: (...ids: string[]) =>
      add("assistant", JSON.stringify(ids.map((id) => ({ type: "tool_use", id, name: "t", input: {} }))), ids),
    results: (...ids: string[]) =>
      add("user", JSON.stringify(ids.map((id) => ({ type: "tool_result", tool_use_id: id, content: "ok" })))),
    raw: (role: LogRow["role"], content: string) => add(role, content),
    rows,
  };
  return builder;
};

const contents = (view: readonly ViewMessage[]) => view.map((message) => JSON.parse(message.content));
const stub = (id: string) => ({
  type: "tool_result",
  tool_use_id: id,
  content: "No result was recorded for this call.",
  is_error: true,
});

describe("the view", () => {
  it("passes stored text on as it is, unread (V1, V9)", () => {
    const { rows } = log().raw("user", '[ {"type":"text","2":1.0,"1":2,"text":"\\u0000"} ]').assistant("ok");
    expect(renderView(rows, FLOOR).map((message) => message.content)).toEqual(rows.map((row) => row.content));
  });

  it("grows by bytes that are only added: a later request begins with the earlier one (V2)", () => {
    const turn = fc.oneof(
      fc.record({ kind: fc.constant("text" as const), ask: fc.string(), answer: fc.string() }),
      fc.record({ kind: fc.constant("tools" as const), ask: fc.string(), calls: fc.integer({ min: 1, max: 4 }) }),
    );
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 8 }), fc.boolean(), (turns, imported) => {
        const builder = log(imported);
        let before: string[] = [];
        for (const [n, each] of turns.entries()) {
          builder.user(each.ask);
          if (each.kind === "text") builder.assistant(each.answer);
          else {
            const ids = Array.from({ length: each.calls }, (_, at) => `toolu_${n}_${at}`);
            builder.calls(...ids).results(...ids);
          }
          const now = renderView(builder.rows, FLOOR).map((message) => message.content);
          expect(now.slice(0, before.length)).toEqual(before);
          before = now;
        }
      }),
    );
  });

  it("answers a call without a result further back by a stub, before everything else in the next message (C3)", () => {
    const { rows } = log(true).user("go").calls("a", "b").results("a").assistant("hm");
    expect(contents(renderView(rows, FLOOR))[2]).toEqual([
      stub("b"),
      { type: "tool_result", tool_use_id: "a", content: "ok" },
    ]);
    const none = log(true).user("go").calls("a").user("never mind");
    expect(contents(renderView(none.rows, FLOOR))[2]).toEqual([stub("a"), { type: "text", text: "never mind" }]);
  });

  it("answers a call at the end of the log by a stub of its own", () => {
    expect(contents(renderView(log(true).user("go").calls("a").rows, FLOOR)).at(-1)).toEqual([stub("a")]);
  });

  it("leaves out thinking below the floor, and that of imported rows always; never a row's last word (V5)", () => {
    const thinking = '{"type":"thinking","thinking":"hm","signature":"s"}';
    const both = `[${thinking},{"type":"text","text":"said"}]`;
    const own = log().user("a").raw("assistant", both).user("b").raw("assistant", both);
    expect(
      contents(renderView(own.rows, { ...EMPTY_VIEW, thinkingFloor: seq(3) })).map((blocks) => blocks.length),
    ).toEqual([1, 1, 1, 2]);
    const imported = log(true).user("a").raw("assistant", both).user("b").raw("assistant", `[${thinking}]`);
    expect(contents(renderView(imported.rows, FLOOR))).toEqual([
      [{ type: "text", text: "a" }],
      [{ type: "text", text: "said" }],
      [{ type: "text", text: "b" }],
      [{ type: "text", text: "(no text)" }],
    ]);
  });

  it("does not take the word thinking in a text for a block", () => {
    const content = '[{"type":"text","text":"\\"type\\":\\"thinking\\""}]';
    expect(renderView(log(true).user("a").raw("assistant", content).rows, FLOOR)[1]?.content).toBe(content);
  });

  it.each([
    ["cache marks", '[{"type":"text","cache_control":{"type":"ephemeral"},"text":"a"}]', [{ type: "text", text: "a" }]],
    [
      "a cache mark at the end",
      '[{"type":"text","text":"a" , "cache_control":{"type":"ephemeral"}}]',
      [{ type: "text", text: "a" }],
    ],
    [
      "cache marks within a result",
      '[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"a","cache_control":{}}]}]',
      [{ type: "tool_result", tool_use_id: "x", content: [{ type: "text", text: "a" }] }],
    ],
    [
      "an image in MCP form",
      '[{"type":"tool_result","tool_use_id":"x","content":[{"type":"image","data":"QQ==","mimeType":"image/png"}]}]',
      [
        {
          type: "tool_result",
          tool_use_id: "x",
          content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "QQ==" } }],
        },
      ],
    ],
    [
      "a compaction block",
      '[{"type":"compaction","content":"Before: x"},{"type":"text","text":"a"}]',
      [
        { type: "text", text: "Before: x" },
        { type: "text", text: "a" },
      ],
    ],
    [
      "a compaction block that is all there is, and empty",
      '[{"type":"compaction","content":null}]',
      [{ type: "text", text: "(no text)" }],
    ],
  ])("sends %s of an imported row as the provider takes it, and leaves the log alone", (_name, content, sent) => {
    const { rows } = log(true).raw("user", content);
    expect(contents(renderView(rows, FLOOR))).toEqual([sent]);
    expect(rows[0]?.content).toBe(content);
  });
});

describe("cache marks (section 10)", () => {
  const message = (role: LogRow["role"], blocks = 1): ViewMessage => ({
    role,
    content: JSON.stringify(Array.from({ length: blocks }, () => ({ type: "text", text: "a" }))),
    media: [],
  });

  it("stand on the newest user message, and on one about 15 blocks before it when there are so many", () => {
    expect(markedMessages([message("user")])).toEqual([0]);
    expect(markedMessages([message("user"), message("assistant"), message("user")])).toEqual([2]);
    expect(markedMessages([message("user"), message("assistant", 15), message("user")])).toEqual([0, 2]);
    expect(
      markedMessages([
        message("user"),
        message("assistant", 9),
        message("user", 8),
        message("assistant"),
        message("user"),
      ]),
    ).toEqual([0, 4]);
    expect(markedMessages([message("user"), message("assistant")])).toEqual([0]);
    expect(markedMessages([])).toEqual([]);
  });

  const run = (promptCaching: boolean) => ({ promptCaching }) as RunContext;
  const draft = (): RequestDraft => ({
    system: [{ text: "one" }, { text: "two" }],
    tools: [],
    providerTools: [],
    messages: [],
  });

  it("stand on the last system block so far; what is added later lands behind it", () => {
    const request = draft();
    promptCache.assemble?.(request, run(true));
    request.system.push({ text: "memory" });
    expect(request.system).toEqual([{ text: "one" }, { text: "two", cacheMark: true }, { text: "memory" }]);
  });

  it("are not set for a provider without a prompt cache", async () => {
    const request = draft();
    promptCache.assemble?.(request, run(false));
    expect(request.system).toEqual(draft().system);
    const seen: unknown[] = [];
    const sent = { model: "m", maxTokens: 1, system: [], tools: [], messages: [message("user")] };
    await promptCache
      .wrapModelCall?.(
        sent,
        async (passed) => {
          seen.push(passed);
          throw new Error("stop");
        },
        run(false),
      )
      .catch(() => undefined);
    expect(seen).toEqual([sent]);
  });
});

describe("thinking of another provider (V5)", () => {
  const content = (...blocks: readonly object[]) => JSON.stringify(blocks);
  const signed = { type: "thinking", thinking: "s", signature: "c2ln" };
  const unsigned = { type: "thinking", thinking: "u", signature: "" };
  const redacted = { type: "redacted_thinking", data: "ZGF0YQ==" };
  const text = { type: "text", text: "Said." };
  const call = { type: "tool_use", id: "a", name: "ls", input: {} };
  const shown = (thinking: "signed" | "unsigned" | undefined, ...blocks: readonly object[]) => {
    const renderer = createRenderer({
      sessionId: "ses_1",
      estimateTokens: (value) => value.length,
      messageTokens: () => 1,
      ...(thinking === undefined ? {} : { thinking }),
    });
    const { rows } = log().user("hi");
    const row = { ...(rows[0] as LogRow), seq: seq(2), role: "assistant" as const, content: content(...blocks) };
    return renderer.messages([...rows, row], EMPTY_VIEW)[1]?.content;
  };

  it("is not shown to one that signs: reasoning without a signature would be refused", () => {
    expect(shown(undefined, signed, redacted, unsigned, text, call)).toBe(content(signed, redacted, text, call));
    expect(shown("signed", unsigned)).toBe('[{"type":"text","text":"(no text)"}]');
    const quoting = { ...signed, thinking: 'It says "signature":"" there.' };
    expect(shown("signed", quoting, text)).toBe(content(quoting, text));
  });

  it("is not shown to one that does not: its own reasoning stays with its call, and nowhere else", () => {
    expect(shown("unsigned", signed, redacted, unsigned, call)).toBe(content(unsigned, call));
    expect(shown("unsigned", unsigned, text)).toBe(content(text));
    expect(shown("unsigned", signed)).toBe('[{"type":"text","text":"(no text)"}]');
    expect(shown("unsigned", text, call)).toBe(content(text, call));
  });
});
