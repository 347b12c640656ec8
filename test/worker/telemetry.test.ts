/** The tracer and the export in workerd, against a collector that keeps what it is sent. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { buildWorker } from "../../src/local/build.ts";

const TELEMETRY = join(import.meta.dirname, "../../src/telemetry");

const worker = `
import { instrumentWorker } from "${TELEMETRY}/worker.ts";
import { activeTraceIds, nameRequest, otelTracer } from "${TELEMETRY}/otel.ts";

const turn = async (env) => {
  await otelTracer.span("invoke_agent", { attributes: { a: 1, list: ["x"], none: undefined } }, async (span) => {
    span.addEvent("gen_ai.conversation.compacted", { reason: "threshold" });
    await Promise.all([
      otelTracer.span("chat m", { kind: "client" }, () => fetch("https://provider.test/v1?secret=1")),
      otelTracer.span("execute_tool ls", { parent: span }, async () => { throw new RangeError("content"); }).catch(() => {}),
    ]);
  });
};

const doors = {
  async fetch(request, env, ctx) {
    nameRequest("/v1/sessions/{id}/turns");
    if (request.url.includes("throw")) throw new Error("content of a prompt");
    if (request.url.includes("outside")) return Response.json({ ids: activeTraceIds() ?? null });
    const { readable, writable } = new IdentityTransformStream();
    const work = (async () => {
      const writer = writable.getWriter();
      await writer.write(new TextEncoder().encode(JSON.stringify(activeTraceIds())));
      await turn(env);
      await writer.close();
    })();
    ctx.waitUntil(work);
    return new Response(readable);
  },
  async queue(batch) {
    for (const message of batch.messages) {
      await otelTracer.span("resume", { remoteParent: message.body.traceparent }, () => otelTracer.span("child", {}, async () => {}));
      message.retry({ delaySeconds: 33 });
    }
  },
  async scheduled() { await otelTracer.span("sweep", {}, async () => {}); },
};

export default instrumentWorker(doors, (env) => {
  if (env.ENDPOINT === "broken") throw new Error("configuration");
  return { endpoint: env.ENDPOINT, headers: { "x-key": "k" }, serviceName: "hango-test" };
});
`;

interface OtlpSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly { readonly key: string; readonly value: unknown }[];
  readonly events?: readonly { readonly name: string; readonly attributes: readonly { readonly key: string }[] }[];
  readonly status: { readonly code: number };
}

let root: string;
let script: string;
const instances: Miniflare[] = [];
let posts: { url: string; key: string | null; body: string }[] = [];
let provider: Headers[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hango-telemetry-"));
  await mkdir(join(root, "src"));
  await writeFile(join(root, "src/worker.ts"), worker);
  await writeFile(
    join(root, "wrangler.toml"),
    'name = "probe"\nmain = "src/worker.ts"\ncompatibility_date = "2026-10-01"\ncompatibility_flags = ["nodejs_compat"]\n',
  );
  script = await readFile((await buildWorker({ root })).path, "utf8");
});

afterAll(async () => {
  await Promise.all(instances.map((instance) => instance.dispose()));
  await rm(root, { recursive: true, force: true });
});

beforeEach(() => {
  posts = [];
  provider = [];
});

/** Resolves once the collector was sent something. */
let arrived = Promise.withResolvers<void>();

const launch = (endpoint: string | undefined): Miniflare => {
  arrived = Promise.withResolvers<void>();
  const instance = new Miniflare(
    convertV4MiniflareOptions({
      modules: [{ type: "ESModule", path: "worker.js", contents: script }],
      compatibilityDate: "2026-10-01",
      compatibilityFlags: ["nodejs_compat"],
      bindings: endpoint === undefined ? {} : { ENDPOINT: endpoint },
      queueConsumers: ["work"],
      outboundService: async (request) => {
        if (new URL(request.url).hostname === "provider.test") {
          provider.push(new Headers([...request.headers]));
          return new Response("ok") as never;
        }
        posts.push({ url: request.url, key: request.headers.get("x-key"), body: await request.text() });
        arrived.resolve();
        return new Response("{}") as never;
      },
    }),
  );
  instances.push(instance);
  return instance;
};

const spansSent = (): readonly OtlpSpan[] =>
  posts.flatMap(({ body }) =>
    JSON.parse(body).resourceSpans.flatMap((resource: { scopeSpans: { spans: OtlpSpan[] }[] }) =>
      resource.scopeSpans.flatMap((scope) => scope.spans),
    ),
  );

