/** Tasks that a session gives to subagents, through the built Worker. */
import { describe, expect, it, vi } from "vitest";
import { call, platform, session, tenant, turn, useOwnSession } from "../support/own-session.ts";
import { callerOf, makeTenant, openTurn, readEvents } from "../support/platform.ts";

useOwnSession({}, { variables: { HANGO_DETACH_GRACE_MS: "0", HANGO_SSE_HEARTBEAT_MS: "200" } });

/** Stands in the system prompt of a subagent, and in no other. */
const IN_SUBAGENT = "another agent has given you";

const messages = async (id: string) => (await call("GET", `/v1/sessions/${id}/messages?order=asc`)).body.data;
const subagents = async () => (await call("GET", `/v1/sessions?parent=${session}&order=asc`)).body.data;
const run = async (id: string) => (await call("GET", `/v1/runs/${id}`)).body;
const ended = (id: string, status: string) =>
  vi.waitFor(async () => expect((await run(id)).status).toBe(status), { timeout: 20_000, interval: 50 });
const task = (id: string, prompt: string, subagent_type = "general-purpose") => ({
  type: "tool_use" as const,
  id,
  name: "task",
  input: { description: `task ${id}`, prompt, subagent_type },
});
const resultsOf = async (id = session) =>
  (await messages(id))
    .flatMap(({ content }: { content: { type: string }[] }) => content)
    .filter(({ type }: { type: string }) => type === "tool_result");

