import { describe, expect, it } from "vitest";
import { type ErrorCode, errorKinds } from "../../../src/api/errors.ts";
import { BucketUnavailable } from "../../../src/files/bucket-error.ts";
import { type Failure, ModelError } from "../../../src/models/errors.ts";
import { LeaseLost, StoreUnavailable } from "../../../src/store/errors.ts";
import { runErrorOf, TurnTimedOut } from "../../../src/turns/failure.ts";

const FAILURES: readonly Failure[] = [
  { kind: "context_overflow" },
  { kind: "rate_limited" },
  { kind: "overloaded" },
  { kind: "authentication" },
  { kind: "permission" },
  { kind: "quota" },
  { kind: "not_found" },
  { kind: "invalid_request" },
  { kind: "invalid_thinking_signature" },
  { kind: "too_large", sizeBytes: 1, limitBytes: 1 },
  { kind: "network" },
  { kind: "timeout", what: "idle" },
  { kind: "stream_cut" },
  { kind: "server" },
  { kind: "aborted" },
];

const errors = [
  ...FAILURES.map((failure) => [failure.kind, new ModelError(failure)] as const),
  ["a turn out of time", new TurnTimedOut(1000)] as const,
  ["a lost lease", new LeaseLost()] as const,
  ["a database that is away", new StoreUnavailable("the database could not be reached")] as const,
  ["a bucket that is away", new BucketUnavailable("get: internal error (10001)")] as const,
  ["a fault of ours", new RangeError("password=hunter2")] as const,
];

describe("the error of a run", () => {
  it.each(errors)(
    "of %s is one of the API's closed list, with the same type and the same word on retries",
    (_name, error) => {
      const { type, code, retryable } = runErrorOf(error);
      expect(errorKinds[code as ErrorCode]).toMatchObject({ type, retryable });
    },
  );

  it("tells nothing of the inside", () => {
    expect(runErrorOf(new RangeError("password=hunter2")).message).toBe("The run failed for a reason inside hango.");
  });

  it("reads which failures of the bucket pass by themselves", () => {
    const read = (message: string) => BucketUnavailable.from(new Error(message)) instanceof BucketUnavailable;
    expect([
      read("get: We encountered an internal error. (10001)"),
      read("put: Reduce your request rate (10058)"),
      read("put: bad key (10020)"),
      read("x"),
      BucketUnavailable.from(Object.assign(new Error("Network connection lost."), { retryable: true })) instanceof
        BucketUnavailable,
    ]).toEqual([true, true, false, false, true]);
  });
});
