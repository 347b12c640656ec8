/** What triggers received: listed, read, taken through once more, and samples. */
import { z } from "@hono/zod-openapi";
import { isId } from "../protocol/ids.ts";
import { type DeliveryRecord, deliveryStatuses, findDelivery, listDeliveries } from "../store/deliveries.ts";
import { pageOf } from "../store/pages.ts";
import { redeliver } from "../webhooks/redeliver.ts";
import { sendSample } from "../webhooks/sample.ts";
import { tenantOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { invalid, notFound } from "./errors.ts";
import { hookAnswer } from "./hooks.ts";
import { idempotencyHeaders } from "./idempotency.ts";
import { cursors, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { once } from "./once.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { boundedText, holdsNul } from "./text.ts";
import { requireTrigger, triggerParam } from "./triggers.ts";

const tags = ["triggers"];
const LIST = "deliveries";

const deliverySchema = z
  .object({
    id: z.string(),
    type: z.literal("delivery"),
    trigger_id: z.string(),
    event_id: z.string().nullable().openapi({ description: "The sender's id of the event." }),
    status: z.enum(deliveryStatuses).openapi({
      description:
        "`refused`: not believed or not readable. `ignored`: filtered, the agent's own, a handshake, or a tick that would overlap. `duplicate`: seen before. `waiting`: for the queue. `accepted`: has a run. `completed`: its run has ended. `failed`: has none, and will not.",
    }),
    reason: z.string().nullable().openapi({ description: "Why, as a code; see docs/webhooks.md." }),
    headers: z.record(z.string(), z.string()),
    session_key: z.string().nullable(),
    session_id: z.string().nullable(),
    run_id: z.string().nullable(),
    run_status: z.string().nullable(),
    due_at: z.iso.datetime().nullable(),
    attempts: z.int(),
    reply_status: z.enum(["pending", "delivered", "failed"]).nullable(),
    reply_attempts: z.int(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("Delivery");

const wholeDeliverySchema = deliverySchema
  .extend({ payload: z.string().nullable().openapi({ description: "As JSON text; null where none was kept." }) })
  .openapi("DeliveryWithPayload");

const showDelivery = (delivery: DeliveryRecord) => ({
  id: delivery.id,
  type: "delivery",
  trigger_id: delivery.triggerId,
  event_id: delivery.eventId,
  status: delivery.status,
  reason: delivery.reason,
  headers: delivery.headers,
  session_key: delivery.sessionKey,
  session_id: delivery.sessionId,
  run_id: delivery.runId,
  run_status: delivery.runStatus,
  due_at: delivery.dueAt,
  attempts: delivery.attempts,
  reply_status: delivery.replyStatus,
  reply_attempts: delivery.replyAttempts,
  created_at: delivery.createdAt,
  updated_at: delivery.updatedAt,
});

const registerList = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/triggers/{id}/deliveries",
      access: { tenant: "read" },
      tags,
      operationId: "listDeliveries",
      summary: "List what a trigger received",
      description: "Without payloads; each is read by itself.",
      request: {
        params: triggerParam,
        query: z.strictObject({ ...listQuery, status: z.enum(deliveryStatuses).optional() }),
      },
      responses: { 200: json(listOf(deliverySchema), "A page of deliveries.") },
    },
    async (c) => {
      const query = c.req.valid("query");
      const page = pageOf(readPage(LIST, query, cursors.id));
      const trigger = await requireTrigger(c, c.req.valid("param").id);
      const rows = await listDeliveries(c.get("deps").db, tenantOf(c), trigger.id, query.status, page);
      return c.json(listPage(LIST, query, rows, showDelivery, ({ id }) => id));
    },
  );

const deliveryParam = triggerParam.extend({ delivery: z.string() });

const requireDelivery = async (c: Ctx, { id, delivery }: z.infer<typeof deliveryParam>): Promise<DeliveryRecord> => {
  const found =
    isId("trg", id) && isId("dlv", delivery)
      ? await findDelivery(c.get("deps").db, tenantOf(c), id, delivery)
      : undefined;
  if (found === undefined) throw notFound("delivery");
  return found;
};

const registerRead = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/triggers/{id}/deliveries/{delivery}",
      access: { tenant: "content" },
      tags,
      operationId: "getDelivery",
      summary: "Read what a trigger received, payload included",
      request: { params: deliveryParam },
      responses: { 200: json(wholeDeliverySchema, "The delivery.") },
    },
    async (c) => {
      const delivery = await requireDelivery(c, c.req.valid("param"));
      return c.json({ ...showDelivery(delivery), payload: delivery.payload });
    },
  );

const registerRedeliver = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/triggers/{id}/deliveries/{delivery}/redeliver",
      access: { tenant: "write" },
      tags,
      operationId: "redeliver",
      summary: "Take a delivery through once more",
      description: "Makes a new delivery of the same payload, and a run of it, whatever became of the first.",
      request: { params: deliveryParam, headers: idempotencyHeaders },
      responses: { 202: json(z.object({ delivery_id: z.string() }).openapi("Redelivery"), "It is on its way.") },
    },
    async (c) => {
      const deps = c.get("deps");
      const { id, delivery } = c.req.valid("param");
      const trigger = await requireTrigger(c, id);
      const old = await requireDelivery(c, { id, delivery });
      return once(c, tenantOf(c), old.id, async () => {
        const outcome = await redeliver(deps, trigger, old);
        if (outcome.kind === "no_payload") {
          throw invalid("delivery", "has no payload: it was refused, or is a duplicate; redeliver the first one");
        }
        return { status: 202, body: JSON.stringify({ delivery_id: outcome.deliveryId }) };
      });
    },
  );

