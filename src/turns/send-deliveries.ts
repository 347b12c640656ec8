/** Starts the sending of what the outbox holds. What gets lost on the way is found in the store by the cron door. */
import type { TenantId, WebhookDeliveryId } from "../protocol/ids.ts";
import type { Deps } from "./deps.ts";
import { batchesOf, sendAll } from "./send-batch.ts";

/**
 * Sends a queue message for each delivery. Never throws and is not waited for: the rows are stored, and found again.
 * @param ids deliveries of this tenant
 */
export const sendDeliveries = (
  { queue, log, waitUntil }: Pick<Deps, "queue" | "log" | "waitUntil">,
  tenantId: TenantId,
  ids: readonly WebhookDeliveryId[],
): void => {
  // Each on its own: one batch that is not taken keeps none of the others back.
  for (const batch of batchesOf(ids)) {
    const messages = batch.map((deliveryId) => ({ v: 1, type: "webhook_delivery", tenantId, deliveryId }) as const);
    waitUntil(
      sendAll(queue, messages).catch(() => {
        log.warn("the queue did not take deliveries", { deliveries: messages.length });
      }),
    );
  }
};
