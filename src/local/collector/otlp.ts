/** OTLP/HTTP JSON as it is read here: what a body of `/v1/traces` and `/v1/metrics` says, or why it cannot be read. */
import { z } from "zod";
import { isRecord } from "../../protocol/is-record.ts";

/** Arrays and maps in an attribute are read down to here. */
const MAX_VALUE_DEPTH = 16;

const NANO_PER_MICRO = 1_000n;
const MICROS_PER_MS = 1_000;

/** OTLP's number for deltas. */
const DELTA = 1;

/** A body that is not OTLP; the message is for who sent it. */
export class OtlpError extends Error {
  override readonly name = "OtlpError";
}

export type Value = string | number | boolean | null | readonly Value[] | { readonly [key: string]: Value };

export type Attributes = Readonly<Record<string, Value>>;

export interface SpanEvent {
  readonly name: string;
  /** ms since the epoch, with fractions. */
  readonly atMs: number;
  readonly attributes: Attributes;
}

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: SpanKind;
  /** ms since the epoch, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly events: readonly SpanEvent[];
  readonly isError: boolean;
  /** What the status says, mostly of an error. */
  readonly statusMessage: string;
}

/** OTLP's kinds by their numbers. */
const KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"] as const;

export type SpanKind = (typeof KINDS)[number];

interface PointOf {
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  readonly attributes: Attributes;
  /** ms since the epoch. */
  readonly atMs: number;
}

/** What was added to a counter since its last point. */
export interface SumPoint extends PointOf {
  readonly kind: "counter";
  readonly value: number;
}

/** Values of a histogram since its last point. */
export interface HistogramPoint extends PointOf {
  readonly kind: "histogram";
  readonly count: number;
  readonly sum: number;
  readonly min: number | undefined;
  readonly max: number | undefined;
  /** Upper bounds, ascending; the last bucket has none. */
  readonly bounds: readonly number[];
  /** One more than bounds. */
  readonly bucketCounts: readonly number[];
}

export type MetricPoint = SumPoint | HistogramPoint;

export interface Metrics {
  readonly points: readonly MetricPoint[];
  /** Points of kinds that are not kept here, and the names of their metrics. */
  readonly refused: { readonly count: number; readonly names: readonly string[] };
}

// Whole numbers of 64 bits are strings in OTLP's JSON; some senders write numbers.
const whole = z.union([z.string().regex(/^\d{1,20}$/), z.int().nonnegative()]);
const traceId = z.string().regex(/^[0-9a-f]{32}$/i, "should be 32 hexadecimal digits");
const spanId = z.string().regex(/^[0-9a-f]{16}$/i, "should be 16 hexadecimal digits");
const attributes = z.array(z.object({ key: z.string(), value: z.unknown().optional() })).default([]);

const spanShape = z.object({
  traceId,
  spanId,
  parentSpanId: z.union([spanId, z.literal("")]).optional(),
  name: z.string(),
  kind: z.int().default(0),
  startTimeUnixNano: whole,
  endTimeUnixNano: whole,
  attributes,
  events: z.array(z.object({ name: z.string(), timeUnixNano: whole, attributes })).default([]),
  status: z.object({ code: z.int().default(0), message: z.string().default("") }).default({ code: 0, message: "" }),
});

const tracesShape = z.object({
  resourceSpans: z
    .array(z.object({ scopeSpans: z.array(z.object({ spans: z.array(spanShape).default([]) })).default([]) }))
    .default([]),
});

const pointBase = { attributes, timeUnixNano: whole.default(0) };

const sumPointShape = z.object({
  ...pointBase,
  asDouble: z.number().optional(),
  asInt: z.union([z.string().regex(/^-?\d{1,20}$/), z.int()]).optional(),
});

const histogramPointShape = z
  .object({
    ...pointBase,
    count: whole,
    sum: z.number().default(0),
    min: z.number().optional(),
    max: z.number().optional(),
    explicitBounds: z.array(z.number()).default([]),
    bucketCounts: z.array(whole).default([]),
  })
  .refine(({ explicitBounds, bucketCounts }) => bucketCounts.length === explicitBounds.length + 1, {
    path: ["bucketCounts"],
    error: "should be one more than explicitBounds",
  });

const temporality = z.int().default(0);
const others = z.object({ dataPoints: z.array(z.unknown()).default([]) }).optional();

const metricShape = z.object({
  name: z.string(),
  unit: z.string().default(""),
  description: z.string().default(""),
  sum: z.object({ aggregationTemporality: temporality, dataPoints: z.array(sumPointShape).default([]) }).optional(),
  histogram: z
    .object({ aggregationTemporality: temporality, dataPoints: z.array(histogramPointShape).default([]) })
    .optional(),
  gauge: others,
  exponentialHistogram: others,
  summary: others,
});

const metricsShape = z.object({
  resourceMetrics: z
    .array(z.object({ scopeMetrics: z.array(z.object({ metrics: z.array(metricShape).default([]) })).default([]) }))
    .default([]),
});

