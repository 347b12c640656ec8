/** What becomes of turns that do not simply run through: busy sessions, cancels, callers that answer, clients that leave, Workers that die. */
import { describe, expect, it, vi } from "vitest";
import { call, platform, session, tenant, turn, useOwnSession } from "../support/own-session.ts";
import { callerOf, makeTenant, openTurn, readEvents } from "../support/platform.ts";
import { startSlowTool } from "../support/slow-tool.ts";

const TOOL = { name: "ask_user", description: "Asks the person.", input_schema: { type: "object" } };

useOwnSession({ tools: [TOOL] }, { variables: { HANGO_DETACH_GRACE_MS: "0" } });

const log = async () =>
  (await call("GET", `/v1/sessions/${session}/messages?order=asc`)).body.data.map(
    (row: { role: string; content: { type: string; text?: string; content?: unknown }[] }) =>
      `${row.role}: ${row.content.map((block) => block.text ?? (block.type === "tool_use" ? "(call)" : block.content)).join(" ")}`,
  );
const run = async (id: string) => (await call("GET", `/v1/runs/${id}`)).body;
const ended = (id: string, status = "completed") =>
  vi.waitFor(async () => expect((await run(id)).status).toBe(status), { timeout: 20_000, interval: 50 });
const statusOf = async () => (await call("GET", `/v1/sessions/${session}`)).body.status;
const runs = async () => (await call("GET", `/v1/sessions/${session}/runs?order=asc`)).body.data;
const leases = () =>
  platform.database.sql("select lease_holder, waiting_run_id from session_heads where session_id = $1", [session]);
const asks = (id: string) => ({ type: "tool_use" as const, id, name: "ask_user", input: { question: id } });

/** Leaves a run that waits for its caller as a Worker leaves one that stops without a word. */
const abandon = async (id: string, { attempts = 1, leaseSeconds = 0 } = {}): Promise<void> => {
  await platform.database.sql(
    `update session_heads set lease_holder = $1, lease_expires_at = hango_now() + make_interval(secs => $3), waiting_run_id = null,
      waiting_until = null where session_id = $2`,
    [id, session, leaseSeconds],
  );
  await platform.database.sql("update runs set status = 'running', attempts = $2 where id = $1", [id, attempts]);
};

/** A turn that is held at the model, and the id of its run. */
const held = async (gate: string, reply: string, body: object = {}) => {
  platform.simulator.enqueue({ hold: gate, reply: { content: reply } });
  const response = await openTurn(platform.url, tenant, session, { input: "first", ...body });
  await platform.simulator.reached(gate);
  return { id: String(response.headers.get("hango-run-id")), events: readEvents(response) };
};

