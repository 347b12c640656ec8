/** The spans of a turn, read from a real OTLP receiver over HTTP. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type CollectedSpan, type Collector, startCollector } from "../support/collector.ts";
import { type Call, callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";

let platform: TestPlatform;
let collector: Collector;
let call: Call;
const bodies: string[] = [];

beforeAll(async () => {
  collector = await startCollector();
  platform = await startTestPlatform({ variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
  call = callerOf(platform.url, await makeTenant(platform.database));
}, 120_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});
afterEach(() => {
  bodies.push(...collector.posts.map(({ body }) => body));
  collector.clear();
});

describe("the spans of a turn", () => {
  it("are the request, the agent, its model calls and tools, with the database and the bucket below", async () => {
    const session = (await call("POST", "/v1/sessions", { key: "traced key" })).body.id;
    platform.simulator.enqueue({
      reply: {
        content: [
          {
            type: "tool_use",
            id: "toolu_1",
            name: "write_file",
            input: { file_path: "/private.md", content: "private words" },
          },
        ],
      },
    });
    platform.simulator.enqueue({ reply: { content: "A private answer." } });
    const { body } = await call("POST", "/v1/sessions/key:traced%20key/turns", { input: "a private question" });
    await collector.arrived("invoke_agent hango");

    const server = collector.only("POST /v1/sessions/{id}/turns");
    const agent = collector.only("invoke_agent hango");
    expect(agent.parentSpanId).toBe(server.spanId);
    expect(agent.attributes).toMatchObject({
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.conversation.id": session,
      "hango.run.id": body.id,
      "hango.turn.steps": 2,
    });
    const chats = collector.named("chat claude-sonnet-5-5");
    expect(chats.map((chat) => [chat.kind, chat.parentSpanId])).toEqual([
      [3, agent.spanId],
      [3, agent.spanId],
    ]);
    expect(chats[1]?.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "anthropic",
      "gen_ai.request.model": "claude-sonnet-5-5",
      "gen_ai.response.finish_reasons": ["end_turn"],
      "hango.call.purpose": "turn",
    });
    const prompt = (chat: CollectedSpan | undefined) => Number(chat?.attributes["gen_ai.usage.input_tokens"]);
    const { usage } = body;
    expect(prompt(chats[0]) + prompt(chats[1])).toBe(
      usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
    );
    const tool = collector.only("execute_tool write_file");
    expect(tool).toMatchObject({
      kind: 1,
      parentSpanId: agent.spanId,
      attributes: {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "write_file",
        "gen_ai.tool.call.id": "toolu_1",
        "gen_ai.tool.type": "function",
      },
    });
    expect(collector.named("r2 put").map((span) => span.parentSpanId)).toContain(tool.spanId);
    expect(collector.only("postgres begin").parentSpanId).toBe(server.spanId);
    for (const name of ["postgres store assistant", "postgres store results", "postgres finish"])
      expect(collector.only(name).parentSpanId).toBe(agent.spanId);
  });

  it("say that it failed, and how, when it did", async () => {
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    platform.simulator.enqueue({ fault: { kind: "status", status: 400, message: "private reason" } });
    await call("POST", `/v1/sessions/${session}/turns`, { input: "go" });
    await collector.arrived("invoke_agent hango");
    expect(collector.only("invoke_agent hango")).toMatchObject({
      error: true,
      attributes: { "error.type": "provider_rejected" },
    });
    expect(collector.only("chat claude-sonnet-5-5")).toMatchObject({
      error: true,
      attributes: { "error.type": "invalid_request" },
    });
  });

  it("(S6) have a name of few, whatever name the model calls a tool by", async () => {
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    const called = { type: "tool_use" as const, id: "toolu_2", name: "made_up_by_the_model", input: {} };
    platform.simulator.enqueue({ reply: { content: [called] } });
    platform.simulator.enqueue({ reply: { content: "There is no such tool." } });
    await call("POST", `/v1/sessions/${session}/turns`, { input: "go" });
    await collector.arrived("invoke_agent hango");
    expect(collector.only("execute_tool (unknown)").attributes).toMatchObject({
      "gen_ai.tool.name": "made_up_by_the_model",
    });
  });

  it("of a subagent hang below the call that it works for", async () => {
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    await call("POST", `/v1/sessions/${session}/turns`, { input: "delegate: list /" });
    await collector.arrived("invoke_agent hango");
    const agent = collector.only("invoke_agent subagent");
    expect(agent.parentSpanId).toBe(collector.only("execute_tool task").spanId);
    expect(agent.attributes["gen_ai.agent.name"]).toBe("general-purpose");
    expect(collector.only("execute_tool ls").parentSpanId).toBe(agent.spanId);
    const purposes = collector
      .named("chat claude-sonnet-5-5")
      .map((chat) => [chat.parentSpanId === agent.spanId, chat.attributes["hango.call.purpose"]]);
    expect(purposes).toEqual([
      [false, "turn"],
      [true, "subagent"],
      [true, "subagent"],
      [false, "turn"],
    ]);
  });

  it("hold no content: no prompt, no answer, no file, no key, no address", () => {
    const everything = bodies.join("\n") + platform.logs.join("\n");
    for (const secret of ["private", "traced key", "traced%20key", "hango_", "postgresql://"])
      expect(everything.includes(secret), secret).toBe(false);
  });
});
