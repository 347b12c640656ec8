/** What is told of a compaction: to the caller's stream, to the trace, and one line to the log. None of it holds content. */
import type { CompactionEvents } from "../context/compact.ts";
import type { RevisionChange } from "../context/ports.ts";
import type { RunContext } from "../protocol/middleware.ts";
import { genai, hango, metric } from "../telemetry/genai.ts";
import type { Log } from "../telemetry/log.ts";
import type { CountMetric } from "../telemetry/metrics.ts";
import type { RunJournal } from "./journal.ts";

export interface CompactionEventsOptions {
  readonly journal: Pick<RunJournal, "tell">;
  readonly run: RunContext;
  readonly log: Log;
  readonly count: CountMetric;
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

export const compactionEvents = ({ journal, run, log, count }: CompactionEventsOptions): CompactionEvents => ({
  compacting: (facts) => journal.tell("context.compacting", facts),
  compacted: ({ reason, tokensBefore, tokensAfter, compaction, steps }) => {
    const generation = compaction?.generation.number ?? null;
    const evicted = compaction?.receipt.evicted ?? 0;
    const history = compaction?.generation.history;
    const path = history?.kind === "file" ? history.path : null;
    run.state.private.compacted = true;
    count(metric.contextCompactions, { reason, outcome: "committed" });
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
    count(metric.contextCompactions, { reason, outcome: "refused" });
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
});
