/** Summaries that fail, and commits that go wrong (sections 6 and 7), through the built Worker. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ScriptEntry } from "../../src/local/simulator/script.ts";
import { compactingSession, MODEL, prose, talk, textOf } from "../support/compaction.ts";
import { callerOf, startAnotherWorker, startTestPlatform, type TestPlatform } from "../support/platform.ts";

const WINDOW = 20_000;

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform({ variables: { HANGO_PROVIDER_MAX_RETRIES: "0" } });
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

/** Over the trigger, and under the window. */
const OVER_TRIGGER = talk(24, 230);
const OVER_WINDOW = talk(30, 230);

const loaded = async (messages = OVER_TRIGGER) => {
  const session = await compactingSession(platform, { windowTokens: WINDOW });
  await session.load(messages);
  return session;
};

const summariser = (entry: Omit<ScriptEntry, "match">): void =>
  platform.simulator.enqueue({ match: { purpose: "summarize" }, ...entry });

const FAILURES: readonly (readonly [string, Omit<ScriptEntry, "match">, string, number])[] = [
  ["is blank", { reply: { content: " \n " } }, "empty", 30],
  ["is a refusal", { fault: { kind: "refusal" } }, "refused", 60],
  ["is cut off at max_tokens", { fault: { kind: "truncate", tokens: 5 } }, "truncated", 60],
  ["meets an overloaded provider (529)", { fault: { kind: "status", status: 529 } }, "overloaded", 60],
  ["meets a refused key (401)", { fault: { kind: "status", status: 401 } }, "authentication", 600],
  ["breaks off in its stream", { fault: { kind: "cut", after_pieces: 2 } }, "malformed", 30],
];

describe("a summary that", () => {
  it.each(FAILURES)(
    "%s: the un-compacted view is sent, nothing is lost, and none is tried again before its cooldown ends (G1, G2)",
    async (_name, entry, failure, seconds) => {
      const { untouched, scripted, lastSent, generations, revisions, summaries, head } = await loaded();
      summariser(entry);
      await untouched(() => scripted("One.", "First."));
      expect([await generations(), await revisions(), summaries()]).toEqual([[], [], 1]);
      const { messages } = lastSent();
      expect(messages.slice(0, -1).map(textOf)).toEqual(OVER_TRIGGER.map(textOf));
      expect(textOf(messages)).not.toMatch(/overloaded|x-api-key|authentication/i);
      const { cooldown_reason, cooldown_s } = await head();
      expect([cooldown_reason, cooldown_s > seconds - 20 && cooldown_s <= seconds]).toEqual([failure, true]);

      await untouched(() => scripted("Two.", "Second."));
      expect(summaries()).toBe(1);
      await platform.database.advanceClock(seconds + 1);
      await untouched(() => scripted("Three.", "Third."));
      expect(await generations()).toMatchObject([{ reason: "threshold" }]);
      expect((await head()).cooldown_reason).toBe(null);
    },
  );

  it("is cut off again and again waits 60, 300, 900 and 900 seconds, and a success resets it (G1)", async () => {
    const { untouched, scripted, head, generations, summaries } = await loaded();
    for (const [at, seconds] of [60, 300, 900, 900].entries()) {
      summariser({ fault: { kind: "truncate", tokens: 5 } });
      await untouched(() => scripted(`Again ${at}.`, "Yes."));
      const { cooldown_s } = await head();
      expect([at, cooldown_s > seconds - 20 && cooldown_s <= seconds]).toEqual([at, true]);
      expect(summaries()).toBe(at + 1);
      await platform.database.advanceClock(seconds + 1);
    }
    await untouched(() => scripted("At last.", "Yes."));
    expect(await generations()).toHaveLength(1);
    expect(await head()).toMatchObject({ summary_timeouts: 0, summary_truncations: 0 });
  });

  it("is blank while the view is over the window: the oldest turns are left out instead, readable in the history file (G2, ladder step 5)", async () => {
    const { untouched, scripted, lastSent, generations, revisions, rejections, history } = await loaded(OVER_WINDOW);
    summariser({ reply: { content: " " } });
    await untouched(() => scripted("One.", "First."));
    expect([await generations(), await revisions()]).toEqual([[], ["truncate"]]);
    const text = textOf(lastSent().messages);
    expect(text).toContain("## Messages that were left out");
    expect(text).not.toContain("Question q0:");
    expect(await history()).toContain("Question q0:");
    expect(rejections()).toEqual([]);
    await untouched(() => scripted("Two.", "Second."));
  });

  it.each([
    [529, 503, "provider_overloaded"],
    [401, 502, "provider_rejected"],
  ])(
    "meets a %i while the view is over the window: the turn is given up, nothing is lost, and the next one works (G2)",
    async (providers, status, code) => {
      const { untouched, turn, scripted, sent, generations, revisions } = await loaded(OVER_WINDOW);
      summariser({ fault: { kind: "status", status: providers } });
      const failed = await untouched(() => turn("One."));
      expect([failed.status, failed.body.error.code]).toEqual([status, code]);
      expect([sent(), await generations(), await revisions()]).toEqual([[], [], []]);
      await platform.database.advanceClock(601);
      await untouched(() => scripted("Two.", "Second."));
      expect(await generations()).toHaveLength(1);
    },
  );
});

