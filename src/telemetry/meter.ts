/** Metrics as hango's code sees them: what is behind is exchanged like the tracer's, and counting never throws, blocks or looks anything up. */
import type { MetricName } from "./instruments.ts";

/** What tells the points of a metric apart: of bounded variety, never content. Undefined stands for "not there". */
export type MetricAttributes = Readonly<Record<string, string | number | undefined>>;

export interface Meter {
  /** Adds to a counter. @param by at least 0, in the unit of the metric */
  add(name: MetricName, by: number, attributes?: MetricAttributes): void;
  /** Records one value of a histogram, in the unit of the metric. */
  record(name: MetricName, value: number, attributes?: MetricAttributes): void;
}

/** Takes everything, keeps nothing. */
export const noopMeter: Meter = { add: () => undefined, record: () => undefined };

export interface RecordedPoint {
  readonly name: MetricName;
  readonly value: number;
  readonly attributes: MetricAttributes;
}

/** A meter that keeps what it is told, in order, for tests. */
export const recordingMeter = (): Meter & { readonly points: readonly RecordedPoint[] } => {
  const points: RecordedPoint[] = [];
  const keep: Meter["add"] = (name, value, attributes = {}) => void points.push({ name, value, attributes });
  return { add: keep, record: keep, points };
};
