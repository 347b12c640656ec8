/**
 * A collector that is down, slow or broken changes nothing for a caller: the same answers, before the collector has said anything. Against the built
 * Worker, one way of failing after the other in the same isolate.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare, Response } from "miniflare";
import { afterAll, beforeAll, expect, it } from "vitest";
import { buildWorker } from "../../src/local/build.ts";
import { readDeclared } from "../../src/local/worker-host.ts";
import { exercise, type Seen } from "../support/exercise.ts";
import {
  AILMENTS,
  eventually,
  type FailingCollector,
  startFailingCollector,
  takes,
} from "../support/failing-collector.ts";
import { ADMIN_KEY, callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";

let platform: TestPlatform;
let collector: FailingCollector;
let healthy: readonly Seen[];
let healthyLines: readonly string[];
/** Invocations of one exercise: each sends its spans once. */
let invocations: number;

const WARNING = "telemetry export failed";

/** What the Worker logged from here on, as the messages of its lines; a line that is no JSON as it is. */
const said = (from: number): readonly string[] =>
  platform.logs.slice(from).map((line) => (line.startsWith("{") ? JSON.parse(line).msg : line));
const warnings = (from: number): number => said(from).filter((msg) => msg === WARNING).length;

const sent = (path: string): number => collector.exports.filter((each) => each.path === path).length;

/** Turns that points of this metric count, in what was sent since the last change. */
const turnsCounted = (): number =>
  collector.exports
    .filter(({ path }) => path === "/v1/metrics")
    .flatMap(({ body }) => JSON.parse(body).resourceMetrics)
    .flatMap(({ scopeMetrics }) => scopeMetrics)
    .flatMap(({ metrics }) => metrics)
    .filter(({ name }) => name === "hango.turn.duration")
    .flatMap(({ histogram }) => histogram.dataPoints)
    .reduce((sum, { count }) => sum + Number(count), 0);

const TURNS = 5;

/** Everything that an exercise sends has arrived: the tick's spans are the last. */
const allSent = () =>
  eventually(() => {
    expect(sent("/v1/traces")).toBe(invocations);
    expect(turnsCounted()).toBe(TURNS);
  });

/** One turn of a tenant of its own. */
const oneTurn = async (): Promise<void> => {
  const call = callerOf(platform.url, await makeTenant(platform.database));
  const { body } = await call("POST", "/v1/sessions", {});
  const answer = await call("POST", `/v1/sessions/${body.id}/turns`, { input: "Hello?" });
  expect([answer.status, answer.body.status]).toEqual([200, "completed"]);
};

beforeAll(async () => {
  collector = await startFailingCollector();
  platform = await startTestPlatform({
    variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, HANGO_LOG_LEVEL: "debug" },
  });
  healthy = await exercise(platform);
  await eventually(() => {
    expect(collector.exports.some(({ body }) => body.includes("scheduledHandler"))).toBe(true);
    expect(turnsCounted()).toBe(TURNS);
  });
  invocations = sent("/v1/traces");
  healthyLines = said(0).toSorted();
  expect(healthyLines).not.toContain(WARNING);
}, 120_000);
afterAll(async () => {
  collector.release();
  await platform.close();
  collector.close();
});

it("the exercise is the same twice over a healthy collector, so that a difference is the collector's doing", async () => {
  await collector.ail("healthy");
  const from = platform.logs.length;
  expect(await exercise(platform)).toEqual(healthy);
  await allSent();
  expect(said(from).toSorted()).toEqual(healthyLines);
});

it.each(AILMENTS)("a collector that %s", async (ailment) => {
  await collector.ail(ailment);
  const from = platform.logs.length;
  let heldMeanwhile = 0;
  const isHanging = ailment === "never answers" || ailment === "trickles its headers";

  const answers = await exercise(platform, async () => {
    if (ailment !== "refuses connections") await allSent();
    heldMeanwhile = collector.held();
    collector.release();
  });

  // By then every answer had been read to its end: none waited for the collector.
  expect(heldMeanwhile > invocations).toBe(isHanging);
  expect(answers).toEqual(healthy);
  expect(collector.astray).toEqual([]);

  const failed = takes(ailment) ? 0 : collector.exports.length;
  // A door that is closed does not count who knocks; spans and metrics are sent for each invocation.
  if (ailment === "refuses connections") await eventually(() => expect(warnings(from)).toBeGreaterThan(invocations));
  else await eventually(() => expect(warnings(from)).toBe(failed));

  // A collector that is well again is sent what comes from now on. What it had not taken is lost: sent again, it might count twice.
  await collector.ail("healthy");
  await oneTurn();
  await eventually(() => {
    expect(collector.exports.some(({ body }) => body.includes('"invoke_agent hango"'))).toBe(true);
    expect(turnsCounted()).toBe(1);
  });
  // Nothing was logged but the failures, once for each, and what is logged anyway.
  expect(
    said(from)
      .filter((msg) => msg !== WARNING)
      .toSorted(),
  ).toEqual(healthyLines);
  if (ailment !== "refuses connections") expect(warnings(from)).toBe(failed);
});

it("a collector that hangs is given up after ten seconds, spans and metrics alike, and its connections are closed", async () => {
  await collector.ail("never answers");
  const from = platform.logs.length;
  await oneTurn();
  await eventually(() => {
    const reasons = platform.logs.slice(from).map((line) => JSON.parse(line).reason);
    // The session's invocation and the turn's.
    expect(reasons.length).toBeGreaterThanOrEqual(3);
    expect(new Set(reasons)).toEqual(new Set(["The operation was aborted due to timeout"]));
    expect(reasons.length).toBe(collector.exports.length);
  });
  await eventually(() => expect(collector.held()).toBe(0));
});

it("without a collector the answers are the same, and nobody is asked but the database and the provider", async () => {
  const hosts = new Set<string>();
  const logs: string[] = [];
  const { worker } = await readDeclared(join(import.meta.dirname, "../../wrangler.toml"));
  const instance = new Miniflare(
    convertV4MiniflareOptions({
      ...worker,
      name: "hango",
      modules: [{ type: "ESModule", path: "worker.js", contents: await readFile((await buildWorker()).path, "utf8") }],
      bindings: {
        DATABASE_URL: platform.database.connectionString,
        HANGO_DB_FETCH_ENDPOINT: platform.database.url,
        ANTHROPIC_API_KEY: "simulator",
        ANTHROPIC_BASE_URL: platform.simulator.url,
        HANGO_ADMIN_KEY: ADMIN_KEY,
        HANGO_LOG_LEVEL: "debug",
      },
      host: "127.0.0.1",
      port: 0,
      handleStructuredLogs: ({ message }) => logs.push(message),
      outboundService: async (request) => {
        hosts.add(new URL(request.url).host);
        const body = request.method === "GET" ? {} : { body: await request.arrayBuffer() };
        const answer = await fetch(request.url, { method: request.method, headers: [...request.headers], ...body });
        return new Response(answer.body as never, { status: answer.status, headers: [...answer.headers] });
      },
    }),
  );
  try {
    const url = (await instance.ready).origin;
    const tick = async (): Promise<void> => {
      await (await instance.getWorker("hango")).scheduled({ cron: "* * * * *" });
    };
    expect(await exercise({ ...platform, url, host: { ...platform.host, tick } })).toEqual(healthy);
    expect([...hosts].toSorted()).toEqual(
      [platform.database.url, platform.simulator.url].map((known) => new URL(known).host).toSorted(),
    );
    expect(logs.map((line) => JSON.parse(line).msg).toSorted()).toEqual(healthyLines);
  } finally {
    await instance.dispose();
  }
});
