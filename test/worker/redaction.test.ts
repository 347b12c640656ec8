/**
 * All kinds of secret in one session, in everything that a session is made of, through the built Worker: what the summariser is sent, what is
 * stored of its answer, what a collector receives and what is logged hold none of them, and every identifier (S6).
 */
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { assistant, compactingSession, type Message, prose, textOf, user } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { everySecret, IDENTIFIERS, leaked, PLANTED } from "../support/secrets.ts";

const WINDOW = 40_000;

let platform: TestPlatform;
let collector: Receiver;
const received: string[] = [];

beforeAll(async () => {
  collector = await startReceiver((_request, body, response) => {
    received.push(body);
    response.end("{}");
  });
  platform = await startTestPlatform({
    variables: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      HANGO_CAPTURE_CONTENT: "true",
      HANGO_LOG_LEVEL: "debug",
      HANGO_PROVIDER_MAX_RETRIES: "0",
    },
  });
}, 120_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});

const SECRETS = everySecret();
const NAMED = Object.assign({}, ...PLANTED.map(({ named }) => named ?? {}));

const called = (id: string, name: string, input: unknown): Message => ({
  role: "assistant",
  content: [{ type: "tool_use", id, name, input }],
});
const answered = (id: string, content: unknown): Message => ({
  role: "user",
  content: [{ type: "tool_result", tool_use_id: id, content }],
});

/** A conversation that says, calls and reads every secret. */
const PLANTED_LOG: readonly Message[] = [
  user(`Deploy with these.\n${SECRETS}\nand keep ${IDENTIFIERS.join(" ")}`),
  called("toolu_a", "run", {
    command: SECRETS,
    options: NAMED,
    body: JSON.stringify({ ...NAMED, note: SECRETS }),
    ids: IDENTIFIERS,
  }),
  answered("toolu_a", `env:\n${SECRETS}\nids: ${IDENTIFIERS.join(", ")}`),
  called("toolu_b", "write_todos", { todos: [{ content: `deploy with ${PLANTED[0]?.text}`, status: "pending" }] }),
  answered("toolu_b", [
    { type: "text", text: JSON.stringify({ ...NAMED, lines: SECRETS.split("\n"), ids: IDENTIFIERS }) },
  ]),
  assistant(`I have ${SECRETS}. Which of these keys is to be used for the deployment?`),
  user(`Use them all:\n${SECRETS}`),
];

const FILLING = (name: string): readonly Message[] =>
  Array.from({ length: 36 }, (_, at) => [
    user(`Question ${name}${at}: ${prose(230, at)}`),
    assistant(`Answer ${name}${at}: ${prose(230, at + 50)}`),
  ]).flat();

/** Bodies of the summariser's requests, as texts. */
const asked = (): readonly string[] =>
  platform.simulator.requests
    .filter(({ purpose }) => purpose === "summarize")
    .map(({ bodyText }) => textOf([JSON.parse(bodyText).system, JSON.parse(bodyText).messages]));

it("S6: no secret is in a summariser's request, a stored summary, a span, a metric, a log line or a run's error, and every identifier survives", async () => {
  const session = await compactingSession(platform, { windowTokens: WINDOW });
  const { simulator, database } = platform;
  simulator.enqueue({
    match: { purpose: "summarize" },
    reply: { content: `What was done and found: ${SECRETS}\nwith ${IDENTIFIERS.join(" ")}` },
    times: "always",
  });
  await session.load([...PLANTED_LOG, ...FILLING("p")]);
  await session.untouched(() => session.scripted("And now?", `Done with ${SECRETS}`));
  // The second generation is made of the first one's summary, and of a turn that had them too.
  for (let turn = 0; turn < 5; turn++) await session.scripted(`${turn} ${prose(300, turn)}`, prose(300, turn + 50));
  const forced = await session.call("POST", `/v1/sessions/${session.id}/compact`, { focus: SECRETS });
  expect(forced.status).toBe(200);
  const stored = (
    await database.sql(
      "select to_jsonb(c)::text as kept from compactions c where session_id = $1 order by generation",
      [session.id],
    )
  ).map(({ kept }) => String(kept));
  expect(stored).toHaveLength(2);
  for (const text of [...asked(), ...stored]) expect(leaked(text)).toEqual([]);
  expect(asked().length).toBeGreaterThan(1);
  for (const id of IDENTIFIERS) {
    expect(asked()[0], id).toContain(id);
    for (const text of stored) expect(text, id).toContain(id);
  }
  for (const id of PLANTED.flatMap(({ beside }) => beside)) expect(asked()[0], id).toContain(id);

  // A provider that quotes the prompt in its error.
  simulator.enqueue({
    match: { purpose: "turn" },
    fault: { kind: "status", status: 400, message: `messages.0: unexpected ${SECRETS}` },
  });
  const failed = await session.turn("Go on.");
  expect([failed.body.error?.code, leaked(JSON.stringify(failed.body))]).toEqual(["provider_rejected", []]);
  const rows = await database.sql("select error::text as error from runs where session_id = $1 and error is not null", [
    session.id,
  ]);
  expect(rows).toHaveLength(1);
  expect(leaked(JSON.stringify(rows))).toEqual([]);
  const events = await database.sql(
    "select data::text as data from run_events where type in ('run.failed', 'context.compacted')",
    [],
  );
  expect(leaked(JSON.stringify(events))).toEqual([]);

  await vi.waitFor(() => expect(received.join("\n")).toContain("provider_rejected"), { timeout: 10_000 });
  expect(received.join("\n")).toContain("gen_ai.conversation.compacted");
  expect(leaked(received.join("\n"))).toEqual([]);
  expect(platform.logs.some((line) => line.includes("the context was compacted"))).toBe(true);
  expect(leaked(platform.logs.join("\n"))).toEqual([]);

  // What keeps the originals: the history file, and the log.
  const history = await session.history();
  expect(PLANTED.filter(({ secret }) => !history.includes(secret)).map(({ kind }) => kind)).toEqual([]);
});
