/**
 * The Compaction middleware: before every model call it measures the whole request, and where it is too large, or somebody asked, changes
 * what the model is shown. The log is never touched (M6); what was decided is committed before it is sent.
 */
import { seq } from "../protocol/ids.ts";
import type { LogRow, ModelRequest, ViewMessage } from "../protocol/messages.ts";
import { promptTokens } from "../protocol/messages.ts";
import type { ForcedCompaction, Middleware, RunContext } from "../protocol/middleware.ts";
import { type Attempt, attemptOf, endedAttempt } from "./attempt.ts";
import { afterRevision, type Calibration, observe, project } from "./calibration.ts";
import { compactTool } from "./compact-tool.ts";
import { estimateRequest } from "./estimate-request.ts";
import { afterReading, afterUncounted } from "./guards/after.ts";
import { rememberingCommit } from "./guards/remember.ts";
import type { GuardState } from "./guards/state.ts";
import { climb } from "./ladder.ts";
import { type Climbed, floorAfter, type LadderOutcome, type LadderPorts, type Why } from "./ladder-input.ts";
import type {
  CommitPort,
  CompactionReason,
  CountTokens,
  HistoryPort,
  SummariserPort,
  SummaryFailure,
} from "./ports.ts";
import { toolArgTruncation } from "./tool-arg-truncation.ts";
import { type Budgets, decideTrigger, fittingMaxTokens } from "./trigger.ts";
import { problemsOf } from "./validator.ts";
import type { Renderer, SizedView } from "./view.ts";
import { rangesText, type ViewState } from "./view-state.ts";
import { volatileHash } from "./volatile.ts";

/** Even the smallest view of the session does not fit the window (ladder step 6). The log is unchanged and the session usable. */
export class ContextCannotFit extends Error {
  override readonly name = "ContextCannotFit";
}

/** The session has to be compacted before it can go on, and the summariser cannot be had (G2). Nothing was changed. */
export class CompactionAborted extends Error {
  override readonly name = "CompactionAborted";
  readonly failure: SummaryFailure;
  constructor(failure: SummaryFailure) {
    super(`the session must be compacted, and the summary failed: ${failure}`);
    this.failure = failure;
  }
}

/** The view breaks a rule of the provider and is not sent (C7). Says which message and which rule, never what it says. */
export class InvalidView extends Error {
  override readonly name = "InvalidView";
  constructor(problems: readonly string[]) {
    super(problems.slice(0, 3).join("; "));
  }
}

/** The run has lost its session in the middle of a commit (M2). */
export class CommitWasLate extends Error {
  override readonly name = "CommitWasLate";
}

/** What the view stands at during a run: the one place where it changes. */
export interface LiveView {
  view: ViewState;
  /** The view as the store has it: what the next revision is made from. */
  stored: ViewState;
  calibration: Calibration | null;
  guards: GuardState;
  /** The reading of this run's newest request; null before the first. */
  reading: number | null;
  /** Compactions of this run. */
  compactions: number;
  nextGeneration: number;
}

export interface CompactionEvents {
  /** A compaction begins. */
  compacting(facts: { readonly reason: CompactionReason; readonly tokens: number; readonly messages: number }): void;
  /** An attempt is over, whatever became of it: told once for each, after what follows here. */
  attempted(facts: Attempt): void;
  /** It is committed: what clients, spans and logs are told. */
  compacted(facts: Climbed & { readonly reason: CompactionReason }): void;
  /** It was not made. */
  refused(facts: { readonly reason: CompactionReason; readonly why: Why }): void;
  /** The size of a request about to be sent. */
  usage(facts: { readonly estimate: number; readonly projected: number; readonly window: number }): void;
  /** A view that breaks a rule of the provider; it is not sent (C7). */
  invalid(problems: readonly string[]): void;
}

