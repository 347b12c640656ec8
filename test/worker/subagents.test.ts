/** Tasks that a session gives to subagents, through the built Worker. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type Call,
  callerOf,
  makeTenant,
  openTurn,
  readEvents,
  startTestPlatform,
  type Tenant,
  type TestPlatform,
} from "../support/platform.ts";

let platform: TestPlatform;
let tenant: Tenant;
let call: Call;
let session: string;

/** Stands in the system prompt of a subagent, and in no other. */
const IN_SUBAGENT = "another agent has given you";

beforeAll(async () => {
  platform = await startTestPlatform({ variables: { HANGO_DETACH_GRACE_MS: "0" } });
}, 120_000);
afterAll(() => platform.close());
beforeEach(async () => {
  platform.simulator.reset();
  tenant = await makeTenant(platform.database);
  call = callerOf(platform.url, tenant);
  session = (await call("POST", "/v1/sessions", {})).body.id;
});

const turn = (body: object, headers = {}) => call("POST", `/v1/sessions/${session}/turns`, body, headers);
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
});
