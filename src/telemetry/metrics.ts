/**
 * The meter over OpenTelemetry's metrics SDK, sent by OTLP once an invocation is over: deltas since the last sending, from one instance for each
 * isolate (telemetry.md). Nothing is gathered where no collector is configured.
 */
import { JsonMetricsSerializer } from "@opentelemetry/otlp-transformer";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AggregationTemporality, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { instruments, type MetricName } from "./instruments.ts";
import type { Meter, MetricAttributes } from "./meter.ts";
import { type Collector, post } from "./post.ts";

/** Sends what was counted since the last time; rejects when it did not arrive, and what it carried is then lost: sent again, it might count twice. */
export type FlushMetrics = () => Promise<void>;

export interface MetricsSettings {
  readonly collector: Collector;
  readonly serviceName: string;
}

/** Collects when it is asked to: a Worker has no timers between its invocations. */
class ReaderOnDemand extends MetricReader {
  constructor() {
    super({ aggregationTemporalitySelector: () => AggregationTemporality.DELTA });
  }
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

/** Adds to a counter, or records a value of a histogram. */
type Write = (value: number, attributes: Record<string, string | number>) => void;

interface Isolate {
  readonly reader: ReaderOnDemand;
  readonly writers: Readonly<Record<string, Write>>;
  readonly instance: string;
}

/** Counts of the isolate, of every tenant that it serves: sums without an owner, which is all that may outlive a request. */
let isolate: Isolate | undefined;

const startIsolate = (): Isolate => {
  const reader = new ReaderOnDemand();
  const meter = new MeterProvider({ readers: [reader] }).getMeter("hango");
  const writers = Object.entries(instruments).map(([name, { kind, unit, description, buckets }]): [string, Write] => {
    const common = { unit, description };
    if (kind === "counter") {
      const counter = meter.createCounter(name, common);
      return [name, (value, attributes) => counter.add(value, attributes)];
    }
    const advice = buckets === undefined ? {} : { advice: { explicitBucketBoundaries: [...buckets] } };
    const histogram = meter.createHistogram(name, { ...common, ...advice });
    return [name, (value, attributes) => histogram.record(value, attributes)];
  });
  return { reader, writers: Object.fromEntries(writers), instance: crypto.randomUUID() };
};

/** Begins to gather, at the first invocation: an isolate has no random numbers before. */
export const startMetrics = ({ collector, serviceName }: MetricsSettings): FlushMetrics => {
  isolate ??= startIsolate();
  const { reader, instance } = isolate;
  const resource = resourceFromAttributes({ "service.name": serviceName, "service.instance.id": instance });
  return async () => {
    const { resourceMetrics } = await reader.collect();
    if (resourceMetrics.scopeMetrics.every(({ metrics }) => metrics.every((each) => each.dataPoints.length === 0)))
      return;
    const body = JsonMetricsSerializer.serializeRequest({ ...resourceMetrics, resource });
    await post(collector, "metrics", body);
  };
};

const write = (name: MetricName, value: number, attributes: MetricAttributes = {}): void => {
  if (isolate === undefined || !Number.isFinite(value) || value < 0) return;
  const defined = Object.entries(attributes).filter(
    (entry): entry is [string, string | number] => entry[1] !== undefined,
  );
  try {
    isolate.writers[name]?.(value, Object.fromEntries(defined));
  } catch {
    // A metric that cannot be counted must not become the turn's failure.
  }
};

/** The meter of this isolate; does nothing before `startMetrics`. */
export const otelMeter: Meter = { add: write, record: write };
