/** What a trace shows of a compaction, read from a real OTLP receiver over HTTP. */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { type Collector, startCollector } from "../support/collector.ts";
import { compactingSession, MODEL, talk } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";

let platform: TestPlatform;
let collector: Collector;
const bodies: string[] = [];

beforeAll(async () => {
  collector = await startCollector();
  platform = await startTestPlatform({ variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
}, 120_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});
beforeEach(() => {
  platform.simulator.reset();
  bodies.push(...collector.posts.map(({ body }) => body));
  collector.clear();
});

const agentSpan = () => collector.arrived("invoke_agent hango");

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
  const chats = collector.named(`chat ${MODEL}`);
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
  expect(platform.logs.filter((line) => line.includes("the context was compacted"))).toHaveLength(3);
});