export interface CompactionOptions {
  readonly live: LiveView;
  readonly rows: readonly LogRow[];
  readonly renderer: Renderer;
  readonly budgets: Budgets;
  readonly maxBytes: number;
  readonly thinkingBound: boolean;
  /** The provider's template enforces alternating roles (R8); the renderer has been told as well. */
  readonly strictAlternation?: boolean;
  readonly minTailUserMessages: number;
  readonly estimateTokens: (text: string) => number;
  readonly newAttemptId: () => string;
  readonly history: HistoryPort;
  readonly summariser: SummariserPort;
  readonly commit: CommitPort;
  /** Undefined where the provider cannot count. */
  readonly countTokens: CountTokens | undefined;
  readonly events: CompactionEvents;
}

/** Cache marks of the system block take one of the four (section 10). */
export const MARKS_FOR_MESSAGES = 3;

/** SizedViews views of one request: everything but the messages stays. */
export const measurer = (options: Pick<CompactionOptions, "renderer" | "rows">, request: ModelRequest) => {
  const fixed = estimateRequest({ ...request, messages: [] }).tokens;
  return (view: ViewState): SizedView => {
    const size = options.renderer.measure(options.rows, view);
    return { ...size, tokens: fixed + size.tokens };
  };
};

/** What has to be done before this request is sent. */
type Need =
  | { readonly kind: "none"; readonly projected: number }
  | { readonly kind: "climb"; readonly reason: CompactionReason; readonly forced: ForcedCompaction | null };

const needOf = async (
  options: CompactionOptions,
  run: RunContext,
  request: ModelRequest,
  size: SizedView,
): Promise<Need> => {
  const { live, budgets } = options;
  const { forced } = run.state.private;
  if (forced !== null) return { kind: "climb", reason: forced.reason, forced };
  const projection = project(live.calibration, {
    model: request.model,
    revision: live.view.revision,
    estimate: size.tokens,
  });
  const facts = { projection, budgets, bytes: size.bytes, mediaItems: size.mediaItems, maxBytes: options.maxBytes };
  const first = decideTrigger({ ...facts, canCount: options.countTokens !== undefined });
  if (first.kind !== "close") {
    return first.kind === "under"
      ? { kind: "none", projected: projection.tokens }
      : { kind: "climb", reason: "threshold", forced: null };
  }
  // Too near to call: the provider's count decides, and our own where it does not answer (E5).
  const counted = await options.countTokens?.(request);
  const last = decideTrigger({
    ...facts,
    canCount: false,
    ...(counted === undefined ? {} : { projection: { tokens: counted, basis: "count" as const } }),
  });
  if (counted !== undefined) {
    // The provider's word on this very request, as a reading is on the one before (M4).
    live.reading = counted;
    const read = { model: request.model, revision: live.view.revision, estimate: size.tokens, reading: counted };
    live.calibration = observe(live.calibration, read);
  }
  return last.kind === "under"
    ? { kind: "none", projected: counted ?? projection.tokens }
    : { kind: "climb", reason: "threshold", forced: null };
};

/** The provider's tokens per token of ours: by what it said of this very request, else by what was learned. */
const scaleOf = (live: LiveView, request: ModelRequest, size: SizedView, forced: ForcedCompaction | null): number => {
  if (forced?.statedSize !== undefined) return forced.statedSize / Math.max(1, size.tokens);
  const { tokens } = project(live.calibration, {
    model: request.model,
    revision: live.view.revision,
    estimate: size.tokens,
  });
  return tokens / Math.max(1, size.tokens);
};

/** A proven overflow without a stated limit says that our numbers are off: the next attempt stays this far below them. */
const AFTER_OVERFLOW = 0.85;

