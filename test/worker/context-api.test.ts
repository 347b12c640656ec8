/** Compacting, seeing and un-compacting over the API, through the built Worker: what is said is what happens. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { compactingSession, prose, talk, textOf } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { pagesOf, sampleSessions } from "../support/sessions.ts";

const WINDOW = 20_000;

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform();
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

const session = (fields = {}) => compactingSession(platform, { windowTokens: WINDOW, fields });
type Session = Awaited<ReturnType<typeof session>>;

const compact = ({ call, id }: Session, body: object = {}, headers = {}) =>
  call("POST", `/v1/sessions/${id}/compact`, body, headers);
const context = async ({ call, id }: Session, query = "") =>
  (await call("GET", `/v1/sessions/${id}/context${query}`)).body;
const receipts = async ({ call, id }: Session) =>
  (await call("GET", `/v1/sessions/${id}/compactions?order=asc`)).body.data;
const voided = ({ call, id }: Session, generation: number, headers = {}) =>
  call("POST", `/v1/sessions/${id}/compactions/${generation}/void`, undefined, headers);

/** Everything that a request may have left behind. */
const traces = async ({ id }: Session) => {
  const tables = ["session_heads", "messages", "compactions", "view_revisions", "runs", "run_events", "usage_records"];
  const sums = await Promise.all(
    tables.map(async (table) => {
      const [row] = await platform.database.sql(
        `select md5(coalesce(string_agg(t::text, '~' order by t::text), '')) as sum from ${table} t where session_id = $1`,
        [id],
      );
      return [table, row?.sum];
    }),
  );
  return { ...Object.fromEntries(sums), requests: platform.simulator.requests.length };
};

/** About half of the window: nothing compacts by itself. */
const HALF = talk(12, 200);

// biome-ignore lint/suspicious/noExplicitAny: requests have every shape
const withoutMarks = (value: any): any =>
  JSON.parse(JSON.stringify(value, (key, inner) => (key === "cache_control" ? undefined : inner)));

describe("GET /context", () => {
  it("with view=full shows the request that the next call sends, byte for byte but for the input to come", async () => {
    const it = await session({ system: "You are careful.", user: "u-1" });
    await it.load(HALF);
    await it.answered("First?");
    const before = await traces(it);
    const shown = await context(it, "?view=full");
    expect(await traces(it)).toEqual(before);
    await it.answered("Second?");
    const sent = it.lastSent();
    const { messages, ...rest } = withoutMarks(shown.request);
    const { messages: sentMessages, ...sentRest } = withoutMarks(sent);
    expect(rest).toEqual(sentRest);
    expect(messages).toEqual(sentMessages.slice(0, -1));
    expect(shown.request_note).toBe(null);
  });

  it("shows the request of a compacted session too, and says what it knows of its size", async () => {
    const it = await session();
    await it.load(HALF);
    await compact(it);
    await it.answered("First?");
    const shown = await context(it, "?view=full");
    await it.answered("Second?");
    expect(withoutMarks(shown.request.messages)).toEqual(withoutMarks(it.lastSent().messages.slice(0, -1)));
    const [receipt] = await receipts(it);
    expect(shown).toMatchObject({
      generation: 1,
      projection: { basis: "reading" },
      last_reading: { tokens: receipt.tokens_read, revision: shown.revision },
      view: { covered: receipt.covered },
      next: { action: "send" },
    });
    const { system, tools, handoff, kept, free } = shown.budget;
    expect(handoff).toBeGreaterThan(0);
    expect(system + tools + handoff + kept + free).toBe(shown.window.tokens);
    expect(system + tools + handoff + kept).toBe(shown.size.estimate_tokens);
  });

  it("says that the next call compacts, and why; and then it does", async () => {
    const it = await session();
    await it.load(talk(30, 230));
    const before = await context(it);
    expect(before.next).toEqual({
      action: "count",
      steps: ["summarise"],
      reason: `${before.projection.tokens} projected tokens are an estimate without a reading, near or over the trigger of 17000: the provider counts first`,
    });
    expect(before.projection.tokens).toBeGreaterThanOrEqual(before.window.trigger_tokens);
    await it.answered("And now?");
    const [{ tokens_read }] = await receipts(it);
    expect(await context(it)).toMatchObject({
      generation: 1,
      projection: { basis: "reading" },
      last_reading: { tokens: tokens_read },
      guards: { automatic: "on", paused_because: null, effect: { strikes: 0, reading: "under" } },
      next: { action: "send", steps: [] },
    });
  });
});