describe("a turn for a busy session", () => {
  it("is queued with on_busy `queue`: stored, run in order, each with its own run", async () => {
    const first = await held("queue", "one");
    const waiting = [];
    for (const input of ["second", "third", "fourth"]) {
      platform.simulator.enqueue({ reply: { content: `to ${input}` } });
      waiting.push((await turn({ input, on_busy: "queue", wait: 0 })).body);
    }
    expect(waiting.map(({ status, input_seq, started_at }) => [status, input_seq, started_at])).toEqual(
      Array.from({ length: 3 }, () => ["queued", null, null]),
    );
    expect((await turn({ input: "no" })).body.error).toMatchObject({ code: "session_busy", run_id: first.id });
    platform.simulator.release("queue");
    for (const { id } of waiting) await ended(id);
    expect(await log()).toEqual([
      "user: first",
      "assistant: one",
      ...["second", "third", "fourth"].flatMap((input) => [`user: ${input}`, `assistant: to ${input}`]),
    ]);
    expect(await statusOf()).toBe("idle");
  });

  it("waits for its queued run, and streams it: run.queued first, then its events to the end", async () => {
    await held("wait", "one");
    platform.simulator.enqueue({ reply: { content: "two" } });
    const stream = await openTurn(platform.url, tenant, session, { input: "second", on_busy: "queue" });
    const events = readEvents(stream, (event) => {
      if (event.event === "run.queued") platform.simulator.release("wait");
      return false;
    });
    expect((await events).map(({ event }) => event)).toEqual([
      "run.queued",
      "run.started",
      "message.completed",
      "run.completed",
      "session.idle",
    ]);
  });

  it("cancels the run that is on with on_busy `interrupt`, and goes before what was queued", async () => {
    const first = await held("never", "one");
    platform.simulator.enqueue({ reply: { content: "three" } });
    platform.simulator.enqueue({ reply: { content: "two" } });
    const queued = (await turn({ input: "second", on_busy: "queue", wait: 0 })).body;
    const third = await turn({ input: "third", on_busy: "interrupt" });
    expect(third.body).toMatchObject({ status: "completed", output_text: "three" });
    await ended(queued.id);
    expect((await run(first.id)).status).toBe("cancelled");
    expect((await first.events).at(-2)).toMatchObject({ event: "run.cancelled", data: { status: "cancelled" } });
    expect(await log()).toEqual(["user: first", "user: third", "assistant: three", "user: second", "assistant: two"]);
  });

  it("gives its input to the run that is on with on_busy `join`: in the log after the answer, once, in the next view (M5)", async () => {
    const first = await held("join", "one");
    const joined = await turn({ input: "and this", on_busy: "join", wait: 0 });
    expect(joined.body).toMatchObject({ id: first.id, status: "running" });
    platform.simulator.enqueue({ reply: { content: "both" } });
    platform.simulator.release("join");
    await ended(first.id);
    expect(await log()).toEqual(["user: first", "assistant: one", "user: and this", "assistant: both"]);
  });

  it("begins at once where the session is idle, whatever on_busy says", async () => {
    for (const on_busy of ["reject", "queue", "interrupt", "join"]) {
      platform.simulator.enqueue({ reply: { content: on_busy } });
      const answer = await turn({ input: "go", on_busy });
      expect([answer.status, answer.body.output_text, answer.body.db_round_trips]).toEqual([200, on_busy, 2]);
    }
  });
});

describe("a turn in the background", () => {
  it("is answered 202 at once and run by the queue; a repeated request finds its end", async () => {
    platform.simulator.enqueue({ hold: "background", reply: { content: "later" } });
    const headers = { "Idempotency-Key": "in-the-background" };
    const answer = await turn({ input: "go", background: true }, headers);
    expect([answer.status, answer.body.status]).toEqual([202, "queued"]);
    await platform.simulator.reached("background");
    platform.simulator.release("background");
    await ended(answer.body.id);
    const again = await turn({ input: "go", background: true }, headers);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(again.body).toMatchObject({ id: answer.body.id, output_text: "later", attempts: 1 });
    expect(await log()).toEqual(["user: go", "assistant: later"]);
  });

  it("is refused where the session is busy and on_busy says so", async () => {
    const first = await held("busy", "one");
    expect((await turn({ input: "no", background: true })).body.error).toMatchObject({
      code: "session_busy",
      run_id: first.id,
    });
    platform.simulator.release("busy");
    await ended(first.id);
    expect(await log()).toEqual(["user: first", "assistant: one"]);
  });

  it("that takes long keeps no other session's turn waiting", async () => {
    platform.simulator.enqueue({ hold: "long", reply: { content: "at last" } });
    const long = (await turn({ input: "go", background: true })).body;
    await platform.simulator.reached("long");
    const other = (await call("POST", "/v1/sessions", {})).body.id;
    platform.simulator.enqueue({ reply: { content: "meanwhile" } });
    const quick = (await call("POST", `/v1/sessions/${other}/turns`, { input: "go", background: true })).body;
    await ended(quick.id);
    expect((await run(long.id)).status).toBe("running");
    platform.simulator.release("long");
    await ended(long.id);
  });
});

