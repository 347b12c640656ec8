/** A run from its begun turn to its end: wires the agent to the store, the files and the provider. */
import { callerToolsMiddleware } from "../agent/caller-tools.ts";
import { filesystemMiddleware } from "../agent/filesystem.ts";
import { runLoop, type Turn } from "../agent/loop.ts";
import { memoryMiddleware } from "../agent/memory.ts";
import { defaultStack } from "../agent/stack.ts";
import { todoMiddleware } from "../agent/todo.ts";
import { promptCache } from "../context/cache.ts";
import { CommitWasLate, type CompactionOptions, compaction, dropThinking, type LiveView } from "../context/compact.ts";
import { defaultEstimator } from "../context/estimate-request.ts";
import { drivesCall } from "../context/view.ts";
import { r2MediaStore } from "../files/media.ts";
import { r2FileSystem } from "../files/r2.ts";
import { fileTools } from "../files/tools/file-tools.ts";
import { anthropicProvider } from "../models/anthropic.ts";
import type { EventSink } from "../protocol/events.ts";
import { inlineMedia } from "../protocol/media-text.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { ForcedCompaction, PrivateState, RunContext } from "../protocol/middleware.ts";
import type { LoadedSession } from "../store/begin.ts";
import { LeaseLost } from "../store/errors.ts";
import { RENEWAL_SECONDS } from "../store/lease.ts";
import type { RunRecord } from "../store/runs.ts";
import { hango, turnAttributes } from "../telemetry/genai.ts";
import type { Span } from "../telemetry/tracer.ts";
import { requestBacklog } from "./backlog-request.ts";
import { compactionOptions, liveViewOf, sessionProfile } from "./compaction.ts";
import type { Deps } from "./deps.ts";
import { runErrorOf, TurnTimedOut } from "./failure.ts";
import { createJournal, type RunJournal } from "./journal.ts";
import { sessionRoot } from "./objects.ts";
import { readSettings, readTodos } from "./settings.ts";

export interface RunRequest {
  readonly session: LoadedSession;
  /** Most model calls of this turn, where the caller set it. */
  readonly maxSteps?: number | undefined;
  /** When the request arrived, ms since the epoch: where the turn's time and overhead begin. */
  readonly startedMs: number;
  readonly sink: EventSink;
}

const timers = (deps: Deps) => ({
  nowMs: deps.now,
  after: (delayMs: number, run: () => void) => {
    const id = setTimeout(run, delayMs);
    return () => clearTimeout(id);
  },
});

/** A run with everything it works with, before its first step. */
export interface PreparedRun {
  readonly turn: Turn;
  readonly journal: RunJournal;
  readonly live: LiveView;
  readonly compaction: CompactionOptions;
  /** Ends the run: out of time, or its session lost. */
  readonly ending: AbortController;
  overheadMs(): number;
}

/** @param focus empty for none */
const forcedBy = (focus: string): ForcedCompaction => ({
  reason: "manual",
  focus: focus === "" ? undefined : focus,
});

/** Builds a run. Does no I/O. */
export const prepareRun = (deps: Deps, request: RunRequest, span: Span): PreparedRun => {
  const { session, sink, startedMs } = request;
  const { config } = deps;
  let providerMs = 0;
  const settings = readSettings(session.settings);
  const profile = sessionProfile(deps, session, settings);
  const live = liveViewOf(session, settings.context.tool_arg_max_tokens ?? config.context.toolArgMaxTokens);
  const forced = session.forceCompaction;
  const privateState: PrivateState = {
    todos: readTodos(session.todos),
    forced: forced === null ? null : forcedBy(forced),
    estimate: null,
    compacted: false,
    volatile: new Map(),
  };
  const root = sessionRoot(session.tenantId, session.sessionId);
  const files = r2FileSystem(deps.bucket, root, deps.sleep);
  const media = r2MediaStore(deps.bucket, root, deps.sleep);
  const rows: LogRow[] = [];
  const ending = new AbortController();
  const maxTokens = Math.min(settings.maxTokens ?? config.maxOutputTokens, profile.maxOutputTokens);
  const deadlineMs = startedMs + config.turnTimeoutMs;
  const overheadMs = () => deps.now() - startedMs - providerMs;
  const onProviderTime = (durationMs: number) => {
    providerMs += durationMs;
  };
  let flagTaken = forced === null;
  /** The flag is taken down by the first write after it was obeyed (G9). */
  const takeFlag = () => {
    if (flagTaken || privateState.forced !== null) return {};
    flagTaken = true;
    return { forceTaken: true as const };
  };
  const journal = createJournal({
    deps,
    session,
    state: privateState,
    prices: profile.prices,
    putMedia: media.put,
    sink,
    head: () => ({
      thinkingFloor: live.view.thinkingFloor,
      calibration: live.calibration,
      guardState: live.guards,
      ...takeFlag(),
      ...(live.view.generation === null || live.reading === null
        ? {}
        : { reading: { generation: live.view.generation.number, tokens: live.reading } }),
    }),
    compactions: () => live.compactions,
    onForced: (focus) => {
      if (privateState.forced !== null) return;
      privateState.forced = forcedBy(focus);
      flagTaken = false;
    },
    onProgressFailure: (error) => {
      if (error instanceof LeaseLost) ending.abort(error);
    },
    overheadMs,
  });
  const run: RunContext = {
    sessionId: session.sessionId,
    runId: session.lease.holder,
    user: session.user,
    model: session.model,
    windowTokens: profile.maxInputTokens,
    promptCaching: true,
    state: { messages: rows, private: privateState },
    signal: ending.signal,
    span,
    tracer: deps.tracer,
  };
  const provider = anthropicProvider({
    apiKey: config.anthropic.apiKey,
    baseURL: config.anthropic.baseUrl,
    maxRetries: config.anthropic.maxRetries,
    fetch: deps.fetch,
    timers: timers(deps),
    resolveMedia: (content, hashes) => inlineMedia(content, hashes, media.get),
  });
  const options = compactionOptions({
    deps,
    session,
    settings,
    profile,
    maxTokens,
    rows,
    live,
    journal,
    provider,
    files,
    run,
    deadlineMs,
    onProviderTime,
  });
  const estimateTokens = defaultEstimator.text;
  const turn: Turn = {
    run,
    rows,
    journal,
    stack: defaultStack({
      todo: todoMiddleware,
      filesystem: filesystemMiddleware({ files, tools: fileTools(files, { estimateTokens }), estimateTokens }),
      compaction: compaction(options),
      promptCache,
      memory: memoryMiddleware(files),
      callerTools: callerToolsMiddleware({
        tools: session.tools,
        fetch: deps.fetch,
        allowPrivateUrls: config.allowPrivateUrls,
      }),
    }),
    provider,
    settings: {
      system: session.system,
      maxTokens,
      maxSteps: request.maxSteps ?? settings.maxSteps ?? config.maxSteps,
      maxRequestBytes: config.requestMaxBytes,
      thinking: settings.thinking,
      toolTimeoutMs: config.toolTimeoutMs,
      deadlineMs,
    },
    now: deps.now,
    onToolFault: (tool, error) =>
      deps.log.error("a tool failed unexpectedly", { run_id: run.runId, tool, error: nameOf(error) }),
    onProviderTime,
    view: {
      messages: () => options.renderer.messages(rows, live.view),
      dropThinking: () => dropThinking(options),
      drivesCall: () => drivesCall(options.renderer.messages(rows, live.view), live.view),
    },
    compacts: true,
  };
  return { turn, journal, live, compaction: options, ending, overheadMs };
};

