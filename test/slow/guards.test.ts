/** The guards of compaction over two Workers on one database (section 7): what one has learned or waits for holds in the other. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { WorkerHost } from "../../src/local/worker-host.ts";
import { type CompactingSession, compactingSession, prose, talk } from "../support/compaction.ts";
import { callerOf, startAnotherWorker, startTestPlatform, type TestPlatform } from "../support/platform.ts";

const WINDOW = 20_000;

let platform: TestPlatform;
let other: WorkerHost;

beforeAll(async () => {
  platform = await startTestPlatform({ variables: { HANGO_PROVIDER_MAX_RETRIES: "0" } });
  other = await startAnotherWorker(platform, { HANGO_PROVIDER_MAX_RETRIES: "0" });
}, 120_000);
afterAll(async () => {
  await other.close();
  await platform.close();
});
beforeEach(() => platform.simulator.reset());

/** A system prompt that alone is over the trigger of 8,000 tokens: no compaction brings the prompt under it. */
const HEAVY = prose(7_000);
/** What a turn brings, over a tenth of the trigger: its slice is worth a summary (G5). */
const LONG = prose(900);

const session = async (system = HEAVY): Promise<CompactingSession> => {
  const made = await compactingSession(platform, {
    windowTokens: WINDOW,
    fields: { system },
    context: { trigger_frac: 0.4 },
  });
  await made.load(talk(8, 150));
  return made;
};

/** A turn in one of the Workers, its summary scripted. @returns how many summaries it asked for */
const turnIn = async (worker: "first" | "second", it: CompactingSession, summary: string, input = LONG) => {
  const { simulator } = platform;
  simulator.reset();
  simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: summary } });
  simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "Good." } });
  const call = worker === "first" ? it.call : callerOf(other.url, it.tenant);
  const { status, body } = await call("POST", `/v1/sessions/${it.id}/turns`, { input });
  expect([status, body.status, body.error?.message]).toEqual([200, "completed", undefined]);
  return it.summaries();
};

const statusOf = async (it: CompactingSession) =>
  (await callerOf(other.url, it.tenant)("GET", `/v1/sessions/${it.id}/context`)).body.guards;

describe("a session that no compaction brings under its trigger", () => {
  it("is paused after two strikes, tried once in five minutes in whichever Worker, and goes on as soon as one helps (G3, G4, G5)", async () => {
    const it_ = await session();
    // Each summary is of another size: they do not come to the same.
    expect(await turnIn("first", it_, prose(40))).toBe(1);
    expect((await statusOf(it_)).effect).toMatchObject({ strikes: 1, reading: "over" });
    expect(await turnIn("second", it_, prose(80))).toBe(1);
    expect(await statusOf(it_)).toMatchObject({
      status: "ineffective",
      paused_until: null,
      effect: { strikes: 2, same_result: false, probation_until: null },
    });

    // The first evaluation that is blocked begins the time; one in the other Worker does not move it.
    expect(await turnIn("first", it_, prose(120))).toBe(0);
    const { paused_until: until, paused_because } = await statusOf(it_);
    expect(paused_because).toBe(
      `automatic compaction is paused until ${until} because two compactions in a row did not bring the prompt under the trigger`,
    );
    await platform.database.advanceClock(250);
    expect(await turnIn("second", it_, prose(120))).toBe(0);
    expect((await statusOf(it_)).paused_until).toBe(until);

    // One probe, without effect: blocked for a full new window.
    await platform.database.advanceClock(60);
    expect(await turnIn("second", it_, prose(120))).toBe(1);
    expect((await statusOf(it_)).effect).toMatchObject({ strikes: 3, probation_until: null });
    expect(await turnIn("first", it_, prose(160))).toBe(0);
    await platform.database.advanceClock(290);
    expect(await turnIn("first", it_, prose(160))).toBe(0);

    // The prompt becomes small enough that a compaction helps: the next probe ends the pause.
    expect((await it_.call("PATCH", `/v1/sessions/${it_.id}`, { system: "Be brief." })).status).toBe(200);
    await platform.database.advanceClock(20);
    const before = (await it_.generations()).length;
    for (let turns = 0; turns < 8 && (await it_.generations()).length === before; turns++)
      await turnIn(turns % 2 === 0 ? "second" : "first", it_, prose(200));
    expect((await it_.generations()).length).toBe(before + 1);
    expect(await statusOf(it_)).toMatchObject({ status: "on", effect: { strikes: 0, reading: "under" } });
  });

  it("is paused with a status of its own when two compactions come to the same (G8)", async () => {
    const it_ = await session();
    expect(await turnIn("first", it_, prose(100))).toBe(1);
    expect(await turnIn("second", it_, prose(100))).toBe(1);
    expect(await statusOf(it_)).toMatchObject({ status: "same_result", effect: { same_result: true } });
    expect(await turnIn("first", it_, prose(100))).toBe(0);
    await platform.database.advanceClock(301);
    expect(await turnIn("second", it_, prose(100))).toBe(1);
  });

  it("gives its probe to one of two Workers that need it at once (G4)", async () => {
    const it_ = await session();
    await turnIn("first", it_, prose(40));
    await turnIn("second", it_, prose(80));
    await turnIn("first", it_, prose(120));
    await platform.database.advanceClock(301);
    const { simulator } = platform;
    simulator.reset();
    simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: prose(120) } });
    simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: prose(160) } });
    for (const content of ["One.", "Two."]) simulator.enqueue({ match: { purpose: "turn" }, reply: { content } });
    const answers = await Promise.all(
      [it_.call, callerOf(other.url, it_.tenant)].map((call) =>
        call("POST", `/v1/sessions/${it_.id}/turns`, { input: LONG, on_busy: "queue" }),
      ),
    );
    expect(answers.map(({ body }) => body.status)).toEqual(["completed", "completed"]);
    expect(it_.summaries()).toBe(1);
  });
});

