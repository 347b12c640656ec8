/** The context of a session over the API, where no model is needed: what is shown, refused, and left as it was. */
import { beforeAll, describe, expect, it } from "vitest";
import { EMPTY_SECTIONS } from "../../../src/context/sections.ts";
import { newId, type RunId, type SessionId, seq, type TenantId } from "../../../src/protocol/ids.ts";
import { finishMaintenance } from "../../../src/store/maintenance.ts";
import { takeMaintenanceLease } from "../../../src/store/maintenance-lease.ts";
import { commitRevision } from "../../../src/store/revisions.ts";
import { change, compaction, EMPTY, generation, NO_TOTALS, recordOf } from "../../support/store.ts";
import { failure, type Harness, harness, type TestTenant } from "./harness.ts";

let api: Harness;
let tenant: TestTenant;

beforeAll(async () => {
  api = await harness();
  tenant = await api.tenant();
});

const created = async (json: object = {}): Promise<SessionId> =>
  (await api.call("POST", "/v1/sessions", { key: tenant.key, json })).json.id;
const load = (id: string, messages: readonly object[]) =>
  api.call("POST", `/v1/sessions/${id}/import`, { key: tenant.key, json: { messages } });
const context = (id: string, query = "", key = tenant.key) =>
  api.call("GET", `/v1/sessions/${id}/context${query}`, { key });
const compact = (id: string, json: object, headers = {}) =>
  api.call("POST", `/v1/sessions/${id}/compact`, { key: tenant.key, json, headers });
const receipts = (id: string, query = "") =>
  api.call("GET", `/v1/sessions/${id}/compactions${query}`, { key: tenant.key });
const voided = (id: string, generation: string | number, headers = {}) =>
  api.call("POST", `/v1/sessions/${id}/compactions/${generation}/void`, { key: tenant.key, headers });

const talk = (pairs: number) =>
  Array.from({ length: pairs }, (_, at) => [
    { role: "user", content: `Question ${at}?` },
    { role: "assistant", content: `Answer ${at}.` },
  ]).flat();

/** Commits generations over two more rows each, as runs would. */
const commit = async (id: SessionId, count: number): Promise<void> => {
  for (let number = 1; number <= count; number++) {
    const taken = await takeMaintenanceLease(api.deps.db, {
      tenantId: tenant.id as TenantId,
      keyId: null,
      session: { id },
      runId: newId("run"),
      startedAt: new Date(0).toISOString(),
      limits: null,
    });
    if (taken.kind !== "started") throw new Error(taken.kind);
    const { session } = taken;
    const view = {
      ...EMPTY,
      revision: number,
      thinkingFloor: seq(session.nextSeq),
      generation: generation(number, {
        covered: [{ from: seq(1), to: seq(2 * number) }],
        sections: JSON.stringify({ sections: EMPTY_SECTIONS }),
      }),
    };
    const base = { revision: number - 1, generation: number - 1 };
    const attemptId = newId("cmp");
    await commitRevision(api.deps.db, session, change(session, { attemptId, base, view, compaction: compaction() }));
    await finishMaintenance(api.deps.db, session, {
      error: null,
      isCancelled: false,
      base: seq(session.nextSeq),
      totals: NO_TOTALS,
      compactions: 1,
      dbRoundTrips: 1,
      overheadMs: 1,
      record: recordOf(session),
    });
  }
};

const head = async (id: string) => (await api.db.sql("select * from session_heads where session_id = $1", [id]))[0];