/** The results of a batch that a dead run left open are closed before anything else happens (M7). */
export const recover = async (journal: RunJournal, session: LoadedSession): Promise<LogRow[]> => {
  const { openBatchSeq, rows } = session;
  if (openBatchSeq === null) return [...rows];
  const open = rows.find((row) => row.seq === openBatchSeq);
  const closed = await journal.closeOpenBatch(open?.calls ?? [], openBatchSeq);
  return [...rows, ...closed].sort((a, b) => a.seq - b.seq);
};

/**
 * Does the work of a prepared run within its time and its lease; a failure is recorded.
 * @returns false when it failed
 */
export const withinRun = async (deps: Deps, prepared: PreparedRun, work: () => Promise<void>): Promise<boolean> => {
  const { turn, journal, ending } = prepared;
  const { run } = turn;
  const { turnTimeoutMs } = deps.config;
  const timeUp = setTimeout(() => ending.abort(new TurnTimedOut(turnTimeoutMs)), turnTimeoutMs);
  // A provider may be silent for longer than a lease lives, over its retries; the turn's deadline is the cap.
  const keeping = setInterval(() => journal.heartbeat(), RENEWAL_SECONDS * 1000);
  try {
    await work();
    return true;
  } catch (caught) {
    // What aborted the run says more than what the abort broke.
    const error: unknown = ending.signal.aborted ? ending.signal.reason : caught;
    if (error instanceof CommitWasLate) throw new LeaseLost();
    const failure = runErrorOf(error);
    run.span.fail(failure.code);
    deps.log.error("a run failed", {
      session_id: run.sessionId,
      run_id: run.runId,
      code: failure.code,
      error: nameOf(error),
    });
    await journal.fail(failure);
    return false;
  } finally {
    clearTimeout(timeUp);
    clearInterval(keeping);
  }
};

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : typeof error);

const runInSpan = async (deps: Deps, request: RunRequest, span: Span): Promise<RunRecord> => {
  const prepared = prepareRun(deps, request, span);
  const { turn, journal } = prepared;
  await withinRun(deps, prepared, async () => {
    turn.rows.push(...(await recover(journal, request.session)));
    span.setAttributes({ [hango.turnSteps]: await runLoop(turn) });
  });
  const ended = journal.ended();
  if (ended === null) throw new LeaseLost();
  // The session is free now. A message that is lost is sent again after the next turn, which finds the same rows unloaded.
  await requestBacklog(deps, request.session).catch(() => undefined);
  return ended;
};

/**
 * Runs a begun turn to its end. Its outcome is in the store and went to the sink; a failure of the run is an outcome, not an exception.
 * @returns the run as it was recorded
 * @throws LeaseLost, StoreUnavailable when even the failure could not be recorded: the lease then expires by itself
 */
export const executeRun = (deps: Deps, request: RunRequest): Promise<RunRecord> => {
  const { sessionId, lease } = request.session;
  const attributes = turnAttributes(sessionId, lease.holder);
  return deps.tracer.span("invoke_agent hango", { kind: "internal", attributes }, (span) =>
    runInSpan(deps, request, span),
  );
};
