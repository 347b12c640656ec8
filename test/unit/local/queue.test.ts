import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createLocalQueue, type LocalQueue, type Retry } from "../../../src/local/queue.ts";

const QUEUES = {
  work: { maxRetries: 2, deadLetterQueue: "dead" },
  dead: { maxRetries: 0, deadLetterQueue: undefined },
};

let queue: LocalQueue;
let delivered: string[];
let answer: (queue: string, attempts: number) => Promise<Retry | undefined>;

beforeEach(() => {
  vi.useFakeTimers();
  delivered = [];
  answer = async () => undefined;
  queue = createLocalQueue({
    queues: QUEUES,
    deliver: async (to, { body, attempts }) => {
      delivered.push(`${to} ${body} ${attempts}`);
      return answer(to, attempts);
    },
  });
});
afterEach(() => {
  queue.close();
  vi.useRealTimers();
});

describe("the queue of the local platform", () => {
  it("delivers messages side by side: one that takes long blocks no other", async () => {
    answer = () => new Promise(() => undefined);
    queue.send("work", [{ body: "a" }, { body: "b" }]);
    await vi.advanceTimersByTimeAsync(0);
    expect(delivered).toEqual(["work a 1", "work b 1"]);
  });

  it("waits as long as the sender and the consumer ask, or until it is hurried", async () => {
    answer = async (_, attempts) => (attempts === 1 ? { delaySeconds: 30 } : undefined);
    queue.send("work", [{ body: "a", delaySeconds: 10 }]);
    await vi.advanceTimersByTimeAsync(9_999);
    expect(delivered).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(delivered).toEqual(["work a 1"]);
    await vi.advanceTimersByTimeAsync(29_000);
    expect(delivered).toHaveLength(1);
    queue.hurry();
    expect(delivered).toEqual(["work a 1", "work a 2"]);
  });

  it("gives a message to the other queue after its last retry, and drops it there in the end", async () => {
    answer = async () => ({ delaySeconds: 1 });
    queue.send("work", [{ body: "a" }]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(delivered).toEqual(["work a 1", "work a 2", "work a 3", "dead a 1"]);
  });

  it("takes a delivery that broke down for a retry", async () => {
    answer = async (_, attempts) => {
      if (attempts === 1) throw new Error("workerd is gone");
      return undefined;
    };
    queue.send("work", [{ body: "a" }]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(delivered).toEqual(["work a 1", "work a 2"]);
  });

  it("delivers nothing after it was closed, and drops what goes to a queue that nobody consumes", async () => {
    queue.send("nowhere", [{ body: "a" }]);
    queue.send("work", [{ body: "b", delaySeconds: 1 }]);
    queue.close();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(delivered).toEqual([]);
  });
});
