/** What a run is asked for with: by a request, a queue message, or another run. */
import type { EventSink } from "../protocol/events.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import type { RunRecord } from "../store/runs.ts";
import type { Used } from "../store/statements.ts";
import type { Span } from "../telemetry/tracer.ts";
import type { Deps } from "./deps.ts";

/** What a run has of the one that gave it its task. */
export interface ParentRun {
  /** Ends the subagent; what it is aborted with decides how. */
  readonly signal: AbortSignal;
  /** Has it left to another Worker at its next step, with its parent. */
  readonly leave: AbortSignal;
  readonly withinBudget: () => boolean;
  /** The call's span. */
  readonly span: Span | undefined;
  readonly type: string;
  /** Told once how to ask what it has used. */
  readonly onStarted: (used: () => Used) => void;
}

export interface RunRequest {
  readonly session: LoadedSession;
  /** Aborted when nobody waits for the run in this request any more: it is then soon left to the queue. Absent where there is no hurry. */
  readonly detached?: AbortSignal;
  /** When the request arrived, ms since the epoch: where the turn's time and overhead begin. */
  readonly startedMs: number;
  readonly sink: EventSink;
  /** For a subagent's run: the one that gave it its task. */
  readonly parent?: ParentRun;
}

export type ExecuteRun = (deps: Deps, request: RunRequest) => Promise<RunRecord>;
