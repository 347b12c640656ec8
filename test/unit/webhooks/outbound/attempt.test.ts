import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { TenantId } from "../../../../src/protocol/ids.ts";
import { attemptDelivery } from "../../../../src/webhooks/outbound/attempt.ts";
import { callbackSecret, newWebhookSecret } from "../../../../src/webhooks/outbound/callback-secret.ts";
import { retryDelaySeconds } from "../../../../src/webhooks/outbound/retry-delay.ts";
import { startWebhookReceiver, type WebhookReceiver } from "../../../support/webhook-receiver.ts";

let receiver: WebhookReceiver;
beforeEach(async () => {
  receiver = await startWebhookReceiver();
});
afterEach(() => receiver.close());

describe("an attempt", () => {
  const attempt = (changes: object) =>
    attemptDelivery({
      id: "whd_1",
      url: receiver.url,
      payload: "{}",
      secrets: [newWebhookSecret()],
      nowMs: Date.now(),
      timeoutMs: 10_000,
      allowPrivateUrls: true,
      fetch,
      ...changes,
    });

  it("at a receiver that does not answer ends with its time", async () => {
    receiver.answer({ silent: true });
    expect(await attempt({ timeoutMs: 50 })).toEqual({
      kind: "failed",
      status: null,
      error: "the receiver did not answer within 0.05 s",
    });
  });

  it.each(["https://localhost/", "https://10.1.2.3/", "https://[fd00::1]/", "http://example.com/"])(
    "at %s is not made",
    async (url) => {
      const called: string[] = [];
      const outcome = await attempt({
        url,
        allowPrivateUrls: false,
        fetch: async (to: string) => {
          called.push(to);
          return new Response(null);
        },
      });
      expect([outcome.kind, called]).toEqual(["refused", []]);
    },
  );
});

describe("Standard Webhooks", () => {
  it("signs the specification's example as it says", async () => {
    await attemptDelivery({
      id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
      url: receiver.url,
      payload: '{"test": 2432232314}',
      secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
      nowMs: 1_614_265_330_000,
      timeoutMs: 10_000,
      allowPrivateUrls: true,
      fetch,
    });
    expect((await receiver.request(0)).headers).toMatchObject({
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    });
  });
});

describe("the wait before the next attempt", () => {
  it("grows from seconds to hours, and is shortened by up to a fifth", () => {
    const waits = Array.from({ length: 11 }, (_, index) => retryDelaySeconds(index + 1, 0));
    expect(waits).toEqual([5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800, 28_800]);
    expect(retryDelaySeconds(3, 0.5)).toBe(108);
  });
});

describe("the callback secret", () => {
  it("depends on the tenant and on the operator's key", async () => {
    const [a, b] = ["tnt_a" as TenantId, "tnt_b" as TenantId];
    const secrets = [await callbackSecret("key", a), await callbackSecret("key", b), await callbackSecret("other", a)];
    expect(new Set(secrets).size).toBe(3);
    expect(await callbackSecret("key", a)).toBe(secrets[0]);
  });
});
