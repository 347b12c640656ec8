/**
 * A session in this process: the real loop, the real compaction with everything under it, the real cache marks; the log is an array, the
 * store a few variables, the history file a map, and the provider a judge that refuses what the API would refuse. What happened is kept
 * as a record, over which properties are stated.
 */
import { runLoop } from "../../src/agent/loop.ts";
import type { AnsweredCall } from "../../src/agent/ports.ts";
import type { Turn } from "../../src/agent/turn.ts";
import { batchEnd, batchStart } from "../../src/context/batches.ts";
import { promptCache } from "../../src/context/cache.ts";
import { afterRevision, type Calibration, parseCalibration } from "../../src/context/calibration.ts";
import {
  CommitWasLate,
  CompactionAborted,
  type CompactionOptions,
  ContextCannotFit,
  compaction,
  dropThinking,
  InvalidView,
  type LiveView,
} from "../../src/context/compact.ts";
import { defaultEstimator, estimateRequest, estimateRow } from "../../src/context/estimate-request.ts";
import { afterProbation } from "../../src/context/guards/after.ts";
import { atTime, atTurnStart, NO_GUARDS, type Probation } from "../../src/context/guards/state.ts";
import { microPass } from "../../src/context/micro.ts";
import { type MicroSettings, parseMicroState } from "../../src/context/micro-state.ts";
import type { HistoryPort, RevisionChange } from "../../src/context/ports.ts";
import { budgets } from "../../src/context/trigger.ts";
import { createRenderer, drivesCall, type Renderer } from "../../src/context/view.ts";
import { contains, EMPTY_VIEW, rangesOf, type SeqRange, union } from "../../src/context/view-state.ts";
import { ApiError } from "../../src/local/simulator/errors.ts";
import { ContextOverflowError, ModelError } from "../../src/models/errors.ts";
import { profileFor } from "../../src/models/profiles.ts";
import type { Provider } from "../../src/models/provider.ts";
import { type MessageId, type RunId, type SessionId, seq } from "../../src/protocol/ids.ts";
import type { LogRow, ModelRequest, Origin, ViewMessage } from "../../src/protocol/messages.ts";
import type { Middleware, RunContext } from "../../src/protocol/middleware.ts";
import { noTelemetry } from "../../src/telemetry/none.ts";
import { noopSpan, noopTracer } from "../../src/telemetry/tracer.ts";
import { resultBlocks, resultsContent } from "../../src/turns/results.ts";
import { createJudge } from "./judge.ts";
import { toolResult, toolUse } from "./log.ts";
import { imageBlock } from "./random-log.ts";
import { scriptedSummariser } from "./scripted-summariser.ts";
import { scriptedTurn, wordsOf } from "./scripted-turn.ts";
import type { Input, SessionPlan, TurnPlan } from "./session-plan.ts";
import type { Committed, EndedPass, EndedTurn, Sabotage, Sent, SessionRecord, TurnOutcome } from "./session-record.ts";

/** A probation that has not passed; time passes between turns where a plan says so. */
const NEXT_PROBATION: Probation = { at: "2026-01-01T00:05:00.000Z", due: false };

class RunDied extends Error {}

const SESSION = "ses_00000000000000000000000000" as SessionId;
const RUN = "run_00000000000000000000000000" as RunId;
const SYSTEM = "You are a careful assistant who works on a large code base. ".repeat(3);

/** How far back a turn loads, in windows (V7). */
const WINDOWS_LOADED = 1.5;

const frozen = (row: LogRow): LogRow => {
  Object.freeze(row.calls);
  Object.freeze(row.media);
  return Object.freeze(row);
};

