/** A run with everything it works with, before its first step: wires the agent to the store, the files and the provider. */
import { callerToolsMiddleware } from "../agent/caller-tools.ts";
import { filesystemMiddleware } from "../agent/filesystem.ts";
import { memoryMiddleware } from "../agent/memory.ts";
import { skillsMiddleware } from "../agent/skills.ts";
import { defaultStack } from "../agent/stack.ts";
import { subagentsMiddleware, TASK } from "../agent/subagents.ts";
import { todoMiddleware } from "../agent/todo.ts";
import type { Turn } from "../agent/turn.ts";
import { promptCache } from "../context/cache.ts";
import { type CompactionOptions, compaction, dropThinking, type LiveView } from "../context/compact.ts";
import { unchangedSince } from "../context/dedup.ts";
import { defaultEstimator } from "../context/estimate-request.ts";
import { atTime } from "../context/guards/state.ts";
import { drivesCall } from "../context/view.ts";
import { historyPath } from "../files/history.ts";
import { r2MediaStore } from "../files/media.ts";
import { r2FileSystem } from "../files/r2.ts";
import { fileTools } from "../files/tools/file-tools.ts";
import { costUsd } from "../models/prices.ts";
import type { ResolveMedia } from "../models/provider.ts";
import { isStrict } from "../models/providers.ts";
import { inlineMedia } from "../protocol/media-text.ts";
import type { LogRow } from "../protocol/messages.ts";
import { type ForcedCompaction, NO_SKILLS, type PrivateState, type RunContext } from "../protocol/middleware.ts";
import { LOAD_SKILL } from "../protocol/skill-file.ts";
import { LeaseLost } from "../store/errors.ts";
import type { Span } from "../telemetry/tracer.ts";
import { withinBudget } from "./budget.ts";
import { compactionOptions, learnedWithOf, liveViewOf, sessionProfile } from "./compaction.ts";
import type { Deps } from "./deps.ts";
import { HandedOver, RunCancelled } from "./failure.ts";
import { createJournal, type RunJournal } from "./journal.ts";
import { modelProvider } from "./model-provider.ts";
import { sessionRoot } from "./objects.ts";
import type { ExecuteRun, ParentRun, RunRequest } from "./run-request.ts";
import { microSettingsOf, readSettings, readTodos } from "./settings.ts";
import { guardRecordOf, guardsToStore } from "./stored-guards.ts";
import { subagentTypes } from "./subagent-types.ts";
import { createSubagentUse } from "./subagent-use.ts";
import { createDelegation } from "./subagents.ts";
import { plus } from "./used.ts";

/** Where nothing of the stack is run, only looked at. */
const noExecution: ExecuteRun = () => Promise.reject(new Error("work between turns gives no tasks"));

/** A subagent ends with its parent: for good where that ends, and to be gone on with where another Worker goes on with that. */
const endWith = ({ signal, leave }: ParentRun, ending: AbortController, leaving: AbortController): void => {
  const end = (): void =>
    ending.abort(
      signal.reason instanceof LeaseLost || signal.reason instanceof HandedOver ? new HandedOver() : new RunCancelled(),
    );
  const leaveToo = (): void => leaving.abort(new HandedOver());
  if (signal.aborted) end();
  else signal.addEventListener("abort", end, { once: true });
  if (leave.aborted) leaveToo();
  else leave.addEventListener("abort", leaveToo, { once: true });
};

/** A run with everything it works with, before its first step. */
export interface PreparedRun {
  readonly turn: Turn;
  readonly journal: RunJournal;
  readonly live: LiveView;
  readonly compaction: CompactionOptions;
  /** Ends the run: out of time, cancelled, or its session lost. */
  readonly ending: AbortController;
  /** Has the run left to another Worker at its next step. */
  readonly leaving: AbortController;
  overheadMs(): number;
  /** Resolves when no subagent of the run is at work any more. */
  settled(): Promise<void>;
}

/** Among the volatile inputs where roles are kept alternating (R8). */
const STRICT = ["strict alternation", "on"] as const;

/** @param focus empty for none */
const forcedBy = (focus: string): ForcedCompaction => ({
  reason: "manual",
  focus: focus === "" ? undefined : focus,
});

/**
 * Builds a run. Does no I/O.
 * @param execute runs a subagent's run; absent where no tool is called
 */