const parseWith = <T>(shape: z.ZodType<T>, text: string): T => {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new OtlpError(`the body is not JSON: ${error instanceof Error ? error.message : "unreadable"}`);
  }
  const parsed = shape.safeParse(body);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "the body" : issue.path.join(".");
  throw new OtlpError(`${where}: ${issue?.message ?? "is not OTLP"}`);
};

/** Whole numbers that JavaScript cannot hold stay text. */
const readWhole = (value: unknown): Value => {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
};

const listOf = (value: unknown): readonly unknown[] =>
  isRecord(value) && Array.isArray(value["values"]) ? value["values"] : [];

const readValue = (value: unknown, depth = 0): Value => {
  if (depth > MAX_VALUE_DEPTH) throw new OtlpError(`an attribute is nested deeper than ${MAX_VALUE_DEPTH}`);
  // OTLP's null has no value at all.
  if (value === undefined) return null;
  if (!isRecord(value)) throw new OtlpError('an attribute has no value object, such as {"stringValue": "..."}');
  const { stringValue, boolValue, intValue, doubleValue, arrayValue, kvlistValue, bytesValue } = value;
  if (typeof stringValue === "string") return stringValue;
  if (typeof boolValue === "boolean") return boolValue;
  if (typeof intValue === "number" || typeof intValue === "string") return readWhole(intValue);
  if (typeof doubleValue === "number" || typeof doubleValue === "string") return doubleValue;
  if (typeof bytesValue === "string") return bytesValue;
  if (arrayValue !== undefined) return listOf(arrayValue).map((each) => readValue(each, depth + 1));
  if (kvlistValue !== undefined) {
    return Object.fromEntries(
      listOf(kvlistValue).map((each) => {
        if (!isRecord(each)) throw new OtlpError("a kvlistValue holds something that is no key and value");
        return [String(each["key"]), readValue(each["value"], depth + 1)];
      }),
    );
  }
  return null;
};

const readAttributes = (list: z.infer<typeof attributes>): Attributes =>
  Object.fromEntries(list.map(({ key, value }) => [key, readValue(value)]));

/** Through microseconds: nanoseconds since the epoch do not fit into a number. */
const toMs = (nanos: string | number): number => Number(BigInt(nanos) / NANO_PER_MICRO) / MICROS_PER_MS;

/** The spans of a body of `/v1/traces`. @throws OtlpError that says what is wrong with it */
export const readSpans = (text: string): readonly Span[] =>
  parseWith(tracesShape, text).resourceSpans.flatMap(({ scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        traceId: span.traceId.toLowerCase(),
        spanId: span.spanId.toLowerCase(),
        parentSpanId: span.parentSpanId?.toLowerCase() || undefined,
        name: span.name,
        kind: KINDS[span.kind] ?? "unspecified",
        startMs: toMs(span.startTimeUnixNano),
        endMs: toMs(span.endTimeUnixNano),
        attributes: readAttributes(span.attributes),
        events: span.events.map((event) => ({
          name: event.name,
          atMs: toMs(event.timeUnixNano),
          attributes: readAttributes(event.attributes),
        })),
        isError: span.status.code === 2,
        statusMessage: span.status.message,
      })),
    ),
  );

/**
 * The points of a body of `/v1/metrics`. hango sends deltas of counters and histograms; other points are counted, not kept.
 * @throws OtlpError that says what is wrong with it
 */
export const readMetrics = (text: string): Metrics => {
  const metrics = parseWith(metricsShape, text).resourceMetrics.flatMap(({ scopeMetrics }) =>
    scopeMetrics.flatMap((scope) => scope.metrics),
  );
  const points: MetricPoint[] = [];
  const refused = new Set<string>();
  let count = 0;
  for (const { name, unit, description, sum, histogram, ...rest } of metrics) {
    const about = { name, unit, description };
    const sums = sum?.dataPoints ?? [];
    const histograms = histogram?.dataPoints ?? [];
    const cumulative = [
      ...(sum?.aggregationTemporality === DELTA ? [] : sums),
      ...(histogram?.aggregationTemporality === DELTA ? [] : histograms),
    ];
    const notKept = [rest.gauge, rest.exponentialHistogram, rest.summary].flatMap((each) => each?.dataPoints ?? []);
    count += cumulative.length + notKept.length;
    if (cumulative.length + notKept.length > 0) refused.add(name);
    if (sum?.aggregationTemporality === DELTA)
      points.push(
        ...sums.map((point) => ({
          ...about,
          kind: "counter" as const,
          attributes: readAttributes(point.attributes),
          atMs: toMs(point.timeUnixNano),
          value: Number(point.asDouble ?? point.asInt ?? 0),
        })),
      );
    if (histogram?.aggregationTemporality === DELTA)
      points.push(
        ...histograms.map((point) => ({
          ...about,
          kind: "histogram" as const,
          attributes: readAttributes(point.attributes),
          atMs: toMs(point.timeUnixNano),
          count: Number(point.count),
          sum: point.sum,
          min: point.min,
          max: point.max,
          bounds: point.explicitBounds,
          bucketCounts: point.bucketCounts.map(Number),
        })),
      );
  }
  return { points, refused: { count, names: [...refused] } };
};
