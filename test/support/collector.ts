/** A collector on loopback that speaks OTLP/HTTP JSON: what it was sent, as tests look at it. */
import { vi } from "vitest";
import { type Receiver, startReceiver } from "./receiver.ts";

export interface Named {
  readonly name: string;
  readonly attributes: Readonly<Record<string, unknown>>;
}

export interface CollectedSpan extends Named {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  /** OTLP: 1 internal, 2 server, 3 client, 5 consumer. */
  readonly kind: number;
  readonly events: readonly Named[];
  readonly error: boolean;
}

/** One data point. */
export interface CollectedPoint extends Named {
  readonly kind: "sum" | "histogram" | "gauge";
  readonly unit: string;
  readonly description: string;
  /** 1 is delta. */
  readonly temporality: number;
  readonly isMonotonic: boolean;
  /** What was added, or the sum of the values. */
  readonly value: number;
  /** Values; 1 of a sum. */
  readonly count: number;
  readonly bounds: readonly number[];
  readonly bucketCounts: readonly number[];
  /** Attributes of the resource. */
  readonly resource: Readonly<Record<string, unknown>>;
}

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
  readonly arrayValue?: { readonly values: readonly Value[] };
}

const readValue = ({ stringValue, boolValue, doubleValue, intValue, arrayValue }: Value): unknown =>
  arrayValue?.values.map(readValue) ??
  stringValue ??
  boolValue ??
  doubleValue ??
  (intValue === undefined ? null : Number(intValue));

const readAttributes = (list: readonly { readonly key: string; readonly value: Value }[] = []) =>
  Object.fromEntries(list.map(({ key, value }) => [key, readValue(value)]));

// biome-ignore lint/suspicious/noExplicitAny: JSON of the protocol, read member by member
type Json = any;

const spansOf = (body: Json): readonly CollectedSpan[] =>
  (body.resourceSpans ?? []).flatMap(({ scopeSpans }: Json) =>
    scopeSpans.flatMap(({ spans }: Json) =>
      spans.map((span: Json) => ({
        ...span,
        attributes: readAttributes(span.attributes),
        events: (span.events ?? []).map((event: Json) => ({
          name: event.name,
          attributes: readAttributes(event.attributes),
        })),
        error: span.status?.code === 2,
      })),
    ),
  );

const kindOf = (metric: Json): CollectedPoint["kind"] =>
  metric.sum !== undefined ? "sum" : metric.histogram !== undefined ? "histogram" : "gauge";

const pointsOf = (body: Json): readonly CollectedPoint[] =>
  (body.resourceMetrics ?? []).flatMap(({ resource, scopeMetrics }: Json) =>
    scopeMetrics.flatMap(({ metrics }: Json) =>
      metrics.flatMap((metric: Json) => {
        const data = metric.sum ?? metric.histogram ?? metric.gauge;
        return data.dataPoints.map((point: Json) => ({
          name: metric.name,
          unit: metric.unit ?? "",
          description: metric.description ?? "",
          kind: kindOf(metric),
          temporality: data.aggregationTemporality,
          isMonotonic: data.isMonotonic === true,
          value: Number(point.asDouble ?? point.asInt ?? point.sum),
          count: Number(point.count ?? 1),
          bounds: point.explicitBounds ?? [],
          bucketCounts: (point.bucketCounts ?? []).map(Number),
          attributes: readAttributes(point.attributes),
          resource: readAttributes(resource.attributes),
        }));
      }),
    ),
  );

export interface Post {
  readonly path: string;
  readonly contentType: string | undefined;
  readonly body: string;
}

export interface Collector {
  readonly url: string;
  readonly posts: readonly Post[];
  readonly spans: readonly CollectedSpan[];
  readonly points: readonly CollectedPoint[];
  /** Spans of this name, in the order in which they arrived. */
  named(name: string): readonly CollectedSpan[];
  /** The only span of this name. @throws Error where there is none or more than one */
  only(name: string): CollectedSpan;
  /** The only span of this name, once it has arrived. */
  arrived(name: string): Promise<CollectedSpan>;
  /** Points of this metric. */
  metric(name: string): readonly CollectedPoint[];
  /** How many requests came to this path, those that are forgotten included. */
  received(path: string): number;
  /** Forgets what it was sent. */
  clear(): void;
  close(): void;
}

const LONGEST_WAIT_MS = 10_000;

/** Starts one. Its address is for `OTEL_EXPORTER_OTLP_ENDPOINT`. */
export const startCollector = async (): Promise<Collector> => {
  const posts: Post[] = [];
  const spans: CollectedSpan[] = [];
  const points: CollectedPoint[] = [];
  const received = new Map<string, number>();
  const receiver: Receiver = await startReceiver((request, body, response) => {
    const path = request.url ?? "";
    received.set(path, (received.get(path) ?? 0) + 1);
    posts.push({ path, contentType: request.headers["content-type"], body });
    const json: Json = JSON.parse(body);
    spans.push(...spansOf(json));
    points.push(...pointsOf(json));
    response.end("{}");
  });
  const named = (name: string) => spans.filter((span) => span.name === name);
  const only = (name: string): CollectedSpan => {
    const [span, ...others] = named(name);
    if (span === undefined || others.length > 0)
      throw new Error(
        `${named(name).length} spans are called ${name}; there are ${spans.map((each) => each.name).join(", ")}`,
      );
    return span;
  };
  return {
    url: receiver.url,
    posts,
    spans,
    points,
    named,
    only,
    arrived: (name) => vi.waitFor(() => only(name), { timeout: LONGEST_WAIT_MS }),
    metric: (name) => points.filter((point) => point.name === name),
    received: (path) => received.get(path) ?? 0,
    clear: () => {
      posts.length = 0;
      spans.length = 0;
      points.length = 0;
    },
    close: receiver.close,
  };
};
