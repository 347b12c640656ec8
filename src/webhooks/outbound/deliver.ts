/** The queue's work on deliveries: one attempt a message, the next one sent for when it fails. */
import { claimDelivery, overdueDeliveries, recordAttempt } from "../../store/webhook-deliveries.ts";
import type { Deps } from "../../turns/deps.ts";
import type { MaintenanceTask, TaskEnd } from "../../turns/maintenance.ts";
import type { QueueHandlers, WebhookDelivery } from "../../turns/queue.ts";
import { sendAll } from "../../turns/send-batch.ts";
import { type AttemptOutcome, attemptDelivery } from "./attempt.ts";
import { callbackSecrets } from "./callback-secret.ts";
import { retryDelaySeconds } from "./retry-delay.ts";

/** Longest wait for a receiver's answer, in ms. */
const ATTEMPT_TIMEOUT_MS = 10_000;

const statusOf = (outcome: AttemptOutcome): number | null => ("status" in outcome ? outcome.status : null);

const errorOf = (outcome: AttemptOutcome): string | null => {
  switch (outcome.kind) {
    case "delivered":
      return null;
    case "gone":
      return "the receiver answered 410: it wants no more, and its endpoint is disabled";
    case "failed":
    case "refused":
      return outcome.error;
    default:
      return outcome satisfies never;
  }
};

/**
 * Makes one attempt at a delivery that is due. A message for one that is not does nothing: a duplicate, or one that came too early, whose delivery the
 * cron door finds again.
 * @throws StoreUnavailable: the message is then to be delivered again
 */
export const deliverWebhook = async (deps: Deps, message: WebhookDelivery): Promise<void> => {
  const { tenantId, deliveryId } = message;
  const { config, db } = deps;
  const claimed = await claimDelivery(db, tenantId, deliveryId);
  if (claimed === undefined) return;
  const { endpointId, attempt } = claimed;
  const secrets = endpointId === null ? await callbackSecrets(config, tenantId) : claimed.secrets;
  const outcome: AttemptOutcome = claimed.enabled
    ? await attemptDelivery({
        id: claimed.id,
        url: claimed.url,
        payload: claimed.payload,
        secrets,
        nowMs: deps.now(),
        timeoutMs: ATTEMPT_TIMEOUT_MS,
        allowPrivateUrls: config.allowPrivateUrls,
        fetch: deps.fetch,
      })
    : { kind: "refused", error: "the endpoint is disabled" };
  const retryAfterSeconds = outcome.kind === "failed" ? retryDelaySeconds(attempt, Math.random()) : null;
  const again = await recordAttempt(db, tenantId, claimed, {
    responseStatus: statusOf(outcome),
    error: errorOf(outcome),
    retryAfterSeconds,
    disables: outcome.kind === "gone",
  });
  deps.log.info("tried to deliver a webhook", {
    delivery_id: deliveryId,
    outcome: outcome.kind,
    status: statusOf(outcome) ?? undefined,
    attempt,
    again,
  });
  if (!again || retryAfterSeconds === null) return;
  // Rounded up, and a second more: a message that came before its delivery is due would do nothing.
  await deps.queue.send(message, { delaySeconds: Math.ceil(retryAfterSeconds) + 1 }).catch(() => {
    deps.log.warn("the queue did not take a delivery", { delivery_id: deliveryId });
  });
};

/** What this part of the room does with the queue's messages. */
export const outboundMessages = { webhook_delivery: deliverWebhook } satisfies Partial<QueueHandlers<Deps>>;

/** Deliveries that one tick sends on; the next tick takes the rest. */
const DELIVERIES_PER_TICK = 1_000;

/** Sends deliveries that got lost on their way through the queue to it again. @throws StoreUnavailable, or what the queue fails with */
export const resendDueWebhooks = async (deps: Deps): Promise<TaskEnd> => {
  const due = await overdueDeliveries(deps.db, DELIVERIES_PER_TICK);
  if (due.length === 0) return "done";
  await sendAll(
    deps.queue,
    due.map((delivery) => ({ v: 1, type: "webhook_delivery", ...delivery })),
  );
  deps.log.info("sent overdue webhooks to the queue again", { deliveries: due.length });
  return "done";
};

/** This part's tasks of the cron trigger. */
export const outboundTasks: readonly MaintenanceTask[] = [
  { name: "due webhooks", everySeconds: 0, run: resendDueWebhooks },
];
