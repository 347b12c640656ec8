import { describe, expect, it } from "vitest";
import { planReplay } from "../../../../src/local/demo/plan.ts";
import type { Message, Recording } from "../../../../src/local/demo/recording.ts";
import { chain, replayable } from "../../../../src/local/replay/chain.ts";
import { arrange } from "../../../../src/local/replay/collect.ts";
import { calls, model, result, says, user } from "../demo/builders.ts";

const recording = (messages: readonly Message[], more: Partial<Recording> = {}): Recording => ({
  id: "test",
  licence: "none",
  copyright: "none",
  system: "",
  tools: [],
  messages,
  ...more,
});

const blocks = ({ messages }: Recording) => messages.map((one) => one.blocks.map(({ value }) => value));

describe("what is made fit for a replay over HTTP", () => {
  it("names what is not text in a tool's result", () => {
    const image = { type: "image", source: { type: "url", url: "https://example.com/a.png" } };
    const found = recording([user(result("a", [says("see"), image])), user(result("b", "plain"))]);
    expect(blocks(replayable(found))).toEqual([[result("a", [says("see"), says("[image]")])], [result("b", "plain")]]);
  });

  it("leaves out what only the provider makes, and no message without a block", () => {
    const found = recording([
      user({ type: "container_upload", file_id: "f" }, says("hi")),
      model({ type: "compaction", content: "x" }),
    ]);
    expect(blocks(replayable(found))).toEqual([[says("hi")], [says("[left out of the replay]")]]);
  });

  it("leaves out the calls of a provider's tool that a session cannot be given, and keeps those of one that it can", () => {
    const messages = [
      user(says("hi")),
      model(
        { type: "server_tool_use", id: "s", name: "find", input: {} },
        { type: "find_tool_result", tool_use_id: "s" },
      ),
    ];
    const search = { type: "tool_search_tool_bm25_20251119", name: "find" };
    const web = { type: "web_search_20250305", name: "web_search" };
    const without = replayable(recording(messages, { tools: [search] }));
    expect(without.tools).toEqual([]);
    expect(blocks(without)).toEqual([[says("hi")], [says("[left out of the replay]")]]);
    const kept = replayable(recording(messages, { tools: [web] }));
    expect(kept.tools).toEqual([web]);
    expect(blocks(kept)).toEqual(blocks(recording(messages)));
  });
});

describe("a chain of recordings", () => {
  const first = recording([user(says("one")), model(calls("a")), user(result("a")), model(says("done"))], {
    system: "first",
    tools: [{ name: "search", description: "of the first" }],
  });
  const unfinished = recording(
    [
      user(says("two")),
      model(calls("a")),
      user(result("a")),
      model(says("well")),
      user(says("and?")),
      model(calls("b")),
    ],
    { system: "second", tools: [{ name: "search", description: "of the second" }, { name: "other" }] },
  );

  it("has the system prompt of the first, the tools of all, and calls with ids of their own", () => {
    const chained = chain("chain", [first, unfinished, first]);
    expect({ ...chained, messages: [] }).toEqual({
      id: "chain",
      licence: "see the parts",
      copyright: "see the parts",
      system: "first",
      tools: [{ name: "search", description: "of the first" }, { name: "other" }],
      messages: [],
    });
    const ids = chained.messages.flatMap((one) =>
      one.blocks.flatMap(({ value }) => [value.id, value.tool_use_id].filter((id) => id !== undefined)),
    );
    expect(ids).toEqual(["a", "a", "a_part1", "a_part1", "a_part2", "a_part2"]);
  });

  it("leaves out calls that nobody answered, and joins what the user says next to what was said last", () => {
    const chained = chain("chain", [unfinished, first]);
    expect(chained.messages.map(({ role }) => role)).toEqual([
      ...["user", "assistant", "user", "assistant"],
      ...["user", "assistant", "user", "assistant"],
    ]);
    expect(chained.messages[4]?.blocks.map(({ value }) => value)).toEqual([says("and?"), says("one")]);
    expect(planReplay(chained).turns.map(({ script }) => script.length)).toEqual([2, 2]);
  });

  it("goes on where a part ended in the midst of its work", () => {
    const working = recording([user(says("go")), model(calls("a")), user(result("a")), model(calls("b"))]);
    const turns = planReplay(chain("chain", [working, first])).turns;
    expect(turns.map(({ script, results }) => [script.length, results.length])).toEqual([
      [1, 1],
      [2, 1],
    ]);
  });

  it("is made of the sessions with fewer than 40 messages; the others stay as they are", () => {
    const pair = [user(says("q")), model(says("a"))];
    const long = recording(Array.from({ length: 20 }, () => pair).flat());
    const short = recording(Array.from({ length: 19 }, () => pair).flat());
    const arranged = arrange([
      { name: "s1", recording: short },
      { name: "l1", recording: long },
      { name: "s2", recording: short },
    ]);
    expect(arranged.map((one) => [one.name, one.recording.messages.length])).toEqual([
      ["l1", 40],
      ["chain of 2 short", 76],
    ]);
    expect(arrange([{ name: "l1", recording: long }])).toHaveLength(1);
  });
});
