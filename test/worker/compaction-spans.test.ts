/** What a trace shows of a compaction, read from a real OTLP receiver over HTTP. */
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { compactingSession, MODEL, talk } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
}

interface Named {
  readonly name: string;
  readonly attributes: Readonly<Record<string, unknown>>;
}

interface Span extends Named {
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly kind: number;
  readonly events: readonly Named[];
}

let platform: TestPlatform;
let collector: Receiver;
const spans: Span[] = [];
const bodies: string[] = [];
const counted: {
  readonly name: string;
  readonly added: number;
  /** 1 is delta. */
  readonly temporality: number;
  readonly service: unknown;
  readonly attributes: Readonly<Record<string, unknown>>;
}[] = [];

const attributesOf = (list: readonly { readonly key: string; readonly value: Value }[] = []) =>
  Object.fromEntries(
    list.map(({ key, value }) => [
      key,
      value.stringValue ??
        value.boolValue ??
        value.doubleValue ??
        (value.intValue === undefined ? null : Number(value.intValue)),
    ]),
  );

const take = (body: string): void => {
  bodies.push(body);
  const { resourceSpans = [], resourceMetrics = [] } = JSON.parse(body);
  for (const { resource, scopeMetrics } of resourceMetrics)
    for (const { metrics } of scopeMetrics)
      for (const { name, sum } of metrics)
        for (const point of sum?.dataPoints ?? [])
          counted.push({
            name,
            added: point.asDouble ?? Number(point.asInt),
            temporality: sum.aggregationTemporality,
            service: attributesOf(resource.attributes)["service.name"],
            attributes: attributesOf(point.attributes),
          });
  for (const resource of resourceSpans)
    for (const scope of resource.scopeSpans)
      for (const span of scope.spans)
        spans.push({
          ...span,
          attributes: attributesOf(span.attributes),
          events: (span.events ?? []).map((event: { name: string; attributes: [] }) => ({
            name: event.name,
            attributes: attributesOf(event.attributes),
          })),
        });
};