describe("a run that goes on and ends at once", () => {
  it("shows the text of the part before", async () => {
    platform.simulator.enqueue({
      reply: { content: [{ type: "text", text: "let me ask" }, asks("toolu_1")], stop_reason: "tool_use" },
    });
    const { id } = (await turn({ input: "go", max_steps: 1 })).body;
    const tool_results = [{ tool_use_id: "toolu_1", content: "yes" }];
    expect((await call("POST", `/v1/runs/${id}/tool_results`, { tool_results })).body).toMatchObject({
      status: "completed",
      stop_reason: "max_steps",
      output_text: "let me ask",
      steps: 1,
    });
  });
});

describe("a cancel", () => {
  it("stops a model call within 2 s and keeps what was said as output_text; the next turn is valid", async () => {
    platform.simulator.enqueue({ hold: "cut", reply: { content: "never said" } });
    const response = await openTurn(platform.url, tenant, session, { input: "first" });
    await platform.simulator.reached("cut");
    const id = String(response.headers.get("hango-run-id"));
    const answer = await call("POST", `/v1/runs/${id}/cancel`);
    expect([answer.status, answer.body.id]).toEqual([202, id]);
    expect(answer.body.cancel_requested_at).not.toBeNull();
    const events = await readEvents(response);
    expect(events.slice(-2).map(({ event }) => event)).toEqual(["run.cancelled", "session.idle"]);
    expect(await run(id)).toMatchObject({ status: "cancelled", error: null, stop_reason: null });
    platform.simulator.enqueue({ reply: { content: "fine" } });
    expect((await turn({ input: "second" })).body.output_text).toBe("fine");
    expect((await call("POST", `/v1/runs/${id}/cancel`)).status).toBe(200);
  });

  it("stops tools, and closes their batch in the log", async () => {
    const slow = await startSlowTool();
    const tool = { type: "http", name: "slow", description: "Slow.", input_schema: { type: "object" }, url: slow.url };
    await call("PATCH", `/v1/sessions/${session}`, { tools: [tool] });
    platform.simulator.enqueue({
      reply: {
        content: [
          { type: "tool_use", id: "toolu_ls", name: "ls", input: { path: "/" } },
          { type: "tool_use", id: "toolu_slow", name: "slow", input: {} },
        ],
      },
    });
    const response = await openTurn(platform.url, tenant, session, { input: "go" });
    await slow.called;
    await call("POST", `/v1/runs/${response.headers.get("hango-run-id")}/cancel`);
    expect((await readEvents(response)).at(-2)?.event).toBe("run.cancelled");
    const rows = (await call("GET", `/v1/sessions/${session}/messages?order=asc`)).body.data;
    expect(rows.at(-1).content).toEqual([
      { type: "tool_result", tool_use_id: "toolu_ls", content: expect.not.stringContaining("cancelled") },
      {
        type: "tool_result",
        tool_use_id: "toolu_slow",
        content: expect.stringContaining("cancelled"),
        is_error: true,
      },
    ]);
    slow.close();
    platform.simulator.enqueue({ reply: { content: "fine" } });
    expect((await turn({ input: "go on" })).body.output_text).toBe("fine");
  });

  it("of a queued run is told to a client that follows it: the last event always arrives", async () => {
    const first = await held("queued cancel", "one");
    const stream = await openTurn(platform.url, tenant, session, { input: "second", on_busy: "queue" });
    const id = String(stream.headers.get("hango-run-id"));
    const events = await readEvents(stream, ({ event }) => {
      if (event === "run.queued") void call("POST", `/v1/runs/${id}/cancel`);
      return false;
    });
    expect(events.map(({ event }) => event)).toEqual(["run.queued", "run.cancelled"]);
    platform.simulator.release("queued cancel");
    await first.events;
    expect(await log()).toEqual(["user: first", "assistant: one"]);
  });

  it("of a queued run takes it out of the queue; the others keep their order", async () => {
    const first = await held("queued", "one");
    platform.simulator.enqueue({ reply: { content: "three" } });
    const second = (await turn({ input: "second", on_busy: "queue", wait: 0 })).body;
    const third = (await turn({ input: "third", on_busy: "queue", wait: 0 })).body;
    const cancelled = await call("POST", `/v1/runs/${second.id}/cancel`);
    expect([cancelled.status, cancelled.body.status]).toEqual([200, "cancelled"]);
    platform.simulator.release("queued");
    await ended(third.id);
    await first.events;
    expect(await log()).toEqual(["user: first", "assistant: one", "user: third", "assistant: three"]);
  });

  it("of a run that waits for its caller ends it and frees the session", async () => {
    platform.simulator.enqueue({ reply: { content: [asks("toolu_a")] } });
    const waiting = (await turn({ input: "go" })).body;
    expect((await call("POST", `/v1/runs/${waiting.id}/cancel`)).status).toBe(202);
    await ended(waiting.id, "cancelled");
    expect(await leases()).toEqual([{ lease_holder: null, waiting_run_id: null }]);
    platform.simulator.enqueue({ reply: { content: "fine" } });
    expect((await turn({ input: "again" })).body.output_text).toBe("fine");
  });

  it("keeps the results that its caller had sent (M7)", async () => {
    platform.simulator.enqueue({ reply: { content: [asks("toolu_a"), asks("toolu_b")] } });
    const { id } = (await turn({ input: "go" })).body;
    const tool_results = [{ tool_use_id: "toolu_a", content: "the answer" }];
    expect((await call("POST", `/v1/runs/${id}/tool_results`, { tool_results })).status).toBe(202);
    await call("POST", `/v1/runs/${id}/cancel`);
    await ended(id, "cancelled");
    expect((await log()).at(-1)).toMatch(/^user: the answer .*cancelled/);
  });

  it("of a run whose Worker is dead needs no lease to expire: the sweeper ends it", async () => {
    platform.simulator.enqueue({ reply: { content: [asks("toolu_a")] } });
    const { id } = (await turn({ input: "go" })).body;
    await abandon(id, { leaseSeconds: 150 });
    await call("POST", `/v1/runs/${id}/cancel`);
    await platform.host.tick();
    expect((await run(id)).status).toBe("running");
    await platform.database.advanceClock(11);
    await platform.host.tick();
    await ended(id, "cancelled");
  });

  it("of another tenant's run is a 404", async () => {
    platform.simulator.enqueue({ reply: { content: "hello" } });
    const { id } = (await turn({ input: "go" })).body;
    const stranger = callerOf(platform.url, await makeTenant(platform.database));
    expect((await stranger("POST", `/v1/runs/${id}/cancel`)).status).toBe(404);
    expect(
      (await stranger("POST", `/v1/runs/${id}/tool_results`, { tool_results: [{ tool_use_id: "a", content: "" }] }))
        .status,
    ).toBe(404);
  });
});

