/** The queue with the sender's place in its trace on every message, so that what a request sets off is seen as its work (platform.md, "Queues"). */
import type { Tracer } from "../telemetry/tracer.ts";
import type { QueueMessage } from "./queue.ts";

/**
 * A queue whose messages carry `traceparent` where something is recorded; else they are sent as they are. A message that is sent again carries the
 * place of whoever sends it again. The result is used through `send` and `sendBatch` alone.
 */
export const tracedQueue = (queue: Queue<QueueMessage>, tracer: Pick<Tracer, "traceparent">): Queue<QueueMessage> => {
  const traced = (message: QueueMessage): QueueMessage => {
    const traceparent = tracer.traceparent();
    return traceparent === undefined ? message : { ...message, traceparent };
  };
  const sending: Pick<Queue<QueueMessage>, "send" | "sendBatch"> = {
    send: (message, options) => queue.send(traced(message), options),
    sendBatch: (messages, options) =>
      queue.sendBatch(
        [...messages].map((each) => ({ ...each, body: traced(each.body) })),
        options,
      ),
  };
  return sending as Queue<QueueMessage>;
};