/** Climbs the ladder for a request that is too large, or because somebody asked. */
export const compactNow = async (
  options: CompactionOptions,
  run: RunContext,
  request: ModelRequest,
  need: Extract<Need, { kind: "climb" }>,
): Promise<LadderOutcome> => {
  const { live, budgets, history, summariser } = options;
  const measure = measurer(options, request);
  const size = measure(live.view);
  const { reason, forced } = need;
  options.events.compacting({ reason, tokens: size.tokens, messages: size.messages.length });
  const scale = scaleOf(live, request, size, forced);
  const proven = reason === "overflow" || reason === "truncate";
  const limit = Math.min(budgets.hardLimitTokens, forced?.statedLimit ?? Number.POSITIVE_INFINITY);
  const hard =
    (proven && forced?.statedSize === undefined ? AFTER_OVERFLOW * Math.min(limit, size.tokens * scale) : limit) /
    scale;
  const ports: LadderPorts = { history, summariser, commit: rememberingCommit(options.commit, live) };
  const attempt = { attemptId: options.newAttemptId(), reason, estimateTokens: size.tokens };
  const outcome = await climb({
    sessionId: run.sessionId,
    rows: options.rows,
    view: live.view,
    guards: live.guards,
    reason,
    focus: forced?.focus ?? null,
    budgets,
    triggerTokens: Math.min(budgets.triggerTokens / scale, hard),
    hardLimitTokens: hard,
    maxBytes: options.maxBytes,
    reading: live.reading,
    thinkingBound: options.thinkingBound,
    minTailUserMessages: options.minTailUserMessages,
    maxMarks: MARKS_FOR_MESSAGES,
    measure,
    estimateTokens: options.estimateTokens,
    rowTokens: (row, view) => options.renderer.row(row, view).tokens,
    attemptId: attempt.attemptId,
    nextGeneration: live.nextGeneration,
    ports,
  }).catch((error: unknown) => {
    options.events.attempted(endedAttempt(attempt));
    throw error;
  });
  run.state.private.forced = null;
  const before = live.view;
  settle(options, outcome, reason);
  options.events.attempted(attemptOf(options, { ...attempt, before }, outcome));
  return outcome;
};

/** Takes over what the climb committed, and tells of it. */
const settle = (options: CompactionOptions, outcome: LadderOutcome, reason: CompactionReason): void => {
  const { live, events } = options;
  switch (outcome.kind) {
    case "changed":
      takeOver(options, outcome, reason);
      return;
    case "unchanged":
      live.guards = outcome.guards;
      events.refused({ reason, why: outcome.why });
      return;
    case "cannot_fit":
      live.guards = outcome.guards;
      if (outcome.committed !== null) takeOver(options, outcome.committed, reason);
      return;
    case "aborted":
      live.guards = outcome.guards;
      return;
    case "late":
      return;
    default:
      outcome satisfies never;
  }
};

const takeOver = ({ live, events }: CompactionOptions, climbed: Climbed, reason: CompactionReason): void => {
  live.view = climbed.view;
  live.guards = climbed.guards;
  live.calibration = afterRevision(live.calibration, {
    revision: climbed.view.revision,
    before: climbed.tokensBefore,
    after: climbed.tokensAfter,
  });
  if (climbed.compaction !== null) {
    live.compactions++;
    live.nextGeneration = climbed.compaction.generation.number + 1;
  }
  events.compacted({ ...climbed, reason });
};

/**
 * Records what differs from the last view before anything is sent: memory or the like that was read anew (V8), rows that were too many
 * to load (V7), and what is shown whole again to another model (G10). A change that is named, never a silent one.
 */
const recordInputs = async (options: CompactionOptions, run: RunContext): Promise<void> => {
  const { live } = options;
  const volatile = await volatileHash(run.state.private.volatile);
  const unloaded = rangesText(live.view.hidden) !== rangesText(live.stored.hidden);
  const unclipped = live.view.clippedBefore !== live.stored.clippedBefore;
  if (volatile === live.view.volatileHash && !unloaded && !unclipped) return;
  const view: ViewState = {
    ...live.view,
    revision: live.stored.revision + 1,
    volatileHash: volatile,
    // Both stand before every message, and thinking may be bound to what stands before it (V5).
    thinkingFloor: floorAfter({ rows: options.rows, view: live.view, thinkingBound: options.thinkingBound }),
  };
  const reason = unclipped ? "model" : unloaded ? "unloaded" : "volatile";
  const sizes = { before: 0, after: 0 };
  if (!(await options.commit.commit({ view, reason, trigger: null, compaction: null, guards: live.guards, sizes })))
    throw new CommitWasLate();
  live.calibration = afterRevision(live.calibration, { revision: view.revision, ...sizes });
  live.view = view;
};

/**
 * Leaves all thinking out that is in the log by now, and records it: the provider did not take it back (V5).
 * @throws CommitWasLate
 */
