/** What receivers are told, by the built Worker: through the outbox, the queue, and a signed POST. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { compactingSession, talk } from "../support/compaction.ts";
import { call, platform, session, tenant, turn, useOwnSession } from "../support/own-session.ts";
import { callerOf, makeTenant } from "../support/platform.ts";
import { isSigned, startWebhookReceiver, type WebhookReceiver } from "../support/webhook-receiver.ts";

useOwnSession({ key: "ticket-1" });

let receiver: WebhookReceiver;

beforeEach(async () => {
  receiver = await startWebhookReceiver();
});
afterEach(() => receiver.close());

const says = (text: string) => platform.simulator.enqueue({ reply: { content: text } });
const subscribe = async (settings: object = {}) => {
  const { status, body } = await call("POST", "/v1/webhook_endpoints", { url: `${receiver.url}/events`, ...settings });
  expect(status).toBe(201);
  return body;
};
const deliveries = async (of: string) => (await call("GET", `/v1/webhook_endpoints/${of}/deliveries`)).body.data;
/** The log of deliveries, once it says so: an attempt is recorded after the receiver has seen it. */
const settled = (of: string, count: number) =>
  vi.waitFor(
    async () => {
      const data = await deliveries(of);
      expect(data.filter(({ status }: { status: string }) => status !== "pending").length).toBeGreaterThanOrEqual(
        count,
      );
      return data;
    },
    { timeout: 20_000, interval: 30 },
  );

