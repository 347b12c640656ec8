/** The spans of a turn, read from a real OTLP receiver over HTTP. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Call, callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";

interface Span {
  readonly name: string;
  readonly kind: number;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly error: boolean;
}

interface OtlpValue {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly boolValue?: boolean;
  readonly arrayValue?: { readonly values: readonly OtlpValue[] };
}

let platform: TestPlatform;
let collector: Receiver;
let call: Call;
const spans: Span[] = [];
const bodies: string[] = [];

const readValue = (value: OtlpValue): unknown =>
  value.arrayValue === undefined
    ? (value.stringValue ?? value.boolValue ?? Number(value.intValue))
    : value.arrayValue.values.map(readValue);

const take = (body: string): void => {
  bodies.push(body);
  for (const resource of JSON.parse(body).resourceSpans) {
    for (const scope of resource.scopeSpans) {
      for (const span of scope.spans) {
        const attributes = span.attributes.map(({ key, value }: { key: string; value: OtlpValue }) => [
          key,
          readValue(value),
        ]);
        spans.push({ ...span, attributes: Object.fromEntries(attributes), error: span.status.code === 2 });
      }
    }
  }
};

beforeAll(async () => {
  collector = await startReceiver((_request, body, response) => {
    take(body);
    response.end("{}");
  });
  platform = await startTestPlatform({ variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
  call = callerOf(platform.url, await makeTenant(platform.database));
}, 120_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});

const named = (name: string): readonly Span[] => spans.filter((span) => span.name === name);
const only = (name: string): Span => {
  const [span, ...others] = named(name);
  if (span === undefined || others.length > 0)
    throw new Error(`${others.length + 1} spans ${name}; there are ${spans.map((each) => each.name).join(", ")}`);
  return span;
};

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
    await vi.waitFor(() => only("invoke_agent hango"), { timeout: 10_000 });

    const server = only("POST /v1/sessions/{id}/turns");
    const agent = only("invoke_agent hango");
    expect(agent.parentSpanId).toBe(server.spanId);
    expect(agent.attributes).toMatchObject({
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.conversation.id": session,
      "hango.run.id": body.id,
      "hango.turn.steps": 2,
    });
    const chats = named("chat claude-sonnet-5-5");
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
    const prompt = (chat: Span | undefined) => Number(chat?.attributes["gen_ai.usage.input_tokens"]);
    const { usage } = body;
    expect(prompt(chats[0]) + prompt(chats[1])).toBe(
      usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
    );
    const tool = only("execute_tool write_file");
    expect(tool).toMatchObject({
      kind: 1,
      parentSpanId: agent.spanId,
      attributes: { "gen_ai.tool.name": "write_file", "gen_ai.tool.call.id": "toolu_1" },
    });
    expect(named("r2 put").map((span) => span.parentSpanId)).toContain(tool.spanId);
    expect(only("postgres begin").parentSpanId).toBe(server.spanId);
    for (const name of ["postgres store assistant", "postgres store results", "postgres finish"])
      expect(only(name).parentSpanId).toBe(agent.spanId);
  });

  it("say that it failed, and how, when it did", async () => {
    spans.length = 0;
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    platform.simulator.enqueue({ fault: { kind: "status", status: 400, message: "private reason" } });
    await call("POST", `/v1/sessions/${session}/turns`, { input: "go" });
    await vi.waitFor(() => only("invoke_agent hango"), { timeout: 10_000 });
    expect(only("invoke_agent hango")).toMatchObject({
      error: true,
      attributes: { "error.type": "provider_rejected" },
    });
    expect(only("chat claude-sonnet-5-5")).toMatchObject({ error: true, attributes: { "error.type": "ModelError" } });
  });

  it("(S6) have a name of few, whatever name the model calls a tool by", async () => {
    spans.length = 0;
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    const called = { type: "tool_use" as const, id: "toolu_2", name: "made_up_by_the_model", input: {} };
    platform.simulator.enqueue({ reply: { content: [called] } });
    platform.simulator.enqueue({ reply: { content: "There is no such tool." } });
    await call("POST", `/v1/sessions/${session}/turns`, { input: "go" });
    await vi.waitFor(() => only("invoke_agent hango"), { timeout: 10_000 });
    expect(only("execute_tool (unknown)").attributes).toMatchObject({ "gen_ai.tool.name": "made_up_by_the_model" });
  });

  it("of a subagent hang below the call that it works for", async () => {
    spans.length = 0;
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    await call("POST", `/v1/sessions/${session}/turns`, { input: "delegate: list /" });
    await vi.waitFor(() => only("invoke_agent hango"), { timeout: 10_000 });
    const agent = only("invoke_agent subagent");
    expect(agent.parentSpanId).toBe(only("execute_tool task").spanId);
    expect(agent.attributes["gen_ai.agent.name"]).toBe("general-purpose");
    expect(only("execute_tool ls").parentSpanId).toBe(agent.spanId);
    const purposes = named("chat claude-sonnet-5-5").map((chat) => [
      chat.parentSpanId === agent.spanId,
      chat.attributes["hango.call.purpose"],
    ]);
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
