/**
 * A queue on this machine with many consumers at a time, as the platform's has: Miniflare's own delivers one message after the other, so that one
 * long turn would keep every other session's waiting. What the Worker is given and answers is the same: at least once, in no order, with delays,
 * attempts and a queue for what failed too often.
 */

export interface QueueSettings {
  /** Deliveries after the first, before a message goes to the other queue. */
  readonly maxRetries: number;
  readonly deadLetterQueue: string | undefined;
}

export interface SentMessage {
  readonly body: unknown;
  /** s */
  readonly delaySeconds?: number | undefined;
}

interface Message {
  readonly id: string;
  readonly timestamp: Date;
  readonly body: unknown;
  readonly attempts: number;
}

/** What the consumer said of a message: undefined for "done". */
export interface Retry {
  /** s */
  readonly delaySeconds: number;
}

export interface LocalQueueOptions {
  /** By name of the queue. A message to another one is dropped. */
  readonly queues: Readonly<Record<string, QueueSettings>>;
  /** Hands one message to the Worker. A rejection is a retry without delay. */
  readonly deliver: (queue: string, message: Message) => Promise<Retry | undefined>;
}

export interface LocalQueue {
  send(queue: string, messages: readonly SentMessage[]): void;
  /** Delivers now what waits for its time. */
  hurry(): void;
  /** Drops what is not delivered. */
  close(): void;
}

/** Wait after a delivery that broke down, in ms: a Worker that is just starting is given a moment. */
const BROKEN_DELIVERY_MS = 1_000;

export const createLocalQueue = ({ queues, deliver }: LocalQueueOptions): LocalQueue => {
  const waiting = new Map<ReturnType<typeof setTimeout>, () => void>();
  let serial = 0;
  let closed = false;

  const after = (delayMs: number, run: () => void): void => {
    if (closed) return;
    const timer = setTimeout(() => {
      waiting.delete(timer);
      run();
    }, delayMs);
    waiting.set(timer, run);
  };

  const attempt = async (queue: string, message: Message): Promise<void> => {
    const settings = queues[queue];
    if (settings === undefined || closed) return;
    let retry: Retry | undefined;
    try {
      retry = await deliver(queue, message);
    } catch {
      retry = { delaySeconds: BROKEN_DELIVERY_MS / 1000 };
    }
    if (retry === undefined) return;
    if (message.attempts > settings.maxRetries) {
      if (settings.deadLetterQueue !== undefined) enqueue(settings.deadLetterQueue, { body: message.body });
      return;
    }
    after(retry.delaySeconds * 1000, () => void attempt(queue, { ...message, attempts: message.attempts + 1 }));
  };

  const enqueue = (queue: string, { body, delaySeconds = 0 }: SentMessage): void => {
    serial += 1;
    const message = { id: String(serial), timestamp: new Date(), body, attempts: 1 };
    after(delaySeconds * 1000, () => void attempt(queue, message));
  };

  return {
    send: (queue, messages) => {
      for (const message of messages) enqueue(queue, message);
    },
    hurry: () => {
      for (const [timer, run] of [...waiting]) {
        clearTimeout(timer);
        waiting.delete(timer);
        run();
      }
    },
    close: () => {
      closed = true;
      for (const timer of waiting.keys()) clearTimeout(timer);
      waiting.clear();
    },
  };
};

/** A Worker that stands where the platform binds a queue: it hands on what is sent. Its own source, since it runs in workerd. */
export const QUEUE_DOOR = `
import { WorkerEntrypoint } from "cloudflare:workers";
export default class extends WorkerEntrypoint {
  async send(body, options) { await this.sendBatch([{ body, ...options }]); }
  async sendBatch(messages, options) {
    const sent = [...messages].map((message) => ({ ...options, ...message }));
    const answer = await this.env.SENT.fetch("http://queue/", { method: "POST", body: JSON.stringify(sent) });
    if (!answer.ok) throw new Error("the queue did not take the message");
  }
  fetch() { return new Response(null, { status: 404 }); }
}
`;
