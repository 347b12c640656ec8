/** Endpoints and deliveries in the words of the API. */
import { z } from "@hono/zod-openapi";
import { checkOutboundUrl } from "../protocol/outbound-url.ts";
import { webhookEvents } from "../protocol/webhook-events.ts";
import type { DeliveryRecord } from "../store/webhook-deliveries.ts";
import type { EndpointRecord } from "../store/webhook-endpoints.ts";
import { invalid } from "./errors.ts";
import { boundedText } from "./text.ts";

const url = boundedText(2_048, 1).openapi({
  description: "Where events are sent: https, and no private address.",
  example: "https://example.com/hango",
});
const description = boundedText(500);
const enabled = z.boolean();
const events = z
  .array(z.enum(webhookEvents))
  .max(webhookEvents.length)
  .refine((given) => new Set(given).size === given.length, "each event once")
  .openapi({ description: "What is sent. Empty: everything, what later versions add included." });

export const createEndpointSchema = z
  .strictObject({
    url,
    description: description.optional(),
    enabled: enabled.default(true),
    events: events.default([]),
  })
  .openapi("CreateWebhookEndpoint", {
    example: { url: "https://example.com/hango", events: ["run.completed", "run.failed"] },
  });

export const changeEndpointSchema = z
  .strictObject({
    url: url.optional(),
    description: description.optional(),
    enabled: enabled
      .optional()
      .openapi({ description: "While false, nothing is sent, and nothing is kept for later." }),
    events: events.optional(),
  })
  .openapi("ChangeWebhookEndpoint", { example: { enabled: true } });

/** A day, unless the caller says otherwise; at most a week. */
const DEFAULT_OVERLAP_SECONDS = 86_400;
const MAX_OVERLAP_SECONDS = 604_800;

export const rotateSchema = z
  .strictObject({
    overlap_seconds: z.int().min(0).max(MAX_OVERLAP_SECONDS).default(DEFAULT_OVERLAP_SECONDS).openapi({
      description: "How long the secrets so far go on signing beside the new one; 0 ends them now.",
    }),
  })
  .openapi("RotateWebhookSecret");

export const endpointSchema = z
  .object({
    id: z.string(),
    type: z.literal("webhook_endpoint"),
    url: z.string(),
    description: z.string(),
    enabled: z.boolean().openapi({ description: "Turned off by the receiver when it answers 410." }),
    events: z.array(z.string()),
    signing_secrets: z
      .int()
      .openapi({ description: "Secrets that sign at the moment: more than one while a rotation overlaps." }),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("WebhookEndpoint");

export const createdEndpointSchema = endpointSchema
  .extend({ secret: z.string().openapi({ description: "`whsec_...`: shown now and never again." }) })
  .openapi("CreatedWebhookEndpoint");

export const showEndpoint = (endpoint: EndpointRecord) => ({
  id: endpoint.id,
  type: "webhook_endpoint",
  url: endpoint.url,
  description: endpoint.description,
  enabled: endpoint.enabled,
  events: endpoint.events,
  signing_secrets: endpoint.secrets,
  created_at: endpoint.createdAt,
  updated_at: endpoint.updatedAt,
});

export const deliveryStatus = z.enum(["pending", "delivered", "failed"]);

export const deliverySchema = z
  .object({
    id: z.string().openapi({ description: "What the receiver sees as `webhook-id`." }),
    type: z.literal("webhook_delivery"),
    endpoint_id: z.string().nullable().openapi({ description: "Null for the `callback_url` of a turn." }),
    event: z.string(),
    session_id: z.string().nullable(),
    run_id: z.string().nullable(),
    url: z.string(),
    status: deliveryStatus,
    attempts: z.int(),
    next_at: z.iso.datetime().nullable().openapi({ description: "When it is tried next; null once it is over." }),
    response_status: z.int().nullable().openapi({ description: "Status of the newest answer." }),
    error: z.string().nullable().openapi({ description: "Why the newest attempt did not deliver." }),
    created_at: z.iso.datetime(),
    delivered_at: z.iso.datetime().nullable(),
  })
  .openapi("WebhookDelivery");

export const showDelivery = (delivery: DeliveryRecord) => ({
  id: delivery.id,
  type: "webhook_delivery",
  endpoint_id: delivery.endpointId,
  event: delivery.eventType,
  session_id: delivery.sessionId,
  run_id: delivery.runId,
  url: delivery.url,
  status: delivery.status,
  attempts: delivery.attempts,
  next_at: delivery.nextAt,
  response_status: delivery.responseStatus,
  error: delivery.error,
  created_at: delivery.createdAt,
  delivered_at: delivery.deliveredAt,
});

/** @throws ApiError `invalid_request` for a URL that hango will not call */
export const requireOutboundUrl = (param: string, given: string, allowPrivate: boolean): void => {
  const reason = checkOutboundUrl(given, allowPrivate);
  if (reason !== null) throw invalid(param, reason);
};
