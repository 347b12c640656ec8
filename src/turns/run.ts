/** A run from its begun turn to its end: wires the agent to the store, the files and the provider. */
import { callerToolsMiddleware } from "../agent/caller-tools.ts";
import { filesystemMiddleware } from "../agent/filesystem.ts";
import { runLoop, type Turn } from "../agent/loop.ts";
import { defaultStack } from "../agent/stack.ts";
import { todoMiddleware } from "../agent/todo.ts";
import { promptCache } from "../context/cache.ts";
import { estimateTokens } from "../context/estimate.ts";
import { r2MediaStore } from "../files/media.ts";
import { r2FileSystem } from "../files/r2.ts";
import { fileTools } from "../files/tools/file-tools.ts";
import { anthropicProvider } from "../models/anthropic.ts";
import { profileFor } from "../models/profiles.ts";
import type { EventSink } from "../protocol/events.ts";
import { inlineMedia } from "../protocol/media-text.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { PrivateState, RunContext } from "../protocol/middleware.ts";
import type { LoadedSession } from "../store/begin.ts";
import { LeaseLost } from "../store/errors.ts";
import { RENEWAL_SECONDS } from "../store/lease.ts";
import type { RunRecord } from "../store/runs.ts";
import { hango, turnAttributes } from "../telemetry/genai.ts";
import type { Span } from "../telemetry/tracer.ts";
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

/** The results of a batch that a dead run left open are closed before anything else happens (M7). */
const recover = async (journal: RunJournal, session: LoadedSession): Promise<LogRow[]> => {
  const { openBatchSeq, rows } = session;
  if (openBatchSeq === null) return [...rows];
  const open = rows.find((row) => row.seq === openBatchSeq);
  const closed = await journal.closeOpenBatch(open?.calls ?? [], openBatchSeq);
  return [...rows, ...closed].sort((a, b) => a.seq - b.seq);
};

const runInSpan = async (deps: Deps, request: RunRequest, span: Span): Promise<RunRecord> => {
  const { session, sink, startedMs } = request;
  const { config } = deps;
  let providerMs = 0;
  const profile = profileFor(session.model, config.modelProfiles);
  const settings = readSettings(session.settings);
  const privateState: PrivateState = { todos: readTodos(session.todos) };
  const root = sessionRoot(session.tenantId, session.sessionId);
  const files = r2FileSystem(deps.bucket, root, deps.sleep);
  const media = r2MediaStore(deps.bucket, root, deps.sleep);

  const ending = new AbortController();
  const timeUp = setTimeout(() => ending.abort(new TurnTimedOut(config.turnTimeoutMs)), config.turnTimeoutMs);
  // A provider may be silent for longer than a lease lives, over its retries; the turn's deadline is the cap.
  const keeping = setInterval(() => journal.heartbeat(), RENEWAL_SECONDS * 1000);
  const journal = createJournal({
    deps,
    session,
    state: privateState,
    prices: profile.prices,
    putMedia: media.put,
    sink,
    thinkingFloor: () => turn.thinkingFloor,
    onProgressFailure: (error) => {
      if (error instanceof LeaseLost) ending.abort(error);
    },
    overheadMs: () => deps.now() - startedMs - providerMs,
  });
  const rows: LogRow[] = [];
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
  const turn: Turn = {
    run,
    rows,
    journal,
    stack: defaultStack({
      todo: todoMiddleware,
      filesystem: filesystemMiddleware({ files, tools: fileTools(files, { estimateTokens }), estimateTokens }),
      promptCache,
      callerTools: callerToolsMiddleware({
        tools: session.tools,
        fetch: deps.fetch,
        allowPrivateUrls: config.allowPrivateUrls,
      }),
    }),
    provider: anthropicProvider({
      apiKey: config.anthropic.apiKey,
      baseURL: config.anthropic.baseUrl,
      maxRetries: config.anthropic.maxRetries,
      fetch: deps.fetch,
      timers: timers(deps),
      resolveMedia: (content, hashes) => inlineMedia(content, hashes, media.get),
    }),
    settings: {
      system: session.system,
      maxTokens: Math.min(settings.maxTokens ?? config.maxOutputTokens, profile.maxOutputTokens),
      maxSteps: request.maxSteps ?? settings.maxSteps ?? config.maxSteps,
      maxRequestBytes: config.requestMaxBytes,
      thinking: settings.thinking,
      toolTimeoutMs: config.toolTimeoutMs,
      deadlineMs: startedMs + config.turnTimeoutMs,
    },
    now: deps.now,
    onToolFault: (tool, error) =>
      deps.log.error("a tool failed unexpectedly", { run_id: run.runId, tool, error: nameOf(error) }),
    onProviderTime: (durationMs) => {
      providerMs += durationMs;
    },
    thinkingFloor: session.thinkingFloor,
  };
  try {
    rows.push(...(await recover(journal, session)));
    span.setAttributes({ [hango.turnSteps]: await runLoop(turn) });
  } catch (caught) {
    // What aborted the run says more than what the abort broke.
    const error: unknown = ending.signal.aborted ? ending.signal.reason : caught;
    const failure = runErrorOf(error);
    span.fail(failure.code);
    deps.log.error("a run failed", {
      session_id: run.sessionId,
      run_id: run.runId,
      code: failure.code,
      error: nameOf(error),
    });
    await journal.fail(failure);
  } finally {
    clearTimeout(timeUp);
    clearInterval(keeping);
  }
  const ended = journal.ended();
  if (ended === null) throw new LeaseLost();
  return ended;
};

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : typeof error);

/**
 * Runs a begun turn to its end. Its outcome is in the store and went to the sink; a failure of the run is an outcome, not an exception.
 * @returns the run as it was recorded
 * @throws LeaseLost, StoreUnavailable when even the failure could not be recorded: the lease then expires by itself
 */
export const executeRun = (deps: Deps, request: RunRequest): Promise<RunRecord> => {
  const { sessionId, lease } = request.session;
  return deps.tracer.span(
    "invoke_agent hango",
    { kind: "internal", attributes: turnAttributes(sessionId, lease.holder) },
    (span) => runInSpan(deps, request, span),
  );
};
