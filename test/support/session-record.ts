/** What happened in a simulated session. */
import type { Calibration } from "../../src/context/calibration.ts";
import type { GuardState } from "../../src/context/guards/state.ts";
import type { MicroOutcome } from "../../src/context/micro.ts";
import type { RevisionChange } from "../../src/context/ports.ts";
import type { Budgets } from "../../src/context/trigger.ts";
import type { Renderer } from "../../src/context/view.ts";
import type { ViewState } from "../../src/context/view-state.ts";
import type { LogRow, ModelRequest } from "../../src/protocol/messages.ts";
import type { SessionPlan } from "./session-plan.ts";

/** A request that the provider was given. */
export interface Sent {
  readonly request: ModelRequest;
  readonly turn: number;
  /** The view that it was rendered from. */
  readonly view: ViewState;
  /** How many rows the log had. */
  readonly logLength: number;
  readonly rows: readonly LogRow[];
  readonly estimate: number;
  readonly reading: number;
  /** Before the ladder was climbed for it. */
  readonly calibration: Calibration | null;
  readonly commits: number;
  readonly outcome: "answered" | "overflow" | "signature" | "rejected";
  /** What the provider said where it rejects. */
  readonly words: string;
}

export interface Committed {
  readonly change: RevisionChange;
  readonly before: ViewState;
  readonly turn: number;
  readonly logLength: number;
  /** Rows that the run had. */
  readonly rows: readonly LogRow[];
  /** Requests that were answered, in the whole session, when it was made. */
  readonly answered: number;
  /** The reading of this turn's newest answer. */
  readonly reading: number | null;
  readonly guards: GuardState;
}

export type TurnOutcome =
  | "finished"
  | "cannot_fit"
  | "aborted"
  | "invalid"
  | "overflow"
  | "too_large"
  | "late"
  | "died"
  | "signature"
  | "rejected";

export interface EndedTurn {
  readonly outcome: TurnOutcome;
  readonly words: string;
  readonly guards: GuardState;
  readonly view: ViewState;
  /** What was last to be sent, as the stack assembled it. */
  readonly request: ModelRequest | null;
  /** What was known of its size in the end, with the provider's count of it where one was asked for (E5). */
  readonly calibration: Calibration | null;
  readonly rows: readonly LogRow[];
}

/** A pass of micro-compaction. */
export interface EndedPass {
  /** The turn that it came after. */
  readonly turn: number;
  readonly outcome: MicroOutcome;
  readonly before: ViewState;
  /** It came too late, and was not stored. */
  readonly isLate: boolean;
}

export interface SessionRecord {
  readonly plan: SessionPlan;
  readonly budgets: Budgets;
  readonly log: readonly LogRow[];
  /** The rows as they were when they were appended. */
  readonly appended: readonly LogRow[];
  readonly sent: readonly Sent[];
  readonly commits: readonly Committed[];
  readonly turns: readonly EndedTurn[];
  readonly passes: readonly EndedPass[];
  readonly history: ReadonlyMap<string, readonly LogRow[]>;
  readonly invalid: readonly string[];
  /** A new one, which has seen nothing of the session. */
  readonly renderer: Renderer;
  /** Of the last request, by its body as text and message by message. */
  readonly links: { readonly byBody: string; readonly byMessages: string } | null;
}

/** Where a test breaks the pipeline on purpose, to see that a property notices. */
export interface Sabotage {
  readonly renderer?: (real: Renderer) => Renderer;
  readonly committed?: (view: ViewState, rows: readonly LogRow[]) => ViewState;
  /** What a pass of micro-compaction commits instead. */
  readonly passed?: (change: RevisionChange, rows: readonly LogRow[]) => RevisionChange;
}

/** What is to hold of every session. */
export interface SessionProperty {
  readonly name: string;
  /** What breaks it, in words; empty where it holds. */
  readonly check: (record: SessionRecord) => readonly string[];
}
