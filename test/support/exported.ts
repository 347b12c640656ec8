/** Makes a Worker export every metric that hango has, each with every attribute: turns of all kinds, and what goes wrong around them. */
import { expect, vi } from "vitest";
import { instruments, type MetricName } from "../../src/telemetry/instruments.ts";
import type { Collector } from "./collector.ts";
import { type CompactingSession, compactingSession, prose, talk } from "./compaction.ts";
import { callerOf, makeTenant, startTestPlatform, type TestPlatform } from "./platform.ts";

const WINDOW = 20_000;
const OVER_TRIGGER = talk(24, 230);
const OVER_WINDOW = talk(30, 230);

/** A Worker that tells this collector, and that asks its provider once. */
export const startObserved = (collector: Collector): Promise<TestPlatform> =>
  startTestPlatform({
    variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, HANGO_PROVIDER_MAX_RETRIES: "0" },
  });

/** Metrics that have not been received yet, and attributes that none of their points has had. */
const missing = ({ points }: Collector): readonly string[] =>
  (Object.keys(instruments) as MetricName[]).flatMap((name) => {
    const received = points.filter((point) => point.name === name);
    if (received.length === 0) return [name];
    const seen = new Set(received.flatMap(({ attributes }) => Object.keys(attributes)));
    return instruments[name].attributes.filter((each) => !seen.has(each)).map((each) => `${name}: ${each}`);
  });

/** Rounds of tool calls whose results are long enough to be shown cut. */
const longResults = () =>
  ["read_file", "my_tool"].flatMap((name, round) => [
    { role: "user" as const, content: `Step ${round}` },
    {
      role: "assistant" as const,
      content: [{ type: "tool_use", id: `toolu_r${round}`, name, input: { file_path: `/${round}` } }],
    },
    {
      role: "user" as const,
      content: [{ type: "tool_result", tool_use_id: `toolu_r${round}`, content: prose(2_700, round) }],
    },
    { role: "assistant" as const, content: "Done." },
  ]);

const answers = async (platform: TestPlatform, session: () => Promise<CompactingSession>): Promise<void> => {
  const plain = await session();
  await plain.scripted("Hello?", "An answer.");
  const write = {
    type: "tool_use" as const,
    id: "toolu_1",
    name: "write_file",
    input: { file_path: "/a", content: "b" },
  };
  await plain.scripted("Write it.", [write], "Done.");
  expect((await plain.call("GET", "/v1/sessions/ses_nobody")).status).toBe(404);
  await plain.call("POST", `/v1/sessions/${plain.id}/turns`, { input: "Later.", background: true });

  const compacted = await session();
  await compacted.load(OVER_TRIGGER);
  await compacted.scripted("And now?", "An answer.");

  const clipped = await session();
  await clipped.load([...longResults(), ...talk(24, 170)]);
  await clipped.scripted("And now?", "An answer.");

  const overflowing = await session();
  await overflowing.load(talk(15, 230));
  const fault = { kind: "overflow" as const, tokens: 21_000, limit: 20_000 };
  platform.simulator.enqueue({ match: { purpose: "turn" }, fault });
  await overflowing.scripted("And now?", "An answer.");
};

const failures = async ({ simulator }: TestPlatform, session: () => Promise<CompactingSession>): Promise<void> => {
  const guarded = await session();
  await guarded.load(OVER_TRIGGER);
  simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: " \n " } });
  await guarded.scripted("One.", "First.");
  await guarded.scripted("Two.", "Second.");

  const aborted = await session();
  await aborted.load(OVER_WINDOW);
  simulator.enqueue({ match: { purpose: "summarize" }, fault: { kind: "status", status: 401 }, times: "always" });
  expect((await aborted.turn("And now?")).body.error.code).toBe("provider_rejected");
};

/** What the queue and the clock do. */
const aside = async ({ host, database, url }: TestPlatform): Promise<void> => {
  const door = await host.miniflare.getWorker();
  const body = { v: 1, type: "erase_objects", tenantId: "tnt_x", sessionId: "ses_x" };
  await door.queue("hango-dead", [{ id: "1", timestamp: new Date(0), body, attempts: 6 }]);

  const call = callerOf(url, await makeTenant(database));
  const made = await call("POST", "/v1/sessions", {});
  await call("POST", `/v1/sessions/${made.body.id}/turns`, { input: "Hello" });
  // As its Worker would have left it that died at the start.
  await database.sql("update runs set status = 'queued', finished_at = null where session_id = $1", [made.body.id]);
  await host.tick();
};

/** Turns of all that: six, one of them done by the queue; one that is stranded afterwards, and so done twice; three around summaries that fail. */
const TURNS = 11;

/** Values of a histogram, whatever their attributes. */
const valuesOf = ({ points }: Collector, name: MetricName): number =>
  points.filter((point) => point.name === name).reduce((sum, { count }) => sum + count, 0);

/**
 * Does all of it, and waits until it is told: every metric with every attribute that it is declared with, each request that was made, and each turn
 * with its spans. Nothing of it arrives later.
 */
export const exportEverything = async (platform: TestPlatform, collector: Collector): Promise<void> => {
  const session = () => compactingSession(platform, { windowTokens: WINDOW });
  const asked = vi.spyOn(globalThis, "fetch");
  await answers(platform, session);
  await aside(platform);
  await failures(platform, session);
  const requests = asked.mock.calls.filter(([url]) => String(url).startsWith(platform.url)).length;
  asked.mockRestore();
  await vi.waitFor(
    () =>
      expect({
        missing: missing(collector),
        requests: valuesOf(collector, "http.server.request.duration"),
        turns: valuesOf(collector, "hango.turn.duration"),
        spans: collector.named("invoke_agent hango").length,
      }).toEqual({ missing: [], requests, turns: TURNS, spans: TURNS }),
    { timeout: 30_000 },
  );
};