const copied = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** @param micro compacts between turns as well (section 11) */
export const simulate = async (
  plan: SessionPlan,
  sabotage: Sabotage = {},
  micro: MicroSettings | null = null,
): Promise<SessionRecord> => {
  const { model } = plan;
  const profile = profileFor(model, new Map([[model, { maxInputTokens: plan.windowTokens }]]));
  const judge = createJudge(model, plan.windowTokens);
  // An older model demands thinking before a call in progress, and imported calls have none that it would take.
  const demands = model === "claude-haiku-4-5";
  const importsCalls = (plan.imported.findLast(({ role }) => role === "assistant")?.calls.length ?? 0) > 0;
  const thinks = plan.thinking && !(demands && importsCalls);
  const maxTokens = 2_048;
  const limits = budgets(
    { ...profile, known: plan.windowKnown },
    { triggerFrac: plan.triggerFrac, keepFrac: plan.keepFrac, maxTokens },
  );
  const scale = defaultEstimator.scale(model);
  const summariser = scriptedSummariser(plan.summaries, plan.windowTokens);

  const log: LogRow[] = [];
  const appended: LogRow[] = [];
  const sent: Sent[] = [];
  const commits: Committed[] = [];
  const turns: EndedTurn[] = [];
  const history = new Map<string, readonly LogRow[]>();
  const invalid: string[] = [];
  let historyWrites = 0;
  let commitsTried = 0;
  let calls = 0;
  let asks = 0;
  let answered = 0;
  /** The store's columns. */
  let stored = { view: { ...EMPTY_VIEW, clipTokens: plan.clipTokens }, guards: NO_GUARDS, nextGeneration: 1 };
  let calibration: Calibration | null = null;
  let openCalls: readonly string[] = [];
  let microState: unknown = {};
  let microTurns = 0;
  let newestRequest: ModelRequest | null = null;
  const passes: EndedPass[] = [];

  const newCallId = (): string => `toolu_${calls++}`;

  const tokensOfMessage = new WeakMap<ViewMessage, number>();
  const messageTokens = (message: ViewMessage): number => {
    const known = tokensOfMessage.get(message);
    if (known !== undefined) return known;
    const tokens = Math.ceil(scale * estimateRow(message.content));
    tokensOfMessage.set(message, tokens);
    return tokens;
  };

  const newRenderer = (): Renderer =>
    createRenderer({
      sessionId: SESSION,
      estimateTokens: defaultEstimator.text,
      messageTokens,
      strictAlternation: plan.strictAlternation === true,
    });

  const append = (
    origin: Origin,
    content: string,
    callIds: readonly string[] = [],
    runId: RunId | null = RUN,
  ): LogRow => {
    const at = seq(log.length + 1);
    const row = frozen({
      id: `msg_${at}` as MessageId,
      seq: at,
      role: origin === "assistant" ? "assistant" : "user",
      origin,
      content,
      media: [],
      calls: [...callIds],
      tokens: estimateRow(content),
      bytes: Buffer.byteLength(content),
      runId,
    });
    log.push(row);
    appended.push({ ...row, calls: [...row.calls] });
    return row;
  };

  const inputContent = ({ words: said, sort }: Input): string => {
    const text = wordsOf(plan, said);
    asks++;
    switch (sort) {
      case "plain":
        return JSON.stringify([{ type: "text", text }]);
      case "same":
        return JSON.stringify([{ type: "text", text: "please go on with it" }]);
      case "tagged":
        return JSON.stringify([{ type: "text", text: `This is request number ${asks} of all: ${text}` }]);
      case "image":
        return JSON.stringify([{ type: "text", text }, imageBlock]);
      default:
        return sort satisfies never;
    }
  };
  const say = (input: Input): LogRow => append(input.origin, inputContent(input));

  // Where the provider demands thinking and takes none of it back, nothing could be sent at all.
  const asOwn = plan.importedAsOwn && !(thinks && demands);
  for (const row of plan.imported) append(row.origin, row.content, row.calls, asOwn ? RUN : null);

  const loaded = (): { readonly rows: LogRow[]; readonly unloaded: readonly SeqRange[] } => {
    const { generation, hidden } = stored.view;
    const rows = log.filter((row) => !contains(generation?.covered ?? [], row.seq) && !contains(hidden, row.seq));
    let from = rows.length;
    let tokens = 0;
    while (from > 0 && tokens + (rows[from - 1]?.tokens ?? 0) <= WINDOWS_LOADED * plan.windowTokens) {
      from--;
      tokens += rows[from]?.tokens ?? 0;
    }
    from = Math.min(
      from,
      rows.findLastIndex((row) => row.origin === "user" || row.origin === "event"),
    );
    from = Math.max(from, 0);
    const start = batchStart(rows, from);
    if (start !== from) from = batchEnd(rows, start) < rows.length ? batchEnd(rows, start) : start;
    return { rows: rows.slice(from), unloaded: rangesOf(rows.slice(0, from).map((row) => row.seq)) };
  };

  const historyOf: HistoryPort = {
    append: async (covered) => {
      if (plan.historyFails[historyWrites++ % plan.historyFails.length] === true) throw new Error("no storage");
      history.set(`${covered[0]?.seq}-${covered.at(-1)?.seq}`, covered);
      return { pointer: { kind: "file", path: "/conversation_history/s.md" }, sizeBytes: 1, sha256: "0" };
    },
  };

  const runTurn = async (turn: number, turnPlan: TurnPlan | null): Promise<void> => {
    if (turnPlan !== null) {
      // The next holder closes what a dead run left open (M7).
      if (openCalls.length > 0)
        append(
          "tool",
          resultsContent(openCalls.map((id) => resultBlocks(id, { content: "outcome unknown", isError: true }))),
        );
      openCalls = [];
      for (const input of turnPlan.inputs) say(input);
    }
    const { rows, unloaded } = loaded();
    const base = copied(stored.view);
    const live: LiveView = {
      view: { ...base, hidden: union(base.hidden, unloaded) },
      stored: base,
      calibration: parseCalibration(copied(calibration)),
      guards: atTurnStart(
        atTime(stored.guards, {
          cooldownActive: stored.guards.cooldown.active && turnPlan?.cooldownOver !== true,
          probationDue: turnPlan?.cooldownOver === true,
        }),
      ),
      reading: null,
      compactions: 0,
      nextGeneration: stored.nextGeneration,
    };
    const real = newRenderer();
    const renderer = sabotage.renderer?.(real) ?? real;
    const run: RunContext = {
      sessionId: SESSION,
      runId: RUN,
      user: null,
      model,
      windowTokens: plan.windowTokens,
      promptCaching: true,
      state: {
        messages: rows,
        private: {
          todos: [],
          forced: turnPlan?.forced === true ? { reason: "manual" } : null,
          estimate: null,
          compacted: false,
          skills: { listed: [], skipped: [] },
          volatile: new Map(),
        },
      },
      signal: new AbortController().signal,
      span: noopSpan,
      tracer: noopTracer,
    };

    const readingOf = async (request: ModelRequest): Promise<number> => {
      if (plan.countsByBpe) return judge.count(request);
      const fixed = estimateRequest({ ...request, messages: [] }).tokens;
      return Math.round(
        plan.factor * request.messages.reduce((sum, message) => sum + messageTokens(bare(message)), fixed),
      );
    };

    const commit = async (change: RevisionChange): Promise<boolean> => {
      commitsTried++;
      if (commitsTried === plan.lateCommit) return false;
      if (change.view.revision !== live.stored.revision + 1) throw new Error("a commit that follows no revision");
      commits.push({
        change: copied(change),
        before: live.stored,
        turn,
        logLength: log.length,
        rows: [...rows],
        answered,
        reading: live.reading,
        guards: live.guards,
      });
      live.stored = change.view;
      if (change.compaction !== null) {
        microState = {};
        microTurns = 0;
      }
      stored = {
        view: copied(change.view),
        guards: change.guards,
        nextGeneration: change.compaction === null ? stored.nextGeneration : change.compaction.generation.number + 1,
      };
      return true;
    };

    let lastRequest: ModelRequest | null = null;
    let calibrationBefore: Calibration | null = null;
    const options: CompactionOptions = {
      live,
      rows,
      renderer,
      budgets: limits,
      maxBytes: plan.maxBytes,
      thinkingBound: profile.thinkingBound,
      strictAlternation: plan.strictAlternation === true,
      minTailUserMessages: plan.minTailUserMessages,
      estimateTokens: defaultEstimator.text,
      newAttemptId: () => `cmp_${commitsTried}`,
      history: historyOf,
      summariser,
      commit: {
        commit,
        recordFailure: async (_failure, guards) => {
          stored = { ...stored, guards };
        },
        armProbation: async () => {
          const probation = stored.guards.probation ?? NEXT_PROBATION;
          stored = { ...stored, guards: afterProbation(stored.guards, probation) };
          return probation;
        },
        takeProbe: async () => {
          const isGranted = stored.guards.probation !== null;
          if (isGranted) stored = { ...stored, guards: afterProbation(stored.guards, NEXT_PROBATION) };
          return { isGranted, probation: NEXT_PROBATION };
        },
      },
      countTokens: plan.canCount ? readingOf : undefined,
      events: {
        compacting: () => undefined,
        attempted: () => undefined,
        compacted: () => {
          if (sabotage.committed === undefined) return;
          live.view = sabotage.committed(live.view, rows);
        },
        refused: () => undefined,
        usage: () => undefined,
        invalid: (problems) => invalid.push(...problems),
      },
    };

    const script = scriptedTurn({ plan, turn: turnPlan, thinks, demands, thought: judge.thought, newCallId });

    const provider: Provider = {
      name: "simulated",
      capabilities: { promptCaching: true, tokenCounting: plan.canCount, strictAlternation: false, thinking: "signed" },
      countTokens: readingOf,
      modelInfo: async () => undefined,
      generate: async (request) => {
        const note = (outcome: Sent["outcome"], reading: number, said = ""): void => {
          sent.push({
            request,
            turn,
            view: live.view,
            logLength: log.length,
            rows: [...rows],
            estimate: run.state.private.estimate ?? 0,
            reading,
            calibration: calibrationBefore,
            commits: commits.length,
            outcome,
            words: said,
          });
        };
        let link: string;
        try {
          link = await judge.check(request);
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          const signature = error.message.includes("Invalid `signature`");
          note(signature ? "signature" : "rejected", 0, error.message);
          throw new ModelError(
            { kind: signature ? "invalid_thinking_signature" : "invalid_request" },
            { status: 400, detail: error.message },
          );
        }
        const reading = await readingOf(request);
        if (reading > profile.maxInputTokens) {
          note("overflow", reading);
          throw new ContextOverflowError(plan.statesSizes ? { size: reading, limit: profile.maxInputTokens } : {}, {
            status: 400,
          });
        }
        note("answered", reading);
        const answer = script.answer(link, reading);
        answered++;
        return answer;
      },
    };

    const waitingRows = (waiting: Input | null): readonly LogRow[] => (waiting === null ? [] : [say(waiting)]);
    let lateInput = turnPlan?.late ?? null;

    const probe: Middleware = {
      name: "Probe",
      beforeTurn: async () => {
        const memory = turnPlan?.memory ?? 0;
        if (memory > 0) run.state.private.volatile.set("memory", `note ${memory}`);
      },
      assemble: (draft) => {
        draft.tools.push(...script.tools);
      },
      wrapModelCall: (request, next) => {
        calibrationBefore = live.calibration;
        lastRequest = request;
        newestRequest = request;
        return next(request);
      },
    };
    const memory: Middleware = {
      name: "Memory",
      assemble: (draft) => {
        const text = run.state.private.volatile.get("memory");
        if (text !== undefined) draft.system.push({ text });
      },
    };

    const turnOf: Turn = {
      telemetry: { ...noTelemetry, now: () => 0 },
      run,
      rows,
      stack: [probe, compaction(options), promptCache, memory],
      provider,
      journal: {
        answering: () => undefined,
        delta: () => undefined,
        heartbeat: () => undefined,
        abandon: () => undefined,
        answered: () => undefined,
        wait: async () => {
          throw new Error("no tool of these sessions is the caller's");
        },
        assistant: async (answer) => {
          const ids = answer.calls.map(({ id }) => id);
          const row = append("assistant", answer.content, ids);
          if (ids.some((id) => script.stepOf(id)?.dies === true)) {
            openCalls = ids;
            throw new RunDied();
          }
          return row;
        },
        results: async (answers: readonly AnsweredCall[]) => {
          const row = append("tool", resultsContent(answers.map(({ call, result }) => resultBlocks(call.id, result))));
          const step = script.stepOf(answers[0]?.call.id ?? "");
          return [row, ...waitingRows(step?.waiting ?? null)];
        },
        finish: async ({ answer }) => {
          const rowsOfAnswer = answer === null ? [] : [append("assistant", answer.content)];
          if (lateInput === null) return { finished: true };
          const waited = waitingRows(lateInput);
          lateInput = null;
          return { finished: false, rows: [...rowsOfAnswer, ...waited] };
        },
      },
      settings: {
        system: SYSTEM,
        maxTokens,
        maxSteps: 60,
        thinking: thinks ? (demands ? { type: "enabled", budget_tokens: 1_024 } : { type: "adaptive" }) : undefined,
        toolTimeoutMs: 60_000,
        maxRetries: 0,
        maxRequestBytes: plan.maxBytes,
        deadlineMs: Number.MAX_SAFE_INTEGER,
        withinBudget: () => true,
        costUsd: () => null,
      },
      now: () => 0,
      sleep: async () => undefined,
      onToolFault: (_tool, error) => {
        throw error;
      },
      onProviderTime: () => undefined,
      view: {
        messages: () => renderer.messages(rows, live.view),
        dropThinking: () => dropThinking(options),
        drivesCall: () => drivesCall(renderer.messages(rows, live.view), live.view),
      },
      compacts: true,
      leave: new AbortController().signal,
    };

    let outcome: TurnOutcome = "finished";
    let said = "";
    try {
      await runLoop(turnOf, { steps: 0, lastText: "", batch: null });
    } catch (error) {
      outcome = outcomeOf(error);
      said = error instanceof Error ? error.message : "";
    }
    turns.push({
      outcome,
      words: said,
      guards: live.guards,
      view: live.view,
      request: lastRequest,
      calibration: live.calibration,
      rows: [...rows],
    });
    // A run that has lost its session stores nothing (M2); a dead one has only what it stored on its way.
    if (outcome !== "late" && outcome !== "died") {
      stored = { ...stored, guards: live.guards };
      calibration = live.calibration;
    }
  };

  /** What the queue does after a turn that ended normally, where it is due. */
  const runPass = async (turn: number, cooldownOver: boolean, settings: MicroSettings): Promise<void> => {
    microTurns++;
    if (microTurns < settings.everyNTurns || newestRequest === null) return;
    microTurns = 0;
    const { rows, unloaded } = loaded();
    if (unloaded.length > 0) return;
    const before = copied(stored.view);
    const fixed = estimateRequest({ ...newestRequest, messages: [] }).tokens;
    const renderer = newRenderer();
    const guards = atTurnStart(
      atTime(stored.guards, {
        cooldownActive: stored.guards.cooldown.active && !cooldownOver,
        probationDue: cooldownOver,
      }),
    );
    const outcome = await microPass({
      sessionId: SESSION,
      rows,
      view: before,
      guards,
      state: parseMicroState(copied(microState)),
      settings,
      budgets: limits,
      thinkingBound: profile.thinkingBound,
      maxMarks: 3,
      measure: (view) => {
        const size = renderer.measure(rows, view);
        return { ...size, tokens: fixed + size.tokens };
      },
      estimateTokens: defaultEstimator.text,
      rowTokens: (row, view) => renderer.row(row, view).tokens,
      attemptId: `cmp_micro_${turn}`,
      nextGeneration: stored.nextGeneration,
      history: historyOf,
      summariser,
    });
    commitsTried++;
    const isLate = commitsTried === plan.lateCommit;
    passes.push({ turn, outcome, before, isLate });
    if (isLate) return;
    switch (outcome.kind) {
      case "made": {
        const change = sabotage.passed?.(outcome.change, rows) ?? outcome.change;
        commits.push({
          change: copied(change),
          before,
          // Between this turn and the next.
          turn: turn + 0.5,
          logLength: log.length,
          rows: [...rows],
          answered,
          reading: null,
          guards,
        });
        stored = { view: copied(change.view), guards: change.guards, nextGeneration: stored.nextGeneration + 1 };
        calibration = afterRevision(calibration, { revision: change.view.revision, ...change.sizes });
        microState = copied(outcome.state);
        return;
      }
      case "failed":
        stored = { ...stored, guards: outcome.guards };
        microState = copied(outcome.state);
        return;
      case "blocked":
      case "nothing":
        return;
      default:
        outcome satisfies never;
    }
  };

  for (const [index, turnPlan] of plan.turns.entries()) {
    await runTurn(index, turnPlan);
    if (micro !== null && turns.at(-1)?.outcome === "finished") await runPass(index, turnPlan.cooldownOver, micro);
    if (turns.at(-1)?.outcome === "rejected") break;
  }
  if (plan.inFlight !== null && openCalls.length === 0 && turns.at(-1)?.outcome === "finished") {
    const ids = Array.from({ length: plan.inFlight.calls }, newCallId);
    append("user", JSON.stringify([{ type: "text", text: "look into all of it, please" }]));
    append("assistant", JSON.stringify(ids.map(toolUse)), ids, null);
    const done = ids.slice(0, plan.inFlight.answered);
    if (done.length > 0) append("tool", JSON.stringify(done.map((id) => toolResult({ id }))), [], null);
    if (!(thinks && demands)) await runTurn(plan.turns.length, null);
  }

  const last = sent.findLast((one) => one.outcome === "answered");
  const links =
    last === undefined
      ? null
      : { byBody: await judge.checkBody(last.request), byMessages: await judge.check(last.request) };
  return {
    plan,
    budgets: limits,
    log,
    appended,
    sent,
    commits,
    turns,
    passes,
    history,
    invalid,
    renderer: newRenderer(),
    links,
  };
};

const bareMessages = new WeakMap<ViewMessage, ViewMessage>();

/** A message without its mark, the same object each time. */
const bare = (message: ViewMessage): ViewMessage => {
  if (message.cacheMark === undefined) return message;
  const known = bareMessages.get(message);
  if (known !== undefined) return known;
  const { cacheMark: _mark, ...rest } = message;
  bareMessages.set(message, rest);
  return rest;
};

const outcomeOf = (error: unknown): TurnOutcome => {
  if (error instanceof ContextCannotFit) return "cannot_fit";
  if (error instanceof CompactionAborted) return "aborted";
  if (error instanceof InvalidView) return "invalid";
  if (error instanceof CommitWasLate) return "late";
  if (error instanceof RunDied) return "died";
  if (error instanceof ContextOverflowError) return "overflow";
  if (!(error instanceof ModelError)) throw error;
  switch (error.kind) {
    case "too_large":
      return "too_large";
    case "invalid_thinking_signature":
      return "signature";
    case "invalid_request":
      return "rejected";
    default:
      throw error;
  }
};
