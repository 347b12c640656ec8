/**
 * No secret and no content in what the Worker emits: more than 10,000 spans and log lines of recorded sessions, and of one that has planted words and
 * secrets in every place where content can be.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { createClient } from "../../src/local/demo/client.ts";
import { collect, sampleFolders } from "../../src/local/replay/collect.ts";
import { DEFAULT_FAMILY, planSession, replaySession } from "../../src/local/replay/session.ts";
import { isRecord } from "../../src/protocol/is-record.ts";
import { type Collector, startCollector } from "../support/collector.ts";
import {
  type ContentIndex,
  contentIndex,
  type Emitted,
  leaksIn,
  type Rules,
  SLICE_CHARS,
  textsOf,
} from "../support/content-check.ts";
import { everyPlace } from "../support/every-place.ts";
import { eventually } from "../support/failing-collector.ts";
import { MARKER, type Plants, startPlanting } from "../support/planted-content.ts";
import { makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { PLANTED } from "../support/secrets.ts";

const LEAST_EMITTED = 10_000;
/** Bodies of the copy that leaks are planted in. */
const COPIED = 40;
/** Slices begin at other places than those that the index keeps. */
const STEP = 37;

/** Told by design, and in messages too: where hango itself put the history of a session. */
const HISTORY_PATH = /\/conversation_history\/ses_[0-9A-Za-z]+\.md/g;

interface Observed {
  readonly platform: TestPlatform;
  readonly collector: Collector;
  readonly plants: Plants;
}

const observe = async (captures: boolean): Promise<Observed> => {
  const collector = await startCollector();
  const platform = await startTestPlatform({
    variables: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      HANGO_LOG_LEVEL: "debug",
      HANGO_CAPTURE_CONTENT: String(captures),
      HANGO_PROVIDER_MAX_RETRIES: "0",
    },
  });
  return { collector, platform, plants: startPlanting() };
};

const end = async ({ platform, collector }: Observed): Promise<void> => {
  await platform.close();
  collector.close();
};

const emitted = ({ platform, collector }: Observed): Emitted => ({
  bodies: collector.posts.map(({ body }) => body),
  lines: platform.logs,
});

const counts = ({ platform, collector }: Observed) => ({
  spans: collector.spans.length,
  lines: platform.logs.length,
  metricPoints: collector.points.length,
});

/** All that was planted, and all that a model was sent. */
const contents = ({ platform, plants }: Observed): ReadonlySet<string> => {
  const texts = new Set(plants.said);
  for (const { body } of platform.simulator.requests) {
    const { system, messages } = (body ?? {}) as { readonly system?: unknown; readonly messages?: unknown };
    textsOf([system, messages], texts);
  }
  return texts;
};

