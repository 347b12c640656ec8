/** What metrics have come to since the start: the deltas of every instance of the Worker, added up by name and attributes. */
import type { Attributes, HistogramPoint, MetricPoint } from "./otlp.ts";

interface SeriesOf {
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  readonly attributes: Attributes;
}

export interface CounterSeries extends SeriesOf {
  readonly kind: "counter";
  readonly total: number;
}

export interface HistogramSeries extends SeriesOf {
  readonly kind: "histogram";
  readonly count: number;
  readonly sum: number;
  readonly min: number | undefined;
  readonly max: number | undefined;
  /** Upper bounds, ascending; the last bucket has none. */
  readonly bounds: readonly number[];
  readonly bucketCounts: readonly number[];
}

export type Series = CounterSeries | HistogramSeries;

export interface MetricStore {
  add(points: readonly MetricPoint[]): void;
  /** By name, then by attributes. */
  series(): readonly Series[];
  /** Series that were forgotten, being too many. */
  forgotten(): number;
}

/** Attributes in one order: senders need not keep one. */
const inOrder = (attributes: Attributes): readonly (readonly [string, unknown])[] =>
  Object.entries(attributes).toSorted(([a], [b]) => (a < b ? -1 : 1));

const keyOf = (point: MetricPoint): string =>
  JSON.stringify([
    point.name,
    point.kind,
    point.unit,
    inOrder(point.attributes),
    // Buckets of other bounds cannot be added.
    point.kind === "histogram" ? point.bounds : null,
  ]);

const least = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);

const most = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.max(a, b);

const addHistogram = (before: HistogramSeries, point: HistogramPoint): HistogramSeries => ({
  ...before,
  count: before.count + point.count,
  sum: before.sum + point.sum,
  min: least(before.min, point.min),
  max: most(before.max, point.max),
  bucketCounts: before.bucketCounts.map((count, index) => count + (point.bucketCounts[index] ?? 0)),
});

const begin = (point: MetricPoint): Series => {
  const { name, unit, description, attributes } = point;
  const about = { name, unit, description, attributes };
  switch (point.kind) {
    case "counter":
      return { ...about, kind: "counter", total: point.value };
    case "histogram": {
      const { count, sum, min, max, bounds, bucketCounts } = point;
      return { ...about, kind: "histogram", count, sum, min, max, bounds, bucketCounts };
    }
    default:
      return point satisfies never;
  }
};

const added = (before: Series | undefined, point: MetricPoint): Series => {
  if (before?.kind === "counter" && point.kind === "counter") return { ...before, total: before.total + point.value };
  if (before?.kind === "histogram" && point.kind === "histogram") return addHistogram(before, point);
  return begin(point);
};

/** @param maxSeries how many are kept; the one that has not changed for longest goes first */
export const createMetricStore = (maxSeries: number): MetricStore => {
  // In the order of their last change.
  const kept = new Map<string, Series>();
  let forgotten = 0;
  return {
    add: (points) => {
      for (const point of points) {
        const key = keyOf(point);
        const series = added(kept.get(key), point);
        kept.delete(key);
        kept.set(key, series);
        const [oldest] = kept.keys();
        if (kept.size > maxSeries && oldest !== undefined) {
          kept.delete(oldest);
          forgotten += 1;
        }
      }
    },
    series: () => [...kept].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, series]) => series),
    forgotten: () => forgotten,
  };
};

/**
 * About where a share of a histogram's values ends: linear inside the bucket, and never beyond the least and the greatest value.
 * @param share from 0 to 1
 * @returns undefined of a histogram without values
 */
export const quantileOf = (series: HistogramSeries, share: number): number | undefined => {
  const { bounds, bucketCounts, count } = series;
  if (count === 0) return undefined;
  const rank = share * count;
  let below = 0;
  const bucket = bucketCounts.findIndex((inBucket) => {
    if (inBucket > 0 && below + inBucket >= rank) return true;
    below += inBucket;
    return false;
  });
  // Counts that do not add up: the sender's fault.
  if (bucket === -1) return undefined;
  const lowest = series.min ?? 0;
  const highest = series.max ?? bounds.at(-1) ?? lowest;
  const from = Math.max(bounds[bucket - 1] ?? lowest, lowest);
  const to = Math.max(from, Math.min(bounds[bucket] ?? highest, highest));
  return from + ((rank - below) / (bucketCounts[bucket] ?? 1)) * (to - from);
};