describe("POST /compact", () => {
  it("with dry_run changes nothing, and says what a compaction then does", async () => {
    const it = await session();
    await it.load(HALF);
    const before = await traces(it);
    const { status, body: plan } = await compact(it, { dry_run: true });
    expect(status).toBe(200);
    expect(await traces(it)).toEqual(before);
    expect((await it.file(`/conversation_history/${it.id}.md`)).status).toBe(404);
    const { body: done } = await compact(it);
    const { compaction } = done;
    expect(plan).toEqual({
      type: "compaction_plan",
      session_id: it.id,
      would_compact: true,
      reason: null,
      failure: null,
      steps: done.steps,
      boundary: compaction.covered[0].to + 1,
      ranges: compaction.covered,
      evicted: compaction.evicted,
      dropped: compaction.dropped,
      tokens_before: compaction.tokens_before,
      tokens_after: expect.any(Number),
      summary: { model: compaction.model, calls: 1, usage: expect.any(Object), cost_usd: expect.any(Number) },
    });
    expect(plan.tokens_after).toBeLessThan(plan.tokens_before);
    // The estimate of the call's prompt is within the estimator's bounds of what was read.
    expect(plan.summary.usage.input_tokens / compaction.usage.input_tokens).toBeGreaterThan(0.6);
    expect(plan.summary.usage.input_tokens / compaction.usage.input_tokens).toBeLessThan(1.6);
  });

  it("compacts an idle session, leaves the log as it is, and answers with the receipt (G9, M6)", async () => {
    const it = await session();
    await it.load(HALF);
    const { status, body } = await it.untouched(() => compact(it, { focus: "the table" }));
    expect([status, body.compacted, body.reason]).toEqual([200, true, null]);
    expect(body.compaction).toEqual((await receipts(it))[0]);
    expect(body.compaction).toMatchObject({
      generation: 1,
      base_generation: 0,
      reason: "manual",
      run_id: body.run_id,
      covered: [{ from: 1, to: body.compaction.evicted }],
      dropped: { user_messages: body.compaction.evicted / 2, assistant_messages: body.compaction.evicted / 2 },
      tokens_read: null,
      history: { path: `/conversation_history/${it.id}.md`, sections: body.compaction.covered },
      voided_at: null,
    });
    expect(it.summaries()).toBe(1);
    const request = platform.simulator.requests.find(({ purpose }) => purpose === "summarize");
    expect(request?.bodyText).toContain("the table");
    const run = (await it.call("GET", `/v1/runs/${body.run_id}`)).body;
    expect([run.status, run.trigger]).toEqual(["completed", "maintenance"]);
    await it.answered("Go on.");
    expect((await receipts(it))[0].tokens_read).toBeGreaterThan(0);
    expect(it.rejections()).toEqual([]);
  });

  it("says in words why nothing was compacted", async () => {
    const it = await session();
    await it.load(HALF);
    await compact(it);
    const { status, body } = await compact(it);
    expect([status, body.compacted, body.reason, body.failure]).toEqual([
      200,
      false,
      "nothing was said since the last compaction",
      null,
    ]);
    expect(it.summaries()).toBe(1);
  });

  it("names the class of a summary that failed; the guard is on until it is asked for again (G1, G9)", async () => {
    const it = await session();
    await it.load(HALF);
    platform.simulator.enqueue({ match: { purpose: "summarize" }, fault: { kind: "refusal" } });
    const { status, body } = await compact(it);
    expect([status, body.compacted, body.failure]).toEqual([200, false, "refused"]);
    expect(body.cooldown_seconds).toBe(60);
    const { guards } = await context(it);
    expect(guards).toMatchObject({
      automatic: "paused",
      paused_because: `automatic compaction is paused until ${guards.cooldown.until} because a summary failed (refused)`,
      cooldown: { last_failure: "refused" },
    });
    expect((await compact(it)).body.compacted).toBe(true);
    expect((await context(it)).guards.paused_because).toBe(
      "automatic compaction waits for the model's next answer, which measures the last compaction",
    );
  });

  it("during a run is left to it: 202, and the run compacts at its next step (G9)", async () => {
    const it = await session();
    await it.load(HALF);
    platform.simulator.enqueue({
      match: { purpose: "turn" },
      hold: "tools",
      reply: { content: [{ type: "tool_use", name: "ls", input: { path: "/" } }] },
    });
    const running = it.turn("List the files.");
    await platform.simulator.reached("tools");
    const { status, body } = await compact(it, { focus: "the index" });
    expect([status, body.status]).toEqual([202, "requested"]);
    expect(await context(it)).toMatchObject({ run_id: body.run_id, requested: true });
    platform.simulator.release("tools");
    expect((await running).body).toMatchObject({ id: body.run_id, status: "completed" });
    expect((await receipts(it)).map(({ reason, run_id }: Record<string, unknown>) => [reason, run_id])).toEqual([
      ["manual", body.run_id],
    ]);
    expect((await context(it)).requested).toBe(false);
    expect(it.rejections()).toEqual([]);
  });

  it("is done once for an Idempotency-Key; the same key with another body is refused", async () => {
    const it = await session();
    await it.load(HALF);
    const headers = { "Idempotency-Key": "compact-1" };
    const [first, second] = await Promise.all([compact(it, {}, headers), compact(it, {}, headers)]);
    const third = await compact(it, {}, headers);
    expect([first.status, second.body, third.body]).toEqual([200, first.body, first.body]);
    expect(third.headers.get("Idempotent-Replayed")).toBe("true");
    expect([it.summaries(), (await receipts(it)).length]).toEqual([1, 1]);
    const other = await compact(it, { focus: "x" }, headers);
    expect([other.status, other.body.error.code]).toEqual([409, "idempotency_mismatch"]);
  });
});

