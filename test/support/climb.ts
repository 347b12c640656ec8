/** The ladder with ports that a test scripts: what was called, committed and recorded. */
import { defaultEstimator, estimateRow } from "../../src/context/estimate-request.ts";
import { type GuardState, NO_GUARDS, type Probation } from "../../src/context/guards/state.ts";
import { climb } from "../../src/context/ladder.ts";
import type { LadderInput, LadderOutcome } from "../../src/context/ladder-input.ts";
import type { RevisionChange, SummaryCall, SummaryFailure } from "../../src/context/ports.ts";
import { budgets } from "../../src/context/trigger.ts";
import { createRenderer } from "../../src/context/view.ts";
import { EMPTY_VIEW, type ViewState } from "../../src/context/view-state.ts";
import type { LogRow } from "../../src/protocol/messages.ts";
import { HISTORY } from "./compaction-options.ts";

const SESSION = "ses_00000000000000000000000000";

/** The next probation, as the database would set it. */
export const NEXT: Probation = { at: "2026-01-01T00:05:00.000Z", due: false };

export interface Climb {
  readonly rows: readonly LogRow[];
  readonly windowTokens?: number;
  /** What system prompt and tools take. */
  readonly fixedTokens?: number;
  readonly view?: ViewState;
  readonly guards?: Partial<GuardState>;
  readonly reason?: LadderInput["reason"];
  readonly reading?: number | null;
  /** The summariser's answer, or the class of its failure; null for one that the end of the run caused. */
  readonly summary?: string | { readonly failure: SummaryFailure | null };
  readonly isGranted?: boolean;
  readonly isLate?: boolean;
}

export interface Climbing {
  readonly outcome: LadderOutcome;
  readonly calls: readonly SummaryCall[];
  readonly commits: readonly RevisionChange[];
  readonly failures: readonly (readonly [SummaryFailure, number])[];
  /** What the database was asked for. */
  readonly asked: readonly string[];
  /** Tokens of the view before. */
  readonly before: number;
}

export const climbed = async (plan: Climb): Promise<Climbing> => {
  const { rows, windowTokens = 20_000, view = EMPTY_VIEW, reason = "threshold", summary = "It was checked." } = plan;
  const calls: SummaryCall[] = [];
  const commits: RevisionChange[] = [];
  const failures: (readonly [SummaryFailure, number])[] = [];
  const asked: string[] = [];
  const renderer = createRenderer({
    sessionId: SESSION,
    estimateTokens: defaultEstimator.text,
    messageTokens: (message) => estimateRow(message.content),
  });
  const limits = budgets(
    { maxInputTokens: windowTokens, outputInWindow: false, maxMediaItems: 600, known: true },
    { triggerFrac: 0.85, keepFrac: 0.1, maxTokens: 1_000 },
  );
  const measure = (shown: ViewState) => {
    const size = renderer.measure(rows, shown);
    return { ...size, tokens: size.tokens + (plan.fixedTokens ?? 0) };
  };
  const outcome = await climb({
    sessionId: SESSION,
    rows,
    view,
    guards: { ...NO_GUARDS, ...plan.guards },
    reason,
    focus: null,
    budgets: limits,
    triggerTokens: limits.triggerTokens,
    hardLimitTokens: limits.hardLimitTokens,
    maxBytes: 8_000_000,
    reading: plan.reading ?? null,
    thinkingBound: false,
    minTailUserMessages: 1,
    maxMarks: 3,
    measure,
    estimateTokens: defaultEstimator.text,
    rowTokens: (row, shown) => renderer.row(row, shown).tokens,
    attemptId: "cmp_1",
    nextGeneration: 1,
    ports: {
      history: HISTORY,
      summariser: {
        model: "m",
        windowTokens: 100_000,
        failureOf: () => (typeof summary === "string" ? "transient" : summary.failure),
        call: async (call) => {
          calls.push(call);
          if (typeof summary !== "string") throw new Error("no summary");
          const usage = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 };
          return { text: summary, stopReason: "end_turn", usage, model: "m" };
        },
      },
      commit: {
        commit: async (change) => {
          if (plan.isLate === true) return false;
          commits.push(change);
          return true;
        },
        recordFailure: async (failure, _guards, seconds) => {
          failures.push([failure, seconds]);
        },
        armProbation: async () => {
          asked.push("arm");
          return NEXT;
        },
        takeProbe: async (attemptId) => {
          asked.push(`probe ${attemptId}`);
          return { isGranted: plan.isGranted ?? true, probation: NEXT };
        },
      },
    },
  });
  return { outcome, calls, commits, failures, asked, before: measure(view).tokens };
};