describe("a summary that failed in one Worker (G1)", () => {
  it("is not tried by the other within its cooldown, and is after it", async () => {
    const it_ = await session(prose(3_000));
    const { simulator, database } = platform;
    const failing = async () => {
      simulator.reset();
      simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: " " } });
      simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "Good." } });
      const { body } = await it_.call("POST", `/v1/sessions/${it_.id}/turns`, { input: prose(2_500) });
      expect(body.status).toBe("completed");
      return it_.summaries();
    };
    expect(await failing()).toBe(1);
    expect(await turnIn("second", it_, prose(40))).toBe(0);
    await database.advanceClock(31);
    expect(await turnIn("second", it_, prose(40))).toBe(1);
    expect((await statusOf(it_)).cooldown).toMatchObject({ last_failure: null, until: null });
  });
});

describe("a turn that has tried to compact three times (M4)", () => {
  it("does not try again when its Worker dies and the other goes on with it, whoever asks", async () => {
    const it_ = await session("Be brief.");
    const { simulator, database } = platform;
    const ask = { content: [{ type: "tool_use" as const, name: "compact_conversation", input: {} }] };
    for (let attempt = 0; attempt < 4; attempt++)
      simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: " " } });
    for (let attempt = 0; attempt < 3; attempt++) simulator.enqueue({ match: { purpose: "turn" }, reply: ask });
    simulator.enqueue({ match: { purpose: "turn" }, hold: { name: "doomed", at: "start" }, reply: ask });
    const doomed = await startAnotherWorker(platform, { HANGO_PROVIDER_MAX_RETRIES: "0" });
    const cut = callerOf(doomed.url, it_.tenant)("POST", `/v1/sessions/${it_.id}/turns`, { input: "Go." }).then(
      () => "answered",
      () => "cut",
    );
    await simulator.reached("doomed");
    await doomed.close();
    expect(await cut).toBe("cut");
    simulator.release("doomed");
    await database.advanceClock(200);
    for (const reply of [ask, { content: "Done." }, { content: "Next." }])
      simulator.enqueue({ match: { purpose: "turn" }, reply });
    const next = await it_.call("POST", `/v1/sessions/${it_.id}/turns`, { input: "And now?", on_busy: "queue" });
    expect(next.body).toMatchObject({ status: "completed", output_text: "Next." });
    const [run] = (await it_.call("GET", `/v1/sessions/${it_.id}/runs?order=asc`)).body.data;
    expect(run).toMatchObject({ status: "completed", output_text: "Done.", attempts: 2 });
    expect(it_.summaries()).toBe(3);
  });
});
