/** What a middleware is, and what it may see of a run (architecture section 3). */
import type { Span, Tracer } from "../telemetry/tracer.ts";
import type { RunId, SessionId } from "./ids.ts";
import type {
  LogRow,
  ModelRequest,
  ModelResponse,
  SystemBlock,
  ToolCall,
  ToolDefinition,
  ViewMessage,
} from "./messages.ts";
import type { Tool, ToolContext, ToolResult } from "./tool.ts";

/** Todos that a list has at most. */
export const MAX_TODOS = 100;

export interface Todo {
  readonly content: string;
  readonly status: "pending" | "in_progress" | "completed";
}

/** A compaction that is asked for, whatever the size of the request. */
export interface ForcedCompaction {
  readonly reason: "overflow" | "truncate" | "tool" | "manual";
  /** The most that fits and what was sent, in tokens, where the provider said so (section 8). */
  readonly statedLimit?: number | undefined;
  readonly statedSize?: number | undefined;
  /** What the summary is to keep in view, in the words of who asked. */
  readonly focus?: string | undefined;
}

/** The skills of a session, as they were found at the start of the turn. */
export interface SkillsFound {
  /** By name. */
  readonly listed: readonly { readonly name: string; readonly description: string }[];
  /** What looks like a skill and is none, and why: a sentence that begins with the path. */
  readonly skipped: readonly { readonly path: string; readonly reason: string }[];
}

export const NO_SKILLS: SkillsFound = { listed: [], skipped: [] };

/** What middlewares keep between the calls of one run. Typed, so that two of them cannot claim one name. */
export interface PrivateState {
  todos: readonly Todo[];
  /** Taken by the next model call. */
  forced: ForcedCompaction | null;
  /** Our estimate of the newest request, in tokens; null before the first. */
  estimate: number | null;
  /** Whether the newest request was compacted just before (telemetry.md). */
  compacted: boolean;
  skills: SkillsFound;
  /** What was read at the start of the turn and may differ from the last one's: memory and the like (V8). */
  readonly volatile: Map<string, string>;
}

export interface RunContext {
  readonly sessionId: SessionId;
  readonly runId: RunId;
  /** The session's id of its end user, if it has one. */
  readonly user: string | null;
  readonly model: string;
  /** The model's window in tokens. */
  readonly windowTokens: number;
  readonly promptCaching: boolean;
  readonly state: {
    /** The loaded slice of the log with what this run appended: read-only. */
    readonly messages: readonly LogRow[];
    readonly private: PrivateState;
  };
  /** Aborted when the run must end: out of time, or its lease lost. */
  readonly signal: AbortSignal;
  readonly span: Span;
  readonly tracer: Tracer;
}

/** The request of one model call while the stack adds to it. */
export interface RequestDraft {
  readonly system: SystemBlock[];
  /** Tools that hango runs. */
  readonly tools: Tool[];
  /** Tools that the provider runs itself. */
  readonly providerTools: Extract<ToolDefinition, { kind: "provider" }>[];
  readonly messages: readonly ViewMessage[];
}

export type ModelCall = (request: ModelRequest) => Promise<ModelResponse>;
export type ToolExec = (call: ToolCall, context: ToolContext) => Promise<ToolResult>;

export interface Middleware {
  readonly name: string;
  /** What runs inside this one's place in the stack. */
  readonly nested?: readonly { readonly name: string }[];
  /** Adds to the request being assembled; called once per model call, in stack order, before any `wrapModelCall`. */
  assemble?(request: RequestDraft, run: RunContext): void | Promise<void>;
  /** Wraps the model call; the first in the stack is the outermost. */
  wrapModelCall?(request: ModelRequest, next: ModelCall, run: RunContext): Promise<ModelResponse>;
  wrapToolCall?(call: ToolCall, context: ToolContext, next: ToolExec, run: RunContext): Promise<ToolResult>;
  beforeTurn?(run: RunContext): Promise<void>;
  afterTurn?(run: RunContext): Promise<void>;
}
