/**
 * A test for each row of the table of telemetry.md, through the built Worker, read from a real OTLP receiver over HTTP: names, units, attributes,
 * and whose child a span is.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { instruments, type MetricName } from "../../src/telemetry/instruments.ts";
import { type CollectedPoint, type Collector, startCollector } from "../support/collector.ts";
import { type CompactingSession, compactingSession, MODEL, prose, talk } from "../support/compaction.ts";
import { callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";

const WINDOW = 20_000;
const OVER_TRIGGER = talk(24, 230);

let platform: TestPlatform;
let collector: Collector;

beforeAll(async () => {
  collector = await startCollector();
  platform = await startTestPlatform({
    variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, HANGO_PROVIDER_MAX_RETRIES: "0" },
  });
}, 120_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});
beforeEach(() => {
  platform.simulator.reset();
  collector.clear();
});
/** What each request told of itself has arrived before the next test begins: spans and metrics once for each. */
const asked = vi.spyOn(globalThis, "fetch");
afterEach(async () => {
  const requests = asked.mock.calls.filter(([url]) => String(url).startsWith(platform.url)).length;
  for (const path of ["/v1/traces", "/v1/metrics"])
    await vi.waitFor(() => expect(collector.received(path)).toBeGreaterThanOrEqual(requests), { timeout: 10_000 });
});

const session = (): Promise<CompactingSession> => compactingSession(platform, { windowTokens: WINDOW });

const overTrigger = async (): Promise<CompactingSession> => {
  const made = await session();
  await made.load(OVER_TRIGGER);
  collector.clear();
  return made;
};

/** Points of a metric once there are so many of them. */
const points = (name: MetricName, count = 1): Promise<readonly CollectedPoint[]> =>
  vi.waitFor(
    () => {
      const found = collector.metric(name);
      expect(found.length, `${name}; there are ${collector.points.map((each) => each.name).join(", ")}`).toBe(count);
      return found;
    },
    { timeout: 10_000 },
  );

const only = async (name: MetricName): Promise<CollectedPoint> => {
  const [point] = await points(name);
  if (point === undefined) throw new Error("counted above");
  return point;
};

/** Every metric of this test: as it is declared, a delta, of this service and one instance, with no attribute but those that are documented. */
const expectDeclared = (): void => {
  expect(collector.points.length).toBeGreaterThan(0);
  for (const point of collector.points) {
    const declared = instruments[point.name as MetricName];
    expect(declared, point.name).toBeDefined();
    expect([point.name, point.kind, point.unit, point.description, point.temporality]).toEqual([
      point.name,
      declared.kind === "counter" ? "sum" : "histogram",
      declared.unit,
      declared.description,
      1,
    ]);
    if (declared.kind === "counter") expect(point.isMonotonic).toBe(true);
    else expect(point.bounds).toEqual(declared.buckets);
    for (const name of Object.keys(point.attributes)) expect(declared.attributes, point.name).toContain(name);
    expect(point.resource["service.name"]).toBe("hango");
    expect(point.resource["service.instance.id"]).toMatch(/^[0-9a-f-]{36}$/);
  }
  expect(new Set(collector.points.map(({ resource }) => resource["service.instance.id"])).size).toBe(1);
};

