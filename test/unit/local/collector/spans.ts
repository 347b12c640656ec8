/** Spans for tests of the local collector, as the store keeps them and as OTLP's JSON has them. */
import type { Span } from "../../../../src/local/collector/otlp.ts";

export const TRACE = "0af7651916cd43dd8448eb211c80319c";

/** An id of a span from a number. */
export const idOf = (serial: number): string => serial.toString(16).padStart(16, "0");

export const span = (serial: number, given: Partial<Span> = {}): Span => ({
  traceId: TRACE,
  spanId: idOf(serial),
  parentSpanId: undefined,
  name: `span ${serial}`,
  kind: "internal",
  startMs: 1_000,
  endMs: 1_010,
  attributes: {},
  events: [],
  isError: false,
  statusMessage: "",
  ...given,
});

/** An OTLP body with spans as they are given. */
export const tracesBody = (...spans: readonly object[]): string =>
  JSON.stringify({ resourceSpans: [{ resource: {}, scopeSpans: [{ scope: {}, spans }] }] });

/** A span in OTLP's JSON. */
export const wireSpan = (given: object = {}): object => ({
  traceId: TRACE,
  spanId: idOf(1),
  name: "chat",
  kind: 3,
  startTimeUnixNano: "1764580000123456789",
  endTimeUnixNano: "1764580000223456789",
  attributes: [],
  events: [],
  status: { code: 0 },
  ...given,
});

/** An OTLP body with metrics as they are given. */
export const metricsBody = (...metrics: readonly object[]): string =>
  JSON.stringify({ resourceMetrics: [{ resource: {}, scopeMetrics: [{ scope: {}, metrics }] }] });