/** Everything up to here has arrived once the spans of a last turn have. */
const drained = async ({ platform, collector }: Observed): Promise<void> => {
  const tenant = await makeTenant(platform.database);
  const ask = async (path: string, body: object): Promise<{ readonly id: string }> => {
    const headers = tenant.headers;
    return (await fetch(`${platform.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })).json();
  };
  const { id } = await ask("/v1/sessions", {});
  await ask(`/v1/sessions/${id}/turns`, { input: "Done?" });
  await eventually(() =>
    expect(collector.spans.some(({ attributes }) => attributes["gen_ai.conversation.id"] === id)).toBe(true),
  );
};

/** Ids of calls, which the provider makes up and spans name: some are as long as a slice. */
const callIds = ({ platform }: Observed): ReadonlySet<string> => {
  const ids = new Set<string>();
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) value.forEach(visit);
    if (!isRecord(value)) return;
    if (value.type === "tool_use") ids.add(String(value.id));
    if (Array.isArray(value.content)) visit(value.content);
  };
  for (const { body } of platform.simulator.requests) if (isRecord(body)) visit(body.messages);
  return ids;
};

const rulesOf = (of: Observed, index: ContentIndex): Rules => ({
  marker: MARKER,
  index,
  allowed: HISTORY_PATH,
  ids: callIds(of),
});

let observed: Observed;
beforeAll(async () => {
  observed = await observe(false);
}, 120_000);
afterAll(() => end(observed));

/** Replays recordings with planted words, two at a time, until enough was emitted. */
const replayAll = async ({ platform, plants, collector }: Observed): Promise<number> => {
  const { sources } = await collect(sampleFolders, Number.MAX_SAFE_INTEGER);
  const newClient = async () => {
    const { key } = await makeTenant(platform.database);
    return createClient({ url: platform.url, apiKey: key, signal: new AbortController().signal });
  };
  let number = 0;
  const lane = async (): Promise<void> => {
    while (collector.spans.length + platform.logs.length < LEAST_EMITTED) {
      const source = sources[number % sources.length];
      number += 1;
      if (source === undefined) throw new Error("there is no recording");
      const planned = planSession({ ...source, recording: plants.recording(source.recording) }, DEFAULT_FAMILY);
      const { driven } = await replaySession({
        planned,
        platform: { simulator: platform.simulator, newClient, close: async () => undefined },
        number,
        now: () => performance.now(),
      });
      expect([source.name, driven.failures, driven.differences]).toEqual([source.name, [], []]);
    }
  };
  platform.simulator.reset();
  await Promise.all([lane(), lane()]);
  return number;
};

it("S6: no secret, no planted word and no slice of content is in 10,000 spans and log lines, nor in the metrics", async () => {
  await everyPlace(observed.platform, observed.plants);
  const indexed = contents(observed);
  const replays = await replayAll(observed);
  await drained(observed);
  const { spans, lines, metricPoints } = counts(observed);
  const index = contentIndex([...indexed, ...contents(observed)]);
  process.stdout.write(
    `${spans} spans, ${lines} log lines and ${metricPoints} metric points of ${replays} replays, against ${observed.plants.said.length} planted sentences and ${index.texts} texts\n`,
  );
  expect(spans + lines).toBeGreaterThanOrEqual(LEAST_EMITTED);
  expect(Math.min(spans, lines, metricPoints)).toBeGreaterThan(50);
  const rules = rulesOf(observed, index);
  const received = emitted(observed);
  expect(leaksIn(received, rules)).toEqual([]);

  // The check itself: a leak planted in a copy of what was received is found, whatever it is and wherever it stands.
  const said = observed.plants.said.find((text) => text.length > 2 * SLICE_CHARS) ?? "";
  const slice = said.slice(-SLICE_CHARS);
  const [body = "", ...others] = received.bodies.slice(-COPIED);
  const inBody = (text: string): Emitted => ({
    ...received,
    bodies: [...others, body.replace('"hango"', JSON.stringify(`of ${text}.`))],
  });
  const inLine = (text: string): Emitted => ({
    bodies: others,
    lines: [...received.lines, JSON.stringify({ level: "info", msg: "ok", why: `of ${text}.` }), `no JSON: ${text}`],
  });
  for (const { secret } of PLANTED) expect([secret, leaksIn(inBody(secret), rules).length > 0]).toEqual([secret, true]);
  for (const leak of [slice, observed.plants.word(), PLANTED[0]?.text ?? ""]) {
    expect([leak, leaksIn(inBody(leak), rules).length > 0]).toEqual([leak, true]);
    expect([leak, leaksIn(inLine(leak), rules).length > 0]).toEqual([leak, true]);
  }
  for (const text of [...indexed].filter((each) => each.length >= 3 * SLICE_CHARS).slice(0, 100)) {
    const from = text.length % STEP;
    expect(index.find(`-${text.slice(from, from + SLICE_CHARS)}-`)).toBeDefined();
  }
  expect(leaksIn(inLine("nothing that anybody said"), rules)).toEqual([]);
}, 180_000);

it("S6: with HANGO_CAPTURE_CONTENT content is in the spans and no secret is; the log lines and the metrics have neither", async () => {
  const capturing = await observe(true);
  try {
    await everyPlace(capturing.platform, capturing.plants);
    await drained(capturing);
    const { bodies, lines } = emitted(capturing);
    const none = { ...rulesOf(capturing, contentIndex([])), marker: /(?!)/ };
    expect(bodies.some((body) => MARKER.test(body))).toBe(true);
    expect(leaksIn({ bodies, lines }, none)).toEqual([]);
    const rules = rulesOf(capturing, contentIndex(contents(capturing)));
    const metrics = capturing.collector.posts.filter(({ path }) => path === "/v1/metrics").map(({ body }) => body);
    expect(leaksIn({ bodies: metrics, lines }, rules)).toEqual([]);
    const { spans } = counts(capturing);
    process.stdout.write(`${spans} spans with content, ${lines.length} log lines\n`);
  } finally {
    await end(capturing);
  }
}, 120_000);
