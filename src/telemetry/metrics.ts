/**
 * Counters, sent by OTLP once an invocation is over: deltas since the last sending, from one instance for each isolate (telemetry.md).
 * Nothing is gathered where no collector is configured.
 */
import { JsonMetricsSerializer } from "@opentelemetry/otlp-transformer";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AggregationTemporality, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";

/** Adds to a counter. Never throws, blocks or looks anything up. */
export type CountMetric = (name: string, attributes: Readonly<Record<string, string>>) => void;

/** Sends what was counted since the last time; rejects when it did not arrive. */
export type FlushMetrics = () => Promise<void>;

export interface MetricsSettings {
  /** Base address of the collector; metrics go to `/v1/metrics` below it. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  /** After which nobody waits for the collector. */
  readonly timeoutMs: number;
}

/** Collects when it is asked to: a Worker has no timers between its invocations. */
class ReaderOnDemand extends MetricReader {
  constructor() {
    super({ aggregationTemporalitySelector: () => AggregationTemporality.DELTA });
  }
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

interface Isolate {
  readonly reader: ReaderOnDemand;
  readonly provider: MeterProvider;
  readonly instance: string;
}

let isolate: Isolate | undefined;

/** Begins to gather, at the first invocation: an isolate has no random numbers before. */
export const startMetrics = ({ endpoint, headers, serviceName, timeoutMs }: MetricsSettings): FlushMetrics => {
  if (isolate === undefined) {
    const reader = new ReaderOnDemand();
    isolate = { reader, provider: new MeterProvider({ readers: [reader] }), instance: crypto.randomUUID() };
  }
  const { reader, instance } = isolate;
  const resource = resourceFromAttributes({ "service.name": serviceName, "service.instance.id": instance });
  return async () => {
    const { resourceMetrics } = await reader.collect();
    if (resourceMetrics.scopeMetrics.every(({ metrics }) => metrics.every((each) => each.dataPoints.length === 0)))
      return;
    const body = JsonMetricsSerializer.serializeRequest({ ...resourceMetrics, resource });
    const response = await fetch(`${endpoint.replace(/\/+$/, "")}/v1/metrics`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: new TextDecoder().decode(body),
      signal: AbortSignal.timeout(timeoutMs),
    });
    await response.body?.cancel();
    if (!response.ok) throw new Error(`metrics: the collector answered ${response.status}`);
  };
};

/** The counter of this isolate; does nothing before `startMetrics`. */
export const countMetric: CountMetric = (name, attributes) => {
  isolate?.provider
    .getMeter("hango")
    .createCounter(name)
    .add(1, { ...attributes });
};
