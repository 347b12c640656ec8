/** The one event of an attempt to compact (telemetry.md): always the same keys, null where unknown, and no content. Nothing is looked up for it. */
import type { Attempt } from "../context/attempt.ts";
import { occupancyOf } from "../context/micro-report.ts";
import type { RunId, SessionId } from "../protocol/ids.ts";
import type { LogFields } from "../telemetry/log.ts";

/** What is known of an attempt, and of where it was made. */
export type AttemptEvent = Pick<Attempt, "reason" | "status"> &
  Partial<Omit<Attempt, "reason" | "status">> & {
    readonly sessionId: SessionId | string | null;
    readonly runId: RunId | null;
    readonly model?: string;
    readonly summariserModel?: string;
    readonly windowTokens?: number;
    readonly triggerTokens?: number;
    /** Of the whole attempt, and of its calls to the summariser, in ms. */
    readonly durationMs?: number;
    readonly summaryMs?: number;
    readonly summaryCalls?: number;
  };

/** What is said of an attempt. */
export const attemptEvent = (facts: AttemptEvent): LogFields => {
  const tokens = facts.afterTokens ?? facts.estimateTokens ?? null;
  return {
    session_id: facts.sessionId,
    run_id: facts.runId,
    attempt: facts.attemptId ?? null,
    source: facts.reason,
    commit: facts.status,
    why: facts.why ?? null,
    guard: facts.guard ?? null,
    failure: facts.failure ?? null,
    cooldown_s: facts.cooldownSeconds ?? null,
    model: facts.model ?? null,
    summarizer_model: facts.summariserModel ?? null,
    window_tokens: facts.windowTokens ?? null,
    trigger_tokens: facts.triggerTokens ?? null,
    estimate_tokens: facts.estimateTokens ?? null,
    after_tokens: facts.afterTokens ?? null,
    covered_tokens: facts.coveredTokens ?? null,
    covered_messages: facts.coveredMessages ?? null,
    kept_tokens: facts.keptTokens ?? null,
    summary_tokens: facts.summaryTokens ?? null,
    generation: facts.generation ?? null,
    duration_ms: facts.durationMs ?? null,
    summary_ms: facts.summaryMs ?? null,
    summary_calls: facts.summaryCalls ?? null,
    occupancy: tokens === null ? null : occupancyOf(tokens, facts.triggerTokens ?? null),
  };
};
