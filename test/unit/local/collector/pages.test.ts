import { createHash } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { createMetricStore, type MetricStore } from "../../../../src/local/collector/metric-store.ts";
import { type AnswerPage, createPages } from "../../../../src/local/collector/pages.ts";
import { createSpanStore, type SpanStore } from "../../../../src/local/collector/span-store.ts";
import { idOf, span, TRACE } from "./spans.ts";

const HOST = "127.0.0.1:8787";
const START = Date.UTC(2026, 11, 1, 9, 15, 26);

let spans: SpanStore;
let metrics: MetricStore;
let answer: AnswerPage;

beforeEach(() => {
  spans = createSpanStore({ maxTraces: 1_000, maxSpans: 10_000, maxBytes: 10_000_000 });
  metrics = createMetricStore(100);
  answer = createPages({ spans, metrics, timeZone: "Asia/Tokyo" });
});

const get = (path: string, host: string | undefined = HOST, method = "GET") =>
  answer({ method, url: new URL(path, `http://${HOST}`), host });
const read = async (path: string): Promise<string> => (await get(path)).body;
const json = async (path: string): Promise<unknown> => JSON.parse(await read(path));

/** The text of a part of a page on one line, as it is read. */
const words = (page: string): string =>
  page
    .replaceAll(/<style>[\s\S]*?<\/style>/g, "")
    .replaceAll(/<[^>]*>/g, " ")
    .replaceAll(/\s+/g, " ")
    .trim();

const compacted = {
  name: "gen_ai.conversation.compacted",
  atMs: START + 50,
  attributes: {
    "hango.tokens.before": 24_421,
    "hango.tokens.after": 9_453,
    "hango.messages.evicted": 52,
    "hango.compaction.reason": "threshold",
    "hango.compaction.outcome": "committed",
    "hango.compaction.generation": 1,
    "hango.fs.path": "/conversation_history/ses_1.md",
  },
};

const chat = { "gen_ai.operation.name": "chat" };