describe("an endpoint", () => {
  it("is told of a completed run: signed, with the run as the API shows it", async () => {
    const endpoint = await subscribe();
    says("Hello there.");
    const { body: run } = await turn({ input: "hello" });
    const request = await receiver.request(0);
    expect(request.path).toBe("/events");
    expect(isSigned(request, endpoint.secret)).toBe(true);
    expect(request.headers).toMatchObject({ "content-type": "application/json", "user-agent": "hango-webhooks/1" });
    expect(request.json).toEqual({
      id: expect.stringMatching(/^evt_[0-9A-Z]{26}$/),
      type: "run.completed",
      created_at: run.finished_at,
      data: { session_id: session, session_key: "ticket-1", run: (await call("GET", `/v1/runs/${run.id}`)).body },
    });
    expect(await settled(endpoint.id, 1)).toEqual([
      {
        id: request.headers["webhook-id"],
        type: "webhook_delivery",
        endpoint_id: endpoint.id,
        event: "run.completed",
        session_id: session,
        run_id: run.id,
        url: `${receiver.url}/events`,
        status: "delivered",
        attempts: 1,
        next_at: null,
        response_status: 204,
        error: null,
        created_at: run.finished_at,
        delivered_at: expect.any(String),
      },
    ]);
  });

  it("costs a turn no round trip to the database", async () => {
    await subscribe();
    says("Hello.");
    const { body } = await turn({ input: "hello", callback_url: `${receiver.url}/callback` });
    expect(body.db_round_trips).toBe(2);
    await receiver.request(1);
  });

  it("is told of a failed run, with its error", async () => {
    const endpoint = await subscribe({ events: ["run.failed"] });
    platform.simulator.enqueue({ fault: { kind: "status", status: 400 } });
    const { body } = await turn({ input: "hello" });
    const { json } = await receiver.request(0);
    expect(json).toMatchObject({
      type: "run.failed",
      data: { run: { id: body.error.run_id, status: "failed", error: { code: body.error.code } } },
    });
    expect(json.data.run).toEqual((await call("GET", `/v1/runs/${body.error.run_id}`)).body);
    expect(await settled(endpoint.id, 1)).toHaveLength(1);
  });

  it("is not told of what it did not ask for, nor when it is disabled, nor of another tenant's runs", async () => {
    const other = await subscribe({ events: ["run.failed"] });
    const off = await subscribe({ enabled: false });
    const strangers = callerOf(platform.url, await makeTenant(platform.database));
    await strangers("POST", "/v1/webhook_endpoints", { url: `${receiver.url}/stranger` });
    const told = await subscribe({ events: ["run.completed"] });
    says("Hello.");
    await turn({ input: "hello" });
    await settled(told.id, 1);
    expect([await deliveries(other.id), await deliveries(off.id)]).toEqual([[], []]);
    expect(receiver.received.map(({ path }) => path)).toEqual(["/events"]);
  });

  it("gets the same bytes under the same id when a delivery is sent again, signed anew with all valid secrets", async () => {
    const endpoint = await subscribe();
    says("Hello.");
    await turn({ input: "hello" });
    const [delivery] = await settled(endpoint.id, 1);
    const rotated = await call("POST", `/v1/webhook_endpoints/${endpoint.id}/rotate_secret`, { overlap_seconds: 3600 });
    expect(rotated.body).toMatchObject({
      id: endpoint.id,
      signing_secrets: 2,
      secret: expect.stringMatching(/^whsec_/),
    });
    const again = await call("POST", `/v1/webhook_endpoints/${endpoint.id}/deliveries/${delivery.id}/redeliver`);
    expect([again.status, again.body.status]).toEqual([202, "pending"]);
    const [first, second] = [await receiver.request(0), await receiver.request(1)];
    expect([second.body, second.headers["webhook-id"]]).toEqual([first.body, first.headers["webhook-id"]]);
    expect([
      isSigned(first, rotated.body.secret),
      isSigned(second, rotated.body.secret),
      isSigned(second, endpoint.secret),
    ]).toEqual([false, true, true]);
    await platform.database.advanceClock(3_601);
    await settled(endpoint.id, 1);
    await call("POST", `/v1/webhook_endpoints/${endpoint.id}/deliveries/${delivery.id}/redeliver`);
    const third = await receiver.request(2);
    expect([isSigned(third, rotated.body.secret), isSigned(third, endpoint.secret)]).toEqual([true, false]);
  });

  it("is told that a run waits for its caller, with the calls and the deadline, and then of its end", async () => {
    const endpoint = await subscribe();
    const tools = [{ name: "ask_user", description: "Asks the person.", input_schema: { type: "object" } }];
    await call("PATCH", `/v1/sessions/${session}`, { tools });
    platform.simulator.enqueue({
      reply: { content: [{ type: "tool_use", id: "toolu_1", name: "ask_user", input: { question: "Which?" } }] },
    });
    const { body: run } = await turn({ input: "hello", callback_url: `${receiver.url}/callback` });
    const waits = await receiver.request(0);
    expect(waits.json).toMatchObject({
      type: "run.requires_action",
      data: {
        run: { id: run.id, status: "requires_action" },
        required_action: {
          deadline: expect.stringMatching(/^20.*Z$/),
          tool_calls: [{ id: "toolu_1", name: "ask_user", input: { question: "Which?" } }],
        },
      },
    });
    // The turn's own answer, the webhook and the run as it is read say the same.
    expect(run.required_action).toEqual(waits.json.data.required_action);
    expect(waits.json.data.run).toEqual((await call("GET", `/v1/runs/${run.id}`)).body);
    says("That one.");
    await call("POST", `/v1/runs/${run.id}/tool_results`, {
      tool_results: [{ tool_use_id: "toolu_1", content: "This one." }],
    });
    await settled(endpoint.id, 2);
    await settled("callbacks", 1);
    expect(receiver.received.map(({ path, json }) => `${path} ${json.type}`).sort()).toEqual([
      "/callback run.completed",
      "/events run.completed",
      "/events run.requires_action",
    ]);
  });

  it("is told of cancelled runs, of one at work and of one that never started", async () => {
    const endpoint = await subscribe();
    platform.simulator.enqueue({ hold: "cancelled", reply: { content: "Never." } });
    const working = (await turn({ input: "first", background: true })).body.id;
    await platform.simulator.reached("cancelled");
    const queued = (await turn({ input: "second", on_busy: "queue", background: true })).body.id;
    for (const id of [queued, working]) await call("POST", `/v1/runs/${id}/cancel`);
    await settled(endpoint.id, 2);
    // A cancel of what is over tells nobody anything.
    await subscribe();
    await call("POST", `/v1/runs/${queued}/cancel`);
    const told = receiver.received.map(({ json }) => json);
    expect(told).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          type: "run.cancelled",
          data: expect.objectContaining({ run: (await call("GET", `/v1/runs/${queued}`)).body }),
        }),
        expect.objectContaining({
          type: "run.cancelled",
          data: expect.objectContaining({ run: (await call("GET", `/v1/runs/${working}`)).body }),
        }),
      ]),
    );
    expect(told).toHaveLength(2);
  });

  it("is told of a compaction, with its sizes and without content", async () => {
    const compacting = await compactingSession(platform, { windowTokens: 20_000 });
    const made = await compacting.call("POST", "/v1/webhook_endpoints", {
      url: receiver.url,
      events: ["session.compacted"],
    });
    await compacting.load(talk(30, 230));
    const { body: run } = await compacting.answered("And now?");
    const request = await receiver.request(0);
    expect(isSigned(request, made.body.secret)).toBe(true);
    const [receipt] = (await compacting.call("GET", `/v1/sessions/${compacting.id}/compactions`)).body.data;
    expect(request.json).toEqual({
      id: expect.stringMatching(/^evt_/),
      type: "session.compacted",
      created_at: receipt.created_at,
      data: {
        session_id: compacting.id,
        session_key: null,
        run_id: run.id,
        generation: 1,
        base_generation: 0,
        reason: "threshold",
        tokens_before: receipt.tokens_before,
        tokens_after: receipt.tokens_after,
        evicted: receipt.evicted,
        created_at: receipt.created_at,
      },
    });
  });

  it("gets a test event on request", async () => {
    const endpoint = await subscribe({ events: ["run.failed"] });
    const { status, body } = await call("POST", `/v1/webhook_endpoints/${endpoint.id}/test`);
    expect([status, body.event, body.session_id]).toEqual([202, "webhook.test", null]);
    const request = await receiver.request(0);
    expect(isSigned(request, endpoint.secret)).toBe(true);
    expect(request.json).toEqual({
      id: expect.stringMatching(/^evt_/),
      type: "webhook.test",
      created_at: body.created_at,
      data: { endpoint_id: endpoint.id },
    });
  });

  it("that answers 410 is disabled and gets nothing more", async () => {
    const endpoint = await subscribe();
    receiver.answer({ status: 410 });
    says("Hello.");
    await turn({ input: "hello" });
    expect(await settled(endpoint.id, 1)).toMatchObject([{ status: "failed", response_status: 410, attempts: 1 }]);
    expect((await call("GET", `/v1/webhook_endpoints/${endpoint.id}`)).body.enabled).toBe(false);
    says("Hello.");
    await turn({ input: "again" });
    expect(await deliveries(endpoint.id)).toHaveLength(1);
    expect(await call("POST", `/v1/webhook_endpoints/${endpoint.id}/test`)).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request", param: "id" } },
    });
  });

  it("gets what was lost on its way through the queue from the next tick", async () => {
    const endpoint = await subscribe();
    const id = `whd_${"0".repeat(26)}`;
    await platform.database.sql(
      "insert into webhook_deliveries (id, tenant_id, endpoint_id, session_id, url, event_type, payload) values ($1, $2, $3, '', 'http://old.test', 'webhook.test', '{\"n\": 1}')",
      [id, tenant.id, endpoint.id],
    );
    await platform.database.advanceClock(61);
    await platform.host.tick();
    const request = await receiver.request(0);
    expect([request.headers["webhook-id"], request.body]).toEqual([id, '{"n": 1}']);
    expect(isSigned(request, endpoint.secret)).toBe(true);
  });
});

