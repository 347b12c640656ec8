/** What the doctor says of a bucket and a queue that fail; those that work are those of the built Worker (test/slow/doctor.test.ts). */
import { describe, expect, it } from "vitest";
import { bucketCheck, queueCheck } from "../../../../src/turns/doctor/bindings.ts";
import { type Check, runChecks } from "../../../../src/turns/doctor/check.ts";
import type { QueueMessage } from "../../../../src/turns/queue.ts";

const found = async (check: Check) => {
  const [result] = await runChecks([check], { now: () => performance.now(), timeoutMs: 10_000 });
  return `${result?.status}: ${result?.detail}`;
};

type Operation = "put" | "get" | "delete";

/** A bucket that keeps one object a key, but for what is made to fail or to come back wrong. */
const bucketOf = (failing: Operation | undefined, read: (stored: string) => string | null = (stored) => stored) => {
  const calls: string[] = [];
  const kept = new Map<string, string>();
  const called = async (operation: Operation, key: string) => {
    calls.push(`${operation} ${key}`);
    if (operation === failing) throw new Error("no such bucket: secret-bucket-name (10006)");
  };
  const bucket = {
    put: async (key: string, body: string) => {
      await called("put", key);
      kept.set(key, body);
    },
    get: async (key: string) => {
      await called("get", key);
      const text = read(kept.get(key) ?? "");
      return text === null ? null : { text: async () => text };
    },
    delete: async (key: string) => {
      await called("delete", key);
      kept.delete(key);
    },
  };
  return { bucket: bucket as unknown as R2Bucket, calls, kept };
};

describe("the bucket", () => {
  it("is written, read and cleared under the doctor's own prefix", async () => {
    const { bucket, calls, kept } = bucketOf(undefined);
    let ms = 0;
    const now = () => {
      ms += 7;
      return ms;
    };
    expect(await found(bucketCheck({ bucket, now }, "one"))).toBe("ok: put, got and deleted a small object in 7 ms");
    expect(calls).toEqual(["put doctor/one", "get doctor/one", "delete doctor/one"]);
    expect(kept.size).toBe(0);
  });

  it.each(["put", "get", "delete"] as const)(
    "that fails to %s is named by that, without its own words",
    async (operation) => {
      const { bucket } = bucketOf(operation);
      expect(await found(bucketCheck({ bucket, now: () => 0 }, "one"))).toBe(
        `failed: the bucket failed to ${operation} a small object: see the binding FILES in wrangler.toml`,
      );
    },
  );

  it.each([
    ["nothing", () => null],
    ["something else", () => "other"],
  ])("that gives back %s fails, and what was put is removed", async (_, read) => {
    const { bucket, kept } = bucketOf(undefined, read);
    expect(await found(bucketCheck({ bucket, now: () => 0 }, "one"))).toBe(
      "failed: what was put was not what came back: is FILES an R2 bucket of your own?",
    );
    expect(kept.size).toBe(0);
  });
});

describe("the queue", () => {
  const queueOf = (send: (message: QueueMessage) => Promise<void>) => ({ send }) as unknown as Queue<QueueMessage>;

  it("is sent a message without work", async () => {
    const sent: QueueMessage[] = [];
    const queue = queueOf(async (message) => void sent.push(message));
    expect(await found(queueCheck({ queue }))).toBe("ok: took a message; that it is delivered is not proven by this");
    expect(sent).toEqual([{ v: 1, type: "ping" }]);
  });

  it("that takes none fails, without its own words", async () => {
    const queue = queueOf(() => Promise.reject(new Error("queue hango-work of account 123 is gone")));
    expect(await found(queueCheck({ queue }))).toBe(
      "failed: did not take a message: see the binding QUEUE in wrangler.toml, and whether the queue exists",
    );
  });
});
