import { describe, expect, it } from "vitest";
import type { Message } from "../../../../src/local/demo/recording.ts";
import { verifyLog } from "../../../../src/local/demo/verify.ts";
import { calls, model, result, says, user } from "./builders.ts";

const verify = (
  expected: readonly Message[],
  actual: readonly Message[],
  files: Readonly<Record<string, string>> = {},
) => verifyLog({ expected, actual, nameOf: (name) => `x_${name}`, readFile: async (path) => files[path] });

const SAME = { differences: [], offloaded: 0 };
const raw = '{"10": 1.0, "2": 12345678901234567890}';

describe("comparing the log with the recording", () => {
  it("finds them equal whatever hango and the provider add, and however rows of one role are cut", async () => {
    expect(
      await verify(
        [
          user(says("go")),
          model({ type: "thinking", thinking: "hm", signature: "old" }, says("I look."), calls("t1", "search", raw)),
          user(result("t1"), says("stop")),
        ],
        [
          user(says("go")),
          model(
            { type: "thinking", thinking: "hm", signature: "new" },
            { ...says("I look."), citations: null },
            `{"type":"tool_use","id":"t1","name":"x_search","input":${raw},"caller":{"type":"direct"}}`,
          ),
          user(result("t1")),
          user(says("stop")),
        ],
      ),
    ).toEqual(SAME);
  });

  it.each([
    ["string", ""],
    ["list", []],
    ["list of blank texts", [says(" ")]],
  ])("knows what an empty result is stored as: %s", async (_what, content) => {
    expect(await verify([user(result("t1", content))], [user(result("t1", "(no output)"))])).toEqual(SAME);
  });

  it("accepts a large result in a file if the file has the recorded text", async () => {
    const shown = "Too large. All of it is in /large_tool_results/t1; it begins like this: aaa";
    const expected = [user(result("t1", [says("aaa"), says("bbb")]))];
    const actual = [user(result("t1", [says(shown)]))];
    expect(await verify(expected, actual, { "/large_tool_results/t1": "aaa\nbbb" })).toEqual({
      differences: [],
      offloaded: 1,
    });
    expect((await verify(expected, actual, { "/large_tool_results/t1": "aaa" })).differences).toHaveLength(1);
    expect((await verify(expected, actual)).differences).toHaveLength(1);
  });

  it.each([
    ["a text", model(says("a")), model(says("b"))],
    ["a call's input by a byte (V9)", model(calls("t1", "s", raw)), model(calls("t1", "x_s", raw.replace("1.0", "1")))],
    ["a call's id", model(calls("t1", "s")), model(calls("t2", "x_s"))],
    ["a call's name", model(calls("t1", "s")), model(calls("t1", "s"))],
    [
      "thinking",
      model({ type: "thinking", thinking: "a", signature: "s" }),
      model({ type: "thinking", thinking: "", signature: "s" }),
    ],
    [
      "a missing signature",
      model({ type: "thinking", thinking: "a", signature: "s" }),
      model({ type: "thinking", thinking: "a", signature: "" }),
    ],
    ["a result", user(result("t1", "a")), user(result("t1", "b"))],
    ["a result's failure", user(result("t1", "a", true)), user(result("t1", "a"))],
    ["an image", user({ type: "image", source: { data: "a" } }), user({ type: "image", source: { data: "b" } })],
    ["a block's type", user(says("a")), user(result("t1", "a"))],
    ["a block too many", user(says("a")), user(says("a"), says("b"))],
    ["a block too few", user(says("a"), says("b")), user(says("a"))],
    ["a role", user(says("a")), model(says("a"))],
  ])("finds a difference in %s", async (_what, expected, actual) => {
    expect((await verify([expected], [actual])).differences).toHaveLength(1);
  });

  it("says where the difference is", async () => {
    expect(await verify([user(says("a")), model(says("b"))], [user(says("a")), model(says("c"))])).toEqual({
      differences: ['message 2, block 1 is {"type":"text","text":"c"}, recorded was {"type":"text","text":"b"}'],
      offloaded: 0,
    });
    expect(await verify([user(says("a")), model(says("b"))], [user(says("a"))])).toEqual({
      differences: ["the log has 1 messages, the recording 2"],
      offloaded: 0,
    });
  });
});