const addTurn = (): void =>
  spans.add([
    span(1, {
      name: "POST /v1/sessions/{id}/turns",
      kind: "server",
      startMs: START,
      endMs: START + 100,
      attributes: { "http.response.status_code": 200 },
    }),
    span(2, {
      name: "invoke_agent hango",
      parentSpanId: idOf(1),
      startMs: START + 10,
      endMs: START + 100,
      attributes: { "gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "ses_1" },
      events: [compacted],
    }),
    span(3, {
      name: "chat small",
      kind: "client",
      parentSpanId: idOf(2),
      startMs: START + 20,
      endMs: START + 50,
      attributes: { ...chat, "hango.call.purpose": "summarize" },
    }),
    span(4, {
      name: "chat large",
      kind: "client",
      parentSpanId: idOf(2),
      startMs: START + 60,
      endMs: START + 90,
      attributes: { ...chat, "hango.call.purpose": "turn", "gen_ai.conversation.compacted": true },
      isError: true,
      statusMessage: "the provider is overloaded",
    }),
  ]);

describe("the list of traces", () => {
  const HINT = "No turn was traced yet";

  test("says where there is nothing yet what to do", async () => {
    const page = await read("/_local/traces");
    expect(words(page)).toContain(HINT);
    expect(page).toContain("curl -N http://127.0.0.1:8787/v1/sessions/key:demo/turns");
    expect(page).toContain("Authorization: Bearer $HANGO_KEY");
    expect(page).not.toContain('class="filters"');
  });

  test("says so too beside the traces of other requests, until a turn is among them", async () => {
    spans.add([span(9, { traceId: "f".repeat(32), name: "POST /v1/keys" })]);
    const before = words(await read("/_local/traces"));
    expect([before.includes(HINT), before.includes("POST /v1/keys")]).toEqual([true, true]);
    addTurn();
    expect(words(await read("/_local/traces"))).not.toContain(HINT);
  });

  test("shows a compacted turn in one line: when, what, how large before and after, how many, how long", async () => {
    addTurn();
    const line = /<ol class="traces">([\s\S]*?)<\/ol>/.exec(await read("/_local/traces"))?.[1] ?? "";
    expect(words(line)).toBe(
      "2026-12-01 18:15:26 POST /v1/sessions/{id}/turns 200 1 error compacted 24,421 → 9,453 tokens ses_1 · 1 model call, 1 call of the summariser 4 spans 100 ms",
    );
    expect(line).toContain(`href="/_local/traces/${TRACE}"`);
  });

  test("is for turns, compactions or errors alone where that is asked for, and for all where it is nonsense", async () => {
    addTurn();
    spans.add([span(9, { traceId: "f".repeat(32), name: "scheduled", startMs: START + 500, endMs: START + 501 })]);
    const named = async (query: string) =>
      [...(await read(`/_local/traces${query}`)).matchAll(/class="name">([^<]*)</g)].map(([, name]) => name);
    expect(await named("")).toEqual(["scheduled", "POST /v1/sessions/{id}/turns"]);
    expect(await named("?show=all-of-them")).toEqual(["scheduled", "POST /v1/sessions/{id}/turns"]);
    for (const show of ["turns", "compacted", "errors"])
      expect(await named(`?show=${show}`), show).toEqual(["POST /v1/sessions/{id}/turns"]);
  });

  test("is as data what it is as a page", async () => {
    addTurn();
    expect(await json("/_local/traces.json")).toEqual({
      traces: [
        {
          trace_id: TRACE,
          name: "POST /v1/sessions/{id}/turns",
          started_at: "2026-12-01T09:15:26.000Z",
          duration_ms: 100,
          span_count: 4,
          errors: 1,
          http_status: 200,
          session_id: "ses_1",
          model_calls: 1,
          summary_calls: 1,
          tool_calls: 0,
          compactions: [
            {
              tokens_before: 24_421,
              tokens_after: 9_453,
              messages_evicted: 52,
              reason: "threshold",
              outcome: "committed",
              generation: 1,
              path: "/conversation_history/ses_1.md",
            },
          ],
        },
      ],
    });
  });
});

describe("a trace", () => {
  test("shows the compaction, each span at its depth with its bar, and marks the summariser, the event and errors", async () => {
    addTurn();
    const page = await read(`/_local/traces/${TRACE}`);
    expect(words(/<section class="compaction">([\s\S]*?)<\/section>/.exec(page)?.[1] ?? "")).toBe(
      "The context was compacted: 24,421 → 9,453 tokens messages evicted 52 reason threshold outcome committed generation 1 summariser 1 call, 30 ms history /conversation_history/ses_1.md",
    );
    const rows = [...page.matchAll(/<summary>([\s\S]*?)<\/summary>/g)].map(([, row = ""]) => ({
      words: words(row),
      depth: /name d(\d)/.exec(row)?.[1],
      bar: /<rect class="([^"]*)" x="([^"]*)" width="([^"]*)"/.exec(row)?.slice(1),
    }));
    expect(rows).toEqual([
      { words: "POST /v1/sessions/{id}/turns 100 ms", depth: "0", bar: ["server", "0.00%", "100.00%"] },
      {
        words: "invoke_agent hango compacted 24,421 → 9,453 tokens gen_ai.conversation.compacted 90 ms",
        depth: "1",
        bar: ["agent", "10.00%", "90.00%"],
      },
      { words: "chat small summariser 30 ms", depth: "2", bar: ["summarizer", "20.00%", "30.00%"] },
      {
        words: "chat large error sees the compacted context 30 ms",
        depth: "2",
        bar: ["chat failed", "60.00%", "30.00%"],
      },
    ]);
    expect(page).toContain('<circle class="mark compacted" cx="50.00%"');
    expect(words(page)).toContain("error the provider is overloaded");
  });

  test("is as data with every span whole", async () => {
    addTurn();
    expect(await json(`/_local/traces/${TRACE}.json`)).toMatchObject({
      trace_id: TRACE,
      forgotten_spans: 0,
      spans: [
        { span_id: idOf(1), parent_span_id: null, kind: "server", error: null },
        { span_id: idOf(2), events: [{ name: compacted.name, attributes: compacted.attributes }] },
        { span_id: idOf(3), started_at: "2026-12-01T09:15:26.020Z", duration_ms: 30 },
        { span_id: idOf(4), error: "the provider is overloaded" },
      ],
    });
  });

  test("that is not there is a 404 that says so", async () => {
    const { status, body } = await get(`/_local/traces/${"0".repeat(32)}`);
    expect([status, body]).toEqual([404, expect.stringContaining(`There is no trace ${"0".repeat(32)}`)]);
  });

  test("cuts a long value, and says how much is missing", async () => {
    spans.add([span(1, { attributes: { long: "x".repeat(5_000) } })]);
    expect(await read(`/_local/traces/${TRACE}`)).toContain(`${"x".repeat(4_000)}… (1,000 more characters)`);
  });
});

