/** What compaction needs from outside the room, wired in `turns/`. Everything else in `context/` takes values and returns values. */
import type { LogRow, ModelRequest, Usage } from "../protocol/messages.ts";
import type { GuardState, Probation } from "./guards/state.ts";
import type { CompactionReason, SummaryFailure } from "./reasons.ts";
import type { Generation, HistoryPointer, ViewState } from "./view-state.ts";

export type { CompactionReason, SummaryFailure };

/** The history file of a session (M1). */
export interface HistoryPort {
  /**
   * Writes one section for each run of neighbouring rows, its key their seqs, and reads it back by size and hash.
   * @param rows ascending, at least one
   * @throws whatever the backend fails with; nothing is referenced then
   */
  append(
    rows: readonly LogRow[],
  ): Promise<{ readonly pointer: HistoryPointer; readonly sizeBytes: number; readonly sha256: string }>;
}

export interface SummaryCall {
  readonly system: string;
  readonly prompt: string;
  /** Most tokens of the summary. */
  readonly maxTokens: number;
}

export interface SummaryAnswer {
  readonly text: string;
  readonly stopReason: string;
  readonly usage: Usage;
  readonly model: string;
}

/** A call to the summariser's model: its own span, its own usage row (S7). */
export interface SummariserPort {
  readonly model: string;
  /** The window of that model, in tokens. */
  readonly windowTokens: number;
  /** @throws ModelError-like errors, read through `failureOf` */
  call(call: SummaryCall): Promise<SummaryAnswer>;
  /** The class of an error of `call`; null for one that says nothing of the summariser: the run itself was ended. */
  failureOf(error: unknown): SummaryFailure | null;
}

/** What is known of a committed compaction beside what the view needs: the receipt. */
export interface Receipt {
  readonly attemptId: string;
  readonly reason: CompactionReason;
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  readonly evicted: number;
  readonly model: string | null;
  readonly usage: Usage | null;
  readonly promptVersion: number;
  /** SHA-256 of what is covered. */
  readonly coveredHash: string;
  readonly historySizeBytes: number | null;
  readonly historySha256: string | null;
}

export interface RevisionChange {
  readonly view: ViewState;
  /** What changed, in a word or two. */
  readonly reason: string;
  /** Why the ladder was climbed; null for a change that is no compaction. */
  readonly trigger: CompactionReason | null;
  /** The new generation, where the revision is one. */
  readonly compaction: { readonly generation: Generation; readonly receipt: Receipt } | null;
  readonly guards: GuardState;
  /** Of the whole request, in tokens, by our estimate. */
  readonly sizes: { readonly before: number; readonly after: number };
}

export interface CommitPort {
  /** Stores a revision, conditional on the lease and on the revision it follows (M2). @returns false when the worker is late: nothing was stored */
  commit(change: RevisionChange): Promise<boolean>;
  /** Stores what a failure leaves behind (G1): one place for all of them. */
  recordFailure(failure: SummaryFailure, guards: GuardState, cooldownSeconds: number): Promise<void>;
  /** Sets the probation of a blocked session, where none is set (G4). @returns the one that holds now; null where nothing is stored */
  armProbation(): Promise<Probation | null>;
  /**
   * Asks for the one probe of a probation that has passed (G4): a single conditional UPDATE, whoever asks.
   * @returns whether it was granted, and the next probation
   */
  takeProbe(attemptId: string): Promise<{ readonly isGranted: boolean; readonly probation: Probation }>;
}

/** The provider's own count, where it has one (E5). Undefined on error or after 2 s. */
export type CountTokens = (request: ModelRequest) => Promise<number | undefined>;
