import { request } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createMetricStore, type MetricStore } from "../../../../src/local/collector/metric-store.ts";
import { type Receiver, startReceiver } from "../../../../src/local/collector/receiver.ts";
import { createSpanStore, type SpanStore } from "../../../../src/local/collector/span-store.ts";
import { metricsBody, tracesBody, wireSpan } from "./spans.ts";

const MAX_BODY_BYTES = 10_000;

let spans: SpanStore;
let metrics: MetricStore;
let receiver: Receiver;

beforeEach(async () => {
  spans = createSpanStore({ maxTraces: 10, maxSpans: 100, maxBytes: 100_000 });
  metrics = createMetricStore(10);
  receiver = await startReceiver({ spans, metrics, maxBodyBytes: MAX_BODY_BYTES });
});
afterEach(() => receiver.close());

interface Sent {
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly json: { readonly message?: string; readonly partialSuccess?: object };
}

const send = async ({
  path = "/v1/traces",
  method = "POST",
  headers,
  body = tracesBody(wireSpan()),
}: Sent): Promise<Answer> => {
  const response = await fetch(`${receiver.url}${path}`, {
    method,
    headers: { "Content-Type": "application/json", ...headers },
    ...(method === "GET" ? {} : { body }),
  });
  return { status: response.status, headers: response.headers, json: await response.json() };
};

describe("the collector's door", () => {
  test("listens on loopback alone, and takes spans and metrics", async () => {
    expect(new URL(receiver.url).hostname).toBe("127.0.0.1");
    expect(await send({})).toMatchObject({ status: 200, json: {} });
    const sum = { aggregationTemporality: 1, dataPoints: [{ asInt: 3 }] };
    const headers = { "Content-Type": "application/json; charset=utf-8" };
    expect(await send({ path: "/v1/metrics", headers, body: metricsBody({ name: "c", sum }) })).toMatchObject({
      status: 200,
    });
    expect([spans.traces().length, metrics.series().map(({ name }) => name)]).toEqual([1, ["c"]]);
  });

  test("says which points it did not keep", async () => {
    const body = metricsBody({ name: "g", gauge: { dataPoints: [{ asInt: "1" }] } });
    expect((await send({ path: "/v1/metrics", body })).json).toEqual({
      partialSuccess: {
        rejectedDataPoints: "1",
        errorMessage: "only deltas of sums and histograms are kept here; left out: g",
      },
    });
  });

  test.each<[string, Sent, number, string]>([
    ["a body that is no JSON", { body: "{" }, 400, "the body is not JSON"],
    ["a body that is not OTLP", { body: '{"resourceSpans": 1}' }, 400, "resourceSpans: "],
    ["a body over the bound", { body: " ".repeat(MAX_BODY_BYTES + 1) }, 413, "larger than 10000 bytes"],
    ["protobuf", { headers: { "Content-Type": "application/x-protobuf" } }, 415, "got application/x-protobuf"],
    ["text, which any page may send", { headers: { "Content-Type": "text/plain" } }, 415, "Only application/json"],
    ["a compressed body", { headers: { "Content-Encoding": "gzip" } }, 415, "got Content-Encoding gzip"],
    ["logs", { path: "/v1/logs" }, 404, "there are /v1/traces and /v1/metrics"],
    ["a name of every object", { path: "/constructor" }, 404, "There is no such path"],
    ["a look", { method: "GET" }, 405, "GET is not allowed here; allowed: POST"],
  ])("refuses %s, says why, and keeps nothing", async (_, sent, status, message) => {
    const answer = await send(sent);
    expect([answer.status, answer.json.message]).toEqual([status, expect.stringContaining(message)]);
    expect([spans.traces(), metrics.series()]).toEqual([[], []]);
    // It goes on after each.
    expect((await send({})).status).toBe(200);
  });

  test("refuses who calls this machine by another name", async () => {
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const sent = request(`${receiver.url}/v1/traces`, {
        method: "POST",
        headers: { Host: "rebound.example.test", "Content-Type": "application/json" },
      });
      sent.on("response", (response) => resolve(response.resume().statusCode)).on("error", reject);
      sent.end(tracesBody(wireSpan()));
    });
    expect([status, spans.traces()]).toEqual([403, []]);
  });
});
