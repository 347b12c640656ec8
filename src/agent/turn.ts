/** What the loop works on: a turn with everything around it. */
import type { Provider } from "../models/provider.ts";
import type { LogRow, ThinkingSetting, Usage, ViewMessage } from "../protocol/messages.ts";
import type { Middleware, RunContext } from "../protocol/middleware.ts";
import type { ChatTelemetry } from "../telemetry/chat.ts";
import type { CallPurpose } from "../telemetry/genai.ts";
import type { Journal } from "./ports.ts";

export interface AgentSettings {
  /** What its model calls are for, where that is not a caller's turn. */
  readonly purpose?: CallPurpose;
  /** The session's own system prompt; null for none. */
  readonly system: string | null;
  /** Most tokens of one answer. */
  readonly maxTokens: number;
  /** Most model calls of one turn. */
  readonly maxSteps: number;
  readonly thinking: ThinkingSetting | undefined;
  readonly toolTimeoutMs: number;
  /** How often an answer that broke off is asked for again, within one step. */
  readonly maxRetries: number;
  /** Most bytes of a request's messages: they all stand in memory at once (V10). */
  readonly maxRequestBytes: number;
  /** The turn's deadline, ms since the epoch. */
  readonly deadlineMs: number;
  /** Whether another model call may be made, by what was spent so far. A call that was begun is paid to its end: a budget may be passed by one. */
  readonly withinBudget: () => boolean;
  /** What a call costs by the model's list prices, in USD; null where none are known. */
  readonly costUsd: (usage: Usage) => number | null;
}

/** What the loop works on; `rows` grows as the log does. */
export interface Turn {
  readonly run: RunContext;
  readonly rows: LogRow[];
  readonly stack: readonly Middleware[];
  readonly provider: Provider;
  readonly journal: Journal;
  readonly settings: AgentSettings;
  readonly telemetry: ChatTelemetry;
  readonly now: () => number;
  readonly sleep: (durationMs: number) => Promise<void>;
  readonly onToolFault: (tool: string, error: unknown) => void;
  /** Called around the time spent waiting for the provider, in ms. */
  readonly onProviderTime: (durationMs: number) => void;
  /** What the model is shown of the log. */
  readonly view: TurnView;
  /** Whether the stack holds the compaction that a too long prompt is answered with. */
  readonly compacts: boolean;
  /** Aborted when the run is to be left to another Worker at the next step; a model call under way is given up for it. */
  readonly leave: AbortSignal;
}

/** The view, as the loop needs it; wired in `turns/`. */
export interface TurnView {
  messages(): readonly ViewMessage[];
  /** Leaves all thinking out that is in the log by now, from here on, and records it (V5). */
  dropThinking(): Promise<void>;
  /** False where nothing but background would be sent (R1). */
  drivesCall(): boolean;
}
