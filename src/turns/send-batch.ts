/** Many messages for the queue at once. */
import type { Deps } from "./deps.ts";
import type { QueueMessage } from "./queue.ts";

/** Messages that a queue takes in one batch (the platform's limit). */
const MESSAGES_A_BATCH = 100;

/** Parts of a list, each as long as a queue's batch may be. */
export const batchesOf = <T>(items: readonly T[]): readonly (readonly T[])[] =>
  Array.from({ length: Math.ceil(items.length / MESSAGES_A_BATCH) }, (_, index) =>
    items.slice(index * MESSAGES_A_BATCH, (index + 1) * MESSAGES_A_BATCH),
  );

/**
 * Sends messages, none included, in as many batches as they need.
 * @throws what the queue fails with; the batches before the one that failed are sent
 */
export const sendAll = async (queue: Deps["queue"], messages: readonly QueueMessage[]): Promise<void> => {
  for (const batch of batchesOf(messages)) await queue.sendBatch(batch.map((body) => ({ body })));
};
