/**
 * Everything that hango tells about itself goes through these four types, so that what is behind them can be exchanged:
 * OpenTelemetry (`otel.ts`), nothing (`noopTracer`), a list for tests (`recording.ts`). Emitting never throws and never waits.
 */

export type AttributeValue = string | number | boolean | readonly string[];
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

/** Where a span stands to the outside: a call to a provider is a `client`, the rest `internal`. */
export type SpanKind = "server" | "client" | "internal" | "consumer";

export interface Span {
  setAttributes(attributes: Attributes): void;
  addEvent(name: string, attributes?: Attributes): void;
  /** Marks the span as failed. `type` is `error.type`: a short name of bounded variety, never a message with content in it. */
  fail(type: string): void;
  /** The W3C `traceparent` of this span, or undefined when nothing is recorded. */
  traceparent(): string | undefined;
}

export interface Tracer {
  /**
   * Runs `work` inside a new span, child of `parent` (or of what the runtime holds active). The span ends when the promise settles;
   * a rejection marks it failed with the error's name and passes on.
   */
  span<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T>;
  /** The W3C `traceparent` of the span that is active now, for whoever goes on with the work elsewhere; undefined when nothing is recorded. */
  traceparent(): string | undefined;
}

export interface SpanOptions {
  readonly kind?: SpanKind;
  readonly attributes?: Attributes;
  readonly parent?: Span | undefined;
  /** A `traceparent` that arrived with a queue message: the new span joins that trace. Ignored when `parent` is given or when it is malformed. */
  readonly remoteParent?: string | undefined;
}

/** Takes everything, keeps nothing. */
export const noopSpan: Span = {
  setAttributes: () => undefined,
  addEvent: () => undefined,
  fail: () => undefined,
  traceparent: () => undefined,
};

/** Records nothing. */
export const noopTracer: Tracer = { span: (_name, _options, work) => work(noopSpan), traceparent: () => undefined };

/**
 * What a rejection is called in telemetry (`error.type`): the kind that it says it is (`ModelError.kind`: `rate_limited`), else its name. Both are of
 * bounded variety; its message, which may hold content, is never told.
 */
export const errorType = (error: unknown): string => {
  if (!(error instanceof Error)) return "unknown";
  const kind: unknown = Reflect.get(error, "kind");
  return typeof kind === "string" ? kind : error.name;
};