describe("a task", () => {
  it("is done by a session of its own on the parent's files; its last text is the result, and what it used is the run's", async () => {
    await call("PUT", `/v1/sessions/${session}/files/notes.md`, "the tide turns at nine", {
      "Content-Type": "text/markdown",
    });
    const { body } = await turn({ input: "delegate: read /notes.md" });
    expect(body).toMatchObject({ status: "completed", output_text: expect.stringContaining("the tide turns at nine") });
    const [child, ...others] = await subagents();
    expect(others).toEqual([]);
    expect(child).toMatchObject({
      key: null,
      status: "idle",
      parent: { session_id: session, run_id: body.id, subagent_type: "general-purpose", depth: 1 },
    });
    expect((await call("GET", "/v1/sessions")).body.data.map(({ id }: { id: string }) => id)).toEqual([session]);
    const [asked, ...log] = await messages(child.id);
    expect(asked.content).toEqual([{ type: "text", text: "read /notes.md" }]);
    expect(log).toHaveLength(3);
    expect((await messages(session)).length).toBe(4);
    const usage = (await call("GET", "/v1/usage?group_by=session,purpose")).body.data;
    const sum = (name: string) => usage.reduce((all: number, row: Record<string, number>) => all + (row[name] ?? 0), 0);
    expect(
      usage
        .map((row: { session: string; purpose: string; calls: number }) => [row.session, row.purpose, row.calls])
        .sort(),
    ).toEqual(
      [
        [child.id, "subagent", 2],
        [session, "turn", 2],
      ].sort(),
    );
    for (const of of [body, (await call("GET", `/v1/sessions/${session}`)).body, await run(body.id)]) {
      expect(of.usage.input_tokens + of.usage.cache_read_input_tokens + of.usage.cache_creation_input_tokens).toBe(
        sum("input_tokens") + sum("cache_read_input_tokens") + sum("cache_creation_input_tokens"),
      );
      expect(of.cost_usd ?? of.usage.cost_usd).toBeCloseTo(sum("cost_usd"), 10);
    }
    expect(body.db_round_trips).toBe(4);
  });

  it("that several calls of one answer give are done side by side, each by its own subagent", async () => {
    platform.simulator.enqueue({ reply: { content: [task("toolu_a", "first"), task("toolu_b", "second")] } });
    for (const name of ["first", "second"]) {
      const match = { contains: `"text":"${name}"` };
      platform.simulator.enqueue({ match, hold: { name, at: "start" }, reply: { content: `did the ${name}` } });
    }
    platform.simulator.enqueue({ reply: { content: "both done" } });
    const stream = await openTurn(platform.url, tenant, session, { input: "go" });
    const events = readEvents(stream);
    await Promise.all([platform.simulator.reached("first"), platform.simulator.reached("second")]);
    const statuses = (await subagents()).map(({ status }: { status: string }) => status);
    expect(statuses).toEqual(["running", "running"]);
    platform.simulator.release("second");
    platform.simulator.release("first");
    const told = await events;
    const completed = told.filter(({ event }) => event === "tool.completed").map(({ data }) => data);
    expect(completed.map(({ content }) => content.content)).toEqual(["did the first", "did the second"]);
    const started = told.filter(({ event }) => event === "subagent.started").map(({ data }) => data.session_id);
    expect(completed.map(({ subagent }) => subagent.session_id).sort()).toEqual(started.sort());
    expect(told.at(-2)).toMatchObject({ event: "run.completed", data: { output_text: "both done" } });
  });

  it("that fails is an error result which says what happened and what was said last; the session goes on", async () => {
    await call("PATCH", `/v1/sessions/${session}`, {
      subagents: [{ name: "hasty", description: "Makes one call.", max_steps: 1, system: "You are hasty." }],
    });
    platform.simulator.enqueue({
      reply: { content: [task("toolu_a", "steps", "hasty"), task("toolu_b", "fails"), task("toolu_c", "x", "nobody")] },
    });
    platform.simulator.enqueue({
      match: { contains: "You are hasty." },
      reply: {
        content: [
          { type: "text", text: "I look." },
          { type: "tool_use", name: "ls", input: { path: "/" } },
        ],
      },
    });
    const match = { contains: '"text":"fails"' };
    platform.simulator.enqueue({ match, fault: { kind: "status", status: 400, message: "no" } });
    platform.simulator.enqueue({ reply: { content: "I see." } });
    expect((await turn({ input: "go" })).body).toMatchObject({ status: "completed", output_text: "I see." });
    const [steps, fails, nobody] = await resultsOf();
    expect([steps, fails, nobody].map(({ is_error }) => is_error)).toEqual([true, true, true]);
    expect(steps.content).toMatch(/model calls as it may.*What it had said last:\nI look\./s);
    expect(fails.content).toMatch(/^The subagent failed \(provider_rejected\).*It had said nothing\./s);
    expect(nobody.content).toBe('There is no subagent type "nobody". Types: "general-purpose", "hasty".');
    expect((await subagents()).map(({ status }: { status: string }) => status)).toEqual(["idle", "idle"]);
  });

  it("ends with a hard cancel of its parent, its model call given up, its session free; nothing of it goes on", async () => {
    platform.simulator.enqueue({ reply: { content: [task("toolu_a", "wait here")] } });
    platform.simulator.enqueue({
      match: { contains: IN_SUBAGENT },
      hold: { name: "cancelled", at: "start" },
      reply: { content: "no" },
    });
    const { id } = (await turn({ input: "go", background: true })).body;
    await platform.simulator.reached("cancelled");
    await call("POST", `/v1/runs/${id}/cancel`, {});
    await ended(id, "cancelled");
    const [child] = await subagents();
    expect([child.status, (await run(child.last_run_id)).status]).toEqual(["idle", "cancelled"]);
    expect((await resultsOf()).map(({ is_error }: { is_error: boolean }) => is_error)).toEqual([true]);
    platform.simulator.release("cancelled");
    expect((await messages(child.id)).length).toBe(1);
  });

  it("that is cancelled by itself is an error result, and its parent goes on", async () => {
    platform.simulator.enqueue({ reply: { content: [task("toolu_a", "wait here")] } });
    platform.simulator.enqueue({
      match: { contains: IN_SUBAGENT },
      hold: { name: "alone", at: "start" },
      reply: { content: "no" },
    });
    const { id } = (await turn({ input: "go", background: true })).body;
    await platform.simulator.reached("alone");
    platform.simulator.enqueue({ reply: { content: "without it" } });
    const [child] = await subagents();
    const [work] = (await call("GET", `/v1/sessions/${child.id}/runs`)).body.data;
    expect(work).toMatchObject({ status: "running", trigger: "subagent" });
    expect((await call("GET", "/v1/runs")).body.data.map((each: { id: string }) => each.id)).toEqual([id]);
    await call("POST", `/v1/runs/${work.id}/cancel`, {});
    await ended(id, "completed");
    expect((await run(id)).output_text).toBe("without it");
    expect((await resultsOf())[0].content).toContain("The subagent was cancelled.");
  });

  it("is gone on with by the Worker that goes on with its parent, with one subagent and no call made twice", async () => {
    platform.simulator.enqueue({ reply: { content: [task("toolu_a", "look twice")] } });
    platform.simulator.enqueue({
      match: { contains: IN_SUBAGENT },
      reply: {
        content: [
          { type: "text", text: "first look" },
          { type: "tool_use", name: "ls", input: { path: "/" } },
        ],
      },
    });
    platform.simulator.enqueue({
      match: { contains: "first look" },
      hold: { name: "left", at: "start" },
      reply: { content: "lost" },
    });
    const left = new AbortController();
    const stream = await fetch(`${platform.url}/v1/sessions/${session}/turns`, {
      method: "POST",
      headers: tenant.headers,
      body: JSON.stringify({ input: "go", stream: true }),
      signal: left.signal,
    });
    const id = String(stream.headers.get("hango-run-id"));
    await platform.simulator.reached("left");
    platform.simulator.enqueue({ match: { contains: "first look" }, reply: { content: "second look" } });
    platform.simulator.enqueue({ reply: { content: "all seen" } });
    left.abort();
    await ended(id, "completed");
    expect(await run(id)).toMatchObject({ output_text: "all seen", attempts: 1 });
    const [child, ...others] = await subagents();
    expect(others).toEqual([]);
    expect(await run(child.last_run_id)).toMatchObject({
      status: "completed",
      output_text: "second look",
      attempts: 1,
      steps: 2,
    });
    expect((await messages(child.id)).length).toBe(4);
    const usage = (await call("GET", "/v1/usage?group_by=purpose&order=asc")).body.data;
    expect(usage.map((row: { purpose: string; calls: number }) => [row.purpose, row.calls])).toEqual([
      ["subagent", 2],
      ["turn", 2],
    ]);
    const tokens = usage.reduce((sum: number, row: { output_tokens: number }) => sum + row.output_tokens, 0);
    expect((await run(id)).usage.output_tokens).toBe(tokens);
  });

  it("draws on its parent's budget", async () => {
    await call("PATCH", `/v1/sessions/${session}`, { budget: { max_usd: 0.000_001 } });
    platform.simulator.enqueue({ reply: { content: [task("toolu_a", "spend")] } });
    const { body } = await turn({ input: "go" });
    expect(body).toMatchObject({ status: "completed", stop_reason: "budget_reached", steps: 1 });
    expect((await resultsOf())[0].content).toMatch(/^The subagent failed \(budget_reached\)/);
  });
});

