/** With `HANGO_CAPTURE_CONTENT`, spans tell what was said, in the conventions' names; never a secret (S6), and never the logs or the metrics. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Collector, startCollector } from "../support/collector.ts";
import { callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { leaked, PLANTED } from "../support/secrets.ts";

let platform: TestPlatform;
let collector: Collector;

beforeAll(async () => {
  collector = await startCollector();
  platform = await startTestPlatform({
    variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, HANGO_CAPTURE_CONTENT: "true", HANGO_LOG_LEVEL: "debug" },
  });
}, 120_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});

it("prompt, answer, arguments and results are on the chat and execute_tool spans, with their secrets taken out", async () => {
  const call = callerOf(platform.url, await makeTenant(platform.database));
  const { body } = await call("POST", "/v1/sessions", { system: "SYSTEM-WORDS" });
  const secret = PLANTED[0]?.text ?? "";
  const input = { file_path: "/a.md", content: `ARGUMENT-WORDS ${secret}` };
  platform.simulator.enqueue({ reply: { content: [{ type: "tool_use", id: "toolu_1", name: "write_file", input }] } });
  platform.simulator.enqueue({ reply: { content: "ANSWER-WORDS" } });
  await call("POST", `/v1/sessions/${body.id}/turns`, { input: `INPUT-WORDS ${secret}` });
  await collector.arrived("invoke_agent hango");
  const [first, last] = collector.named("chat claude-sonnet-5-5").map(({ attributes }) => attributes);
  expect(first?.["gen_ai.system_instructions"]).toContain("SYSTEM-WORDS");
  expect(first?.["gen_ai.input.messages"]).toContain("INPUT-WORDS");
  expect(first?.["gen_ai.output.messages"]).toContain("ARGUMENT-WORDS");
  expect(last?.["gen_ai.output.messages"]).toContain("ANSWER-WORDS");
  const tool = collector.only("execute_tool write_file").attributes;
  expect(tool["gen_ai.tool.call.arguments"]).toContain("ARGUMENT-WORDS");
  expect(tool["gen_ai.tool.call.result"]).toContain("/a.md");
  const traces = collector.posts.filter(({ path }) => path === "/v1/traces").map((post) => post.body);
  const others = collector.posts.filter(({ path }) => path !== "/v1/traces").map((post) => post.body);
  expect(leaked(traces.join("\n"))).toEqual([]);
  for (const words of ["SYSTEM-WORDS", "INPUT-WORDS", "ARGUMENT-WORDS", "ANSWER-WORDS"])
    expect([words, [...others, ...platform.logs].some((text) => text.includes(words))]).toEqual([words, false]);
});