describe("a turn with a tool", () => {
  let run: CompactingSession;

  beforeEach(async () => {
    run = await session();
    collector.clear();
    const write = {
      type: "tool_use" as const,
      id: "toolu_1",
      name: "write_file",
      input: { file_path: "/a", content: "b" },
    };
    await run.scripted("Write it.", [write], "Done.");
    await collector.arrived("invoke_agent hango");
    await points("hango.turn.duration");
  });

  it("hango.context.input_tokens: each prompt as the provider counted it, by model", async () => {
    const { value, count, attributes } = await only("hango.context.input_tokens");
    const prompts = collector
      .named(`chat ${MODEL}`)
      .map((chat) => Number(chat.attributes["gen_ai.usage.input_tokens"]));
    expect([count, value, attributes]).toEqual([
      2,
      prompts.reduce((sum, tokens) => sum + tokens, 0),
      { "gen_ai.request.model": MODEL },
    ]);
    expectDeclared();
  });

  it("gen_ai.client.token.usage: input and output of each call, by model and purpose", async () => {
    const usage = await points("gen_ai.client.token.usage", 2);
    const chats = collector.named(`chat ${MODEL}`);
    const sum = (name: string) => chats.reduce((total, { attributes }) => total + Number(attributes[name]), 0);
    const common = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "anthropic",
      "gen_ai.request.model": MODEL,
      "hango.call.purpose": "turn",
    };
    expect(usage.map(({ value, count, attributes }) => [attributes["gen_ai.token.type"], value, count])).toEqual([
      ["input", sum("gen_ai.usage.input_tokens"), 2],
      ["output", sum("gen_ai.usage.output_tokens"), 2],
    ]);
    for (const { attributes } of usage) expect(attributes).toMatchObject(common);
    const duration = await only("gen_ai.client.operation.duration");
    expect([duration.count, duration.attributes]).toEqual([2, common]);
  });

  it("hango.cache.read_ratio: what of each prompt came from the provider's cache, by model", async () => {
    const { value, count, attributes } = await only("hango.cache.read_ratio");
    const chats = collector.named(`chat ${MODEL}`).map((chat) => chat.attributes);
    const ratios = chats.map(
      (of) => Number(of["gen_ai.usage.cache_read.input_tokens"]) / Number(of["gen_ai.usage.input_tokens"]),
    );
    expect([count, attributes]).toEqual([2, { "gen_ai.request.model": MODEL }]);
    expect(value).toBeCloseTo(ratios.reduce((sum, ratio) => sum + ratio, 0));
    // The second call reads what the first one wrote.
    expect(ratios[1]).toBeGreaterThan(0.5);
  });

  it("hango.turn.duration, hango.turn.overhead, hango.db.round_trips: once a turn, the figures of the run as the API shows them", async () => {
    const duration = await only("hango.turn.duration");
    expect([duration.count, duration.attributes]).toEqual([
      1,
      { "hango.run.status": "completed", "hango.run.trigger": "api" },
    ]);
    const overhead = await only("hango.turn.overhead");
    const roundTrips = await only("hango.db.round_trips");
    const id = collector.only("invoke_agent hango").attributes["hango.run.id"];
    const { body } = await run.call("GET", `/v1/runs/${id}`);
    expect([overhead.count, overhead.value, overhead.attributes]).toEqual([1, body.overhead_ms / 1_000, {}]);
    expect([roundTrips.value, roundTrips.attributes]).toEqual([body.db_round_trips, {}]);
    expect(duration.value).toBeGreaterThanOrEqual(overhead.value);
  });

  it("hango.usage.cost is what the run cost, and http.server.request.duration names the route", async () => {
    const id = collector.only("invoke_agent hango").attributes["hango.run.id"];
    const { body } = await run.call("GET", `/v1/runs/${id}`);
    const cost = await only("hango.usage.cost");
    expect(cost.value).toBeCloseTo(body.usage.cost_usd ?? body.cost_usd, 9);
    expect(cost.attributes).toEqual({ "gen_ai.request.model": MODEL, "hango.call.purpose": "turn" });
    const request = collector
      .metric("http.server.request.duration")
      .find(({ attributes }) => attributes["http.route"] === "/v1/sessions/{id}/turns");
    expect(request?.attributes).toEqual({
      "http.request.method": "POST",
      "http.route": "/v1/sessions/{id}/turns",
      "http.response.status_code": 200,
    });
  });

  it("is sent once: one request with its spans and one with its metrics", () => {
    // What earlier tests have asked for may arrive late.
    const ofTheTurn = collector.posts.filter(({ body }) => /"(invoke_agent hango|hango\.turn\.duration)"/.test(body));
    expect(ofTheTurn.map(({ path, contentType }) => [path, contentType]).toSorted()).toEqual([
      ["/v1/metrics", "application/json"],
      ["/v1/traces", "application/json"],
    ]);
    const [metrics, traces] = ofTheTurn.toSorted((a, b) => a.path.localeCompare(b.path));
    expect(traces?.body).toContain(`"chat ${MODEL}"`);
    for (const name of ["hango.context.input_tokens", "gen_ai.client.token.usage", "hango.usage.cost"])
      expect(metrics?.body).toContain(`"${name}"`);
  });
});

