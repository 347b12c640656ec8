/** The last spans, in memory, by trace. Bounded by traces, spans and bytes: what has not grown for longest goes first. */
import type { Span } from "./otlp.ts";

export interface SpanLimits {
  readonly maxTraces: number;
  readonly maxSpans: number;
  /** Of the spans as JSON, roughly. */
  readonly maxBytes: number;
}

export interface Trace {
  readonly traceId: string;
  /** In the order of their start. */
  readonly spans: readonly Span[];
  /** Spans of it that were forgotten, being alone too many. */
  readonly forgotten: number;
}

export interface SpanStore {
  /** Takes spans; one that is there already is replaced: a sender may send again. */
  add(spans: readonly Span[]): void;
  /** Those with the newest start first. */
  traces(): readonly Trace[];
  trace(traceId: string): Trace | undefined;
}

interface Kept {
  readonly spans: Map<string, { readonly span: Span; readonly bytes: number }>;
  forgotten: number;
}

const startOf = ({ spans }: Trace): number => spans[0]?.startMs ?? 0;

export const createSpanStore = ({ maxTraces, maxSpans, maxBytes }: SpanLimits): SpanStore => {
  // In the order of their last growth.
  const kept = new Map<string, Kept>();
  let spanCount = 0;
  let byteCount = 0;

  const removeSpan = (trace: Kept, spanId: string): void => {
    const found = trace.spans.get(spanId);
    if (found === undefined) return;
    trace.spans.delete(spanId);
    spanCount -= 1;
    byteCount -= found.bytes;
  };

  const put = (span: Span): void => {
    const trace = kept.get(span.traceId) ?? { spans: new Map(), forgotten: 0 };
    kept.delete(span.traceId);
    kept.set(span.traceId, trace);
    removeSpan(trace, span.spanId);
    const bytes = JSON.stringify(span).length;
    trace.spans.set(span.spanId, { span, bytes });
    spanCount += 1;
    byteCount += bytes;
  };

  const isOver = (): boolean => kept.size > maxTraces || spanCount > maxSpans || byteCount > maxBytes;

  const shrink = (): void => {
    while (isOver()) {
      const [oldest] = kept;
      if (oldest === undefined) return;
      const [traceId, trace] = oldest;
      const [first] = trace.spans.keys();
      if (kept.size > 1 || first === undefined) {
        for (const spanId of [...trace.spans.keys()]) removeSpan(trace, spanId);
        kept.delete(traceId);
      } else {
        removeSpan(trace, first);
        trace.forgotten += 1;
        // A span that alone is over the bound leaves nothing to show.
        if (trace.spans.size === 0) kept.delete(traceId);
      }
    }
  };

  const show = (traceId: string, { spans, forgotten }: Kept): Trace => ({
    traceId,
    spans: [...spans.values()].map(({ span }) => span).toSorted((a, b) => a.startMs - b.startMs || b.endMs - a.endMs),
    forgotten,
  });

  return {
    add: (spans) => {
      for (const span of spans) {
        put(span);
        shrink();
      }
    },
    traces: () => [...kept].map(([id, trace]) => show(id, trace)).toSorted((a, b) => startOf(b) - startOf(a)),
    trace: (traceId) => {
      const found = kept.get(traceId);
      return found === undefined ? undefined : show(traceId, found);
    },
  };
};
