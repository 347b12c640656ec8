/** `/_local/*`: the pages, and the same as JSON. From a request to an answer; reads the stores and changes nothing. */
import { firstTurn } from "../first-turn.ts";
import { type Frame, renderFrame, STYLE } from "./layout.ts";
import { isLoopbackHost } from "./loopback.ts";
import type { MetricStore } from "./metric-store.ts";
import { renderMetrics } from "./metrics-page.ts";
import type { SpanStore, Trace } from "./span-store.ts";
import { summarise, type TraceSummary } from "./summary.ts";
import { renderTrace } from "./trace-page.ts";
import { filterOf, renderTraces } from "./traces-page.ts";

export interface PageRequest {
  readonly method: string;
  readonly url: URL;
  /** The `Host` header. */
  readonly host: string | undefined;
}

export interface PageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface PagesOptions {
  readonly spans: SpanStore;
  readonly metrics: MetricStore;
  /** The IANA name of the zone that times are shown in. */
  readonly timeZone: string;
}

export type AnswerPage = (request: PageRequest) => Promise<PageAnswer>;

const COMMON = {
  "Cache-Control": "no-store",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
} as const;

const sha256Base64 = async (text: string): Promise<string> =>
  Buffer.from(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toString("base64");

/** The page's own style and its empty icon; nothing else. */
const policy = async (): Promise<string> =>
  `default-src 'none'; style-src 'sha256-${await sha256Base64(STYLE)}'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`;

const plain = (status: number, text: string, headers: Readonly<Record<string, string>> = {}): PageAnswer => ({
  status,
  headers: { ...COMMON, ...headers, "Content-Type": "text/plain; charset=utf-8" },
  body: `${text}\n`,
});

const json = (value: unknown): PageAnswer => ({
  status: 200,
  headers: { ...COMMON, "Content-Type": "application/json" },
  body: JSON.stringify(value),
});

const isoOf = (ms: number): string => new Date(ms).toISOString();

const summaryJson = (summary: TraceSummary) => ({
  trace_id: summary.traceId,
  name: summary.name,
  started_at: isoOf(summary.startMs),
  duration_ms: summary.durationMs,
  span_count: summary.spanCount,
  errors: summary.errorCount,
  http_status: summary.httpStatus ?? null,
  session_id: summary.conversationId ?? null,
  model_calls: summary.modelCalls,
  summary_calls: summary.summaryCalls,
  tool_calls: summary.toolCalls,
  compactions: summary.compactions.map((compaction) => ({
    tokens_before: compaction.tokensBefore ?? null,
    tokens_after: compaction.tokensAfter ?? null,
    messages_evicted: compaction.messagesEvicted ?? null,
    reason: compaction.reason ?? null,
    outcome: compaction.outcome ?? null,
    generation: compaction.generation ?? null,
    path: compaction.path ?? null,
  })),
});

const traceJson = (trace: Trace) => ({
  ...summaryJson(summarise(trace)),
  forgotten_spans: trace.forgotten,
  spans: trace.spans.map((span) => ({
    span_id: span.spanId,
    parent_span_id: span.parentSpanId ?? null,
    name: span.name,
    kind: span.kind,
    started_at: isoOf(span.startMs),
    duration_ms: Math.max(0, span.endMs - span.startMs),
    error: span.isError ? span.statusMessage : null,
    attributes: span.attributes,
    events: span.events.map(({ name, atMs, attributes }) => ({ name, at: isoOf(atMs), attributes })),
  })),
});

const metricsJson = (metrics: MetricStore) => ({
  forgotten_series: metrics.forgotten(),
  series: metrics.series().map((series) => {
    const { name, kind, unit, attributes } = series;
    if (series.kind === "counter") return { name, kind, unit, attributes, total: series.total };
    const { count, sum, min, max, bounds, bucketCounts } = series;
    const values = { count, sum, min: min ?? null, max: max ?? null, bounds, bucket_counts: bucketCounts };
    return { name, kind, unit, attributes, ...values };
  }),
});

const TRACE_PATH = /^\/_local\/traces\/([0-9a-f]{32})(\.json)?$/;

const LISTED = "/_local/traces, /_local/traces/{traceId}, /_local/metrics, and each with .json";

/** Makes what answers below `/_local`. */
export const createPages = ({ spans, metrics, timeZone }: PagesOptions): AnswerPage => {
  const page = async (frame: Frame): Promise<PageAnswer> => ({
    status: 200,
    headers: {
      ...COMMON,
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": await policy(),
    },
    body: await renderFrame(frame),
  });
  const summaries = () => spans.traces().map(summarise);

  const answerTrace = async (traceId: string, asJson: boolean): Promise<PageAnswer> => {
    const trace = spans.trace(traceId);
    if (trace === undefined)
      return plain(404, `There is no trace ${traceId}: none with this id came, or it is forgotten by now.`);
    if (asJson) return json(traceJson(trace));
    const { name } = summarise(trace);
    return page({ title: name, current: undefined, main: renderTrace(trace, timeZone) });
  };

  const answerGet = async ({ pathname, searchParams, origin }: URL): Promise<PageAnswer> => {
    const exampleCommand = firstTurn(origin, "$HANGO_KEY");
    const [, traceId, suffix] = TRACE_PATH.exec(pathname) ?? [];
    if (traceId !== undefined) return answerTrace(traceId, suffix !== undefined);
    switch (pathname) {
      case "/_local/traces": {
        const input = { summaries: summaries(), filter: filterOf(searchParams.get("show")), timeZone, exampleCommand };
        return page({ title: "Traces", current: "traces", main: renderTraces(input) });
      }
      case "/_local/traces.json":
        return json({ traces: summaries().map(summaryJson) });
      case "/_local/metrics": {
        const input = { series: metrics.series(), forgotten: metrics.forgotten(), exampleCommand };
        return page({ title: "Metrics", current: "metrics", main: renderMetrics(input) });
      }
      case "/_local/metrics.json":
        return json(metricsJson(metrics));
      default:
        return plain(404, `There is no such page; there are ${LISTED}.`);
    }
  };

  return async ({ method, url, host }) => {
    if (!isLoopbackHost(host))
      return plain(403, "These pages are for this machine alone: ask for them at 127.0.0.1 or localhost.");
    if (method !== "GET" && method !== "HEAD")
      return plain(405, `${method} is not allowed here; allowed: GET, HEAD.`, { Allow: "GET, HEAD" });
    const answer = await answerGet(url);
    return method === "HEAD" ? { ...answer, body: "" } : answer;
  };
};