describe("a compacted turn", () => {
  it("the event gen_ai.conversation.compacted on the turn's span, the attribute on the chat span after it, and the summariser's own chat span", async () => {
    const compacted = await overTrigger();
    await compacted.scripted("And now?", "An answer.");
    const agent = await collector.arrived("invoke_agent hango");
    expect(agent.parentSpanId).toBe(collector.only("POST /v1/sessions/{id}/turns").spanId);
    const [generation] = await compacted.generations();
    expect(agent.events).toEqual([
      {
        name: "gen_ai.conversation.compacted",
        attributes: {
          "hango.tokens.before": generation.tokens_before,
          "hango.tokens.after": generation.tokens_after,
          "hango.messages.evicted": generation.evicted,
          "hango.compaction.reason": "threshold",
          "hango.compaction.outcome": "committed",
          "hango.compaction.generation": 1,
          "hango.fs.path": `/conversation_history/${compacted.id}.md`,
        },
      },
    ]);
    const chats = collector.named(`chat ${MODEL}`);
    const told = chats.map(({ kind, parentSpanId, attributes }) => [
      kind,
      parentSpanId,
      attributes["hango.call.purpose"],
      attributes["gen_ai.conversation.compacted"],
    ]);
    expect(told.length).toBeGreaterThan(1);
    expect(told).toEqual([
      ...told.slice(1).map(() => [3, agent.spanId, "summarize", undefined]),
      [3, agent.spanId, "turn", true],
    ]);
  });

  it("hango.context.evicted_messages and the summariser's tokens and cost, by their purpose", async () => {
    const compacted = await overTrigger();
    await compacted.scripted("And now?", "An answer.");
    const evicted = await only("hango.context.evicted_messages");
    const [generation] = await compacted.generations();
    expect([evicted.count, evicted.value, evicted.attributes]).toEqual([1, generation.evicted, {}]);
    const byPurpose = (name: MetricName) =>
      collector
        .metric(name)
        .map(({ attributes }) => attributes["hango.call.purpose"])
        .toSorted();
    expect(byPurpose("hango.usage.cost")).toEqual(["summarize", "turn"]);
    expect(byPurpose("gen_ai.client.token.usage")).toEqual(["summarize", "summarize", "turn", "turn"]);
    // The summariser's prompt is no session's context.
    expect((await only("hango.context.input_tokens")).count).toBe(1);
    expectDeclared();
  });

  it("writes one line of fixed shape for the attempt, with the ids of its trace", async () => {
    const compacted = await overTrigger();
    await compacted.scripted("And now?", "An answer.");
    const agent = await collector.arrived("invoke_agent hango");
    const lines = platform.logs
      .filter((line) => line.includes("a compaction attempt") && line.includes(compacted.id))
      .map((line) => JSON.parse(line.slice(line.indexOf("{"))));
    const [generation] = await compacted.generations();
    expect(lines).toMatchObject([
      {
        level: "info",
        source: "threshold",
        commit: "committed",
        why: null,
        failure: null,
        generation: 1,
        model: MODEL,
        summarizer_model: MODEL,
        window_tokens: WINDOW,
        covered_messages: generation.evicted,
        estimate_tokens: generation.tokens_before,
        after_tokens: generation.tokens_after,
        summary_calls: compacted.summaries(),
        trace_id: agent.traceId,
        span_id: agent.spanId,
      },
    ]);
    const [line] = lines;
    expect(line.covered_tokens + line.kept_tokens).toBeLessThanOrEqual(line.estimate_tokens);
    expect(line.summary_tokens).toBeGreaterThan(0);
    expect(line.duration_ms).toBeGreaterThanOrEqual(line.summary_ms);
    expect(line.occupancy).toBeCloseTo(line.after_tokens / line.trigger_tokens, 2);
  });
});

/** Compactions that were counted, as reason and outcome, with how many. */
const counted = async (): Promise<readonly (readonly [unknown, unknown, number])[]> => {
  await vi.waitFor(() => expect(collector.metric("hango.context.compactions").length).toBeGreaterThan(0), {
    timeout: 10_000,
  });
  return collector
    .metric("hango.context.compactions")
    .map(({ attributes, value }) => [attributes["reason"], attributes["outcome"], value]);
};