describe("GET /v1/sessions/{id}/context", () => {
  it("of an empty session shows its settings, an empty view and no guard, in two round trips and without a write", async () => {
    const id = await created({ system: "Be careful.", context: { max_input_tokens: 50_000, trigger_frac: 0.5 } });
    const before = await head(id);
    const { status, json } = await context(id);
    expect([status, api.roundTrips()]).toEqual([200, 2]);
    expect(await head(id)).toEqual(before);
    const { system, tools, free } = json.budget;
    expect([system > 0, tools > 0]).toEqual([true, true]);
    expect(json).toEqual({
      type: "context",
      session_id: id,
      run_id: null,
      model: "claude-sonnet-5-5",
      summarizer_model: "claude-sonnet-5-5",
      revision: 0,
      generation: null,
      window: { tokens: 50_000, reserve_tokens: 0, trigger_tokens: 25_000, keep_tokens: 12_500 },
      budget: { system, tools, handoff: 0, kept: 0, free: 50_000 - system - tools },
      size: { messages: 0, estimate_tokens: system + tools, bytes: 0, media_items: 0 },
      projection: { tokens: system + tools, basis: "estimate", factor: 1, share: expect.any(Number) },
      last_reading: null,
      skills: { listed: [], skipped: [] },
      view: { covered: [], hidden: [], clipped_before: 1, thinking_floor: 1, demoted_results: 0, pinned_seq: null },
      guards: {
        automatic: "on",
        status: "on",
        paused_because: null,
        paused_until: null,
        all: [],
        cooldown: { until: null, timeouts_in_a_row: 0, truncations_in_a_row: 0, last_failure: null },
        effect: {
          strikes: 0,
          same_result: false,
          probation_until: null,
          summaries_skipped: 0,
          generation: null,
          reading: null,
        },
        turn: null,
        learned_with: {
          model: "claude-sonnet-5-5",
          provider: "anthropic",
          summarizer_model: "claude-sonnet-5-5",
        },
      },
      requested: false,
      next: {
        action: "send",
        steps: [],
        reason: `${system + tools} projected tokens are under the trigger of 25000`,
      },
      micro_compaction: {
        occupancy: Math.round((system + tools) / 25) / 1_000,
        batch_compactions_avoided: 0,
        batch_compactions: 0,
        passes: 0,
        tokens_saved: 0,
        summary_tokens: 0,
        enabled: false,
        every_n_turns: null,
        defrag_tokens: null,
        turns_since_pass: 0,
        failing: null,
        passed_over_before: null,
      },
    });
    expect(Object.keys(json.micro_compaction).slice(0, 2)).toEqual(["occupancy", "batch_compactions_avoided"]);
    expect(free).toBe(50_000 - system - tools);
  });

  it("with view=full needs the scope content, and gives the request with its messages", async () => {
    const id = await created({ system: "Be careful.", user: "u-1" });
    await load(id, talk(2));
    const reader = await api.keyOf(tenant, ["read"]);
    expect(failure(await context(id, "?view=full", reader))).toEqual({ status: 403, code: "forbidden" });
    expect((await context(id, "", reader)).status).toBe(200);
    const { json } = await context(id, "?view=full");
    expect(json.request).toMatchObject({
      model: "claude-sonnet-5-5",
      stream: true,
      metadata: { user_id: "u-1" },
      messages: talk(2).map(({ role, content }) => ({ role, content: [{ type: "text", text: content }] })),
    });
    expect(json.request.system[0]).toMatchObject({ text: "Be careful." });
    expect(failure(await context(id, "?view=all"))).toMatchObject({ status: 400, code: "invalid_request" });
  });

  it("says which guards hold automatic compaction back, until when and what ends them, the first that counts first (G1, G3, G4)", async () => {
    const id = await created();
    await api.db.sql(
      `update session_heads set cooldown_until = hango_now() + interval '1 minute', cooldown_reason = 'timeout', summary_timeouts = 2,
         strikes = 2, probation_at = hango_now() + interval '5 minutes', infeasible_skips = 1, guarded_generation = 3, guarded_reading = 'over',
         guards_model = 'claude-sonnet-5-5', guards_provider = 'anthropic', guards_summarizer = 'claude-sonnet-5-5'
       where session_id = $1`,
      [id],
    );
    const { guards } = (await context(id)).json;
    const { until } = guards.cooldown;
    const probation = guards.effect.probation_until;
    expect(Date.parse(probation) - Date.parse(until)).toBe(240_000);
    const ineffective = `automatic compaction is paused until ${probation} because two compactions in a row did not bring the prompt under the trigger`;
    expect(guards).toMatchObject({
      automatic: "paused",
      status: "cooldown",
      paused_because: `automatic compaction is paused until ${until} because two summaries failed in a row (timeout)`,
      paused_until: until,
      all: [
        { status: "cooldown", until, ends: expect.any(String) },
        { status: "ineffective", until: probation, because: ineffective, ends: expect.stringContaining("one try") },
      ],
      cooldown: { timeouts_in_a_row: 2, truncations_in_a_row: 0, last_failure: "timeout" },
      effect: { strikes: 2, same_result: false, summaries_skipped: 1, generation: 3, reading: "over" },
    });
    await api.db.advanceClock(61);
    expect((await context(id)).json.guards).toMatchObject({ status: "ineffective", paused_because: ineffective });
  });

  it("shows the run that holds the session, and a compaction that waits for it", async () => {
    const id = await created();
    await api.hold(id, "run_9");
    expect((await compact(id, {})).status).toBe(202);
    expect((await context(id)).json).toMatchObject({
      run_id: "run_9",
      requested: true,
      next: { reason: expect.stringContaining("it was asked for") },
    });
  });
});

