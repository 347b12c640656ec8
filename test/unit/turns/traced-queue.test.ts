import { describe, expect, it } from "vitest";
import type { SessionId, TenantId } from "../../../src/protocol/ids.ts";
import { recordingTracer } from "../../../src/telemetry/recording.ts";
import { noopTracer } from "../../../src/telemetry/tracer.ts";
import type { QueueMessage } from "../../../src/turns/queue.ts";
import { tracedQueue } from "../../../src/turns/traced-queue.ts";

const message: QueueMessage = {
  v: 1,
  type: "micro_compact",
  tenantId: "tnt_1" as TenantId,
  sessionId: "ses_1" as SessionId,
};

const collecting = () => {
  const sent: unknown[] = [];
  const queue = {
    send: async (...args: readonly unknown[]) => void sent.push(["send", ...args]),
    sendBatch: async (...args: readonly unknown[]) => void sent.push(["sendBatch", ...args]),
  } as unknown as Queue<QueueMessage>;
  return { queue, sent };
};

describe("the queue", () => {
  it("carries the place of the sender's span, of each message its own, and the options as they are", async () => {
    const { queue, sent } = collecting();
    const tracer = recordingTracer();
    const traced = tracedQueue(queue, tracer);
    let traceparent: string | undefined;
    await tracer.span("request", {}, async (span) => {
      traceparent = span.traceparent();
      await traced.send({ ...message, traceparent: "of an earlier sender" }, { delaySeconds: 3 });
      await traced.sendBatch([{ body: message, delaySeconds: 4 }, { body: message }]);
    });
    expect(traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    const body = { ...message, traceparent };
    expect(sent).toEqual([
      ["send", body, { delaySeconds: 3 }],
      ["sendBatch", [{ body, delaySeconds: 4 }, { body }], undefined],
    ]);
  });

  it("sends a message as it is where nothing is recorded", async () => {
    const { queue, sent } = collecting();
    await tracedQueue(queue, noopTracer).send(message);
    expect(sent).toEqual([["send", message, undefined]]);
  });
});