describe("a subagent", () => {
  it("has no subagents of its own, nor tools that the caller runs; a call of either gets an error result", async () => {
    const ask = { name: "ask_user", description: "Asks.", input_schema: { type: "object" } };
    await call("PATCH", `/v1/sessions/${session}`, { tools: [ask] });
    platform.simulator.enqueue({ reply: { content: [task("toolu_a", "delegate further")] } });
    platform.simulator.enqueue({
      match: { contains: IN_SUBAGENT },
      reply: { content: [task("toolu_b", "deeper"), { type: "tool_use", id: "toolu_c", name: "ask_user", input: {} }] },
    });
    platform.simulator.enqueue({ match: { contains: IN_SUBAGENT }, reply: { content: "I could not." } });
    platform.simulator.enqueue({ reply: { content: "as expected" } });
    expect((await turn({ input: "go" })).body.status).toBe("completed");
    const [child, ...others] = await subagents();
    expect([others, child.tools]).toEqual([[], []]);
    const refused = (await resultsOf(child.id)).map(({ content }: { content: string }) => content);
    expect(refused).toEqual([
      expect.stringContaining('There is no tool named "task"'),
      expect.stringContaining('There is no tool named "ask_user"'),
    ]);
    const offered = platform.simulator.requests.map(({ body }) =>
      JSON.stringify(body).includes('"name":"task","description"'),
    );
    expect(offered).toEqual([true, false, false, true]);
  });

  it("can be read, and nothing else: turns and changes are for its parent; to another tenant it is not there", async () => {
    const { body } = await turn({ input: "delegate: list /" });
    const [child] = await subagents();
    const at = `/v1/sessions/${child.id}`;
    const refused = await Promise.all([
      call("POST", `${at}/turns`, { input: "hello" }),
      call("POST", `${at}/turns`, { input: "hello", background: true }),
      call("PATCH", at, { title: "mine" }),
      call("POST", `${at}/fork`, {}),
      call("POST", `${at}/rewind`, { turns: 1 }),
      call("POST", `${at}/retry`, {}),
      call("DELETE", at),
    ]);
    expect(refused.map((answer) => [answer.status, answer.body.error.code])).toEqual(
      refused.map(() => [409, "subagent_session"]),
    );
    const reads = ["", "/messages", "/compactions", "/context", "/runs", "/export", "/files"];
    for (const path of reads) expect([path, (await call("GET", `${at}${path}`)).status]).toEqual([path, 200]);
    const stranger = callerOf(platform.url, await makeTenant(platform.database));
    for (const path of reads) expect([path, (await stranger("GET", `${at}${path}`)).status]).toEqual([path, 404]);
    expect(await subagents()).toHaveLength(1);
    await platform.database.sql("update sessions set key = 'my parent' where id = $1", [session]);
    const byKey = (name: string, of = call) => of("GET", `/v1/sessions?parent=${encodeURIComponent(name)}`);
    expect((await byKey("key:my parent")).body.data).toEqual(await subagents());
    expect((await byKey("key:my parent", stranger)).body.data).toEqual([]);
    const wrong = await byKey("my parent");
    expect([wrong.status, wrong.body.error.param]).toEqual([400, "parent"]);
    expect((await stranger("GET", `/v1/sessions?parent=${session}`)).body.data).toEqual([]);
    expect((await stranger("POST", `${at}/turns`, { input: "hello" })).status).toBe(404);
    expect((await call("DELETE", `/v1/sessions/${session}`)).status).toBe(200);
    expect((await call("GET", at)).status).toBe(404);
    expect((await call("GET", `/v1/runs/${body.id}`)).status).toBe(404);
    await vi.waitFor(
      async () =>
        expect(
          await platform.database.sql("select id from sessions where id = $1 or parent_session_id = $2", [
            child.id,
            session,
          ]),
        ).toEqual([]),
      { timeout: 20_000, interval: 100 },
    );
  });
});

