/** A turn whose provider fails, in every way it can: a typed answer, an intact log, and a session that goes on. */
import { describe, expect, it } from "vitest";
import type { ScriptEntry } from "../../src/local/simulator/script.ts";
import { call, platform, session, tenant, turn, useOwnSession } from "../support/own-session.ts";
import { openTurn, readEvents } from "../support/platform.ts";

useOwnSession({}, { variables: { HANGO_PROVIDER_MAX_RETRIES: "0", HANGO_TOOL_TIMEOUT_MS: "300" } });

const texts = async () =>
  (
    await platform.database.sql(
      "select role, content->0->>'text' as text from messages where session_id = $1 order by seq",
      [session],
    )
  ).map((row) => `${row.role}: ${row.text}`);

const FAULTS: readonly (readonly [string, ScriptEntry["fault"], number, string, boolean])[] = [
  ["is overloaded", { kind: "status", status: 529 }, 503, "provider_overloaded", true],
  ["limits the rate", { kind: "status", status: 429, retry_after: 1 }, 503, "provider_rate_limited", true],
  ["fails", { kind: "status", status: 500 }, 502, "provider_error", true],
  ["refuses the key", { kind: "status", status: 401 }, 502, "provider_rejected", false],
  ["rejects the request", { kind: "status", status: 400, message: "tools: nonsense" }, 502, "provider_rejected", false],
  ["says that the prompt is too long", { kind: "overflow" }, 422, "context_cannot_fit", false],
  ["cuts the stream", { kind: "cut", after_pieces: 2 }, 502, "provider_error", true],
  ["ends the stream without a stop reason", { kind: "cut", clean: true, after_pieces: 2 }, 502, "provider_error", true],
  [
    "sends an error inside the stream",
    { kind: "error_event", type: "overloaded_error", after_pieces: 2 },
    503,
    "provider_overloaded",
    true,
  ],
  ["sends nonsense inside the stream", { kind: "malformed_event" }, 502, "provider_error", true],
];

