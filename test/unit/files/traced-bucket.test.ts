/** Calls of the bucket that fail in passing. */
import { describe, expect, it } from "vitest";
import { BucketUnavailable } from "../../../src/files/bucket-error.ts";
import { tracedBucket } from "../../../src/files/traced-bucket.ts";
import { noopTracer } from "../../../src/telemetry/tracer.ts";

/** A bucket whose calls fail with these one after the other, and then succeed. */
const failing = (...failures: readonly Error[]) => {
  const left = [...failures];
  let calls = 0;
  const waits: number[] = [];
  const call = async () => {
    calls++;
    const failure = left.shift();
    if (failure !== undefined) throw failure;
    return null;
  };
  const bucket = { head: call, get: call, put: call, delete: call, list: call } as unknown as R2Bucket;
  const sleep = async (ms: number) => {
    waits.push(ms);
  };
  return { bucket: tracedBucket(bucket, noopTracer, sleep), calls: () => calls, waits };
};

const internal = () => new Error("get: We encountered an internal error. Please try again. (10001)");
const lost = () => Object.assign(new Error("Network connection lost."), { retryable: true });

describe("a call of the bucket that fails", () => {
  it("in passing is made again, twice at most", async () => {
    const { bucket, calls, waits } = failing(internal(), lost());
    expect(await bucket.head("a")).toBe(null);
    expect([calls(), waits]).toEqual([3, [50, 400]]);
    const down = failing(internal(), internal(), internal());
    await expect(down.bucket.get("a")).rejects.toBeInstanceOf(BucketUnavailable);
    expect(down.calls()).toBe(3);
  });

  it("for good, or because of the key's rate, is not", async () => {
    for (const message of ["put: bad key (10020)", "put: Reduce your request rate (10058)"]) {
      const { bucket, calls } = failing(new Error(message));
      await expect(bucket.put("a", "text")).rejects.toThrow(message);
      expect(calls()).toBe(1);
    }
  });

  it("as a conditional write is not made again: its own first attempt would stand in its way", async () => {
    const { bucket, calls } = failing(lost());
    await expect(bucket.put("a", "text", { onlyIf: { etagDoesNotMatch: "*" } })).rejects.toBeInstanceOf(
      BucketUnavailable,
    );
    expect(calls()).toBe(1);
  });
});
