/** The queue door: each message is done and acknowledged, or given back, on its own. */
import { hango, messaging, metric } from "../telemetry/genai.ts";
import { compactBacklog } from "./backlog.ts";
import { continueRun, giveUpRun } from "./continue-run.ts";
import { copyFiles } from "./copy-files.ts";
import type { Deps } from "./deps.ts";
import { eraseObjects } from "./erase.ts";
import { microCompact } from "./micro-compact.ts";
import type { QueueHandlers, QueueMessage } from "./queue.ts";

/**
 * The queue of messages that failed too often; nothing is retried from there (`wrangler.toml`). A further deployment of the account, such as staging,
 * has its own, `hango-dead-staging`: a queue has one consumer.
 */
const DEAD_LETTERS = /^hango-dead(?:-|$)/;

/** Wait before a failed message is delivered again the first time, in s; the platform counts the attempts. */
const RETRY_DELAY_SECONDS = 30;

/** Longest wait, in s; the platform takes up to 12 hours, and a person waits for this. */
const MAX_RETRY_DELAY_SECONDS = 600;

/** The messages of this room. */
export const turnMessages = {
  erase_objects: eraseObjects,
  compact_backlog: compactBacklog,
  micro_compact: microCompact,
  run_turn: continueRun,
  copy_files: copyFiles,
  ping: async () => undefined,
} satisfies Partial<QueueHandlers<Deps>>;

/** What becomes of this room's messages that failed too often; an erasure is still recorded, a backlog is found again by the next turn. */
export const givenUpTurnMessages = { run_turn: giveUpRun } satisfies Partial<QueueHandlers<Deps>>;

type Handlers = Partial<QueueHandlers<Deps>>;

const isOf = (handlers: Handlers, body: unknown): body is QueueMessage =>
  typeof body === "object" &&
  body !== null &&
  Reflect.get(body, "v") === 1 &&
  Object.hasOwn(handlers, String(Reflect.get(body, "type")));

/** Hands a message to the handler of its type. */
const handle = (handlers: Handlers, deps: Deps, message: QueueMessage): Promise<void> => {
  // A message's type picks the handler that takes just that message, which the compiler cannot follow through the map.
  const handler = handlers[message.type] as ((deps: Deps, message: QueueMessage) => Promise<void>) | undefined;
  return handler === undefined ? Promise.resolve() : handler(deps, message);
};

/** The work of a message: a span of its own, in the trace of whoever sent it. */
const inSpan = (
  { tracer }: Pick<Deps, "tracer">,
  queue: string,
  messageId: string,
  { type, traceparent }: QueueMessage,
  work: () => Promise<void>,
): Promise<void> => {
  const attributes = {
    [messaging.operationType]: "process",
    [messaging.system]: "cloudflare_queues",
    [messaging.destination]: queue,
    [messaging.messageId]: messageId,
    [hango.messageType]: type,
  };
  return tracer.span(`process ${queue}`, { kind: "consumer", attributes, remoteParent: traceparent }, work);
};

/** Each wait is twice the one before. @param attempts deliveries so far, at least 1 */
const retryDelaySeconds = (attempts: number): number =>
  Math.min(RETRY_DELAY_SECONDS * 2 ** (attempts - 1), MAX_RETRY_DELAY_SECONDS);

export interface ConsumeOptions {
  readonly handlers: Handlers;
  /** What becomes of a message that failed too often: what it stands for is put into a state that shows it. */
  readonly givenUp: Handlers;
}

/**
 * Works through a batch. A message of another version is acknowledged and logged: a newer Worker sent it, and giving it back would only
 * use up its attempts. A dead letter is logged, and what it stands for is put into a state that shows it, or is still recorded in the store, from
 * where the sweeper sends it again.
 */
export const consume = async (
  deps: Deps,
  batch: MessageBatch<unknown>,
  { handlers, givenUp }: ConsumeOptions,
): Promise<void> => {
  const dead = DEAD_LETTERS.test(batch.queue);
  const responsible = dead ? givenUp : handlers;
  for (const message of batch.messages) {
    const { body } = message;
    if (dead || !isOf(handlers, body)) {
      deps.meter.add(metric.deadLetters, 1, { [hango.messageType]: isOf(handlers, body) ? body.type : "unknown" });
      deps.log.error("a queue message was given up", {
        queue: batch.queue,
        message_id: message.id,
        attempts: message.attempts,
      });
    }
    if (!isOf(responsible, body)) {
      message.ack();
      continue;
    }
    try {
      await inSpan(deps, batch.queue, message.id, body, () => handle(responsible, deps, body));
      message.ack();
    } catch (error) {
      deps.log.error("a queue message failed", {
        message_id: message.id,
        type: body.type,
        attempts: message.attempts,
        error: error instanceof Error ? error.name : typeof error,
      });
      message.retry({ delaySeconds: retryDelaySeconds(message.attempts) });
    }
  }
};
