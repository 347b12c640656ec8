/** The process is killed in the middle of a subagent's work, for real; another one goes on with the parent, and with the subagent. */
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type Simulator, startSimulator } from "../../src/local/simulator/server.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { callerOf, makeTenant, startTestPlatform, type Tenant } from "../support/platform.ts";
import { kill, type Runners, runners } from "../support/runner-process.ts";

let database: TestDatabase;
let simulator: Simulator;
let tenant: Tenant;
let processes: Runners;

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
  simulator = await startSimulator();
  tenant = await makeTenant(database);
  processes = runners({ databaseUrl: database.connectionString, providerUrl: simulator.url });
}, 120_000);
afterAll(async () => {
  await processes.close();
  await simulator.close();
  await database.close();
});

const task = (id: string, prompt: string) => ({
  type: "tool_use" as const,
  id,
  name: "task",
  input: { description: prompt, prompt, subagent_type: "general-purpose" },
});

it("a process killed in the middle of two subagents: the next one finds the answer of the one that had ended and goes on with the other; no call is made twice, none counted twice (M7)", async () => {
  const first = await processes.start();
  const call = callerOf(first.url, tenant);
  const session = (await call("POST", "/v1/sessions", {})).body.id;
  simulator.enqueue({ reply: { content: [task("toolu_a", "short task"), task("toolu_b", "long task")] } });
  simulator.enqueue({ match: { contains: '"text":"short task"' }, reply: { content: "short answer" } });
  simulator.enqueue({
    match: { contains: '"text":"long task"' },
    reply: {
      content: [
        { type: "text", text: "the first step" },
        { type: "tool_use", name: "write_file", input: { file_path: "/kept.md", content: "written once" } },
      ],
    },
  });
  simulator.enqueue({
    match: { contains: "the first step" },
    hold: { name: "killed", at: "start" },
    reply: { content: "" },
  });
  const cut = call("POST", `/v1/sessions/${session}/turns`, { input: "go" }).then(
    () => "answered",
    () => "cut",
  );
  await simulator.reached("killed");
  const runs = async () =>
    await database.sql(
      "select s.depth, r.id, r.status, r.attempts, r.steps from runs r join sessions s on s.id = r.session_id order by r.id",
    );
  await vi.waitFor(async () => {
    const ended = (await runs()).filter(({ status }) => status === "completed");
    expect(ended).toHaveLength(1);
  });
  await kill(first.child);
  expect(await cut).toBe("cut");
  const before = (await runs()).map(({ id }) => id);
  // The clock asks the provider for its models, too.
  const calls = () => simulator.requests.filter(({ path }) => path === "/v1/messages").length;
  const requests = calls();

  await database.advanceClock(181);
  simulator.enqueue({ match: { contains: "the first step" }, reply: { content: "long answer" } });
  simulator.enqueue({ reply: { content: "Both are done." } });
  const second = await processes.start();
  const again = callerOf(second.url, tenant);
  // Whoever asks for the session next has the run sent for that it waits for.
  const next = await again("POST", `/v1/sessions/${session}/turns`, { input: "and?", on_busy: "queue", wait: 0 });
  const [parent] = (await again("GET", `/v1/sessions/${session}/runs?order=asc`)).body.data;
  simulator.enqueue({ reply: { content: "Nothing else." } });
  await vi.waitFor(async () => expect((await again("GET", `/v1/runs/${next.body.id}`)).body.status).toBe("completed"), {
    timeout: 60_000,
    interval: 200,
  });
  expect((await again("GET", `/v1/runs/${parent.id}`)).body).toMatchObject({
    status: "completed",
    output_text: "Both are done.",
    attempts: 2,
  });
  const subagents = (await again("GET", `/v1/sessions?parent=${session}`)).body.data;
  expect(subagents).toHaveLength(2);
  expect((await runs()).map(({ id }) => id).filter((id) => id !== next.body.id)).toEqual(before);
  const results = (await again("GET", `/v1/sessions/${session}/messages?order=asc`)).body.data[2].content;
  expect(results.map(({ content }: { content: string }) => content)).toEqual(["short answer", "long answer"]);
  expect((await again("GET", `/v1/sessions/${session}/files/kept.md`)).body).toBe("written once");
  // The call that was cut, made again; the parent's last one; and the next turn.
  expect(calls() - requests).toBe(3);
  const usage = (await again("GET", "/v1/usage?group_by=purpose&order=asc")).body.data;
  expect(usage.map((row: { purpose: string; calls: number }) => [row.purpose, row.calls])).toEqual([
    ["subagent", 3],
    ["turn", 3],
  ]);
  const total = (name: string) => usage.reduce((sum: number, row: Record<string, number>) => sum + (row[name] ?? 0), 0);
  const { body: counted } = await again("GET", `/v1/sessions/${session}`);
  for (const name of ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"])
    expect([name, counted.usage[name]]).toEqual([name, total(name)]);
  expect(counted.usage.cost_usd).toBeCloseTo(total("cost_usd"), 10);
}, 120_000);

it("subagents of subagents, where the deployment allows it: on the files of the session at the top, in its totals, cancelled and erased with it", async () => {
  const platform = await startTestPlatform({ variables: { HANGO_SUBAGENT_MAX_DEPTH: "2" } });
  try {
    const own = await makeTenant(platform.database);
    const call = callerOf(platform.url, own);
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    await call("PUT", `/v1/sessions/${session}/files/deep.md`, "far down", { "Content-Type": "text/markdown" });
    const turn = (input: string, more = {}) => call("POST", `/v1/sessions/${session}/turns`, { input, ...more });
    const done = (await turn("delegate: delegate: read /deep.md")).body;
    expect(done).toMatchObject({ status: "completed", output_text: expect.stringContaining("far down") });
    const below = async (id: string) => (await call("GET", `/v1/sessions?parent=${id}`)).body.data;
    const [child] = await below(session);
    const [grandchild] = await below(child.id);
    expect([child.parent.depth, grandchild.parent.depth, await below(grandchild.id)]).toEqual([1, 2, []]);
    const sum = async (id: string) => {
      const rows = await platform.database.sql(
        "select sum(output_tokens)::int as tokens from usage_records where session_id = $1",
        [id],
      );
      return Number(rows[0]?.tokens);
    };
    const [top, middle, bottom] = [await sum(session), await sum(child.id), await sum(grandchild.id)];
    const shown = async (id: string) => (await call("GET", `/v1/sessions/${id}`)).body.usage.output_tokens;
    expect([done.usage.output_tokens, await shown(session), await shown(child.id), await shown(grandchild.id)]).toEqual(
      [top + middle + bottom, top + middle + bottom, middle + bottom, bottom],
    );

    platform.simulator.enqueue({
      match: { contains: '"text":"wait there"' },
      hold: { name: "deep", at: "start" },
      reply: { content: "" },
    });
    const { id } = (await turn("delegate: delegate: wait there", { background: true })).body;
    await platform.simulator.reached("deep");
    await call("POST", `/v1/runs/${id}/cancel`, {});
    const statuses = async () =>
      (
        await platform.database.sql(
          "select status from runs where created_at >= (select created_at from runs where id = $1)",
          [id],
        )
      ).map(({ status }) => status);
    await vi.waitFor(async () => expect(await statuses()).toEqual(["cancelled", "cancelled", "cancelled"]), {
      timeout: 20_000,
    });
    platform.simulator.reset();

    expect((await call("DELETE", `/v1/sessions/${session}`)).status).toBe(200);
    for (const gone of [child.id, grandchild.id]) expect((await call("GET", `/v1/sessions/${gone}`)).status).toBe(404);
    await vi.waitFor(async () => expect(await platform.database.sql("select id from sessions")).toEqual([]), {
      timeout: 20_000,
    });
    const left = "select (select count(*)::int from messages) as messages, (select count(*)::int from runs) as runs";
    expect(await platform.database.sql(left)).toEqual([{ messages: 0, runs: 0 }]);
  } finally {
    await platform.close();
  }
}, 120_000);

it("a subagent is compacted by itself: its own history file beside its parent's, whose view stays as it is", async () => {
  const platform = await startTestPlatform();
  try {
    const call = callerOf(platform.url, await makeTenant(platform.database));
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    const messages = async (id: string) => (await call("GET", `/v1/sessions/${id}/messages?order=asc`)).body.data;
    await call("PATCH", `/v1/sessions/${session}`, { context: { max_input_tokens: 12_000 } });
    const line = "The harbour master writes down every ship that comes in. ";
    const body = line.repeat(160);
    for (const name of ["a", "b", "c", "d", "e", "f"])
      await call("PUT", `/v1/sessions/${session}/files/${name}.md`, body, { "Content-Type": "text/markdown" });
    platform.simulator.enqueue({ reply: { content: [task("toolu_a", "read all of it")] } });
    for (const name of ["a", "b", "c", "d", "e", "f"])
      platform.simulator.enqueue({
        match: { contains: "another agent has given you", purpose: "turn" },
        reply: { content: [{ type: "tool_use", name: "read_file", input: { file_path: `/${name}.md` } }] },
      });
    platform.simulator.enqueue({
      match: { contains: "another agent has given you", purpose: "turn" },
      reply: { content: "ships, all of them" },
    });
    platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "thank you" } });
    expect((await call("POST", `/v1/sessions/${session}/turns`, { input: "go" })).body).toMatchObject({
      status: "completed",
      output_text: "thank you",
    });
    const [child] = (await call("GET", `/v1/sessions?parent=${session}`)).body.data;
    const compactions = (await call("GET", `/v1/sessions/${child.id}/compactions`)).body.data;
    expect(compactions.length).toBeGreaterThan(0);
    expect(compactions[0].history.path).toBe(`/conversation_history/${child.id}.md`);
    expect((await call("GET", `/v1/sessions/${session}/compactions`)).body.data).toEqual([]);
    const history = await call("GET", `/v1/sessions/${session}/files/conversation_history/${child.id}.md`);
    expect([history.status, String(history.body).includes("### Call of read_file")]).toEqual([200, true]);
    expect((await messages(session)).length).toBe(4);
    const purposes = (await call("GET", "/v1/usage?group_by=purpose")).body.data.map(
      (row: { purpose: string }) => row.purpose,
    );
    expect(purposes.sort()).toEqual(["subagent", "summarize", "turn"]);
  } finally {
    await platform.close();
  }
}, 120_000);

it("subagents end with the deadline of their parent's turn, whose error says so", async () => {
  const platform = await startTestPlatform({ variables: { HANGO_TURN_TIMEOUT_MS: "4000" } });
  try {
    const call = callerOf(platform.url, await makeTenant(platform.database));
    const session = (await call("POST", "/v1/sessions", {})).body.id;
    platform.simulator.enqueue({ reply: { content: [task("toolu_a", "wait a"), task("toolu_b", "wait b")] } });
    const match = { contains: "another agent has given you" };
    platform.simulator.enqueue({ match, hold: { name: "late", at: "start" }, reply: { content: "" }, times: 2 });
    const { body } = await call("POST", `/v1/sessions/${session}/turns`, { input: "go" });
    expect(body.error.code).toBe("timeout");
    const runs = await platform.database.sql("select trigger, status from runs order by trigger");
    expect(runs.map(({ trigger, status }) => `${trigger} ${status}`)).toEqual([
      "api failed",
      "subagent cancelled",
      "subagent cancelled",
    ]);
    const held = await platform.database.sql("select session_id from session_heads where lease_holder is not null");
    expect(held).toEqual([]);
  } finally {
    await platform.close();
  }
}, 120_000);