describe("tools that the caller runs", () => {
  it("stop the run with requires_action; partial results are kept, and with the last one it goes on, the batch whole (M7)", async () => {
    platform.simulator.enqueue({
      reply: {
        content: [
          asks("toolu_a"),
          { type: "tool_use", id: "toolu_ls", name: "ls", input: { path: "/" } },
          asks("toolu_b"),
        ],
      },
    });
    const events = await readEvents(await openTurn(platform.url, tenant, session, { input: "go" }));
    const last = events.at(-1);
    expect(last).toMatchObject({
      event: "run.requires_action",
      data: {
        tool_calls: [
          { id: "toolu_a", name: "ask_user", input: { question: "toolu_a" } },
          { id: "toolu_b", name: "ask_user", input: { question: "toolu_b" } },
        ],
        deadline: expect.stringMatching(/^\d{4}-/),
      },
    });
    const id = last?.data.run_id;
    expect([await statusOf(), (await run(id)).status]).toEqual(["requires_action", "requires_action"]);
    const { deadline, tool_calls } = last?.data ?? {};
    expect((await run(id)).required_action).toEqual({ deadline, tool_calls });
    expect((await turn({ input: "no" })).body.error).toMatchObject({ code: "session_busy", run_id: id });
    await platform.host.tick();
    expect((await run(id)).status).toBe("requires_action");

    const send = (results: object[], body: object = {}) =>
      call("POST", `/v1/runs/${id}/tool_results`, { tool_results: results, ...body });
    const partial = await send([{ tool_use_id: "toolu_b", content: "from b" }]);
    expect([partial.status, partial.body.missing_tool_results]).toEqual([202, ["toolu_a"]]);
    expect(partial.body.required_action).toEqual({ deadline, tool_calls });
    expect(await log()).toEqual(["user: go", "assistant: (call) (call) (call)"]);
    expect((await send([{ tool_use_id: "toolu_x", content: "?" }])).body.error).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("toolu_x"),
    });

    // What joins a run that waits goes into the log after the results.
    expect((await turn({ input: "and this", on_busy: "join", wait: 0 })).body).toMatchObject({
      id,
      status: "requires_action",
    });
    platform.simulator.enqueue({ reply: { content: "thanks" } });
    const rest = [{ tool_use_id: "toolu_a", content: [{ type: "text", text: "from a" }], is_error: true }];
    const done = await send(rest);
    expect(done.body).toMatchObject({
      id,
      status: "completed",
      output_text: "thanks",
      steps: 2,
      attempts: 1,
      required_action: null,
    });
    const rows = (await call("GET", `/v1/sessions/${session}/messages?order=asc`)).body.data;
    expect(rows[2].content).toEqual([
      { type: "tool_result", tool_use_id: "toolu_a", content: [{ type: "text", text: "from a" }], is_error: true },
      { type: "tool_result", tool_use_id: "toolu_ls", content: expect.any(String) },
      { type: "tool_result", tool_use_id: "toolu_b", content: "from b" },
    ]);
    expect((await send(rest)).body).toMatchObject({ id, status: "completed" });
    expect((await send([{ tool_use_id: "toolu_z", content: "?" }])).body.error.code).toBe("run_not_waiting");
    expect(await platform.database.sql("select * from tool_answers where run_id = $1", [id])).toEqual([]);
  });

  it("that are not answered in time end the run with tool_results_overdue; the next turn is valid", async () => {
    platform.simulator.enqueue({ reply: { content: [asks("toolu_a")] } });
    const { id } = (await turn({ input: "go" })).body;
    await platform.database.advanceClock(86_401);
    expect(
      (
        await call("POST", `/v1/runs/${id}/tool_results`, {
          tool_results: [{ tool_use_id: "toolu_a", content: "late" }],
        })
      ).body.error.code,
    ).toBe("run_not_waiting");
    await platform.host.tick();
    await ended(id, "failed");
    expect((await run(id)).error.code).toBe("tool_results_overdue");
    platform.simulator.enqueue({ reply: { content: "fine" } });
    expect((await turn({ input: "again" })).body.output_text).toBe("fine");
  });
});

