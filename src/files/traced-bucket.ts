/** R2 with a span for every operation: the platform's own instrumentation leaves it out (telemetry.md). */

import type { Tracer } from "../telemetry/tracer.ts";
import { BucketUnavailable } from "./bucket-error.ts";

const OPERATIONS = ["head", "get", "put", "delete", "list"] as const;

/**
 * The bucket, traced, its passing failures typed (`BucketUnavailable`). Names and sizes of objects stay out of the spans: they hold the paths that a tenant chose.
 * The result is used through `head`, `get`, `put`, `delete` and `list` alone.
 */
export const tracedBucket = (bucket: R2Bucket, tracer: Tracer): R2Bucket => {
  const traced = Object.fromEntries(
    OPERATIONS.map((operation) => [
      operation,
      (...args: readonly unknown[]) =>
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
        ),
    ]),
  );
  return traced as unknown as R2Bucket;
};
