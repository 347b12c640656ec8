/** The queue door: each message is done and acknowledged, or given back, on its own. */
import { compactBacklog } from "./backlog.ts";
import type { Deps } from "./deps.ts";
import { eraseObjects } from "./erase.ts";
import type { QueueMessage } from "./queue.ts";

/** The queue of messages that failed too often; nothing is retried from there (`wrangler.toml`). */
const DEAD_LETTERS = "hango-dead";

/** Wait before a failed message is delivered again, in s; the platform counts the attempts. */
const RETRY_DELAY_SECONDS = 30;

const handle = async (deps: Deps, message: QueueMessage): Promise<void> => {
  switch (message.type) {
    case "erase_objects":
      return eraseObjects(deps, message);
    case "compact_backlog":
      return compactBacklog(deps, message);
    default:
      return message satisfies never;
  }
};

const TYPES: readonly unknown[] = ["erase_objects", "compact_backlog"] satisfies readonly QueueMessage["type"][];

const isKnown = (body: unknown): body is QueueMessage =>
  typeof body === "object" &&
  body !== null &&
  Reflect.get(body, "v") === 1 &&
  TYPES.includes(Reflect.get(body, "type"));

/**
 * Works through a batch. A message of another version is acknowledged and logged: a newer Worker sent it, and giving it back would only
 * use up its attempts. A dead letter is logged; what it stands for is still recorded in the store, from where the sweeper sends it again.
 */
export const consume = async (deps: Deps, batch: MessageBatch<unknown>): Promise<void> => {
  for (const message of batch.messages) {
    const { body } = message;
    if (batch.queue === DEAD_LETTERS || !isKnown(body)) {
      deps.log.error("a queue message was given up", {
        queue: batch.queue,
        message_id: message.id,
        attempts: message.attempts,
      });
      message.ack();
      continue;
    }
    try {
      await handle(deps, body);
      message.ack();
    } catch (error) {
      deps.log.error("a queue message failed", {
        message_id: message.id,
        type: body.type,
        attempts: message.attempts,
        error: error instanceof Error ? error.name : typeof error,
      });
      message.retry({ delaySeconds: RETRY_DELAY_SECONDS });
    }
  }
};
