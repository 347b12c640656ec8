/** One delivery from claim to record, over a real database and a real receiver; the queue and the clock are the test's. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type EndpointId, newId, type TenantId, type WebhookDeliveryId } from "../../../../src/protocol/ids.ts";
import { claimDelivery, recordAttempt, storeTestDelivery } from "../../../../src/store/webhook-deliveries.ts";
import { createEndpoint } from "../../../../src/store/webhook-endpoints.ts";
import { createLog } from "../../../../src/telemetry/log.ts";
import type { Deps } from "../../../../src/turns/deps.ts";
import { callbackSecret, newWebhookSecret } from "../../../../src/webhooks/outbound/callback-secret.ts";
import { deliverWebhook, resendDueWebhooks } from "../../../../src/webhooks/outbound/deliver.ts";
import { type TestDatabase, testDatabase } from "../../../support/database.ts";
import { connectTo } from "../../../support/store.ts";
import { isSigned, startWebhookReceiver, type WebhookReceiver } from "../../../support/webhook-receiver.ts";

const ADMIN_KEY = "operator-key-for-these-tests";

let database: TestDatabase;
let receiver: WebhookReceiver;
let deps: Deps;
let tenantId: TenantId;
let endpointId: EndpointId;
let deliveryId: WebhookDeliveryId;
let secret: string;
let logged: string[];
let sent: { readonly body: unknown; readonly delaySeconds: number | undefined }[];
let allowPrivateUrls: boolean;

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
});
afterAll(() => database.close());
beforeEach(async () => {
  receiver = await startWebhookReceiver();
  sent = [];
  logged = [];
  allowPrivateUrls = true;
  const db = connectTo(database);
  deps = {
    db,
    config: {
      adminKey: ADMIN_KEY,
      get allowPrivateUrls() {
        return allowPrivateUrls;
      },
    } as Deps["config"],
    queue: {
      send: async (body: unknown, options?: { delaySeconds?: number }) => {
        sent.push({ body, delaySeconds: options?.delaySeconds });
      },
      sendBatch: async (messages: Iterable<{ body: unknown }>) => {
        for (const { body } of messages) sent.push({ body, delaySeconds: undefined });
      },
    } as unknown as Deps["queue"],
    log: createLog({ level: "debug", sink: (line) => logged.push(line), traceIds: () => undefined }),
    now: Date.now,
    fetch,
  } as Partial<Deps> as Deps;
  tenantId = newId("tnt");
  endpointId = newId("whe");
  deliveryId = newId("whd");
  secret = newWebhookSecret();
  // What an earlier test left pending would be found by the sweeper.
  await database.sql("delete from webhook_deliveries");
  await database.sql("insert into tenants (id, name) values ($1, 'test')", [tenantId]);
  await createEndpoint(db, tenantId, endpointId, secret, {
    url: receiver.url,
    description: "",
    enabled: true,
    events: [],
  });
  await storeTestDelivery(db, tenantId, endpointId, deliveryId);
});
afterEach(() => receiver.close());

const message = () => ({ v: 1, type: "webhook_delivery", tenantId, deliveryId }) as const;
const deliver = () => deliverWebhook(deps, message());
const row = async () => {
  const [found] = await database.sql(
    "select status, attempts, response_status, error, extract(epoch from next_at - hango_now())::int as wait from webhook_deliveries where id = $1",
    [deliveryId],
  );
  return found;
};

describe("a delivery", () => {
  it("is sent once, whatever the number of messages and consumers", async () => {
    await Promise.all(Array.from({ length: 8 }, deliver));
    await deliver();
    expect(receiver.received).toHaveLength(1);
    expect(await row()).toMatchObject({ status: "delivered", attempts: 1, response_status: 204, error: null });
    expect(sent).toEqual([]);
  });

  it.each([
    ["500", { status: 500 }, { response_status: 500, error: "the receiver answered 500" }],
    ["404", { status: 404 }, { response_status: 404, error: "the receiver answered 404" }],
    [
      "a redirect, which is not followed",
      { status: 302, headers: { Location: "/elsewhere" } },
      { response_status: 302, error: "the receiver answered 302; redirects are not followed" },
    ],
    ["a closed connection", { cut: true }, { response_status: null, error: "the receiver could not be reached" }],
  ] as const)("that is answered with %s is tried again", async (_, answer, recorded) => {
    receiver.answer(answer);
    await deliver();
    expect(await row()).toMatchObject({ status: "pending", attempts: 1, ...recorded });
    expect(sent).toEqual([{ body: message(), delaySeconds: expect.any(Number) }]);
    expect(receiver.received).toHaveLength(1);
    await database.advanceClock(6);
    await deliver();
    expect(await row()).toMatchObject({ status: "delivered", attempts: 2, response_status: 204, error: null });
    const [first, second] = receiver.received;
    expect([second?.body, second?.headers["webhook-id"]]).toEqual([first?.body, deliveryId]);
  });

  it("is not sent before it is due", async () => {
    receiver.answer({ status: 500 });
    await deliver();
    await deliver();
    expect(receiver.received).toHaveLength(1);
    expect(sent).toHaveLength(1);
  });

  it("is tried for 24 hours, less and less often, then failed", async () => {
    receiver.answer(...Array.from({ length: 40 }, () => ({ status: 503 })));
    const waits: number[] = [];
    for (;;) {
      await deliver();
      const { status, wait } = (await row()) ?? {};
      if (status !== "pending") break;
      const newest = sent.at(-1)?.delaySeconds ?? 0;
      // The message comes when its delivery is due, and not before.
      expect(newest).toBeGreaterThanOrEqual(Number(wait));
      expect(newest).toBeLessThanOrEqual(Number(wait) + 3);
      waits.push(newest);
      await database.advanceClock(newest);
    }
    expect(await row()).toMatchObject({ status: "failed", response_status: 503, wait: null });
    const hours = waits.reduce((sum, wait) => sum + wait, 0) / 3_600;
    expect(hours).toBeGreaterThan(15);
    expect(hours).toBeLessThanOrEqual(24.01);
    expect(waits.length).toBeGreaterThanOrEqual(10);
    expect([...waits].slice(0, 8)).toEqual([...waits].slice(0, 8).sort((a, b) => a - b));
    await deliver();
    expect(receiver.received).toHaveLength(waits.length + 1);
  });

  it("is signed with every secret that is valid", async () => {
    const older = newWebhookSecret();
    const expired = newWebhookSecret();
    await database.sql(
      `update webhook_endpoints set secrets = secrets || jsonb_build_array(
        jsonb_build_object('id', 'a', 'secret', $1::text, 'expires_at', hango_now() + interval '1 hour'),
        jsonb_build_object('id', 'b', 'secret', $2::text, 'expires_at', hango_now() - interval '1 second')) where id = $3`,
      [older, expired, endpointId],
    );
    await deliver();
    const request = await receiver.request(0);
    expect([secret, older, expired].map((each) => isSigned(request, each))).toEqual([true, true, false]);
    expect(String(request.headers["webhook-signature"]).split(" ")).toHaveLength(2);
    for (const each of [secret, older, expired]) expect(logged.join()).not.toContain(each);
  });

  it("to a callback is signed with the tenant's callback secret", async () => {
    await database.sql("update webhook_deliveries set endpoint_id = null where id = $1", [deliveryId]);
    await deliver();
    expect(isSigned(await receiver.request(0), await callbackSecret(ADMIN_KEY, tenantId))).toBe(true);
  });

  it("to a callback is signed with the secrets of both operator's keys, while the key is changed", async () => {
    await database.sql("update webhook_deliveries set endpoint_id = null where id = $1", [deliveryId]);
    const previousAdminKey = "the-operator-key-before-0123456789";
    await deliverWebhook({ ...deps, config: { ...deps.config, allowPrivateUrls: true, previousAdminKey } }, message());
    const request = await receiver.request(0);
    for (const key of [ADMIN_KEY, previousAdminKey])
      expect(isSigned(request, await callbackSecret(key, tenantId))).toBe(true);
    expect(isSigned(request, await callbackSecret("another-operator-key-0123456789", tenantId))).toBe(false);
  });

  it("goes to the URL that its endpoint has by then", async () => {
    await database.sql("update webhook_endpoints set url = url || '/new' where id = $1", [endpointId]);
    await deliver();
    expect((await receiver.request(0)).path).toBe("/new");
  });

  it("is given up when its endpoint is disabled meanwhile, and sends nothing", async () => {
    await database.sql("update webhook_endpoints set enabled = false where id = $1", [endpointId]);
    await deliver();
    expect(await row()).toMatchObject({ status: "failed", error: "the endpoint is disabled" });
    expect([receiver.received, sent]).toEqual([[], []]);
  });

  it("is given up at a private address, and sends nothing", async () => {
    allowPrivateUrls = false;
    await deliver();
    expect(await row()).toMatchObject({ status: "failed", error: "the URL must be an https:// URL" });
    expect([receiver.received, sent]).toEqual([[], []]);
  });

  it("whose answer never ends is delivered all the same, by its status", async () => {
    receiver.answer({ status: 200, body: "x".repeat(200_000) });
    await deliver();
    expect(await row()).toMatchObject({ status: "delivered", response_status: 200 });
  });

  it("that was erased meanwhile is left alone", async () => {
    await database.sql("delete from webhook_deliveries where id = $1", [deliveryId]);
    await deliver();
    expect([receiver.received, sent]).toEqual([[], []]);
  });

  it("of another tenant cannot be claimed", async () => {
    expect(await claimDelivery(deps.db, newId("tnt"), deliveryId)).toBeUndefined();
  });
});

describe("an attempt whose Worker died", () => {
  it("is due again after a while; what it records too late changes nothing", async () => {
    const lost = await claimDelivery(deps.db, tenantId, deliveryId);
    expect(lost).toMatchObject({ attempt: 1 });
    await resendDueWebhooks(deps);
    await deliver();
    expect([sent, receiver.received]).toEqual([[], []]);
    await database.advanceClock(121);
    await resendDueWebhooks(deps);
    expect(sent).toEqual([{ body: message(), delaySeconds: undefined }]);
    receiver.answer({ status: 500 });
    await deliver();
    if (lost === undefined) throw new Error("not claimed");
    const late = { responseStatus: 200, error: null, retryAfterSeconds: null, disables: false };
    expect(await recordAttempt(deps.db, tenantId, lost, late)).toBe(true);
    expect(await row()).toMatchObject({ status: "pending", attempts: 2, response_status: 500 });
  });
});