it("subagents of a session are checked, with the place of what is wrong, and shown", async () => {
  const reader = { name: "reader", description: "Reads." };
  const ask = { name: "ask_user", description: "Asks.", input_schema: { type: "object" } };
  const wrong: readonly [object, string][] = [
    [{ subagents: [reader, reader] }, "subagents[1].name"],
    [{ subagents: [{ ...reader, tools: ["nothing"] }] }, "subagents[0].tools[0]"],
    [{ subagents: [{ ...reader, tools: ["ask_user"] }], tools: [ask] }, "subagents[0].tools[0]"],
  ];
  for (const [body, param] of wrong)
    expect((await call("POST", "/v1/sessions", body)).body.error).toMatchObject({ code: "invalid_request", param });
  const named = { subagents: [{ ...reader, tools: ["ask_user"] }] };
  const trigger = { type: "cron", schedule: { cron: "0 8 * * *" }, prompt: "Good morning.", session: named };
  expect((await call("POST", "/v1/triggers", trigger)).body.error.param).toBe("session.subagents[0].tools[0]");
  expect((await call("PATCH", `/v1/sessions/${session}`, named)).body.error.param).toBe("subagents[0].tools[0]");
  expect((await call("PATCH", `/v1/sessions/${session}`, { subagents: [reader] })).body.subagents).toEqual([reader]);
  expect((await call("PATCH", `/v1/sessions/${session}`, { subagents: null })).body.subagents).toBe(null);
  expect((await call("PATCH", `/v1/sessions/${session}`, { subagents: false })).body.subagents).toBe(false);
  expect((await turn({ input: "delegate: list /" })).body.output_text).toContain("I have no tool task.");
});