describe("a provider that", () => {
  it.each(FAULTS)(
    "%s: the caller is told so, no half answer is stored, and the next turn works",
    async (_name, fault, status, code, retryable) => {
      platform.simulator.enqueue({ fault, reply: { content: "An answer that never arrives whole." } });
      const failed = await turn({ input: "first" });
      expect([failed.status, failed.body.error.code, failed.body.error.retryable]).toEqual([status, code, retryable]);
      expect(failed.body.error.run_id).toBe(failed.headers.get("hango-run-id"));
      const run = (await call("GET", `/v1/runs/${failed.body.error.run_id}`)).body;
      expect(run).toMatchObject({ status: "failed", error: { code, retryable } });
      expect(await texts()).toEqual(["user: first"]);
      platform.simulator.enqueue({ reply: { content: "Better now." } });
      expect((await turn({ input: "second" })).body).toMatchObject({ status: "completed", output_text: "Better now." });
      expect(await texts()).toEqual(["user: first", "user: second", "assistant: Better now."]);
    },
  );

  it("fails in the middle of a stream: the last event arrives and says what happened", async () => {
    platform.simulator.enqueue({
      fault: { kind: "cut", after_pieces: 2 },
      reply: { content: "An answer that never arrives whole." },
    });
    const events = await readEvents(await openTurn(platform.url, tenant, session, { input: "go" }));
    expect(events.filter((event) => event.id !== null).map((event) => event.event)).toEqual([
      "run.started",
      "run.failed",
      "session.idle",
    ]);
    expect(events.find((event) => event.event === "run.failed")?.data.error).toMatchObject({
      code: "provider_error",
      retryable: true,
    });
  });

  it("fails after a tool has run: its results are in the log, and the next turn is valid", async () => {
    platform.simulator.enqueue({
      reply: { content: [{ type: "tool_use", id: "toolu_1", name: "ls", input: { path: "/" } }] },
    });
    platform.simulator.enqueue({ fault: { kind: "status", status: 500 } });
    expect((await turn({ input: "first" })).status).toBe(502);
    platform.simulator.enqueue({ reply: { content: "Going on." } });
    expect((await turn({ input: "second" })).body.status).toBe("completed");
  });

  it("refuses to answer: the run says so and nothing of the refusal is sent back", async () => {
    platform.simulator.enqueue({ fault: { kind: "refusal" } });
    expect((await turn({ input: "no" })).body).toMatchObject({ status: "completed", stop_reason: "refusal" });
    expect(await texts()).toEqual(["user: no"]);
    platform.simulator.enqueue({ reply: { content: "Yes." } });
    expect((await turn({ input: "please" })).body.output_text).toBe("Yes.");
  });

  it("pauses the turn: it is sent back its message and goes on (V6)", async () => {
    platform.simulator.enqueue({
      fault: { kind: "pause_turn" },
    });
    platform.simulator.enqueue({ reply: { content: "Found." } });
    expect((await turn({ input: "search" })).body).toMatchObject({
      status: "completed",
      output_text: "Found.",
      steps: 2,
    });
  });

  it("runs out of tokens: the answer so far is kept and the stop reason told", async () => {
    platform.simulator.enqueue({
      fault: { kind: "truncate", tokens: 4 },
      reply: { content: "one two three four five six seven eight nine ten" },
    });
    const { body } = await turn({ input: "count" });
    expect(body).toMatchObject({ status: "completed", stop_reason: "max_tokens" });
    expect((await texts())[1]).toBe(`assistant: ${body.output_text}`);
  });

  it("says nothing: an empty answer is no message", async () => {
    platform.simulator.enqueue({ reply: { content: [] } });
    expect((await turn({ input: "hush" })).body).toMatchObject({
      status: "completed",
      output_text: "",
      stop_reason: "end_turn",
    });
    expect(await texts()).toEqual(["user: hush"]);
  });

  it("no longer accepts earlier thinking: it is left out from then on, and the turn is answered (V5)", async () => {
    await call("PATCH", `/v1/sessions/${session}`, { thinking: { type: "adaptive" } });
    platform.simulator.enqueue({
      reply: {
        content: [
          { type: "thinking", thinking: "Hm.", signature: "from elsewhere" },
          { type: "text", text: "One." },
        ],
      },
    });
    await turn({ input: "first" });
    platform.simulator.enqueue({ reply: { content: "Two." } });
    expect((await turn({ input: "second" })).body).toMatchObject({ status: "completed", output_text: "Two." });
    const before = platform.simulator.requests.length;
    platform.simulator.enqueue({ reply: { content: "Three." } });
    expect((await turn({ input: "third" })).body).toMatchObject({ status: "completed", output_text: "Three." });
    expect(platform.simulator.requests.length - before).toBe(1);
    const [stored] = await platform.database.sql(
      "select content::text as text from messages where session_id = $1 and seq = 2",
      [session],
    );
    expect(stored?.text).toContain('"thinking"');
  });
});

describe("a database that", () => {
  it("loses the answer to a begin, a step and a finish: nothing is stored twice and nothing is lost (M3)", async () => {
    platform.simulator.enqueue({
      hold: "step",
      reply: { content: [{ type: "tool_use", id: "toolu_1", name: "ls", input: { path: "/" } }] },
    });
    platform.simulator.enqueue({ hold: "end", reply: { content: "Done." } });
    platform.database.dropNextAnswer();
    const answer = turn({ input: "go" });
    await platform.simulator.reached("step");
    platform.database.dropNextAnswer();
    platform.simulator.release("step");
    await platform.simulator.reached("end");
    platform.database.dropNextAnswer();
    platform.simulator.release("end");
    expect((await answer).body).toMatchObject({ status: "completed", output_text: "Done." });
    const rows = await platform.database.sql("select seq::int, role from messages where session_id = $1 order by seq", [
      session,
    ]);
    expect(rows).toEqual([
      { seq: 1, role: "user" },
      { seq: 2, role: "assistant" },
      { seq: 3, role: "user" },
      { seq: 4, role: "assistant" },
    ]);
    expect((await call("GET", `/v1/sessions/${session}`)).body.usage.turns).toBe(1);
  });
});
