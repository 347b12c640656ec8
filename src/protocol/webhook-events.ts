/** What a tenant can be told of by HTTP: the closed list of event types that an endpoint subscribes to. */

export const webhookEvents = [
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.requires_action",
  "session.compacted",
] as const;

export type WebhookEvent = (typeof webhookEvents)[number];

/** Sent on request, to one endpoint; nobody subscribes to it. */
export const TEST_EVENT = "webhook.test";
