/** From finished spans to the collector: gathered for each invocation, stripped of what callers put into addresses, sent with a time-out. */
import type { TraceFlushableSpanProcessor } from "@microlabs/otel-cf-workers";
import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer";
import { sentWith } from "./otel.ts";
import { type Collector, post } from "./post.ts";
import { strip } from "./strip.ts";

type Started = Parameters<TraceFlushableSpanProcessor["onStart"]>[0];
type Finished = Parameters<TraceFlushableSpanProcessor["onEnd"]>[0];

/** Takes spans; rejects when they did not arrive. */
export type SendSpans = (spans: readonly Finished[]) => Promise<void>;

/** Traces that are held for sending at most; a span that begins after its invocation was sent would otherwise stay for ever. */
const MOST_TRACES = 200;

/** Sends spans to a collector. */
export const sendTo =
  (collector: Collector): SendSpans =>
  (spans) =>
    post(collector, "traces", JsonTraceSerializer.serializeRequest([...spans]));

interface Batch {
  /** By span id. */
  readonly open: Map<string, Started>;
  readonly finished: Finished[];
}

/**
 * Gathers the spans of each invocation until the library says that it is over. The library's own processor keeps an entry for every trace
 * it has ever seen.
 * @param onFailure told why spans or metrics were not delivered; nobody else learns of it
 * @param flushMetrics called when an invocation is over, as the spans are sent
 */
export const gatherSpans = (
  send: SendSpans,
  onFailure: (reason: string) => void,
  flushMetrics: () => Promise<void> = async () => undefined,
): TraceFlushableSpanProcessor => {
  const batches = new Map<string, Batch>();
  const keys = new WeakMap<object, string>();

  const batchOf = (key: string): Batch => {
    const known = batches.get(key);
    if (known !== undefined) return known;
    const [oldest] = batches.keys();
    if (oldest !== undefined && batches.size >= MOST_TRACES) batches.delete(oldest);
    const batch: Batch = { open: new Map(), finished: [] };
    batches.set(key, batch);
    return batch;
  };

  const deliver = (sending: Promise<void>): Promise<void> =>
    sending.catch((error: unknown) => onFailure(error instanceof Error ? error.message : "unknown"));

  const flush = async (key: string): Promise<void> => {
    const batch = batches.get(key);
    if (batch === undefined) return;
    // What is still open now has outlived its invocation; ended here, it is at least seen.
    for (const span of [...batch.open.values()]) span.end();
    batches.delete(key);
    const spans = batch.finished.filter((span) => (span.spanContext().traceFlags & 1) === 1);
    if (spans.length === 0) return;
    spans.forEach(strip);
    await deliver(send(spans));
  };

  return {
    onStart: (span, parent) => {
      const joined = parent.getValue(sentWith);
      const key = typeof joined === "string" ? joined : span.spanContext().traceId;
      keys.set(span, key);
      batchOf(key).open.set(span.spanContext().spanId, span);
    },
    onEnd: (span) => {
      const batch = batches.get(keys.get(span) ?? "");
      if (batch === undefined) return;
      batch.open.delete(span.spanContext().spanId);
      batch.finished.push(span);
    },
    forceFlush: async (key?: string) => {
      const keys = key === undefined ? [...batches.keys()] : [key];
      await Promise.all([...keys.map(flush), deliver(flushMetrics())]);
    },
    shutdown: async () => undefined,
  };
};
