import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { runChecks } from "../../../../src/turns/doctor/check.ts";
import { otlpCheck } from "../../../../src/turns/doctor/otlp.ts";
import { type Receiver, startReceiver } from "../../../support/receiver.ts";

interface Got {
  readonly path: string | undefined;
  readonly type: string | undefined;
  readonly token: unknown;
  readonly body: string;
}

let server: Receiver;
let got: Got[];
let statusOf: (path: string) => number;
beforeAll(async () => {
  server = await startReceiver(({ url, headers }, body, response) => {
    got.push({ path: url, type: headers["content-type"], token: headers["x-token"], body });
    response.writeHead(statusOf(url ?? "")).end("{}");
  });
});
afterAll(() => server.close());
beforeEach(() => {
  got = [];
  statusOf = () => 200;
});

const found = async (endpoint: string | undefined, timeoutMs = 10_000) => {
  const check = otlpCheck({ endpoint, headers: { "x-token": "hunter2" } }, fetch);
  const [result] = await runChecks([check], { now: () => performance.now(), timeoutMs });
  return `${result?.status}: ${result?.detail}`;
};

describe("the collector", () => {
  it("takes an empty export of each kind, with the configured headers", async () => {
    expect(await found(`${server.url}/`)).toBe(`ok: the collector at ${server.url} takes spans and metrics`);
    const sent = { type: "application/json", token: "hunter2" };
    expect(got.toSorted((a, b) => String(a.path).localeCompare(String(b.path)))).toEqual([
      { path: "/v1/metrics", ...sent, body: '{"resourceMetrics":[]}' },
      { path: "/v1/traces", ...sent, body: '{"resourceSpans":[]}' },
    ]);
  });

  it.each([
    [401, "refused the headers (401): set OTEL_EXPORTER_OTLP_HEADERS"],
    [500, "answered 500 to an empty export at /v1/traces"],
    [
      404,
      "has no /v1/traces (404): OTEL_EXPORTER_OTLP_ENDPOINT is the base address of a collector that takes OTLP over HTTP",
    ],
  ])("that answers %i fails", async (status, words) => {
    statusOf = () => status;
    expect(await found(server.url)).toBe(`failed: the collector at ${server.url} ${words}`);
  });

  it("that takes spans alone fails", async () => {
    statusOf = (path) => (path === "/v1/metrics" ? 404 : 200);
    expect(await found(server.url)).toMatch(/^failed: .* has no \/v1\/metrics \(404\)/);
  });

  it("that is not there, or never answers, fails", async () => {
    const silent = await startReceiver(() => undefined);
    const gone = await startReceiver(() => undefined);
    gone.close();
    expect(await found(gone.url)).toBe(
      `failed: the collector at ${gone.url} cannot be reached (ECONNREFUSED): see OTEL_EXPORTER_OTLP_ENDPOINT`,
    );
    expect(await found(silent.url, 50)).toBe("failed: no answer within 0.05 s");
    silent.close();
  });

  it("whose address holds a password fails without showing it", async () => {
    expect(await found("http://me:hunter2@127.0.0.1:1")).toBe(
      "failed: OTEL_EXPORTER_OTLP_ENDPOINT holds a user or password: use OTEL_EXPORTER_OTLP_HEADERS",
    );
  });

  it("that is not configured is skipped", async () => {
    expect(await found(undefined)).toBe(
      "skipped: OTEL_EXPORTER_OTLP_ENDPOINT is not set: no spans and metrics are sent",
    );
    expect(got).toEqual([]);
  });
});
