/**
 * The ladder (section 3): what is done to a view that has become too large, cheapest step first, measured after each, and stopped as
 * soon as the request fits. No step runs twice in a call. What the steps decide is stored by one commit at the end, before it is sent
 * (M1); until then nothing has changed but a section of the history file, whose key makes a repeat overwrite it.
 */
import type { LogRow } from "../protocol/messages.ts";
import { demoteContent, planDemotion } from "./demote.ts";
import { beforeForced } from "./guards/after.ts";
import { isForced } from "./guards/decide.ts";
import type { GuardState } from "./guards/state.ts";
import {
  type Climbed,
  floorAfter,
  type LadderInput,
  type LadderOutcome,
  type Step,
  shown,
  type Why,
} from "./ladder-input.ts";
import type { SummaryFailure } from "./ports.ts";
import { demotedSkills, hiddenSkills } from "./skills.ts";
import { keptFromOf } from "./summarise-step.ts";
import { summaryRung } from "./summary-rung.ts";
import { type Truncated, toolArgTruncation } from "./tool-arg-truncation.ts";
import { type CannotFit, planTruncation } from "./truncate.ts";
import type { SizedView } from "./view.ts";
import type { ViewState } from "./view-state.ts";

const clipStep = (input: LadderInput, view: ViewState): Truncated | null => {
  const { rows, budgets, estimateTokens } = input;
  const clip = toolArgTruncation.apply(rows, view, budgets.windowTokens, estimateTokens, () => keptFromOf(input, view));
  return clip === null ? null : { ...clip, view: { ...clip.view, thinkingFloor: floorAfter(input) } };
};

const demoteStep = (input: LadderInput, view: ViewState, tokensToFree: number) => {
  const calls = planDemotion(input.rows, view, tokensToFree, input.estimateTokens);
  if (calls.length === 0) return null;
  const named = new Set(calls);
  const { facts: skills, others } = demotedSkills(input.rows, view.skills, calls);
  return {
    view: { ...view, demoted: [...view.demoted, ...others], skills, thinkingFloor: floorAfter(input) },
    rows: shown(input.rows, view).filter(
      (row) => row.role === "user" && demoteContent(row.content, named, row.seq) !== row.content,
    ),
  };
};

interface State {
  view: ViewState;
  guards: GuardState;
  size: SizedView;
  readonly steps: Step[];
  compaction: Climbed["compaction"];
  clippedByTool: Readonly<Record<string, number>>;
}

const fits = (input: LadderInput, size: SizedView, tokens: number): boolean =>
  size.tokens < tokens && size.bytes <= input.maxBytes && size.mediaItems <= input.budgets.maxMediaItems;

/** Takes a step's view if it really is smaller, in tokens, or in bytes where bytes or media are over theirs: no step may grow what it is to shrink. */
const take = (input: LadderInput, state: State, step: Step, view: ViewState): boolean => {
  const size = input.measure(view);
  const isHeavy = state.size.bytes > input.maxBytes || state.size.mediaItems > input.budgets.maxMediaItems;
  if (size.tokens >= state.size.tokens && !(isHeavy && size.bytes < state.size.bytes)) return false;
  state.view = view;
  state.size = size;
  state.steps.push(step);
  return true;
};

/**
 * How near the hard limit a shrunk view may come. What is left of it has not quite the provider's tokens per token of ours that the whole
 * had, and a view that is just under the limit by our numbers may be just over it by the provider's.
 */
const SHRUNK_SHARE = 0.97;