beforeAll(async () => {
  collector = await startReceiver((_request, body, response) => {
    take(body);
    response.end("{}");
  });
  platform = await startTestPlatform({ variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
}, 120_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});
beforeEach(() => {
  platform.simulator.reset();
  spans.length = 0;
  counted.length = 0;
});

const named = (name: string) => spans.filter((span) => span.name === name);
const agentSpan = async (): Promise<Span> => {
  await vi.waitFor(() => expect(named("invoke_agent hango")).toHaveLength(1), { timeout: 10_000 });
  const [agent] = named("invoke_agent hango");
  if (agent === undefined) throw new Error("no span");
  return agent;
};

it("a compacted turn shows the event gen_ai.conversation.compacted with sizes, reason and path, and the summariser's call as its own chat span", async () => {
  const session = await compactingSession(platform, { windowTokens: 20_000 });
  await session.load(talk(30, 230));
  await session.untouched(() => session.scripted("And now?", "A private answer."));
  const agent = await agentSpan();
  const [generation] = await session.generations();
  expect(agent.events.filter(({ name }) => name === "gen_ai.conversation.compacted")).toEqual([
    {
      name: "gen_ai.conversation.compacted",
      attributes: {
        "hango.tokens.before": generation.tokens_before,
        "hango.tokens.after": generation.tokens_after,
        "hango.messages.evicted": generation.evicted,
        "hango.compaction.reason": "threshold",
        "hango.compaction.outcome": "committed",
        "hango.compaction.generation": 1,
        "hango.fs.path": `/conversation_history/${session.id}.md`,
      },
    },
  ]);
  const chats = named(`chat ${MODEL}`);
  const purposes = chats.map(({ attributes }) => attributes["hango.call.purpose"]);
  expect(purposes).toEqual([...Array.from({ length: session.summaries() }, () => "summarize"), "turn"]);
  expect(chats.map(({ kind, parentSpanId }) => [kind, parentSpanId])).toEqual(chats.map(() => [3, agent.spanId]));
  const turn = chats.at(-1);
  expect(turn?.attributes["gen_ai.conversation.compacted"]).toBe(true);
  expect(chats.slice(0, -1).map(({ attributes }) => attributes["gen_ai.conversation.compacted"])).toEqual(
    chats.slice(1).map(() => undefined),
  );
  const usage = await platform.database.sql(
    "select purpose, sum(input_tokens + cache_read_tokens + cache_write_tokens)::int as tokens from usage_records where session_id = $1 group by purpose order by purpose",
    [session.id],
  );
  const tokens = (purpose: string) =>
    chats
      .filter(({ attributes }) => attributes["hango.call.purpose"] === purpose)
      .reduce((sum, { attributes }) => sum + Number(attributes["gen_ai.usage.input_tokens"]), 0);
  expect(usage).toEqual(["summarize", "turn"].map((purpose) => ({ purpose, tokens: tokens(purpose) })));
});

it("hango.context.compactions grows by one with the reason of each compaction, and by none without", async () => {
  const small = await compactingSession(platform, { windowTokens: 20_000 });
  await small.untouched(() => small.scripted("Hello?", "A private answer."));
  await agentSpan();
  expect(counted).toEqual([]);
  for (const [reason, rounds] of [
    ["threshold", 30],
    ["overflow", 15],
  ] as const) {
    const session = await compactingSession(platform, { windowTokens: 20_000 });
    await session.load(talk(rounds, 230));
    if (reason === "overflow") {
      platform.simulator.enqueue({
        match: { purpose: "turn" },
        fault: { kind: "overflow", tokens: 21_000, limit: 20_000 },
      });
    }
    await session.untouched(() => session.scripted("And now?", "A private answer."));
    await vi.waitFor(() => expect(counted).toHaveLength(1), { timeout: 10_000 });
    expect(counted.splice(0)).toEqual([
      {
        name: "hango.context.compactions",
        added: 1,
        temporality: 1,
        service: "hango",
        attributes: { reason, outcome: "committed" },
      },
    ]);
  }
});

it("an overflow shows the event provider.context_overflow_retry", async () => {
  const session = await compactingSession(platform, { windowTokens: 20_000 });
  await session.load(talk(15, 230));
  platform.simulator.enqueue({
    match: { purpose: "turn" },
    fault: { kind: "overflow", tokens: 21_000, limit: 20_000 },
  });
  await session.untouched(() => session.scripted("And now?", "A private answer."));
  const { events } = await agentSpan();
  expect(events.map(({ name }) => name)).toEqual(["provider.context_overflow_retry", "gen_ai.conversation.compacted"]);
  expect(events[0]?.attributes).toMatchObject({ attempt: 1, stated_limit: 20_000 });
  expect(events[1]?.attributes).toMatchObject({ "hango.compaction.reason": "overflow" });
});

it("the summary's tokens never reach the caller's stream, which is told of the compaction", async () => {
  const session = await compactingSession(platform, { windowTokens: 20_000 });
  await session.load(talk(30, 230));
  platform.simulator.enqueue({
    match: { purpose: "summarize" },
    reply: { content: "SUMMARY-WORDS were written." },
    times: "always",
  });
  platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "An answer." } });
  const response = await fetch(`${platform.url}/v1/sessions/${session.id}/turns`, {
    method: "POST",
    headers: session.tenant.headers,
    body: JSON.stringify({ input: "And now?", stream: true }),
  });
  const text = await response.text();
  expect(text).not.toContain("SUMMARY-WORDS");
  const events = [...text.matchAll(/^event: (.*)$/gm)].map(([, name]) => name);
  expect(events.filter((name) => name?.startsWith("context.")).toSorted()).toEqual([
    "context.compacted",
    "context.compacting",
    "context.usage",
  ]);
});

it("holds no content: neither the summary nor what it is about is in a span or a log line", () => {
  const everything = bodies.join("\n") + platform.logs.join("\n");
  for (const secret of ["private", "Question q", "What was said", "SUMMARY-WORDS"])
    expect(everything.includes(secret), secret).toBe(false);
  expect(platform.logs.filter((line) => line.includes("the context was compacted"))).toHaveLength(5);
});
