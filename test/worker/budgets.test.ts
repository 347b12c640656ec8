/** What a session or a turn may cost, by list prices (api.md: `budget`). */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type Call, callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";

/** 2 USD a million tokens in, 10 out: a call with these costs 0.002 + 0.01 USD. */
const MODEL = "claude-sonnet-5-5";
const USAGE = { input_tokens: 1_000, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: 1_000 };
const A_CALL_USD = 0.012;

let platform: TestPlatform;
let call: Call;

beforeAll(async () => {
  platform = await startTestPlatform();
}, 120_000);
afterAll(() => platform.close());
beforeEach(async () => {
  platform.simulator.reset();
  call = callerOf(platform.url, await makeTenant(platform.database));
});

const makeSession = async (fields: object): Promise<string> =>
  (await call("POST", "/v1/sessions", { model: MODEL, ...fields })).body.id;
const says = (text: string) => platform.simulator.enqueue({ reply: { content: text, usage: USAGE } });
const uses = (text: string) =>
  platform.simulator.enqueue({
    reply: {
      content: [
        { type: "text", text },
        { type: "tool_use", name: "ls", input: { path: "/" } },
      ],
      usage: USAGE,
    },
  });
const turn = (session: string, fields: object = {}) =>
  call("POST", `/v1/sessions/${session}/turns`, { input: "work", ...fields });
const calls = () => platform.simulator.requests.length;

/** For what the queue does, also on a machine that is busy with other things. */
const WAIT = { timeout: 20_000, interval: 50 };

describe("a session's budget", () => {
  it("is shown, changed, and taken away", async () => {
    const made = await call("POST", "/v1/sessions", { budget: { max_usd: 0.5 } });
    const path = `/v1/sessions/${made.body.id}`;
    const read = async () => (await call("GET", path)).body.budget;
    expect([made.body.budget, await read()]).toEqual([{ max_usd: 0.5 }, { max_usd: 0.5 }]);
    expect((await call("PATCH", path, { budget: { max_usd: 2 } })).body.budget).toEqual({ max_usd: 2 });
    expect((await call("PATCH", path, { budget: null })).body.budget).toBe(null);
    expect(await read()).toBe(null);
  });

  it.each([
    [{ max_usd: -1 }, "budget.max_usd"],
    [{ max_usd: "1" }, "budget.max_usd"],
    [{}, "budget.max_usd"],
    [{ max_usd: 1, max_eur: 1 }, "budget.max_eur"],
  ])("is refused as %j", async (budget, param) => {
    expect(await call("POST", "/v1/sessions", { budget })).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request", param } },
    });
  });

  it("ends a turn between its calls, with what was said so far", async () => {
    const session = await makeSession({ budget: { max_usd: 1.5 * A_CALL_USD } });
    uses("First I look.");
    uses("Then I look again.");
    const { status, body } = await turn(session);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      status: "completed",
      stop_reason: "budget_reached",
      output_text: "Then I look again.",
      steps: 2,
      cost_usd: 2 * A_CALL_USD,
      error: null,
    });
  });

  it("refuses a turn that could make no call, with 402, and takes it once the budget is raised", async () => {
    const session = await makeSession({ budget: { max_usd: A_CALL_USD } });
    says("Done.");
    expect((await turn(session)).body).toMatchObject({ stop_reason: "end_turn", cost_usd: A_CALL_USD });
    const before = calls();
    const refused = await turn(session);
    expect(refused).toMatchObject({
      status: 402,
      body: { error: { type: "billing_error", code: "budget_reached", retryable: false } },
    });
    expect(refused.body.error.message).toBe(
      "The budget was reached before the turn made a model call: raise `budget.max_usd` of the session or of the turn, or take it away.",
    );
    expect(calls()).toBe(before);
    expect((await call("GET", `/v1/runs/${refused.body.error.run_id}`)).body).toMatchObject({
      status: "failed",
      steps: 0,
      error: { code: "budget_reached" },
    });
    await call("PATCH", `/v1/sessions/${session}`, { budget: { max_usd: 1 } });
    says("Done again.");
    expect((await turn(session)).body).toMatchObject({ status: "completed", output_text: "Done again." });
  });

  it("is never reached by a model without a known price", async () => {
    platform.simulator.setModels({ "a-model-of-our-own": { maxInputTokens: 200_000 } });
    const session = await makeSession({ model: "a-model-of-our-own", budget: { max_usd: 0.000001 } });
    says("One.");
    says("Two.");
    expect((await turn(session)).body).toMatchObject({ status: "completed", cost_usd: null });
    expect((await turn(session)).body).toMatchObject({ status: "completed", cost_usd: null });
  });
});

describe("a turn's budget", () => {
  it("counts that turn alone", async () => {
    const session = await makeSession({});
    says("Dear.");
    await turn(session);
    uses("I look.");
    expect((await turn(session, { budget: { max_usd: A_CALL_USD } })).body).toMatchObject({
      status: "completed",
      stop_reason: "budget_reached",
      output_text: "I look.",
      steps: 1,
    });
  });

  it("holds for a turn that the queue runs", async () => {
    const session = await makeSession({});
    uses("I look.");
    const { body } = await turn(session, { budget: { max_usd: A_CALL_USD }, background: true });
    await vi.waitFor(async () => {
      const run = (await call("GET", `/v1/runs/${body.id}`)).body;
      expect(run).toMatchObject({ status: "completed", stop_reason: "budget_reached", steps: 1 });
    }, WAIT);
  });

  it("holds beside the session's: the lower one ends the turn", async () => {
    const session = await makeSession({ budget: { max_usd: A_CALL_USD } });
    uses("I look.");
    expect((await turn(session, { budget: { max_usd: 100 } })).body).toMatchObject({
      stop_reason: "budget_reached",
      steps: 1,
    });
  });
});