describe("hango.context.compactions, by reason and outcome", () => {
  it("counts none without a compaction", async () => {
    const small = await session();
    await small.scripted("Hello?", "An answer.");
    await points("hango.turn.duration");
    expect(collector.metric("hango.context.compactions")).toEqual([]);
  });

  it("threshold", async () => {
    const compacted = await overTrigger();
    await compacted.scripted("And now?", "An answer.");
    expect(await counted()).toEqual([["threshold", "committed", 1]]);
    expectDeclared();
  });

  it("overflow, then truncate; and each shows the event provider.context_overflow_retry", async () => {
    const made = await session();
    await made.load(talk(15, 230));
    collector.clear();
    const fault = { kind: "overflow" as const, tokens: 21_000, limit: 20_000 };
    platform.simulator.enqueue({ match: { purpose: "turn" }, fault });
    platform.simulator.enqueue({ match: { purpose: "turn" }, fault: { ...fault, tokens: 20_500 } });
    await made.scripted("And now?", "An answer.");
    const { events } = await collector.arrived("invoke_agent hango");
    expect(events.map(({ name, attributes }) => [name, attributes["attempt"], attributes["stated_limit"]])).toEqual([
      ["provider.context_overflow_retry", 1, 20_000],
      ["gen_ai.conversation.compacted", undefined, undefined],
      ["provider.context_overflow_retry", 2, 20_000],
      ["gen_ai.conversation.compacted", undefined, undefined],
    ]);
    expect(await counted()).toEqual([
      ["overflow", "committed", 1],
      ["truncate", "committed", 1],
    ]);
    const failed = collector
      .metric("gen_ai.client.operation.duration")
      .map(({ attributes, count }) => [attributes["hango.call.purpose"], attributes["error.type"], count]);
    expect(failed).toContainEqual(["turn", "context_overflow", 2]);
  });

  it("manual, asked for over the API, on a span of its own", async () => {
    const made = await overTrigger();
    expect((await made.call("POST", `/v1/sessions/${made.id}/compact`, {})).status).toBe(200);
    expect(await counted()).toEqual([["manual", "committed", 1]]);
    const span = await collector.arrived("compact");
    expect(span.events.map(({ name }) => name)).toEqual(["gen_ai.conversation.compacted"]);
    expect(span.attributes["gen_ai.conversation.id"]).toBe(made.id);
  });

  it("tool, asked for by the model", async () => {
    const made = await session();
    await made.load(talk(10, 230));
    collector.clear();
    await made.scripted(
      "Compact.",
      [{ type: "tool_use", id: "toolu_2", name: "compact_conversation", input: {} }],
      "Done.",
    );
    expect(await counted()).toEqual([["tool", "committed", 1]]);
  });

  it("micro, between turns, in the trace of the turn that it follows", async () => {
    const made = await compactingSession(platform, {
      windowTokens: WINDOW,
      context: { micro_compaction: {} },
      fields: { system: "You are a careful agent.", max_tokens: 4_000 },
    });
    const settled = (passes: number) =>
      vi.waitFor(() => expect(collector.named("process hango-work")).toHaveLength(passes), { timeout: 10_000 });
    await made.scripted("Question 1", prose(1_500, 1));
    await settled(1);
    expect(await counted()).toEqual([["micro", "nothing", 1]]);
    collector.clear();
    await made.scripted("Question 2", prose(1_500, 2));
    await settled(1);
    expect(await counted()).toEqual([["micro", "committed", 1]]);
    const pass = collector.only("process hango-work");
    expect(pass.traceId).toBe(collector.only("invoke_agent hango").traceId);
    expect(pass.attributes["hango.queue.message.type"]).toBe("micro_compact");
    expect(collector.spans.find(({ parentSpanId }) => parentSpanId === pass.spanId)).toBeDefined();
  });

  it("refused by a guard, which is counted in hango.guard.blocked; the failure before it as refused", async () => {
    const made = await overTrigger();
    platform.simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: " \n " } });
    await made.scripted("One.", "First.");
    expect(await counted()).toEqual([["threshold", "refused", 1]]);
    expect(collector.metric("hango.guard.blocked")).toEqual([]);
    collector.clear();
    await made.scripted("Two.", "Second.");
    const blocked = await only("hango.guard.blocked");
    expect([blocked.value, blocked.attributes]).toEqual([1, { guard: "cooldown" }]);
    expectDeclared();
  });

  it("aborted, where the summariser cannot be had and the view does not fit; the turn's metric names the error", async () => {
    const made = await session();
    await made.load(talk(30, 230));
    collector.clear();
    platform.simulator.enqueue({
      match: { purpose: "summarize" },
      fault: { kind: "status", status: 401 },
      times: "always",
    });
    const { body } = await made.turn("And now?");
    expect(body.error.code).toBe("provider_rejected");
    expect(await counted()).toEqual([["threshold", "aborted", 1]]);
    const duration = await only("hango.turn.duration");
    expect(duration.attributes).toEqual({
      "hango.run.status": "failed",
      "hango.run.trigger": "api",
      "error.type": body.error.code,
    });
  });
});