/** Steps 4 and 5 lose something that the model might still use, so they are for what would otherwise not be sent at all. */
const shrink = async (input: LadderInput, state: State): Promise<string | null> => {
  const limit = input.hardLimitTokens;
  // After a proven overflow the limit already has its margin.
  const safe = input.reason === "threshold" ? SHRUNK_SHARE * limit : limit;
  if (!fits(input, state.size, safe)) {
    const demoted = demoteStep(input, state.view, excess(input, state.size, safe));
    if (demoted !== null && take(input, state, "demote", demoted.view)) await keepReadable(input, demoted.rows);
  }
  if (fits(input, state.size, safe)) return null;
  // Down to the trigger, where that can be had: a view that just fits would be truncated again on every turn, and break the cache each time.
  const goal = input.reason === "threshold" ? Math.min(input.triggerTokens, safe) : safe;
  const plan = firstTruncation(input, state, [goal, safe, limit]);
  if (plan.kind === "cannot_fit") return fits(input, state.size, limit) ? null : cannotFitWords(plan);
  await keepReadable(input, plan.newlyHidden);
  return take(input, state, "truncate", plan.view) || fits(input, state.size, limit)
    ? null
    : "what must be kept is larger than the window";
};

/** G5: where the view is truncated for want of a summary, this share of the trigger is aimed at, so that not every turn does it anew. */
const AFTER_SKIP_SHARE = 0.9;

/** Step 5 down to the trigger, in the place of a summary that was left out (G5). Where nothing can be hidden the view stays as it is. */
const truncateToTrigger = async (input: LadderInput, state: State): Promise<void> => {
  const trigger = Math.min(input.triggerTokens, input.hardLimitTokens);
  if (fits(input, state.size, trigger)) return;
  const plan = firstTruncation(input, state, [AFTER_SKIP_SHARE * trigger, trigger]);
  if (plan.kind === "cannot_fit") return;
  await keepReadable(input, plan.newlyHidden);
  take(input, state, "truncate", plan.view);
};

/** Hides oldest turns until the view is under a limit; what is hidden is named in it, which takes room too. */
const truncation = (input: LadderInput, state: State, limit: number) => {
  for (let tokensToFree = excess(input, state.size, limit); ; ) {
    const plan = planTruncation({
      rows: shown(input.rows, state.view),
      hidden: state.view.hidden,
      isPinned: state.view.generation?.pinned != null,
      tokensToFree,
      tokensOf: (row) => input.rowTokens(row, state.view),
    });
    if (plan.kind === "cannot_fit") return plan;
    const skills = hiddenSkills(plan.newlyHidden, state.view.skills);
    const view: ViewState = { ...state.view, hidden: plan.hidden, skills, thinkingFloor: floorAfter(input) };
    const size = input.measure(view);
    if (fits(input, size, limit)) return { ...plan, view };
    tokensToFree += Math.max(1, excess(input, size, limit));
  }
};

type Plan = ReturnType<typeof truncation>;

/** The truncation to the first of these limits that can be had; why not where none can. */
const firstTruncation = (input: LadderInput, state: State, [limit, ...rest]: readonly [number, ...number[]]): Plan => {
  const plan = truncation(input, state, limit);
  const [next, ...others] = rest;
  return plan.kind === "truncate" || next === undefined ? plan : firstTruncation(input, state, [next, ...others]);
};

/** What has to go, in tokens: of the budget in tokens, or the same share where bytes or media are over theirs (E6). */
const excess = (input: LadderInput, size: SizedView, limit: number): number => {
  const over = Math.max(size.tokens - limit + 1, 0);
  const share = Math.max(size.bytes / input.maxBytes, size.mediaItems / Math.max(1, input.budgets.maxMediaItems));
  return Math.max(over, share > 1 ? Math.ceil(size.tokens * (1 - 1 / share)) : 0);
};

/** What the view no longer shows whole is written to the history file, which the notes name; where that fails it is still in the log. */
const keepReadable = async (input: LadderInput, rows: readonly LogRow[]): Promise<void> => {
  if (rows.length > 0) await input.ports.history.append(rows).catch(() => undefined);
};

const cannotFitWords = ({ what, seq: at, keptTokens }: CannotFit): string => {
  switch (what) {
    case "live_ask":
      return `message ${at} alone, the newest request, has about ${keptTokens} tokens`;
    case "batch_in_flight":
      return `message ${at} and what belongs to it have about ${keptTokens} tokens`;
    case "fixed_parts":
      return "the system prompt and the tools leave no room for a message";
    default:
      return what satisfies never;
  }
};