describe("a client that goes away", () => {
  it("does not lose its turn: the model call is given up and made again by the queue; the events go on where they were", async () => {
    platform.simulator.enqueue({
      reply: { content: [{ type: "tool_use", id: "toolu_1", name: "ls", input: { path: "/" } }] },
    });
    platform.simulator.enqueue({ hold: "left", reply: { content: "given up" } });
    platform.simulator.enqueue({ reply: { content: "made again" } });
    const response = await openTurn(platform.url, tenant, session, { input: "go" });
    const id = String(response.headers.get("hango-run-id"));
    const seen = await readEvents(response, ({ event }) => event === "tool.completed");
    await platform.simulator.reached("left");
    await ended(id);
    expect(await run(id)).toMatchObject({ output_text: "made again", steps: 2, attempts: 1 });
    const rest = await readEvents(
      await fetch(`${platform.url}/v1/runs/${id}/events`, {
        headers: { ...tenant.headers, "Last-Event-ID": String(seen.at(-1)?.id) },
      }),
    );
    expect(rest.map(({ event }) => event)).toEqual(["message.completed", "run.completed", "session.idle"]);
    expect(await log()).toEqual([
      "user: go",
      "assistant: (call)",
      expect.stringContaining("user: "),
      "assistant: made again",
    ]);
    platform.simulator.release("left");
  });

  it("who waits no longer than `wait` finds the same run done by the queue", async () => {
    platform.simulator.enqueue({ hold: "slow", reply: { content: "given up" } });
    platform.simulator.enqueue({ reply: { content: "made again" } });
    const answer = await turn({ input: "go", wait: 0.2 });
    expect([answer.status, answer.body.status]).toEqual([202, "running"]);
    await ended(answer.body.id);
    expect((await run(answer.body.id)).output_text).toBe("made again");
    platform.simulator.release("slow");
  });
});

