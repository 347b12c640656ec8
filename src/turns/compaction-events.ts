/** What is told of a compaction: to the caller's stream, to the trace, and one line to the log. None of it holds content. */
import type { CompactionEvents } from "../context/compact.ts";
import type { RevisionChange } from "../context/ports.ts";
import type { Budgets } from "../context/trigger.ts";
import type { RunContext } from "../protocol/middleware.ts";
import { OWN_TOOLS } from "../protocol/own-tools.ts";
import { genai, hango, metric } from "../telemetry/genai.ts";
import { attemptEvent } from "./attempt-event.ts";
import type { Deps } from "./deps.ts";
import type { RunJournal } from "./journal.ts";

/** Of the calls to the summariser. */
export interface SummaryTime {
  readonly ms: number;
  readonly calls: number;
}

export interface CompactionEventsOptions {
  readonly journal: Pick<RunJournal, "tell">;
  readonly run: RunContext;
  readonly deps: Pick<Deps, "log" | "meter" | "now">;
  readonly summariserModel: string;
  readonly budgets: Pick<Budgets, "windowTokens" | "triggerTokens">;
  /** What the summariser's calls took so far. */
  readonly summaryTime: () => SummaryTime;
}

/** The data of `context.compacted`: stored with the change that it tells of. */
export const compactedData = ({ view, reason, trigger, compaction, sizes }: RevisionChange) => ({
  reason: trigger,
  steps: reason.split("+"),
  generation: compaction?.generation.number ?? null,
  revision: view.revision,
  tokens_before: sizes.before,
  tokens_after: sizes.after,
  evicted: compaction?.receipt.evicted ?? 0,
  path: compaction?.generation.history.kind === "file" ? compaction.generation.history.path : null,
});

/** Tools have names of few in a metric: what callers and models call theirs is not among them. */
const toolLabel = (name: string): string => (OWN_TOOLS.includes(name) ? name : "(other)");

export const compactionEvents = (options: CompactionEventsOptions): CompactionEvents => {
  const { journal, run, summaryTime } = options;
  const { log, meter, now } = options.deps;
  let begun = { atMs: 0, summary: summaryTime() };
  return {
    compacting: (facts) => {
      begun = { atMs: now(), summary: summaryTime() };
      journal.tell("context.compacting", facts);
    },
    attempted: (attempt) => {
      const { ms, calls } = summaryTime();
      meter.add(metric.contextCompactions, 1, { reason: attempt.reason, outcome: attempt.status });
      if (attempt.guard !== null) meter.add(metric.guardBlocked, 1, { [hango.guard]: attempt.guard });
      log.info(
        "a compaction attempt",
        attemptEvent({
          ...attempt,
          sessionId: run.sessionId,
          runId: run.runId,
          model: run.model,
          summariserModel: options.summariserModel,
          windowTokens: options.budgets.windowTokens,
          triggerTokens: options.budgets.triggerTokens,
          durationMs: now() - begun.atMs,
          summaryMs: ms - begun.summary.ms,
          summaryCalls: calls - begun.summary.calls,
        }),
      );
    },
    compacted: ({ reason, tokensBefore, tokensAfter, compaction, steps, clippedByTool }) => {
      const generation = compaction?.generation.number ?? null;
      const evicted = compaction?.receipt.evicted ?? 0;
      const history = compaction?.generation.history;
      const path = history?.kind === "file" ? history.path : null;
      run.state.private.compacted = true;
      if (compaction !== null) meter.record(metric.contextEvictedMessages, evicted);
      for (const [tool, calls] of Object.entries(clippedByTool))
        meter.add(metric.toolArgsTruncated, calls, { [genai.toolName]: toolLabel(tool) });
      run.span.addEvent(genai.compacted, {
        [hango.tokensBefore]: tokensBefore,
        [hango.tokensAfter]: tokensAfter,
        [hango.messagesEvicted]: evicted,
        [hango.compactionReason]: reason,
        [hango.compactionOutcome]: "committed",
        [hango.compactionGeneration]: generation ?? undefined,
        [hango.fsPath]: path ?? undefined,
      });
      log.info("the context was compacted", {
        session_id: run.sessionId,
        reason,
        steps: steps.join("+"),
        generation,
        tokens_before: tokensBefore,
        tokens_after: tokensAfter,
        evicted,
        path,
      });
    },
    refused: ({ reason, why }) => {
      log.info("the context was not compacted", {
        session_id: run.sessionId,
        reason,
        why: why.kind,
        ...(why.kind === "guard" ? { guard: why.guard } : {}),
        ...(why.kind === "failed" ? { failure: why.failure, cooldown_s: why.cooldownSeconds } : {}),
      });
    },
    usage: ({ estimate, projected, window }) =>
      journal.tell("context.usage", {
        estimate,
        projected,
        window,
        share: Math.round((projected / window) * 1000) / 1000,
      }),
    invalid: (problems) => {
      log.error("the view breaks a rule of the provider", {
        session_id: run.sessionId,
        problems: problems.slice(0, 5).join("; "),
      });
    },
  };
};