it("hango.context.tool_args_truncated: calls whose text begins to be shown without its middle, by hango's own tools and others", async () => {
  const made = await session();
  const long = prose(900, 3);
  const rounds = [0, 1].flatMap((round) => [
    { role: "user" as const, content: `Step ${round}` },
    {
      role: "assistant" as const,
      content: [
        {
          type: "tool_use",
          id: `toolu_r${round}`,
          name: round === 0 ? "read_file" : "my_tool",
          input: { file_path: `/${round}` },
        },
      ],
    },
    {
      role: "user" as const,
      content: [{ type: "tool_result", tool_use_id: `toolu_r${round}`, content: `${long} ${long} ${long}` }],
    },
    { role: "assistant" as const, content: "Done." },
  ]);
  await made.load([...rounds, ...talk(24, 170)]);
  collector.clear();
  await made.scripted("And now?", "An answer.");
  const truncated = await points("hango.context.tool_args_truncated", 2);
  expect(truncated.map(({ value, attributes }) => [attributes["gen_ai.tool.name"], value]).toSorted()).toEqual([
    ["(other)", 1],
    ["read_file", 1],
  ]);
  expectDeclared();
});

describe("work of the queue and of the clock", () => {
  it("a queued turn is in the trace of the request that asked for it; its metrics are sent with the batch", async () => {
    const tenant = await makeTenant(platform.database);
    const call = callerOf(platform.url, tenant);
    const made = await call("POST", "/v1/sessions", {});
    collector.clear();
    const { status, body } = await call("POST", `/v1/sessions/${made.body.id}/turns`, {
      input: "Hello",
      background: true,
    });
    expect([status, body.error]).toEqual([202, null]);
    const agent = await collector.arrived("invoke_agent hango");
    const server = await collector.arrived("POST /v1/sessions/{id}/turns");
    const consumer = collector.only("process hango-work");
    expect([consumer.kind, consumer.traceId, consumer.parentSpanId]).toEqual([5, server.traceId, server.spanId]);
    expect([agent.traceId, agent.parentSpanId]).toEqual([server.traceId, consumer.spanId]);
    expect(consumer.attributes["hango.queue.message.type"]).toBe("run_turn");
    const duration = await only("hango.turn.duration");
    expect(duration.attributes).toEqual({ "hango.run.status": "completed", "hango.run.trigger": "api" });
  });

  it("hango.queue.dead_letters: what was given up, by type", async () => {
    const door = await platform.host.miniflare.getWorker();
    const body = { v: 1, type: "erase_objects", tenantId: "tnt_x", sessionId: "ses_x" };
    await door.queue("hango-dead", [{ id: "1", timestamp: new Date(0), body, attempts: 6 }]);
    const point = await only("hango.queue.dead_letters");
    expect([point.value, point.attributes]).toEqual([1, { "hango.queue.message.type": "erase_objects" }]);
    expectDeclared();
  });

  it("hango.runs.stranded: what the sweeper sends for again", async () => {
    const tenant = await makeTenant(platform.database);
    const call = callerOf(platform.url, tenant);
    const made = await call("POST", "/v1/sessions", {});
    await call("POST", `/v1/sessions/${made.body.id}/turns`, { input: "Hello" });
    // As its Worker would have left it that died at the start.
    await platform.database.sql("update runs set status = 'queued', finished_at = null where session_id = $1", [
      made.body.id,
    ]);
    collector.clear();
    await platform.host.tick();
    const point = await only("hango.runs.stranded");
    expect([point.value, point.attributes]).toEqual([1, {}]);
    expectDeclared();
  });
});