describe("POST /v1/sessions/{id}/compact", () => {
  it("with dry_run says what would go behind a summary, by kind, and writes nothing", async () => {
    const id = await created({ context: { keep_frac: 0.2 } });
    const words = Array.from({ length: 300 }, (_, at) => `word${at}`).join(" ");
    const call = { type: "tool_use", id: "toolu_1", name: "ls", input: {} };
    await load(id, [
      { role: "user", content: words },
      { role: "assistant", content: [call] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: words }] },
      { role: "assistant", content: words },
      ...talk(3),
    ]);
    const before = await head(id);
    const { status, json } = await compact(id, { dry_run: true });
    expect(await head(id)).toEqual(before);
    expect(await api.db.sql("select id from runs where session_id = $1", [id])).toEqual([]);
    expect([status, json]).toEqual([
      200,
      {
        type: "compaction_plan",
        session_id: id,
        would_compact: true,
        reason: null,
        failure: null,
        steps: ["summarise"],
        boundary: 8,
        ranges: [{ from: 1, to: 7 }],
        evicted: 7,
        dropped: {
          user_messages: 3,
          event_messages: 0,
          assistant_messages: 3,
          tool_results: 1,
          injected_messages: 0,
          tool_calls: 1,
          media: 0,
        },
        tokens_before: expect.any(Number),
        tokens_after: expect.any(Number),
        summary: { model: "claude-sonnet-5-5", calls: 1, usage: expect.any(Object), cost_usd: expect.any(Number) },
      },
    ]);
    expect(json.tokens_after).toBeLessThan(json.tokens_before);
  });

  it("of a session without messages answers that there is nothing to cut, and releases it (C5)", async () => {
    const id = await created();
    const { status, json } = await compact(id, {});
    expect([status, json]).toEqual([
      200,
      {
        type: "compaction_result",
        session_id: id,
        run_id: expect.stringMatching(/^run_/),
        compacted: false,
        reason: "the session has no messages",
        failure: null,
        cooldown_seconds: null,
        steps: [],
        tokens_before: null,
        tokens_after: null,
        compaction: null,
      },
    ]);
    expect(await head(id)).toMatchObject({ lease_holder: null, force_compaction: null });
    expect((await compact(id, { dry_run: true })).json).toMatchObject({
      would_compact: false,
      reason: "the session has no messages",
      summary: null,
    });
  });

  it("during a run answers 202 with the run and leaves it the focus (G9)", async () => {
    const id = await created();
    await api.hold(id, "run_7");
    const { status, json } = await compact(id, { focus: "the money" });
    expect([status, json]).toEqual([202, { type: "compaction_request", run_id: "run_7", status: "requested" }]);
    expect(await head(id)).toMatchObject({ force_compaction: "the money", lease_holder: "run_7" });
  });

  it("answers a repeated Idempotency-Key with the first result, also a 202", async () => {
    const id = await created();
    await api.hold(id, "run_7");
    const headers = { "Idempotency-Key": `k-${id}` };
    const first = await compact(id, {}, headers);
    await api.db.sql("update session_heads set force_compaction = null, lease_holder = null where session_id = $1", [
      id,
    ]);
    const second = await compact(id, {}, headers);
    expect([second.status, second.json, second.headers.get("Idempotent-Replayed")]).toEqual([202, first.json, "true"]);
    expect(await head(id)).toMatchObject({ force_compaction: null });
    expect(failure(await compact(id, { focus: "x" }, headers))).toMatchObject({ code: "idempotency_mismatch" });
  });

  it("gives the key back when it fails, and takes it over from a request that died", async () => {
    const headers = { "Idempotency-Key": `dead-${newId("key")}` };
    const nobody = newId("ses");
    expect(failure(await compact(nobody, {}, headers))).toEqual({ status: 404, code: "not_found" });
    expect(failure(await compact(nobody, {}, headers))).toEqual({ status: 404, code: "not_found" });
    const id = await created();
    const key = { "Idempotency-Key": `dead-${id}` };
    const first = await compact(id, {}, key);
    await api.db.sql("update idempotency_keys set response = null where key = $1", [`dead-${id}`]);
    await api.db.advanceClock(16);
    const second = await compact(id, {}, key);
    expect([second.status, second.json.run_id === first.json.run_id]).toEqual([200, false]);
    expect(second.headers.get("Idempotent-Replayed")).toBe(null);
  });

  it.each([
    [{ focus: "" }, "focus"],
    [{ focus: "x".repeat(2_001) }, "focus"],
    [{ dry_run: "yes" }, "dry_run"],
    [{ keep: 3 }, "keep"],
  ])("refuses %j", async (json, param) => {
    expect(failure(await compact(await created(), json))).toEqual({ status: 400, code: "invalid_request", param });
  });
});