/** Names as a tree, siblings by name: they are sent in the order in which they ended. */
const tree = (spans: readonly OtlpSpan[], parent?: string): readonly unknown[] =>
  spans
    .filter((span) => (span.parentSpanId || undefined) === parent)
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map((span) => {
      const children = tree(spans, span.spanId);
      return children.length === 0 ? span.name : [span.name, ...children];
    });

const named = (name: string): OtlpSpan => {
  const found = spansSent().find((span) => span.name === name);
  if (found === undefined) throw new Error(`no span ${name} among ${spansSent().map((span) => span.name)}`);
  return found;
};

const attributesOf = (span: OtlpSpan) => Object.fromEntries(span.attributes.map(({ key, value }) => [key, value]));

describe("telemetry under workerd", () => {
  test("sends one trace for a streamed turn, its late spans included, and the log's ids are the server span's", async () => {
    const instance = launch("https://collector.test/otlp/");
    const response = await instance.dispatchFetch("https://hango.test/v1/sessions/key:private/turns?token=secret", {
      method: "POST",
      headers: { traceparent: "00-11111111111111111111111111111111-2222222222222222-00" },
    });
    const ids = (await response.json()) as { trace_id: string; span_id: string };
    await arrived.promise;

    expect(posts.map(({ url, key }) => ({ url, key }))).toEqual([
      { url: "https://collector.test/otlp/v1/traces", key: "k" },
    ]);
    expect(tree(spansSent())).toEqual([
      ["POST /v1/sessions/{id}/turns", ["invoke_agent", "chat m", "execute_tool ls"]],
    ]);
    const server = named("POST /v1/sessions/{id}/turns");
    expect(ids).toEqual({ trace_id: server.traceId, span_id: server.spanId });
    expect(new Set(spansSent().map((span) => span.traceId))).toEqual(new Set([server.traceId]));
    expect(server.traceId).not.toBe("1".repeat(32));
    expect(attributesOf(named("invoke_agent"))).toEqual({
      a: { intValue: 1 },
      list: { arrayValue: { values: [{ stringValue: "x" }] } },
    });
    expect(named("invoke_agent").events?.map((event) => event.name)).toEqual(["gen_ai.conversation.compacted"]);
    expect(named("chat m").kind).toBe(3);
    expect(named("execute_tool ls").status).toEqual({ code: 2 });
    expect(attributesOf(named("execute_tool ls"))).toEqual({ "error.type": { stringValue: "RangeError" } });
    expect(posts[0]?.body).toContain("hango-test");
  });

  test("never sends content: no path, no query, no message of an error; and tells providers no trace id", async () => {
    const instance = launch("https://collector.test");
    await (await instance.dispatchFetch("https://hango.test/v1/sessions/key:private/turns?token=secret")).text();
    await arrived.promise;
    arrived = Promise.withResolvers();
    await instance.dispatchFetch("https://hango.test/throw/private?token=secret").catch(() => undefined);
    await arrived.promise;
    const sent = posts.map(({ body }) => body).join("");
    for (const secret of ["secret", "private", "content of a prompt", "stacktrace"]) expect(sent).not.toContain(secret);
    expect(sent).toContain("exception");
    expect(provider.map((headers) => [headers.has("traceparent"), headers.has("tracestate")])).toEqual([
      [false, false],
    ]);
  });

  test("joins the trace that a queue message names, keeps the delay of a retry, and sends it with its own invocation", async () => {
    const instance = launch("https://collector.test");
    const door = await instance.getWorker();
    const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    const result = await door.queue("work", [{ id: "1", timestamp: new Date(0), body: { traceparent }, attempts: 1 }]);
    expect(result.retryMessages).toEqual([{ msgId: "1", delaySeconds: 33 }]);
    await arrived.promise;
    expect(tree(spansSent())).toEqual(["queueHandler work"]);
    expect(tree(spansSent(), "b".repeat(16))).toEqual([["resume", "child"]]);
    expect(named("child").traceId).toBe("a".repeat(32));
  });

  test("records a cron tick", async () => {
    const instance = launch("https://collector.test");
    await (await instance.getWorker()).scheduled({ cron: "*/5 * * * *" });
    await arrived.promise;
    expect(tree(spansSent())).toEqual([["scheduledHandler */5 * * * *", "sweep"]]);
  });

  test.each([undefined, "broken"])("sends nothing and still works when the collector is %s", async (endpoint) => {
    const instance = launch(endpoint);
    expect(await (await instance.dispatchFetch("https://hango.test/outside")).json()).toEqual({ ids: null });
    const response = await instance.dispatchFetch("https://hango.test/turn");
    expect(response.status).toBe(200);
    await response.text();
    expect({ posts, providerCalls: provider.length }).toEqual({ posts: [], providerCalls: 1 });
  });
});
