/** The tracer over OpenTelemetry's API. Without a registered provider (no collector configured) the API itself does nothing. */
import {
  context,
  createContextKey,
  SpanKind as OtelKind,
  type Span as OtelSpan,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import type { TraceIds } from "./log.ts";
import {
  type Attributes,
  errorType,
  noopSpan,
  type Span,
  type SpanKind,
  type SpanOptions,
  type Tracer,
} from "./tracer.ts";

/**
 * Under this key a context says with which trace its spans are sent. It differs from their own trace where a span joined the trace of
 * whoever sent a queue message: what is sent at the end of an invocation is found by the trace that the invocation began.
 */
export const sentWith = createContextKey("hango: sent with trace");

const KINDS: Readonly<Record<SpanKind, OtelKind>> = {
  server: OtelKind.SERVER,
  client: OtelKind.CLIENT,
  internal: OtelKind.INTERNAL,
  consumer: OtelKind.CONSUMER,
};

/** Emitting never throws: the worst that telemetry may do to a turn is to miss it. */
const quietly = <T>(emit: () => T): T | undefined => {
  try {
    return emit();
  } catch {
    return undefined;
  }
};

const plain = (attributes: Attributes = {}) =>
  Object.fromEntries(
    Object.entries(attributes).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, typeof value === "object" ? [...value] : value]],
    ),
  );

const traceparentOf = (otel: OtelSpan | undefined): string | undefined => {
  const spanContext = otel?.spanContext();
  if (spanContext === undefined || !trace.isSpanContextValid(spanContext)) return undefined;
  const { traceId, spanId, traceFlags } = spanContext;
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`;
};

const inner = new WeakMap<Span, OtelSpan>();

const handle = (otel: OtelSpan): Span => {
  const span: Span = {
    setAttributes: (attributes) => void quietly(() => otel.setAttributes(plain(attributes))),
    addEvent: (name, attributes) => void quietly(() => otel.addEvent(name, plain(attributes))),
    fail: (type) => void quietly(() => otel.setStatus({ code: SpanStatusCode.ERROR }).setAttribute("error.type", type)),
    traceparent: () => quietly(() => traceparentOf(otel)),
  };
  inner.set(span, otel);
  return span;
};

const parentContext = ({ parent, remoteParent }: SpanOptions) => {
  const active = context.active();
  const given = parent === undefined ? undefined : inner.get(parent);
  if (given !== undefined) return trace.setSpan(active, given);
  const [, traceId, spanId, flags] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(remoteParent ?? "") ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return active;
  const remote = trace.setSpanContext(active, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
  });
  return remote.setValue(sentWith, active.getValue(sentWith) ?? trace.getSpanContext(active)?.traceId);
};

/** The tracer for the Worker. Spans that are started outside an instrumented handler are not recorded. */
export const otelTracer: Tracer = {
  traceparent: () => quietly(() => traceparentOf(trace.getActiveSpan())),
  span: async (name, options, work) => {
    const parent = quietly(() => parentContext(options)) ?? context.active();
    const started = { kind: KINDS[options.kind ?? "internal"], attributes: plain(options.attributes) };
    const otel = quietly(() => trace.getTracer("hango").startSpan(name, started, parent));
    if (otel === undefined) return work(noopSpan);
    const span = handle(otel);
    return context.with(trace.setSpan(parent, otel), async () => {
      try {
        return await work(span);
      } catch (error) {
        span.fail(errorType(error));
        throw error;
      } finally {
        quietly(() => otel.end());
      }
    });
  },
};

/** Ids of the active span, for log lines. */
export const activeTraceIds = (): TraceIds | undefined => {
  const active = quietly(() => trace.getActiveSpan()?.spanContext());
  return active === undefined || !trace.isSpanContextValid(active)
    ? undefined
    : { trace_id: active.traceId, span_id: active.spanId };
};

/**
 * Names the request's server span after its route: `POST /v1/sessions/{id}/turns`. To be called before any span of its own is
 * started.
 * @param route the pattern, never the path with its ids and keys
 */
export const nameRequest = (route: string): void =>
  void quietly(() => trace.getActiveSpan()?.setAttribute("http.route", route));
