/**
 * Every metric that hango exports, in one place: its name, kind, unit and what tells its points apart. `docs/telemetry.md`, the dashboard and the
 * alert rules speak of these names, and tests hold them to what a collector receives.
 */
import { genai, hango, http, metric } from "./genai.ts";

export interface Instrument {
  readonly kind: "counter" | "histogram";
  /** UCUM, as OpenTelemetry writes units; what stands in braces is a thing that is counted. */
  readonly unit: string;
  readonly description: string;
  /** Every attribute that a point may have. Each is of bounded variety, and none holds content. */
  readonly attributes: readonly string[];
  /** Upper bounds of the buckets of a histogram, in its unit. */
  readonly buckets?: readonly number[];
}

export type MetricName = (typeof metric)[keyof typeof metric];

/** Durations in s, from a cached answer of the API to the longest turn (12 minutes, `HANGO_TURN_TIMEOUT_MS`). */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 720] as const;

/** The conventions' own buckets for `gen_ai.client.token.usage`, without those below and above what a prompt can have. */
const TOKENS = [1, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 131_072, 262_144, 524_288, 1_048_576, 4_194_304] as const;

/** Finer where windows end: what matters is how near a session is to its own. */
const CONTEXT_TOKENS = [
  1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 100_000, 128_000, 160_000, 200_000, 400_000, 1_000_000,
] as const;

const RATIO = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1] as const;

/** Two round trips and one for each step of a turn (architecture section 2). */
const ROUND_TRIPS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128] as const;

const MESSAGES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000] as const;

export const instruments: Readonly<Record<MetricName, Instrument>> = {
  [metric.contextInputTokens]: {
    kind: "histogram",
    unit: "{token}",
    description: "Prompt of one model call of a turn as the provider counted it, cached parts included.",
    attributes: [genai.requestModel],
    buckets: CONTEXT_TOKENS,
  },
  [metric.contextCompactions]: {
    kind: "counter",
    unit: "{compaction}",
    description: "Attempts to make a session's view smaller, by why they were made and what became of them.",
    attributes: ["reason", "outcome"],
  },
  [metric.contextEvictedMessages]: {
    kind: "histogram",
    unit: "{message}",
    description: "Messages that a committed compaction took out of the view.",
    attributes: [],
    buckets: MESSAGES,
  },
  [metric.toolArgsTruncated]: {
    kind: "counter",
    unit: "{call}",
    description: "Tool calls whose arguments or result are shown with their middle left out, counted when that begins.",
    attributes: [genai.toolName],
  },
  [metric.tokenUsage]: {
    kind: "histogram",
    unit: "{token}",
    description: "Tokens of one model call; the input is the whole prompt, cached parts included.",
    attributes: [genai.operationName, genai.providerName, genai.tokenType, genai.requestModel, hango.callPurpose],
    buckets: TOKENS,
  },
  [metric.operationDuration]: {
    kind: "histogram",
    unit: "s",
    description: "Duration of one model call, until its last token.",
    attributes: [genai.operationName, genai.providerName, genai.requestModel, hango.callPurpose, http.errorType],
    buckets: SECONDS,
  },
  [metric.cacheReadRatio]: {
    kind: "histogram",
    unit: "1",
    description: "Share of a turn's prompt that the provider read from its cache, from 0 to 1, for each model call.",
    attributes: [genai.requestModel],
    buckets: RATIO,
  },
  [metric.cost]: {
    kind: "counter",
    unit: "{USD}",
    description: "What model calls cost by their list prices. Models without a known price are not in it.",
    attributes: [genai.requestModel, hango.callPurpose],
  },
  [metric.turnDuration]: {
    kind: "histogram",
    unit: "s",
    description:
      "One turn, recorded when its run ends: the time that its Workers spent on it, without the time between them.",
    attributes: [hango.runStatus, hango.runTrigger, http.errorType],
    buckets: SECONDS,
  },
  [metric.turnOverhead]: {
    kind: "histogram",
    unit: "s",
    description: "The part of it that was not spent waiting for the provider.",
    attributes: [],
    buckets: SECONDS,
  },
  [metric.dbRoundTrips]: {
    kind: "histogram",
    unit: "{round_trip}",
    description: "HTTP requests to the database that one turn made, without lease renewals and cancel checks.",
    attributes: [],
    buckets: ROUND_TRIPS,
  },
  [metric.guardBlocked]: {
    kind: "counter",
    unit: "{block}",
    description: "Compactions that a guard held back.",
    attributes: [hango.guard],
  },
  [metric.runsStranded]: {
    kind: "counter",
    unit: "{run}",
    description: "Runs that the sweeper found without a Worker and sent for again.",
    attributes: [],
  },
  [metric.deadLetters]: {
    kind: "counter",
    unit: "{message}",
    description: "Queue messages that failed every time and were given up.",
    attributes: [hango.messageType],
  },
  [metric.requestDuration]: {
    kind: "histogram",
    unit: "s",
    description: "HTTP requests to the API, until the headers of the answer: a stream goes on after it.",
    attributes: [http.method, http.route, http.status, http.errorType],
    buckets: SECONDS,
  },
};