describe("the metrics", () => {
  test("show counters by their attributes, and histograms with count, mean, p50, p95 and greatest, in their units", async () => {
    metrics.add([
      {
        kind: "counter",
        name: "cost",
        unit: "{USD}",
        description: "What it cost.",
        attributes: { purpose: "turn" },
        atMs: 0,
        value: 0.0625,
      },
      {
        ...{ kind: "histogram", name: "took", unit: "s", description: "How long.", attributes: {}, atMs: 0 },
        ...{ count: 4, sum: 2, min: 0.25, max: 0.75, bounds: [0.5, 1], bucketCounts: [2, 2, 0] },
      },
    ]);
    const page = await read("/_local/metrics");
    const sections = [...page.matchAll(/<section[^>]*>([\s\S]*?)<\/section>/g)].map(([, part = ""]) => words(part));
    expect(sections).toEqual([
      "cost counter, USD What it cost. attributes total purpose turn $0.0625",
      "took histogram, duration How long. attributes count mean p50 p95 max buckets none 4 500 ms 500 ms 725 ms 750 ms",
    ]);
    expect(await json("/_local/metrics.json")).toEqual({
      forgotten_series: 0,
      series: [
        { name: "cost", kind: "counter", unit: "{USD}", attributes: { purpose: "turn" }, total: 0.0625 },
        {
          ...{ name: "took", kind: "histogram", unit: "s", attributes: {} },
          ...{ count: 4, sum: 2, min: 0.25, max: 0.75, bounds: [0.5, 1], bucket_counts: [2, 2, 0] },
        },
      ],
    });
  });

  test("say where there are none what to do", async () => {
    expect(words(await read("/_local/metrics"))).toContain("Nothing was counted yet");
  });
});

describe("every page", () => {
  const EVIL = `"><script>alert(1)</script><img src=x onerror='a()'>&`;

  test("escapes whatever spans and metrics hold", async () => {
    const event = { name: EVIL, atMs: START, attributes: { [EVIL]: EVIL } };
    const agent = { "gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": EVIL };
    const told = { ...compacted, attributes: { "hango.fs.path": EVIL, "hango.compaction.reason": EVIL } };
    const attributes = { ...agent, [EVIL]: [EVIL, { [EVIL]: EVIL }] };
    spans.add([span(1, { name: EVIL, attributes, events: [event, told], isError: true, statusMessage: EVIL })]);
    metrics.add([
      { kind: "counter", name: EVIL, unit: EVIL, description: EVIL, attributes: { [EVIL]: EVIL }, atMs: 0, value: 1 },
    ]);
    for (const path of ["/_local/traces", `/_local/traces/${TRACE}`, "/_local/metrics"]) {
      const page = await read(path);
      expect([path, page.includes("&lt;script&gt;alert(1)"), /<script|<img/.test(page)]).toEqual([path, true, false]);
    }
  });

  test.each(["/_local/traces", `/_local/traces/${TRACE}`, "/_local/metrics"])(
    "%s is without a script, and its policy allows its own style alone",
    async (path) => {
      addTurn();
      const { status, headers, body } = await get(path);
      const style = /<style>([\s\S]*?)<\/style>/.exec(body)?.[1] ?? "";
      const hash = createHash("sha256").update(style).digest("base64");
      expect([status, headers]).toEqual([
        200,
        {
          "Cache-Control": "no-store",
          "Referrer-Policy": "no-referrer",
          "X-Content-Type-Options": "nosniff",
          "Content-Type": "text/html; charset=utf-8",
          "Content-Security-Policy": `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`,
        },
      ]);
      expect([/<script|\son\w+=|style=/i.test(body), body.includes("undefined"), body.includes("[object")]).toEqual([
        false,
        false,
        false,
      ]);
      expect(words(body)).toContain("is not in them unless HANGO_CAPTURE_CONTENT=true");
    },
  );

  test.each([
    ["127.0.0.1:8787", 200],
    ["localhost:8787", 200],
    ["LOCALHOST", 200],
    ["[::1]:8787", 200],
    ["rebound.example.test", 403],
    ["127.0.0.1.example.test:8787", 403],
    ["localhost:8787@example.test", 403],
    ["", 403],
  ])("asked for at the host %j answers %d", async (host, status) => {
    expect((await get("/_local/traces", host)).status).toBe(status);
  });

  test("may be asked for by GET and HEAD, and no other page is there", async () => {
    expect(await get("/_local/traces", HOST, "HEAD")).toMatchObject({ status: 200, body: "" });
    expect(await get("/_local/traces", HOST, "POST")).toMatchObject({ status: 405, headers: { Allow: "GET, HEAD" } });
    expect(await get("/_local/nothing")).toMatchObject({
      status: 404,
      body: expect.stringContaining("/_local/metrics"),
    });
  });
});