describe("a run that cannot be run", () => {
  it("is failed after its message has come five times, its input in the session; the runs behind it go on", async () => {
    await platform.database.sql(
      "alter table runs add constraint no_poison check (not (status = 'running' and options->>'maxSteps' = '77')) not valid",
    );
    const first = (await turn({ input: "poison", background: true, max_steps: 77 })).body;
    const second = (await turn({ input: "fine", background: true, on_busy: "queue" })).body;
    await vi.waitFor(
      async () => {
        platform.host.hurryQueue();
        expect((await run(first.id)).status).toBe("failed");
      },
      { timeout: 20_000, interval: 100 },
    );
    await ended(second.id);
    expect((await run(first.id)).error).toMatchObject({ code: "run_interrupted", retryable: true });
    expect((await log()).filter((line: string) => line.startsWith("user"))).toEqual(["user: poison", "user: fine"]);
    await platform.database.sql("alter table runs drop constraint no_poison");
  });
});

describe("a run whose Worker died", () => {
  it("is tried at most three times, then failed with a reason", async () => {
    platform.simulator.enqueue({ reply: { content: [asks("toolu_a")] } });
    const { id } = (await turn({ input: "go" })).body;
    await abandon(id, { attempts: 3 });
    await platform.host.tick();
    await ended(id, "failed");
    expect(await run(id)).toMatchObject({
      attempts: 4,
      error: { code: "run_interrupted", message: expect.stringContaining("3 times"), retryable: false },
    });
    expect(await leases()).toEqual([{ lease_holder: null, waiting_run_id: null }]);
  });

  it("and who cannot even be prepared is failed too, so that its session is free again", async () => {
    platform.simulator.enqueue({ reply: { content: [asks("toolu_a")] } });
    const { id } = (await turn({ input: "go" })).body;
    await abandon(id, { attempts: 4 });
    await platform.database.sql(`update sessions set settings = '{"max_steps": "broken"}' where id = $1`, [session]);
    await platform.host.tick();
    await ended(id, "failed");
    expect(await leases()).toEqual([{ lease_holder: null, waiting_run_id: null }]);
  });

  it("is found by the next request to its session, which is told that it is busy", async () => {
    platform.simulator.enqueue({ reply: { content: [asks("toolu_a")] } });
    const { id } = (await turn({ input: "go" })).body;
    await abandon(id);
    expect((await turn({ input: "again" })).body.error).toMatchObject({ code: "session_busy", run_id: id });
    // It goes on where it was: it waits for its caller again.
    await ended(id, "requires_action");
    expect((await run(id)).attempts).toBe(2);
    expect((await runs()).map(({ id }: { id: string }) => id)).toEqual([id]);
  });
});