describe("a commit", () => {
  it("whose answer is lost is sent again and stores one generation (M3)", async () => {
    const { id, untouched, turn, generations, revisions, summaries } = await loaded();
    summariser({ hold: { name: "summary", at: "start" } });
    platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "Here." } });
    await untouched(async () => {
      const answer = turn("And now?");
      await platform.simulator.reached("summary");
      platform.database.dropNextAnswer();
      platform.simulator.release("summary");
      expect((await answer).body).toMatchObject({ status: "completed", output_text: "Here." });
    });
    expect(await generations()).toHaveLength(1);
    expect(await revisions()).toEqual(["summarise"]);
    const usage = await platform.database.sql(
      "select purpose, count(*)::int as n from usage_records where session_id = $1 group by purpose order by purpose",
      [id],
    );
    expect(usage).toEqual([
      { purpose: "summarize", n: summaries() },
      { purpose: "turn", n: 1 },
    ]);
  });

  it("of a worker that has lost its session changes nothing: no summary, no counter, no cooldown (M2)", async () => {
    const { id, untouched, turn, generations, revisions, head, call } = await loaded();
    summariser({ hold: { name: "summary", at: "start" }, reply: { content: "The late summary." } });
    const late = turn("And now?");
    await platform.simulator.reached("summary");
    await platform.database.advanceClock(200);
    summariser({ fault: { kind: "status", status: 529 } });
    for (const content of ["Now.", "I am."])
      platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content } });
    const other = await call("POST", `/v1/sessions/${id}/turns`, { input: "Somebody else?", on_busy: "queue" });
    expect(other.body).toMatchObject({ status: "completed", output_text: "I am." });
    const before = [await generations(), await revisions(), await head(), await counters(id)];
    await untouched(async () => {
      platform.simulator.release("summary");
      // Its run went on without it. Its client is told how it stands when the Worker finds that out, which may be before its end.
      const { id: runId } = (await late).body;
      const run = (await call("GET", `/v1/runs/${runId}`)).body;
      expect(run).toMatchObject({ status: "completed", output_text: "Now.", attempts: 2 });
    });
    const clock = ({ cooldown_s: _seconds, ...rest }: Record<string, unknown>) => rest;
    const after = [await generations(), await revisions(), await head(), await counters(id)];
    expect([after[0], after[1], clock(after[2] as Record<string, unknown>), after[3]]).toEqual([
      before[0],
      before[1],
      clock(before[2] as Record<string, unknown>),
      before[3],
    ]);
    expect(after[0]).toEqual([]);
    const runs = (await call("GET", `/v1/sessions/${id}/runs?order=asc`)).body.data;
    expect(runs.map(({ status }: { status: string }) => status)).toEqual(["completed", "completed"]);
  });

  it("that a crash prevented leaves the old view: the history was written, nothing refers to it, and the run compacts anew where it goes on (M3)", async () => {
    const { id, tenant, untouched, generations, revisions, lastSent } = await loaded();
    const doomed = await startAnotherWorker(platform);
    summariser({ hold: { name: "crash", at: "start" } });
    const cut = callerOf(doomed.url, tenant)("POST", `/v1/sessions/${id}/turns`, { input: "And now?" }).then(
      () => "answered",
      () => "cut",
    );
    await untouched(async () => {
      await platform.simulator.reached("crash");
      await doomed.close();
      expect(await cut).toBe("cut");
    });
    expect([await generations(), await revisions()]).toEqual([[], []]);
    platform.simulator.release("crash");
    await platform.database.advanceClock(200);
    platform.simulator.setModels({ [MODEL]: { maxInputTokens: WINDOW } });
    const again = callerOf(platform.url, tenant);
    await untouched(async () => {
      const { body } = await again("POST", `/v1/sessions/${id}/turns`, { input: "Still there?", on_busy: "queue" });
      expect([body.status, body.error?.message]).toEqual(["completed", undefined]);
    });
    expect(await generations()).toMatchObject([{ generation: 1, base_generation: 0 }]);
    expect(await revisions()).toEqual(["summarise"]);
    expect(textOf(lastSent().messages.at(-1))).toContain("Still there?");
  });
});

