/** The log of what was sent to a receiver, and sending more of it on request. */
import { z } from "@hono/zod-openapi";
import { isId, type TenantId } from "../protocol/ids.ts";
import { pageOf } from "../store/pages.ts";
import { type DeliveryRecord, listDeliveries, redeliver, storeTestDelivery } from "../store/webhook-deliveries.ts";
import { findEndpoint } from "../store/webhook-endpoints.ts";
import { sendDeliveries } from "../turns/send-deliveries.ts";
import { tenantOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { invalid, notFound } from "./errors.ts";
import { idempotencyHeaders } from "./idempotency.ts";
import { cursors, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { type OnceAnswer, once } from "./once.ts";
import { json, operation } from "./operation.ts";
import { deliverySchema, deliveryStatus, showDelivery } from "./webhook-schema.ts";

const access = { tenant: "admin" } as const;
const tags = ["webhooks"];
const LIST = "webhook deliveries";

/** In the place of an endpoint's id: what went to the `callback_url`s of turns. */
const CALLBACKS = "callbacks";

const endpointParam = z.object({
  id: z.string().openapi({ description: `An endpoint's id, or \`${CALLBACKS}\` for the \`callback_url\`s of turns.` }),
});

/** @returns null for callbacks @throws ApiError `not_found` for what the tenant has none of, `invalid_request` where it must be enabled and is not */
const receiverOf = async (c: Ctx, tenantId: TenantId, id: string, enabled: boolean): Promise<string | null> => {
  if (id === CALLBACKS) return null;
  const endpoint = isId("whe", id) ? await findEndpoint(c.get("deps").db, tenantId, id) : undefined;
  if (endpoint === undefined) throw notFound("webhook endpoint");
  if (enabled && !endpoint.enabled)
    throw invalid("id", "the endpoint is disabled; enable it first with PATCH and `enabled: true`");
  return id;
};

const sent = (c: Ctx, tenantId: TenantId, delivery: DeliveryRecord): OnceAnswer => {
  sendDeliveries(c.get("deps"), tenantId, [delivery.id]);
  return { status: 202, body: JSON.stringify(showDelivery(delivery)) };
};

export const registerWebhookDeliveries = (app: App): void => {
  operation(
    app,
    {
      method: "get",
      path: "/v1/webhook_endpoints/{id}/deliveries",
      access,
      tags,
      operationId: "listWebhookDeliveries",
      summary: "List what was sent to an endpoint",
      description: "Without the bodies, which hold what models say.",
      request: { params: endpointParam, query: z.strictObject({ ...listQuery, status: deliveryStatus.optional() }) },
      responses: { 200: json(listOf(deliverySchema), "A page of deliveries.") },
    },
    async (c) => {
      const query = c.req.valid("query");
      const tenantId = tenantOf(c);
      const page = pageOf(readPage(LIST, query, cursors.id));
      const endpointId = await receiverOf(c, tenantId, c.req.valid("param").id, false);
      const rows = await listDeliveries(c.get("deps").db, tenantId, { endpointId, status: query.status }, page);
      return c.json(listPage(LIST, query, rows, showDelivery, ({ id }) => id));
    },
  );

  operation(
    app,
    {
      method: "post",
      path: "/v1/webhook_endpoints/{id}/deliveries/{delivery_id}/redeliver",
      access,
      tags,
      operationId: "redeliverWebhook",
      summary: "Send a delivery again",
      description:
        "The same bytes under the same `webhook-id`, whatever became of it before. Retried until 24 hours after it was made; an older one gets one attempt.",
      request: { params: endpointParam.extend({ delivery_id: z.string() }), headers: idempotencyHeaders },
      responses: { 202: json(deliverySchema, "The delivery, due now.") },
    },
    (c) => {
      const { db, newId } = c.get("deps");
      const tenantId = tenantOf(c);
      const { id, delivery_id: deliveryId } = c.req.valid("param");
      return once(c, tenantId, newId("whd"), async () => {
        const endpointId = await receiverOf(c, tenantId, id, true);
        const delivery = isId("whd", deliveryId) ? await redeliver(db, tenantId, endpointId, deliveryId) : undefined;
        if (delivery === undefined) throw notFound("webhook delivery");
        if (delivery === "emptied")
          throw invalid(
            "delivery_id",
            "what it said was removed, with its session or by its age; it cannot be sent again",
          );
        return sent(c, tenantId, delivery);
      });
    },
  );

  operation(
    app,
    {
      method: "post",
      path: "/v1/webhook_endpoints/{id}/test",
      access,
      tags,
      operationId: "testWebhookEndpoint",
      summary: "Send a test event",
      description: "A `webhook.test`, whatever the endpoint subscribes to.",
      request: { params: z.object({ id: z.string() }), headers: idempotencyHeaders },
      responses: { 202: json(deliverySchema, "The delivery, due now.") },
    },
    (c) => {
      const { db, newId } = c.get("deps");
      const tenantId = tenantOf(c);
      const deliveryId = newId("whd");
      return once(c, tenantId, deliveryId, async () => {
        const endpointId = await receiverOf(c, tenantId, c.req.valid("param").id, true);
        const delivery =
          endpointId === null ? undefined : await storeTestDelivery(db, tenantId, endpointId, deliveryId);
        if (delivery === undefined) throw notFound("webhook endpoint");
        return sent(c, tenantId, delivery);
      });
    },
  );
};