const sampleSchema = z
  .strictObject({
    payload: z
      .record(z.string(), z.unknown())
      .refine((payload) => !holdsNul(payload), "must not contain NUL characters")
      .optional()
      .openapi({ description: "Default: an event as the sender's documentation shows it." }),
    headers: z
      .record(
        z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, "expected the name of an HTTP header"),
        boundedText(500),
      )
      .optional()
      .openapi({ example: { "X-GitHub-Event": "issues" } }),
  })
  .openapi("Sample", { example: {} });

const registerSample = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/triggers/{id}/test",
      access: { tenant: "write" },
      tags,
      operationId: "testTrigger",
      summary: "Send a sample",
      description:
        "Makes a delivery as the sender would, signed with the newest secret, and takes it through the trigger's own door, also while the trigger is disabled. Answers what the sender would be answered.",
      request: { params: triggerParam, headers: idempotencyHeaders, body: jsonBody(sampleSchema, false) },
      responses: {
        200: json(
          z
            .object({
              delivery_id: z.string().nullable(),
              status: z.string(),
              answer: z.object({ status: z.int(), body: z.string() }),
            })
            .openapi("SampleResult"),
          "How it went.",
        ),
      },
    },
    async (c) => {
      const deps = c.get("deps");
      const trigger = await requireTrigger(c, c.req.valid("param").id);
      if (trigger.type !== "webhook") throw invalid("id", "is a cron trigger; it takes no deliveries");
      return once(c, tenantOf(c), trigger.id, async () => {
        const outcome = await sendSample(deps, { trigger, nowMs: deps.now() }, c.req.valid("json"));
        const answer = hookAnswer(c, outcome);
        const result = {
          delivery_id: "deliveryId" in outcome ? outcome.deliveryId : null,
          status: outcome.kind === "taken" ? outcome.state : outcome.kind,
          answer: { status: answer.status, body: await answer.text() },
        };
        return { status: 200, body: JSON.stringify(result) };
      });
    },
  );

export const registerTriggerDeliveries = (app: App): void => {
  registerList(app);
  registerRead(app);
  registerRedeliver(app);
  registerSample(app);
};