describe("a callback", () => {
  it("is told of its run alone, signed with the tenant's callback secret", async () => {
    const {
      body: { secret },
    } = await call("GET", "/v1/webhook_endpoints/callback_secret");
    says("Hello.");
    says("Unheard.");
    const { body: run } = await turn({ input: "hello", callback_url: `${receiver.url}/callback?x=1` });
    await turn({ input: "again" });
    const request = await receiver.request(0);
    expect(request.path).toBe("/callback?x=1");
    expect(isSigned(request, secret)).toBe(true);
    expect(request.json).toMatchObject({
      type: "run.completed",
      data: { session_id: session, run: { id: run.id, output_text: "Hello." } },
    });
    expect(await settled("callbacks", 1)).toMatchObject([{ endpoint_id: null, run_id: run.id, status: "delivered" }]);
  });

  it("is told of a turn that the queue runs", async () => {
    says("Done later.");
    const { status, body } = await turn({ input: "hello", background: true, callback_url: `${receiver.url}/callback` });
    expect(status).toBe(202);
    const request = await receiver.request(0);
    expect(request.json).toMatchObject({
      type: "run.completed",
      data: { run: { id: body.id, output_text: "Done later." } },
    });
  });

  it.each([
    ["ftp://example.com/", "must be an https:// URL"],
    ["not a url", "must be an absolute https:// URL"],
    ["https://user:secret@example.com/", "must not contain a user name or password"],
  ])("is refused at %s", async (callback_url, message) => {
    expect(await turn({ input: "hello", callback_url })).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request", param: "callback_url", message: `callback_url: ${message}` } },
    });
  });
});

describe("an erased session", () => {
  it("leaves nothing behind of what was told of it", async () => {
    const endpoint = await subscribe();
    says("Hello.");
    await turn({ input: "hello" });
    await settled(endpoint.id, 1);
    await call("DELETE", `/v1/sessions/${session}`);
    const left = "select 1 from webhook_deliveries where session_id = $1 or (tenant_id = $2 and payload <> '')";
    await vi.waitFor(async () => expect(await platform.database.sql(left, [session, tenant.id])).toEqual([]), {
      timeout: 20_000,
      interval: 50,
    });
  });
});