describe("GET /v1/sessions/{id}/compactions", () => {
  it("lists receipts with what each added and dropped, newest first, page by page", async () => {
    const id = await created();
    await load(id, talk(4));
    await commit(id, 3);
    const { json } = await receipts(id, "?limit=2");
    expect(json.data.map((one: Record<string, unknown>) => one.generation)).toEqual([3, 2]);
    expect(json.data[0]).toEqual({
      type: "compaction",
      session_id: id,
      generation: 3,
      base_generation: 2,
      run_id: expect.stringMatching(/^run_/),
      reason: "threshold",
      covered: [{ from: 1, to: 6 }],
      evicted: 2,
      dropped: {
        user_messages: 1,
        event_messages: 0,
        assistant_messages: 1,
        tool_results: 0,
        injected_messages: 0,
        tool_calls: 0,
        media: 0,
      },
      tokens_before: 1000,
      tokens_after: 100,
      tokens_read: null,
      model: "claude-sonnet-5-5",
      prompt_version: 1,
      prefix_version: 1,
      usage: { input_tokens: 900, output_tokens: 90, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
      cost_usd: 0.5,
      history: {
        path: "/conversation_history/s.md",
        sections: [{ from: 5, to: 6 }],
        size_bytes: 10,
        sha256: "sha",
      },
      pinned_seq: null,
      created_at: expect.any(String),
      voided_at: null,
    });
    const next = await receipts(id, `?limit=2&page=${json.next_page}`);
    expect(next.json.data.map((one: Record<string, unknown>) => one.generation)).toEqual([1]);
    expect(next.json.next_page).toBe(null);
  });
});

describe("POST /v1/sessions/{id}/compactions/{generation}/void", () => {
  it("voids a generation and those based on it, once for an Idempotency-Key (R4)", async () => {
    const id = await created();
    await load(id, talk(4));
    await commit(id, 3);
    const headers = { "Idempotency-Key": `void-${id}` };
    const { status, json } = await voided(id, 2, headers);
    expect([status, json]).toEqual([200, { type: "voided_compaction", generations: [2, 3], revision: 4 }]);
    const again = await voided(id, 2, headers);
    expect([again.json, again.headers.get("Idempotent-Replayed")]).toEqual([json, "true"]);
    expect((await context(id)).json).toMatchObject({
      generation: 1,
      revision: 4,
      view: { covered: [{ from: 1, to: 2 }] },
    });
    const listed = (await receipts(id, "?order=asc")).json.data;
    expect(listed.map((one: Record<string, unknown>) => one.voided_at !== null)).toEqual([false, true, true]);
  });

  it("is refused while a run holds the session, and for what is no generation", async () => {
    const id = await created();
    await load(id, talk(2));
    await commit(id, 1);
    expect(failure(await voided(id, 5))).toEqual({ status: 404, code: "not_found" });
    const path = `/v1/sessions/${id}/compactions/5/void`;
    const typed = { key: tenant.key, body: "", headers: { "Content-Type": "application/json" } };
    expect(failure(await api.call("POST", path, typed))).toEqual({ status: 404, code: "not_found" });
    expect(failure(await voided(id, "x"))).toMatchObject({ status: 400, code: "invalid_request" });
    await api.hold(id, "run_3" as RunId);
    const busy = await voided(id, 1);
    expect([failure(busy), busy.json.error.run_id]).toEqual([{ status: 409, code: "session_busy" }, "run_3"]);
  });
});
