/** Starts the sending of what the outbox holds. What gets lost on the way is found in the store by the cron door. */
import type { TenantId, WebhookDeliveryId } from "../protocol/ids.ts";
import type { Deps } from "./deps.ts";

/** Messages that a queue takes in one batch. */
const MESSAGES_A_BATCH = 100;

/**
 * Sends a queue message for each delivery. Never throws and is not waited for: the rows are stored, and found again.
 * @param ids deliveries of this tenant
 */
export const sendDeliveries = (
  { queue, log, waitUntil }: Pick<Deps, "queue" | "log" | "waitUntil">,
  tenantId: TenantId,
  ids: readonly WebhookDeliveryId[],
): void => {
  for (let at = 0; at < ids.length; at += MESSAGES_A_BATCH) {
    const messages = ids
      .slice(at, at + MESSAGES_A_BATCH)
      .map((deliveryId) => ({ body: { v: 1, type: "webhook_delivery", tenantId, deliveryId } as const }));
    waitUntil(
      queue.sendBatch(messages).catch(() => {
        log.warn("the queue did not take deliveries", { deliveries: messages.length });
      }),
    );
  }
};
