import { describe, expect, it } from "vitest";
import { toolsSchema } from "../../../../src/api/session-tools.ts";
import { planReplay } from "../../../../src/local/demo/plan.ts";
import type { Recording } from "../../../../src/local/demo/recording.ts";
import { parseEntries } from "../../../../src/local/simulator/script.ts";
import { calls, model, result, says, user } from "./builders.ts";

const recording = (messages: Recording["messages"], rest: Partial<Recording> = {}): Recording => ({
  id: "s1",
  licence: "MIT",
  copyright: "Somebody",
  system: "",
  tools: [],
  messages,
  ...rest,
});

const tool = (name: string): Readonly<Record<string, unknown>> => ({
  name,
  description: "Does it.",
  input_schema: { type: "object", properties: { q: { type: "string" } } },
});

const URL = "http://127.0.0.1:1";

describe("planning a replay", () => {
  it("makes of recorded answers the simulator's replies: ids, names and inputs as recorded, thinking unsigned (V9)", () => {
    const raw = '{"10": 1.0, "2": "\\u0000"}';
    const plan = planReplay(
      recording([
        user(says("go")),
        model({ type: "thinking", thinking: "hm", signature: "theirs" }, says("I look."), calls("t1", "search", raw)),
        user(result("t1")),
        model({ type: "redacted_thinking", data: "theirs" }, says("Done.")),
      ]),
    );
    const [turn] = plan.turns;
    expect(turn?.input).toEqual([{ type: "text", text: "go" }]);
    expect(turn?.script).toEqual([
      {
        match: { purpose: "turn" },
        reply: {
          content: [
            { type: "thinking", thinking: "hm" },
            { type: "text", text: "I look." },
            { type: "tool_use", id: "t1", name: "search", input_json: raw },
          ],
        },
      },
      {
        match: { purpose: "turn" },
        reply: { content: [{ type: "redacted_thinking" }, { type: "text", text: "Done." }] },
      },
    ]);
    expect(parseEntries(turn?.script)).toHaveLength(2);
    expect(plan.session(URL)).toMatchObject({ thinking: { type: "adaptive" } });
    expect(plan.notes).toEqual(["thinking is signed anew by the simulator"]);
  });

  it("gives the session the recorded system prompt and tools, answered at one address each", () => {
    const plan = planReplay(
      recording([user(says("go")), model(says("ok"))], { system: "Be kind.", tools: [tool("search")] }),
    );
    const session = plan.session(URL);
    expect(session).toEqual({
      model: "claude-sonnet-5-5",
      max_tokens: 64_000,
      system: "Be kind.",
      tools: [
        {
          type: "http",
          name: "search",
          description: "Does it.",
          input_schema: { type: "object", properties: { q: { type: "string" } } },
          url: "http://127.0.0.1:1/search",
        },
      ],
    });
    expect(toolsSchema.safeParse(session.tools).success).toBe(true);
    expect(plan.notes).toEqual([]);
  });

  it("renames a tool that hango has itself, to a name that is free, and says so", () => {
    const plan = planReplay(
      recording([user(says("go")), model(calls("t1", "grep")), user(result("t1"))], {
        tools: [tool("grep"), tool("recorded_grep")],
      }),
    );
    expect(["grep", "recorded_grep", "other"].map(plan.nameOf)).toEqual([
      "recorded_recorded_grep",
      "recorded_grep",
      "other",
    ]);
    expect(plan.turns[0]?.script[0]).toMatchObject({ reply: { content: [{ name: "recorded_recorded_grep" }] } });
    expect(plan.notes).toEqual(["tool grep renamed to recorded_recorded_grep: hango has one of that name itself"]);
  });

  it("offers a tool that was called though it was not declared, or not described", () => {
    const plan = planReplay(
      recording([user(says("go")), model(calls("t1", "secret")), user(result("t1"))], {
        tools: [{ name: "silent", description: "", input_schema: { properties: {} } }],
      }),
    );
    const { tools } = plan.session(URL);
    expect(tools).toMatchObject([
      { name: "silent", input_schema: { type: "object", properties: {} } },
      { name: "secret", input_schema: { type: "object" } },
    ]);
    expect(toolsSchema.safeParse(tools).success).toBe(true);
  });

  it("passes on tools and blocks of the provider, but not citations, and says so", () => {
    const webSearch = { type: "web_search_20250305", name: "web_search" };
    const found = { type: "web_search_tool_result", tool_use_id: "srv1", content: [] };
    const plan = planReplay(
      recording(
        [
          user(says("go")),
          model({ type: "server_tool_use", id: "srv1", name: "web_search", input: { query: "a" } }, found, {
            ...says("So."),
            citations: [{ cited_text: "a" }],
          }),
        ],
        { tools: [webSearch] },
      ),
    );
    expect(plan.session(URL).tools).toEqual([webSearch]);
    expect(plan.turns[0]?.script[0]?.reply?.content).toEqual([
      { type: "server_tool_use", id: "srv1", name: "web_search", input_json: '{"query":"a"}' },
      found,
      { type: "text", text: "So." },
    ]);
    expect(plan.notes).toEqual(["citations left out"]);
  });

  it("says what was left out at the end", () => {
    const plan = planReplay(recording([user(says("a")), model(says("b")), user(says("c"))]));
    expect(plan.notes).toEqual(["1 message at the end, never answered, left out"]);
  });

  it.each([
    [
      "an input that a turn does not take",
      recording([user({ type: "container_upload", file_id: "f" }), model(says("ok"))]),
      "a user message holds a block of the type container_upload",
    ],
    [
      "a result that is an image",
      recording([user(says("a")), model(calls("t1")), user(result("t1", [{ type: "image", source: {} }]))]),
      "a result of search holds a block of the type image; an HTTP tool can answer with text only",
    ],
    [
      "an answer that the provider compacted",
      recording([user(says("a")), model({ type: "compaction", content: "b" }, says("c"))]),
      "the provider compacted it, which hango does not ask for",
    ],
    [
      "a tool that a session cannot be given",
      recording([user(says("a")), model(says("b"))], { tools: [{ type: "bash_20250124", name: "bash" }] }),
      "it has a tool of the type bash_20250124",
    ],
  ])("does not plan %s", (_what, given, problem) => {
    expect(() => planReplay(given)).toThrow(problem);
  });
});
