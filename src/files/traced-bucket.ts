/** R2 with a span for every operation: the platform's own instrumentation leaves it out (telemetry.md). */

import type { Tracer } from "../telemetry/tracer.ts";
import { BucketUnavailable } from "./bucket-error.ts";

const OPERATIONS = ["head", "get", "put", "delete", "list"] as const;

/** Waits before a call that failed in passing is made again, in ms: the failures are single ones, and a turn waits. */
const WAITS_MS: readonly number[] = [50, 400];

/** R2's refusal of a second write to a key within a second: waiting for it is the writer's. */
const RATE_LIMITED = /\(10058\)/;

/** Made twice, it does the same: unlike a conditional write, which its own first attempt may keep from succeeding, and a body that is used up. */
const isRepeatable = (operation: (typeof OPERATIONS)[number], [, body, options]: readonly unknown[]): boolean =>
  operation !== "put" ||
  (!(body instanceof ReadableStream) && (typeof options !== "object" || options === null || !("onlyIf" in options)));

/**
 * The bucket, traced, its passing failures typed (`BucketUnavailable`), and met by two more attempts where that is safe. Names and sizes of objects
 * stay out of the spans: they hold the paths that a tenant chose. The result is used through `head`, `get`, `put`, `delete` and `list` alone.
 */
export const tracedBucket = (bucket: R2Bucket, tracer: Tracer, sleep: (ms: number) => Promise<void>): R2Bucket => {
  const once = (operation: (typeof OPERATIONS)[number], args: readonly unknown[]) =>
    tracer.span(
      `r2 ${operation}`,
      { kind: "client", attributes: { "cloudflare.r2.operation": operation } },
      async () => {
        try {
          return await Reflect.apply(bucket[operation], bucket, args);
        } catch (error) {
          throw BucketUnavailable.from(error);
        }
      },
    );
  const traced = Object.fromEntries(
    OPERATIONS.map((operation) => [
      operation,
      async (...args: readonly unknown[]) => {
        for (const waitMs of isRepeatable(operation, args) ? WAITS_MS : []) {
          try {
            return await once(operation, args);
          } catch (error) {
            if (!(error instanceof BucketUnavailable) || RATE_LIMITED.test(error.message)) throw error;
            await sleep(waitMs);
          }
        }
        return once(operation, args);
      },
    ]),
  );
  return traced as unknown as R2Bucket;
};
