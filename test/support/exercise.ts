/** The same few calls of every kind, and what a caller sees of them: for runs that must not differ. */
import { expect } from "vitest";
import { compactingSession, prose, talk } from "./compaction.ts";
import { openTurn, readEvents, type TestPlatform } from "./platform.ts";

/** A turn's answer as its caller sees it, without what differs from run to run. */
export interface Seen {
  readonly what: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

const OWN_HEADERS = new Set(["date", "x-request-id", "request-id", "idempotency-key"]);

const ID = /\b(ses|run|msg|tnt|key|cmp|rev|toolu|req|evt|use|att)_[A-Za-z0-9]{8,}/g;
const TIME = /\b20\d\d-\d\d-\d\dT[\d:.]+Z\b/g;

/** Ids by their kind, times as such, durations by their unit. */
const shapeOf = (value: unknown, name = ""): unknown => {
  if (typeof value === "string") return value.replace(ID, "$1_ID").replace(TIME, "TIME");
  if (typeof value === "number" && /(_ms|_at|_s)$/.test(name)) return "DURATION";
  if (Array.isArray(value)) return value.map((each) => shapeOf(each));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key.replace(ID, "$1_ID"), shapeOf(inner, key)]),
  );
};

/** The same of what a compaction made: ids stand in its handoff, so that its size differs by some tokens. */
const withoutNumbers = (value: unknown): unknown => {
  if (typeof value === "number") return "NUMBER";
  if (typeof value === "string") return value.replace(/\d+/g, "NUMBER");
  if (Array.isArray(value)) return value.map(withoutNumbers);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutNumbers(inner)]));
};

const seen = (what: string, status: number, headers: Headers, body: unknown): Seen => ({
  what,
  status,
  headers: Object.fromEntries(
    [...headers]
      .filter(([name]) => !OWN_HEADERS.has(name))
      .map(([name, value]) => [name, String(shapeOf(value)).replace(/^\d+$/, "NUMBER")]),
  ),
  body: shapeOf(body),
});

const SMALL_WINDOW = 20_000;

/**
 * A blocking turn, a streamed one, one with tools, one that compacts, one in the background, a refused call, a cron tick.
 * @param meanwhile called once every answer is there and the tick has begun, which ends only with what it exports
 */
export const exercise = async (
  platform: TestPlatform,
  meanwhile: () => Promise<void> | void = () => undefined,
): Promise<readonly Seen[]> => {
  const { simulator, url } = platform;
  simulator.reset();
  const session = await compactingSession(platform, { windowTokens: SMALL_WINDOW });
  const { call, tenant, id } = session;
  const all: Seen[] = [];
  const take = (what: string, { status, headers, body }: { status: number; headers: Headers; body: unknown }) =>
    all.push(seen(what, status, headers, shapeOf(body)));

  take("blocking", await session.scripted("One.", "First."));

  simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "Second." } });
  const streamed = await openTurn(url, tenant, id, { input: "Two." });
  const events = await readEvents(streamed);
  // How an answer is cut into pieces is the network's business.
  const durable = events.filter(({ id: number }) => number !== null).map(({ event, data }) => ({ event, data }));
  take("streamed", { status: streamed.status, headers: streamed.headers, body: durable });

  const write = {
    type: "tool_use" as const,
    id: "toolu_w",
    name: "write_file",
    input: { file_path: "/a.md", content: "A" },
  };
  const read = { type: "tool_use" as const, id: "toolu_r", name: "read_file", input: { file_path: "/none.md" } };
  take("tools", await session.scripted("Three.", [write, read], "Third."));

  take("404", await call("GET", "/v1/sessions/ses_none"));
  take("400", await call("POST", `/v1/sessions/${id}/turns`, { input: 7 }));

  simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "Fourth." } });
  const background = await call("POST", `/v1/sessions/${id}/turns`, { input: "Four.", background: true });
  take("background", background);
  const followed = await fetch(`${url}/v1/runs/${background.body.id}/events`, { headers: tenant.headers });
  const ended = await readEvents(followed);
  // Whoever comes late is no longer told that it is queued.
  const types = ended.map(({ event }) => event).filter((type) => type !== "run.queued");
  take("followed", { status: followed.status, headers: followed.headers, body: types });
  take("background run", await call("GET", `/v1/runs/${background.body.id}`));

  const long = await compactingSession(platform, { windowTokens: SMALL_WINDOW });
  await long.load(talk(30, 230));
  for (const answer of [
    await long.scripted("And now?", prose(40)),
    await long.call("GET", `/v1/sessions/${long.id}/context`),
  ])
    take("compacted", { ...answer, body: withoutNumbers(answer.body) });
  expect(await long.generations()).toHaveLength(1);

  const ticking = platform.host.tick();
  await meanwhile();
  await ticking;
  return all;
};
