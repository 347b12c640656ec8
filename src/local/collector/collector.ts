/**
 * Where the spans and metrics of `npm start` go when no collector is configured: memory, and pages that show them
 * (`docs/decisions/0020-local-collector.md`).
 */
import { createMetricStore } from "./metric-store.ts";
import { type AnswerPage, createPages } from "./pages.ts";
import { startReceiver } from "./receiver.ts";
import { createSpanStore } from "./span-store.ts";

const MIB = 1_048_576;

/** Some hours of turns; a tick of the sweeper every minute is a trace too. */
const SPAN_LIMITS = { maxTraces: 1_000, maxSpans: 50_000, maxBytes: 64 * MIB };

/** Far over what the attributes of `src/telemetry/instruments.ts` can make of some models and routes. */
const MAX_SERIES = 5_000;

/** One invocation's spans, with the content of its prompts where that is captured. */
const MAX_BODY_BYTES = 32 * MIB;

export interface LocalCollector {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly endpoint: string;
  readonly answerPage: AnswerPage;
  /** Stops listening; what it kept is gone. */
  close(): Promise<void>;
}

/** Starts one on a free port of 127.0.0.1. @param timeZone an IANA name: the zone that the pages show times in */
export const startLocalCollector = async (timeZone: string): Promise<LocalCollector> => {
  const spans = createSpanStore(SPAN_LIMITS);
  const metrics = createMetricStore(MAX_SERIES);
  const { url, close } = await startReceiver({ spans, metrics, maxBodyBytes: MAX_BODY_BYTES });
  return { endpoint: url, answerPage: createPages({ spans, metrics, timeZone }), close };
};