export const prepareRun = (
  deps: Deps,
  request: RunRequest,
  span: Span,
  execute: ExecuteRun = noExecution,
): PreparedRun => {
  const { session, sink, startedMs, parent } = request;
  const { config } = deps;
  let providerMs = 0;
  const settings = readSettings(session.settings);
  const profile = sessionProfile(deps, session, settings);
  const live = liveViewOf(
    session,
    settings.context.tool_arg_max_tokens ?? config.context.toolArgMaxTokens,
    learnedWithOf(deps, session, settings),
  );
  const forced = session.forceCompaction;
  const privateState: PrivateState = {
    todos: readTodos(session.todos),
    forced: forced === null ? null : forcedBy(forced),
    estimate: null,
    compacted: false,
    skills: NO_SKILLS,
    // The setting changes the bytes that are sent, so that its change is a recorded one (V8).
    volatile: new Map(isStrict(session.model, config, settings.context.strict_alternation) ? [STRICT] : []),
  };
  const root = sessionRoot(session.tenantId, session.rootSessionId);
  const undone = {
    path: historyPath(session.sessionId),
    sections: session.rewound.map(({ from, to }) => ({ first: from, last: to })),
  };
  const files = r2FileSystem(deps.bucket, root, deps.sleep, undone);
  const media = r2MediaStore(deps.bucket, root, deps.sleep);
  const rows: LogRow[] = [];
  const ending = new AbortController();
  const leaving = new AbortController();
  if (parent !== undefined) endWith(parent, ending, leaving);
  const use = createSubagentUse(session.run.subagents);
  const maxTokens = Math.min(settings.maxTokens ?? config.maxOutputTokens, profile.maxOutputTokens);
  const deadlineMs = startedMs + config.turnTimeoutMs - session.run.spentMs;
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
      guards: guardRecordOf(guardsToStore(live.guards, live, session.guards.learnedWith)),
      ...takeFlag(),
      ...(live.view.generation === null || live.reading === null
        ? {}
        : { reading: { generation: live.view.generation.number, tokens: live.reading } }),
    }),
    onForced: (focus) => {
      if (privateState.forced !== null) return;
      privateState.forced = forcedBy(focus);
      flagTaken = false;
    },
    onGuardTimes: (times) => {
      live.guards = atTime(live.guards, times);
    },
    onProgressFailure: (error) => {
      if (error instanceof LeaseLost) ending.abort(error);
    },
    onCancelled: () => ending.abort(new RunCancelled()),
    callerWaitSeconds: config.callerWaitSeconds,
    // A subagent has one turn.
    microEveryNTurns: session.depth > 0 ? null : (microSettingsOf(settings, config)?.everyNTurns ?? null),
    use,
    overheadMs,
  });
  const resolveMedia: ResolveMedia = (content, hashes) => inlineMedia(content, hashes, media.get);
  const { strict_alternation: strictAlternation } = settings.context;
  const provider = modelProvider(deps, session.model, { resolveMedia, strictAlternation });
  const run: RunContext = {
    sessionId: session.sessionId,
    runId: session.lease.holder,
    user: session.user,
    model: session.model,
    windowTokens: profile.maxInputTokens,
    promptCaching: provider.capabilities.promptCaching,
    state: { messages: rows, private: privateState },
    signal: ending.signal,
    span,
    tracer: deps.tracer,
  };
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
    providerOf: (model) => modelProvider(deps, model, { resolveMedia }),
    files,
    run,
    deadlineMs,
    onProviderTime,
  });
  const estimateTokens = defaultEstimator.text;
  const budget = {
    sessionUsd: session.costUsd,
    sessionMaxUsd: settings.maxUsd,
    turnMaxUsd: session.run.options.maxUsd,
  };
  const used = () => plus(journal.totals(), use.total());
  const mayGoOn = (): boolean => withinBudget(budget, used().costUsd) && parent?.withinBudget() !== false;
  const types = subagentTypes(session, settings, config.subagentMaxDepth, TASK);
  const delegation = createDelegation({
    deps,
    session,
    types,
    journal,
    use,
    leave: leaving.signal,
    withinBudget: mayGoOn,
    execute,
  });
  parent?.onStarted(used);
  const turn: Turn = {
    run,
    rows,
    journal,
    stack: defaultStack({
      todo: todoMiddleware,
      filesystem: filesystemMiddleware({
        files,
        tools: fileTools(files, { estimateTokens }),
        whole: [LOAD_SKILL],
        estimateTokens,
        unchangedSince: (read) => unchangedSince(rows, live.view, options.renderer, read),
      }),
      subagents: subagentsMiddleware({
        types,
        timeoutMs: config.turnTimeoutMs,
        delegate: delegation.delegate,
        leaveNow: () => ending.abort(new HandedOver()),
      }),
      compaction: compaction(options),
      promptCache,
      memory: memoryMiddleware({
        files,
        estimateTokens: (text) => defaultEstimator.scale(session.model) * estimateTokens(text),
      }),
      skills: skillsMiddleware({ files, estimateTokens }),
      callerTools: callerToolsMiddleware({
        tools: session.tools,
        fetch: deps.fetch,
        allowPrivateUrls: config.allowPrivateUrls,
      }),
    }),
    provider,
    settings: {
      purpose: session.depth > 0 ? "subagent" : "turn",
      system: session.system,
      maxTokens,
      maxSteps: session.run.options.maxSteps ?? settings.maxSteps ?? config.maxSteps,
      maxRequestBytes: config.requestMaxBytes,
      thinking: settings.thinking,
      toolTimeoutMs: config.toolTimeoutMs,
      maxRetries: config.providerMaxRetries,
      deadlineMs,
      withinBudget: mayGoOn,
      costUsd: (usage) => costUsd(profile.prices, usage),
    },
    telemetry: deps,
    now: deps.now,
    sleep: deps.sleep,
    onToolFault: (tool, error) =>
      deps.log.error("a tool failed unexpectedly", {
        run_id: run.runId,
        tool,
        error: error instanceof Error ? error.name : typeof error,
      }),
    onProviderTime,
    view: {
      messages: () => options.renderer.messages(rows, live.view),
      dropThinking: () => dropThinking(options),
      drivesCall: () => drivesCall(options.renderer.messages(rows, live.view), live.view),
    },
    compacts: true,
    leave: leaving.signal,
  };
  return { turn, journal, live, compaction: options, ending, leaving, overheadMs, settled: delegation.settled };
};