describe("a summary that was made", () => {
  it("is kept, and paid for once, where the request does not fit even with it (M1, M3, ladder step 6)", async () => {
    const { id, untouched, turn, generations, summaries } = await loaded(talk(8, 230));
    const huge = prose(18_000);
    for (const _ of [1, 2]) {
      const failed = await untouched(() => turn(huge));
      expect([failed.status, failed.body.error.code]).toEqual([422, "context_cannot_fit"]);
    }
    expect([(await generations())[0]?.reason, summaries()]).toEqual(["threshold", 1]);
    const usage = "select count(*)::int as n from usage_records where session_id = $1 and purpose = 'summarize'";
    expect(await platform.database.sql(usage, [id])).toEqual([{ n: 1 }]);
  });
});

describe("a compaction that was asked for over the API", () => {
  it("is cancelled while its summary is being written: the call is cut off, and nothing is left of it (M2, G1)", async () => {
    const { id, untouched, generations, head, call } = await loaded();
    summariser({ hold: { name: "cancel", at: "start" } });
    await untouched(async () => {
      const compacting = call("POST", `/v1/sessions/${id}/compact`, {});
      await platform.simulator.reached("cancel");
      const [run] = (await call("GET", `/v1/sessions/${id}/runs`)).body.data;
      expect((await call("POST", `/v1/runs/${run.id}/cancel`)).status).toBe(202);
      // The gate is never opened: only the cancel ends the call.
      const { status, body } = await compacting;
      expect([status, body.compacted, body.reason, body.failure]).toEqual([200, false, "it was cancelled", null]);
      expect((await call("GET", `/v1/runs/${run.id}`)).body).toMatchObject({ status: "cancelled" });
    });
    platform.simulator.release("cancel");
    expect([await generations(), (await head()).cooldown_reason]).toEqual([[], null]);
  });
});

describe("another model (G10)", () => {
  it("begins with clean guards and shows whole again what was clipped, in a recorded revision; the summary stays", async () => {
    const session = await loaded();
    await session.scripted("One.", "First.");
    expect((await session.generations()).length).toBe(1);
    await platform.database.sql(
      `update session_heads set strikes = 2, compaction_pause = 'same_result', probation_at = hango_now(), cooldown_reason = 'timeout',
         cooldown_until = hango_now() + interval '5 minutes' where session_id = $1`,
      [session.id],
    );
    await platform.database.sql(
      `insert into view_revisions (session_id, revision, attempt_id, generation, clipped_before, clip_tokens, thinking_floor, reason)
       select v.session_id, v.revision + 1, 'clip', v.generation, 60, v.clip_tokens, v.thinking_floor, 'clip'
       from view_revisions v where v.session_id = $1 order by v.revision desc limit 1`,
      [session.id],
    );
    await platform.database.sql("update session_heads set revision = revision + 1 where session_id = $1", [session.id]);
    platform.simulator.setModels({
      [MODEL]: { maxInputTokens: WINDOW },
      "claude-opus-4-8": { maxInputTokens: WINDOW },
    });
    const changed = await session.call("PATCH", `/v1/sessions/${session.id}`, { model: "claude-opus-4-8" });
    expect(changed.status).toBe(200);
    expect((await session.call("GET", `/v1/sessions/${session.id}/context`)).body).toMatchObject({
      generation: 1,
      projection: { basis: "estimate", factor: 1 },
      view: { clipped_before: 1 },
      guards: { status: "cooldown", effect: { strikes: 0, same_result: false, probation_until: null } },
    });
    await session.untouched(() => session.scripted("Two.", "Second."));
    expect((await session.revisions()).at(-1)).toBe("model");
    expect(await session.head()).toMatchObject({ strikes: 0, compaction_pause: null, cooldown_reason: "timeout" });
    expect(textOf(session.lastSent().messages)).toContain("[Handoff from earlier turns]");
  });
});

const counters = async (id: string) =>
  (
    await platform.database.sql(
      "select compactions::int, last_input_tokens::int, input_tokens::int from sessions where id = $1",
      [id],
    )
  )[0];
