/** What Prometheus sees of the metrics that hango sent: deltas added up per series, as the Collector does, and written in its text format. */
import { prometheusLabel, prometheusName } from "../../src/local/prometheus-names.ts";
import type { CollectedPoint } from "./collector.ts";

export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const kindOf = ({ kind, name }: CollectedPoint): "counter" | "histogram" => {
  if (kind === "gauge") throw new Error(`${name} is a gauge; hango has none`);
  return kind === "sum" ? "counter" : "histogram";
};

/** The Collector makes `job` and `instance` of the resource. */
const labelsOf = ({ attributes, resource }: CollectedPoint): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(Object.entries(attributes).map(([name, value]) => [prometheusLabel(name), String(value)])),
  job: String(resource["service.name"]),
  instance: String(resource["service.instance.id"]),
});

/** The series of one point: of a histogram its buckets, each with all below it, its sum and its count. */
const seriesOf = (point: CollectedPoint): readonly Series[] => {
  const { value, count, bounds, bucketCounts } = point;
  const kind = kindOf(point);
  const family = prometheusName(point.name, { unit: point.unit, kind });
  const labels = labelsOf(point);
  if (kind === "counter") return [{ name: family, labels, value }];
  let below = 0;
  return [
    ...bucketCounts.map((inBucket, at) => {
      below += inBucket;
      const bound = bounds[at];
      return {
        name: `${family}_bucket`,
        labels: { ...labels, le: bound === undefined ? "+Inf" : String(bound) },
        value: below,
      };
    }),
    { name: `${family}_sum`, labels, value },
    { name: `${family}_count`, labels, value: count },
  ];
};

const keyOf = ({ name, labels }: Series): string => {
  const quoted = Object.entries(labels)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return `${name}{${quoted.join(",")}}`;
};

/**
 * Every series that is exported, with what it has come to.
 * @param points as a collector received them
 * @throws Error where a point is no delta: added up, it would count twice
 */
export const exportedSeries = (points: readonly CollectedPoint[]): readonly Series[] => {
  const sums = new Map<string, Series>();
  for (const point of points) {
    if (point.temporality !== 1)
      throw new Error(`${point.name} was sent with temporality ${point.temporality}, not as a delta (1)`);
    for (const series of seriesOf(point)) {
      const key = keyOf(series);
      sums.set(key, { ...series, value: (sums.get(key)?.value ?? 0) + series.value });
    }
  }
  return [...sums.values()];
};

/** Label names by series name, with the values that each had. */
export const labelValues = (
  series: readonly Series[],
): ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>> => {
  const byName = new Map<string, Map<string, Set<string>>>();
  for (const { name, labels } of series) {
    const known = byName.get(name) ?? new Map<string, Set<string>>();
    byName.set(name, known);
    for (const [label, value] of Object.entries(labels)) known.set(label, (known.get(label) ?? new Set()).add(value));
  }
  return byName;
};

/** A scrape's answer, families together as the format wants them. @param value what of each series is shown, the whole without it */
export const exposition = (
  series: readonly Series[],
  value: (series: Series) => number = (each) => each.value,
): string =>
  Object.entries(Object.groupBy(series, ({ name }) => name.replace(/_(bucket|sum|count)$/, "")))
    .flatMap(([family, members = []]) => [
      `# TYPE ${family} ${family.endsWith("_total") ? "counter" : "histogram"}`,
      ...members.map((each) => `${keyOf(each)} ${value(each)}`),
      "",
    ])
    .join("\n");