describe("voiding a compaction (R4)", () => {
  it("shows the model what it was shown before; the receipt says so", async () => {
    const it = await session();
    await it.load(HALF);
    const before = await context(it, "?view=full");
    await compact(it);
    const { status, body } = await it.untouched(() => voided(it, 1));
    expect([status, body]).toEqual([200, { type: "voided_compaction", generations: [1], revision: 2 }]);
    expect((await voided(it, 1)).body).toEqual(body);
    expect((await receipts(it))[0].voided_at).toEqual(expect.any(String));
    const after = await context(it, "?view=full");
    expect([after.generation, after.request]).toEqual([null, before.request]);
    await it.answered("Go on.");
    expect(textOf(it.lastSent().messages)).toContain("Question q0:");
    expect((await compact(it)).body.compaction.generation).toBe(2);
  });

  it("is refused during a run, and unknown for a generation that is not there", async () => {
    const it = await session();
    await it.load(HALF);
    await compact(it);
    const none = await voided(it, 2);
    expect([none.status, none.body.error.code]).toEqual([404, "not_found"]);
    platform.simulator.enqueue({ match: { purpose: "turn" }, hold: "void", reply: { content: prose(5) } });
    const running = it.turn("Wait.");
    await platform.simulator.reached("void");
    const busy = await voided(it, 1);
    expect([busy.status, busy.body.error.code]).toEqual([409, "session_busy"]);
    platform.simulator.release("void");
    const { body } = await running;
    expect(busy.body.error.run_id).toBe(body.id);
    expect((await context(it)).generation).toBe(1);
  });
});

describe("recorded sessions", () => {
  it.each(sampleSessions().map((recorded) => [recorded.name, recorded] as const))(
    "%s: the plan is what is done, and the request shown is the one sent",
    async (_, recorded) => {
      const windowTokens = 60_000;
      const it = await compactingSession(platform, { windowTokens });
      for (const page of pagesOf(recorded)) {
        const { status } = await it.call("POST", `/v1/sessions/${it.id}/import`, page);
        expect(status).toBe(200);
      }
      const { body: plan } = await compact(it, { dry_run: true });
      const { body: done } = await it.untouched(() => compact(it));
      expect([plan.would_compact, plan.steps, plan.failure]).toEqual([done.compacted, done.steps, done.failure]);
      if (done.compacted) {
        const { history, evicted, dropped, tokens_before } = done.compaction;
        expect([plan.ranges, plan.evicted, plan.dropped, plan.tokens_before]).toEqual([
          history.sections,
          evicted,
          dropped,
          tokens_before,
        ]);
      }
      const shown = await context(it, "?view=full");
      const turn = await it.turn("And now?");
      expect([turn.status, it.rejections()]).toEqual([200, []]);
      if (shown.next.action !== "send") return;
      expect(withoutMarks(shown.request.messages)).toEqual(withoutMarks(it.sent()[0].messages.slice(0, -1)));
    },
  );
});

describe("GET /export", () => {
  it("holds every generation with its receipt, its summary and its sections", async () => {
    const it = await session();
    await it.load(HALF);
    await compact(it);
    await it.answered("Go on: naïve café, \u65e5\u672c.");
    await compact(it);
    await voided(it, 2);
    const response = await fetch(`${platform.url}/v1/sessions/${it.id}/export`, { headers: it.tenant.headers });
    const folder = mkdtempSync(join(tmpdir(), "hango-context-"));
    const path = join(folder, "export.tar");
    writeFileSync(path, new Uint8Array(await response.arrayBuffer()));
    const lines = execFileSync("tar", ["-xOf", path, "compactions.jsonl"], { encoding: "utf8" }).split("\n");
    rmSync(folder, { recursive: true });
    const stored = await it.generations();
    const shown = await receipts(it);
    expect(lines.pop()).toBe("");
    expect(
      lines.map((line) => {
        const { summary, pinned_text, sections, ...receipt } = JSON.parse(line);
        return { summary, pinned_text, sections: Object.keys(sections), receipt };
      }),
    ).toEqual(
      stored.map(({ summary, pinned_text }, at) => ({
        summary,
        pinned_text,
        sections: ["sections", "rendered"],
        receipt: shown[at],
      })),
    );
    expect(shown.length).toBe(2);
  });
});