export const dropThinking = async (options: CompactionOptions): Promise<void> => {
  const { live } = options;
  const thinkingFloor = seq((options.rows.at(-1)?.seq ?? 0) + 1);
  const view: ViewState = { ...live.view, revision: live.stored.revision + 1, thinkingFloor };
  const change = {
    view,
    reason: "thinking",
    trigger: null,
    compaction: null,
    guards: live.guards,
    sizes: { before: 1, after: 0 },
  };
  if (!(await options.commit.commit(change))) throw new CommitWasLate();
  live.calibration = afterRevision(live.calibration, { revision: view.revision, ...change.sizes });
  live.view = view;
};

/** How far a prompt may come out larger than projected and the answer still fit beside it. */
const ANSWER_MARGIN = 0.1;

/** What an answer has at least beside its thinking, in tokens, where a session asks for that much. */
const LEAST_ANSWER_TOKENS = 1_024;

/**
 * `max_tokens` as sent: what the prompt leaves free, where the answer counts inside the window (context.md, "Window"); but always more
 * than the budget of its thinking, which the provider demands.
 */
const answerTokens = (budgets: Budgets, { maxTokens, thinking }: ModelRequest, projected: number): number => {
  const profile = {
    maxInputTokens: budgets.windowTokens + budgets.reserveTokens,
    outputInWindow: budgets.reserveTokens > 0,
  };
  const fitting = fittingMaxTokens(profile, maxTokens, Math.ceil(projected + ANSWER_MARGIN * projected));
  const least = thinking?.type === "enabled" ? thinking.budget_tokens + LEAST_ANSWER_TOKENS : 0;
  return Math.min(maxTokens, Math.max(fitting, least));
};

/** See the module's comment. Its place in the stack is documented and pinned by a test. */
export const compaction = (options: CompactionOptions): Middleware => ({
  name: "Compaction",
  nested: [toolArgTruncation],
  assemble: (draft, run) => {
    draft.tools.push(compactTool(run));
  },
  wrapModelCall: async (request, next, run) => {
    const { live } = options;
    await recordInputs(options, run);
    const measure = measurer(options, request);
    let size = measure(live.view);
    const need = await needOf(options, run, request, size);
    let projected = need.kind === "none" ? need.projected : size.tokens;
    if (need.kind === "climb") {
      const scale = scaleOf(live, request, size, need.forced);
      const outcome = await compactNow(options, run, request, need);
      if (outcome.kind === "late") throw new CommitWasLate();
      if (outcome.kind === "cannot_fit") throw new ContextCannotFit(outcome.what);
      if (outcome.kind === "aborted") throw new CompactionAborted(outcome.failure);
      size = measure(live.view);
      projected = Math.round(size.tokens * scale);
    }
    checkView(options, size.messages);
    run.state.private.estimate = size.tokens;
    options.events.usage({ estimate: size.tokens, projected, window: options.budgets.windowTokens });
    const maxTokens = answerTokens(options.budgets, request, projected);
    const response = await next({ ...request, messages: size.messages, maxTokens });
    // What was not counted is no reading: nothing is learned from it, and nothing judged by it (E4).
    if (response.usageMissing) {
      // A response it is, so that what waits for one goes on (G7).
      live.guards = afterUncounted(live.guards);
      return response;
    }
    const reading = promptTokens(response.usage);
    live.reading = reading;
    live.calibration = observe(live.calibration, {
      model: request.model,
      revision: live.view.revision,
      estimate: size.tokens,
      reading,
    });
    live.guards = afterReading(live.guards, {
      generation: live.view.generation?.number ?? 0,
      reading,
      triggerTokens: options.budgets.triggerTokens,
    });
    return response;
  },
});

/**
 * An invalid request is never sent, compacted or not (C7): the provider would refuse it every time, and the reason would be hidden.
 * @throws InvalidView
 */
const checkView = (options: CompactionOptions, messages: readonly ViewMessage[]): void => {
  const problems = problemsOf(messages, MARKS_FOR_MESSAGES, options.strictAlternation === true);
  if (problems.length === 0) return;
  options.events.invalid(problems);
  throw new InvalidView(problems);
};