/** Whether the summary is worth trying: for a truncation nobody waits for one (section 8). */
const wantsSummary = (input: LadderInput, state: State): boolean =>
  input.reason !== "truncate" && !(input.reason === "threshold" && fits(input, state.size, input.triggerTokens));

/** Stores what the steps decided, before it is sent. @returns null where the run has lost its session (M2) */
const commitSteps = async (input: LadderInput, state: State, before: SizedView, why: Why): Promise<Climbed | null> => {
  const view: ViewState = { ...state.view, revision: input.view.revision + 1 };
  const { compaction, guards, clippedByTool, steps } = state;
  const stored = await input.ports.commit.commit({
    view,
    reason: steps.join("+"),
    trigger: input.reason,
    compaction,
    guards,
    sizes: { before: before.tokens, after: state.size.tokens },
  });
  return stored
    ? {
        view,
        guards,
        tokensBefore: before.tokens,
        tokensAfter: state.size.tokens,
        compaction,
        steps,
        clippedByTool,
        why,
      }
    : null;
};

/** Failures with which the model call would fail as well: hiding rows for it would lose something for nothing (G2). */
const ABORTING: ReadonlySet<SummaryFailure> = new Set(["authentication", "quota", "network", "overloaded"]);

/** The failure for which the turn is given up where the view does not fit: of now, or of the cooldown that still stands for it (G2). */
const abortingFailure = (why: Why, { cooldown: { reason } }: GuardState): SummaryFailure | null => {
  const failure =
    why.kind === "failed" ? why.failure : why.kind === "guard" && why.guard === "cooldown" ? reason : null;
  return failure !== null && ABORTING.has(failure) ? failure : null;
};

/**
 * Climbs the ladder and commits what it decided.
 * @returns the new view, or why there is none
 * @throws what ended the run while its summary was being written; never for a failed summary or history write
 */
export const climb = async (input: LadderInput): Promise<LadderOutcome> => {
  const before = input.measure(input.view);
  // Somebody who asks ends the cooldown (G9); an overflow only passes it by (G6).
  const state: State = {
    view: input.view,
    guards: isForced(input.reason) ? beforeForced(input.guards) : input.guards,
    size: before,
    steps: [],
    compaction: null,
    clippedByTool: {},
  };
  let why: Why = { kind: "fits" };

  const clip = clipStep(input, state.view);
  if (clip !== null && take(input, state, "clip", clip.view)) state.clippedByTool = clip.clippedByTool;

  if (wantsSummary(input, state)) {
    const rung = await summaryRung(input, state.view, state.size, state.guards);
    state.guards = rung.guards;
    if (rung.kind === "none") why = rung.why;
    else {
      const { generation, receipt } = rung.compaction;
      state.compaction = { generation, receipt: { ...receipt, tokensBefore: before.tokens } };
      take(input, state, "summarise", rung.view);
    }
  }
  const failure = abortingFailure(why, state.guards);
  if (failure !== null && !fits(input, state.size, input.hardLimitTokens)) {
    return { kind: "aborted", failure, guards: state.guards };
  }
  if (why.kind === "skipped") await truncateToTrigger(input, state);
  const summarised: State = { ...state, steps: [...state.steps] };
  const tooLarge = await shrink(input, state);
  if (tooLarge !== null) {
    // The steps after it were for a request that is not sent.
    const committed = summarised.compaction === null ? null : await commitSteps(input, summarised, before, why);
    if (summarised.compaction !== null && committed === null) return { kind: "late" };
    return { kind: "cannot_fit", what: tooLarge, guards: state.guards, committed };
  }
  if (state.steps.length === 0) return { kind: "unchanged", guards: state.guards, why };
  const climbed = await commitSteps(input, state, before, why);
  return climbed === null ? { kind: "late" } : { kind: "changed", ...climbed };
};
