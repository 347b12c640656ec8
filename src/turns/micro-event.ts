/** The one event of a pass of micro-compaction (section 11): always the same keys, null where unknown, and no content. */
import type { MicroSizes } from "../context/micro.ts";
import { occupancyOf } from "../context/micro-report.ts";
import type { SessionId } from "../protocol/ids.ts";
import type { MicroTotals } from "../store/micro.ts";
import { genai, hango, metric } from "../telemetry/genai.ts";
import type { LogFields } from "../telemetry/log.ts";
import type { Span } from "../telemetry/tracer.ts";
import type { Deps } from "./deps.ts";

export type PassOutcome =
  | "committed"
  /** There was nothing to do. */
  | "nothing"
  /** A guard holds compaction back. */
  | "blocked"
  | "failed"
  /** A turn came first: nothing was stored. */
  | "discarded_late"
  /** The summary to build on could not be read: nothing was tried. */
  | "base_unreadable";

export interface MicroPassFacts {
  readonly sessionId: SessionId;
  readonly attemptId: string;
  readonly outcome: PassOutcome;
  /** In one word: what there was nothing of, the guard, or the class of the failure. */
  readonly why: string | null;
  readonly sizes: MicroSizes;
  readonly generation: number | null;
  readonly durationMs: number;
  /** With this pass. */
  readonly totals: MicroTotals;
  readonly model: string;
  readonly summariserModel: string | null;
  readonly windowTokens: number | null;
  /** Null where the window of the model is not known; it is not looked up for this. */
  readonly triggerTokens: number | null;
}

/** What is said of a pass. */
export const microEvent = (facts: MicroPassFacts): LogFields => {
  const { sizes, outcome } = facts;
  // Where nothing was changed, the request is as large as it was.
  const after = outcome === "committed" ? sizes.after : sizes.before;
  return {
    session_id: facts.sessionId,
    attempt: facts.attemptId,
    outcome,
    why: facts.why,
    pass: sizes.pass,
    generation: facts.generation,
    tokens_before: sizes.before,
    tokens_after: after,
    exchange_tokens: sizes.exchangeTokens,
    exchange_messages: sizes.exchangeMessages,
    summary_tokens: sizes.summaryTokens,
    duration_ms: facts.durationMs,
    passes_total: facts.totals.passes,
    tokens_saved_total: facts.totals.tokensSaved,
    model: facts.model,
    summarizer_model: facts.summariserModel,
    window_tokens: facts.windowTokens,
    trigger_tokens: facts.triggerTokens,
    occupancy: after === null ? null : occupancyOf(after, facts.triggerTokens),
  };
};

/** Tells of a pass: a line of the log, a counter, and an event of its span. Never throws. */
export const tellOfPass = ({ log, meter }: Pick<Deps, "log" | "meter">, span: Span, facts: MicroPassFacts): void => {
  log.info("a micro-compaction pass", microEvent(facts));
  meter.add(metric.contextCompactions, 1, { reason: "micro", outcome: facts.outcome });
  if (facts.outcome === "blocked" && facts.why !== null)
    meter.add(metric.guardBlocked, 1, { [hango.guard]: facts.why });
  span.setAttributes({ [hango.compactionReason]: "micro", [hango.compactionOutcome]: facts.outcome });
  if (facts.outcome !== "committed") return;
  meter.record(metric.contextEvictedMessages, facts.sizes.exchangeMessages ?? 0);
  span.addEvent(genai.compacted, {
    [hango.tokensBefore]: facts.sizes.before ?? undefined,
    [hango.tokensAfter]: facts.sizes.after ?? undefined,
    [hango.messagesEvicted]: facts.sizes.exchangeMessages ?? 0,
    [hango.compactionReason]: "micro",
    [hango.compactionOutcome]: "committed",
    [hango.compactionGeneration]: facts.generation ?? undefined,
  });
};
