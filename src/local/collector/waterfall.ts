/** From the spans of a trace to the rows of its waterfall: who is under whom, and where each lies in time. Pure. */
import type { Span } from "./otlp.ts";

/** So narrow a bar is still seen, in per cent. */
const MIN_WIDTH_PERCENT = 0.4;

export interface Mark {
  readonly name: string;
  /** Where it lies in the whole, 0 to 100. */
  readonly atPercent: number;
}

export interface Row {
  readonly span: Span;
  /** 0 for a root. */
  readonly depth: number;
  /** Where its bar begins in the whole, 0 to 100. */
  readonly offsetPercent: number;
  /** How wide its bar is; with the offset never over 100. */
  readonly widthPercent: number;
  readonly durationMs: number;
  readonly marks: readonly Mark[];
}

export interface Waterfall {
  /** ms since the epoch. */
  readonly startMs: number;
  readonly durationMs: number;
  /** Parents before their children, siblings by their start. */
  readonly rows: readonly Row[];
}

/** A clock that went back must not give a span that ends before it begins. */
const durationOf = ({ startMs, endMs }: Span): number => Math.max(0, endMs - startMs);

const byStart = (a: Span, b: Span): number => a.startMs - b.startMs || b.endMs - a.endMs;

/**
 * Lays out a trace. A span whose parent is not there is a root, and so is the earliest span of a circle; each span has one row.
 */
export const layOut = (spans: readonly Span[]): Waterfall => {
  const sorted = spans.toSorted(byStart);
  const startMs = sorted[0]?.startMs ?? 0;
  const durationMs = sorted.reduce((most, span) => Math.max(most, span.startMs + durationOf(span) - startMs), 0);
  const ids = new Set(sorted.map(({ spanId }) => spanId));
  const children = Map.groupBy(sorted, ({ parentSpanId }) => parentSpanId ?? "");

  const percent = (atMs: number): number =>
    durationMs === 0 ? 0 : Math.min(100, Math.max(0, ((atMs - startMs) / durationMs) * 100));

  const rowOf = (span: Span, depth: number): Row => {
    const ownMs = durationOf(span);
    const offset = Math.min(percent(span.startMs), 100 - MIN_WIDTH_PERCENT);
    const width = durationMs === 0 ? 100 : Math.max(MIN_WIDTH_PERCENT, (ownMs / durationMs) * 100);
    return {
      span,
      depth,
      offsetPercent: offset,
      widthPercent: Math.min(width, 100 - offset),
      durationMs: ownMs,
      marks: span.events.map(({ name, atMs }) => ({ name, atPercent: percent(atMs) })),
    };
  };

  const rows: Row[] = [];
  const seen = new Set<string>();
  const visit = (root: Span): void => {
    // A stack of its own: a chain of spans may be deeper than the machine's.
    const waiting: { readonly span: Span; readonly depth: number }[] = [{ span: root, depth: 0 }];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (seen.has(next.span.spanId)) continue;
      seen.add(next.span.spanId);
      rows.push(rowOf(next.span, next.depth));
      const depth = next.depth + 1;
      waiting.push(...(children.get(next.span.spanId) ?? []).toReversed().map((span) => ({ span, depth })));
    }
  };
  const isRoot = ({ parentSpanId }: Span): boolean => parentSpanId === undefined || !ids.has(parentSpanId);
  for (const span of sorted.filter(isRoot)) visit(span);
  // What no root leads to goes in circles.
  for (const span of sorted) if (!seen.has(span.spanId)) visit(span);
  return { startMs, durationMs, rows };
};
