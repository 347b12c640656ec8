import { describe, expect, it } from "vitest";
import type { QueueMessage } from "../../../src/turns/queue.ts";
import { sendAll } from "../../../src/turns/send-batch.ts";

describe("many messages for the queue", () => {
  const message = { v: 1, type: "refused" } as unknown as QueueMessage;
  const sentFor = async (count: number): Promise<readonly number[]> => {
    const sizes: number[] = [];
    const queue = {
      sendBatch: async (batch: Iterable<{ body: QueueMessage }>) => void sizes.push([...batch].length),
    } as unknown as Parameters<typeof sendAll>[0];
    await sendAll(
      queue,
      Array.from({ length: count }, () => message),
    );
    return sizes;
  };

  it.each([
    [0, []],
    [1, [1]],
    [100, [100]],
    [101, [100, 1]],
    [250, [100, 100, 50]],
  ])("%i go in batches that a queue takes", async (count, sizes) => {
    expect(await sentFor(count)).toEqual(sizes);
  });
});
