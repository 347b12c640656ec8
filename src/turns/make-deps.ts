/** The real things behind `Deps`, for one request, queue batch or tick. */
import type { Config } from "../config.ts";
import { tracedBucket } from "../files/traced-bucket.ts";
import { newId } from "../protocol/ids.ts";
import { connect } from "../store/db.ts";
import { capturedContent, noContent } from "../telemetry/content.ts";
import { consoleSink, createLog } from "../telemetry/log.ts";
import { otelMeter } from "../telemetry/metrics.ts";
import { activeTraceIds, otelTracer } from "../telemetry/otel.ts";
import type { Deps } from "./deps.ts";
import { tracedQueue } from "./traced-queue.ts";

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Connects to what the configuration names. Does no I/O by itself, and keeps nothing.
 * @param waitUntil keeps the isolate alive for work that outlives the response
 */
export const makeDeps = (config: Config, waitUntil: Deps["waitUntil"]): Deps => ({
  config,
  db: connect(
    {
      databaseUrl: config.databaseUrl,
      fetchEndpoint: config.databaseFetchEndpoint,
      timeoutMs: config.databaseTimeoutMs,
    },
    otelTracer,
  ),
  bucket: tracedBucket(config.files, otelTracer, sleep),
  queue: tracedQueue(config.queue, otelTracer),
  tracer: otelTracer,
  meter: otelMeter,
  content: config.captureContent ? capturedContent : noContent,
  log: createLog({ level: config.logLevel, sink: consoleSink, traceIds: activeTraceIds }),
  newId,
  now: () => Date.now(),
  sleep,
  fetch: (input, init) => fetch(input, init),
  waitUntil,
});
