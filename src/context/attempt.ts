/** What is told of one attempt to compact, whatever became of it (telemetry.md): facts and sizes, never content. Pure. */
import type { LogRow } from "../protocol/messages.ts";
import type { Climbed, LadderOutcome, Why } from "./ladder-input.ts";
import type { CompactionReason, SummaryFailure } from "./ports.ts";
import type { Renderer } from "./view.ts";
import { contains, type ViewState } from "./view-state.ts";

/** What became of an attempt (telemetry.md). */
export type AttemptStatus =
  | "committed"
  /** It was given up before anything was stored: the summariser cannot be had (G2), nothing would fit, or the run was ended. */
  | "aborted"
  /** The run had lost its session when it came to store it (M2). */
  | "discarded_late"
  /** A run held the session. */
  | "lock_contended"
  /** A guard, or that there was nothing to do or to cut. */
  | "refused";

export interface Attempt {
  readonly attemptId: string;
  /** What it was made for. */
  readonly reason: CompactionReason;
  readonly status: AttemptStatus;
  /** Why it is not committed, or brought no generation, in one word; null where there is nothing to say. */
  readonly why: string | null;
  /** The guard that held it back. */
  readonly guard: string | null;
  /** The class of a summary's failure. */
  readonly failure: SummaryFailure | null;
  /** How long none is tried after that failure, in s. */
  readonly cooldownSeconds: number | null;
  /** Of the whole request by our estimate, in tokens, before and after. */
  readonly estimateTokens: number | null;
  readonly afterTokens: number | null;
  /** What the generation covers anew, what the view still shows of the log, and the summary, in tokens; null without a generation. */
  readonly coveredTokens: number | null;
  readonly coveredMessages: number | null;
  readonly keptTokens: number | null;
  readonly summaryTokens: number | null;
  readonly generation: number | null;
}

interface Begun {
  readonly attemptId: string;
  readonly reason: CompactionReason;
  readonly estimateTokens: number;
}

/** What is not known of an attempt, or does not concern it. */
export const UNKNOWN = {
  why: null,
  guard: null,
  failure: null,
  cooldownSeconds: null,
  afterTokens: null,
  coveredTokens: null,
  coveredMessages: null,
  keptTokens: null,
  summaryTokens: null,
  generation: null,
} as const;

const whyFacts = (why: Why): Pick<Attempt, "why" | "guard" | "failure" | "cooldownSeconds"> => ({
  why: why.kind,
  guard: why.kind === "guard" ? why.guard : null,
  failure: why.kind === "failed" ? why.failure : null,
  cooldownSeconds: why.kind === "failed" ? why.cooldownSeconds : null,
});

interface Measures {
  readonly rows: readonly LogRow[];
  readonly renderer: Pick<Renderer, "measure" | "row">;
  readonly estimateTokens: (text: string) => number;
}

const sizesOf = ({ rows, renderer, estimateTokens }: Measures, before: ViewState, { view, compaction }: Climbed) => {
  if (compaction === null) return {};
  const { generation, receipt } = compaction;
  const covered = rows.filter(
    ({ seq }) => contains(generation.covered, seq) && !contains(before.generation?.covered ?? [], seq),
  );
  return {
    coveredTokens: covered.reduce((sum, row) => sum + renderer.row(row, before).tokens, 0),
    coveredMessages: receipt.evicted,
    keptTokens: renderer.measure(rows, view).tokens - renderer.measure([], view).tokens,
    summaryTokens: estimateTokens(generation.summary),
    generation: generation.number,
  };
};

/** An attempt that the end of its run cut short. */
export const endedAttempt = (begun: Begun): Attempt => ({ ...UNKNOWN, ...begun, status: "aborted", why: "run_ended" });

/**
 * What is told of an attempt.
 * @param begun `before` is the view that it began with
 */
export const attemptOf = (
  measures: Measures,
  { before, ...begun }: Begun & { readonly before: ViewState },
  outcome: LadderOutcome,
): Attempt => {
  const committed = (climbed: Climbed) => ({
    ...UNKNOWN,
    ...begun,
    status: "committed" as const,
    ...whyFacts(climbed.why),
    ...(climbed.why.kind === "fits" ? { why: null } : {}),
    afterTokens: climbed.tokensAfter,
    ...sizesOf(measures, before, climbed),
  });
  switch (outcome.kind) {
    case "changed":
      return committed(outcome);
    case "unchanged":
      return { ...UNKNOWN, ...begun, status: "refused", ...whyFacts(outcome.why) };
    case "cannot_fit":
      return outcome.committed === null
        ? { ...UNKNOWN, ...begun, status: "aborted", why: "cannot_fit" }
        : { ...committed(outcome.committed), why: "cannot_fit" };
    case "aborted":
      return { ...UNKNOWN, ...begun, status: "aborted", why: "failed", failure: outcome.failure };
    case "late":
      return { ...UNKNOWN, ...begun, status: "discarded_late" };
    default:
      return outcome satisfies never;
  }
};
