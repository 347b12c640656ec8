/** What the ladder works on, and what becomes of a climb. */
import type { Seq } from "../protocol/ids.ts";
import { seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import { endsTurn } from "./ask.ts";
import type { Guard, GuardState } from "./guards/state.ts";
import type { CommitPort, CompactionReason, HistoryPort, Receipt, SummariserPort, SummaryFailure } from "./ports.ts";
import type { Budgets } from "./trigger.ts";
import type { SizedView } from "./view.ts";
import { contains, type Generation, type ViewState } from "./view-state.ts";

export interface LadderPorts {
  readonly history: HistoryPort;
  readonly summariser: SummariserPort;
  readonly commit: CommitPort;
}

export interface LadderInput {
  readonly sessionId: string;
  /** Every loaded row, ascending. */
  readonly rows: readonly LogRow[];
  readonly view: ViewState;
  readonly guards: GuardState;
  readonly reason: CompactionReason;
  readonly focus: string | null;
  readonly budgets: Budgets;
  /** Where the request is under its trigger and under what it must never exceed, in tokens. */
  readonly triggerTokens: number;
  readonly hardLimitTokens: number;
  readonly maxBytes: number;
  /** The reading of this turn's newest request, null before the first (M4). */
  readonly reading: number | null;
  /** Thinking is valid only behind the bytes that it was written after (V5). */
  readonly thinkingBound: boolean;
  readonly minTailUserMessages: number;
  /** Cache marks left for messages (C7). */
  readonly maxMarks: number;
  readonly measure: (view: ViewState) => SizedView;
  readonly estimateTokens: (text: string) => number;
  /** Tokens of a row as the view shows it. */
  readonly rowTokens: (row: LogRow, view: ViewState) => number;
  readonly attemptId: string;
  /** Numbers of voided generations are not used again. */
  readonly nextGeneration: number;
  readonly ports: LadderPorts;
}

/** What became of a climb, for events, spans and the receipt. */
export interface Climbed {
  readonly view: ViewState;
  readonly guards: GuardState;
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  /** The generation, where one was made. */
  readonly compaction: { readonly generation: Generation; readonly receipt: Receipt } | null;
  /** Steps that changed the view, in order. */
  readonly steps: readonly Step[];
  readonly clippedByTool: Readonly<Record<string, number>>;
  /** Why no generation was made, where none was. */
  readonly why: Why;
}

export type Step = "clip" | "summarise" | "demote" | "truncate";

export type LadderOutcome =
  | ({ readonly kind: "changed" } & Climbed)
  /** Nothing was changed: a guard is on, there is nothing to cut, or the summary failed while the view still fits. */
  | { readonly kind: "unchanged"; readonly guards: GuardState; readonly why: Why }
  /**
   * Even the smallest view is too large (ladder step 6). A generation that was made on the way is committed all the same: it was paid for,
   * is valid and smaller, and the next turn begins with it (M3).
   */
  | {
      readonly kind: "cannot_fit";
      readonly what: string;
      readonly guards: GuardState;
      readonly committed: Climbed | null;
    }
  /** The summariser cannot be had and the view does not fit without it: the turn is given up before anything is lost (G2). */
  | { readonly kind: "aborted"; readonly failure: SummaryFailure; readonly guards: GuardState }
  /** The run has lost its session: nothing was stored (M2). */
  | { readonly kind: "late" };

export type Why =
  | { readonly kind: "guard"; readonly guard: Guard; readonly words: string }
  | { readonly kind: "nothing_to_cut"; readonly words: string }
  /** The summary was left out as not worth it (G5). */
  | { readonly kind: "skipped"; readonly words: string }
  | {
      readonly kind: "failed";
      readonly failure: SummaryFailure;
      readonly words: string;
      readonly cooldownSeconds: number;
    }
  | { readonly kind: "fits" };

/** The newest seq, 0 in an empty log. */
export const lastSeq = (rows: readonly LogRow[]): Seq => rows.at(-1)?.seq ?? seq(0);

/**
 * Where thinking begins to be shown after a change of earlier bytes (V5): behind the log on models that bind it; else behind the last
 * finished turn, since the provider demands the blocks of the turn in progress back before a pending call, whoever began it (R7).
 */
export const floorAfter = (input: Pick<LadderInput, "rows" | "view" | "thinkingBound">): Seq => {
  const { rows, view, thinkingBound } = input;
  const begun = thinkingBound ? undefined : rows[rows.findLastIndex(endsTurn) + 1];
  return seq(Math.max(begun?.seq ?? lastSeq(rows) + 1, view.thinkingFloor));
};

/** The rows that a view shows. */
export const shown = (rows: readonly LogRow[], view: ViewState): readonly LogRow[] =>
  rows.filter((row) => !contains(view.generation?.covered ?? [], row.seq) && !contains(view.hidden, row.seq));
