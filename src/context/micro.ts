/**
 * One pass of micro-compaction (section 11): between turns it moves the generation on by exactly one exchange, or writes the rolling
 * summary anew. Nothing is stored here but a section of the history file (M1): what comes out is the change that a commit makes whole or not
 * at all, so that a pass which comes too late changes nothing (M2).
 */
import { seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import { redact } from "../protocol/redact.ts";
import { coveredHash } from "./covered-hash.ts";
import { afterFailure, afterMicro } from "./guards/after.ts";
import { decideGuards } from "./guards/decide.ts";
import type { Guard, GuardState } from "./guards/state.ts";
import { shown } from "./ladder-input.ts";
import { type Exchange, type NothingToAbsorb, planMicro } from "./micro-plan.ts";
import {
  afterAbsorbed,
  afterDefragFailed,
  afterDefragged,
  afterExchangeFailed,
  anchorOf,
  type MicroBase,
  type MicroState,
} from "./micro-state.ts";
import { defragSummary, type MicroSummary, summariseExchange } from "./micro-summary.ts";
import { allowance, coveredWith, type MicroInput, paysFor, sectionsWith, viewWith } from "./micro-view.ts";
import type { RevisionChange, SummaryFailure } from "./ports.ts";
import { problemsOf } from "./summarise-step.ts";
import { PROMPT_VERSION } from "./summary-prompt.ts";
import type { SizedView } from "./view.ts";
import type { Generation, ViewState } from "./view-state.ts";

/** What a pass was about, in tokens and messages; null where there was none or it is not known. */
export interface MicroSizes {
  readonly pass: "absorb" | "defrag" | null;
  /** Of the whole request, by our estimate. */
  readonly before: number | null;
  readonly after: number | null;
  readonly exchangeTokens: number | null;
  readonly exchangeMessages: number | null;
  readonly summaryTokens: number | null;
}

export type MicroOutcome =
  /** To be committed: then the session is as `change`, `guards` and `state` say. */
  | {
      readonly kind: "made";
      readonly change: RevisionChange;
      readonly state: MicroState;
      readonly sizes: MicroSizes;
    }
  | {
      readonly kind: "failed";
      readonly failure: SummaryFailure;
      /** In words, without content. */
      readonly reason: string;
      readonly guards: GuardState;
      readonly cooldownSeconds: number;
      readonly state: MicroState;
      readonly sizes: MicroSizes;
    }
  | { readonly kind: "blocked"; readonly guard: Guard; readonly sizes: MicroSizes }
  | { readonly kind: "nothing"; readonly why: NothingToAbsorb; readonly sizes: MicroSizes };

export const NO_SIZES: MicroSizes = {
  pass: null,
  before: null,
  after: null,
  exchangeTokens: null,
  exchangeMessages: null,
  summaryTokens: null,
};

const baseOf = ({ view, estimateTokens }: MicroInput): MicroBase | null =>
  view.generation === null
    ? null
    : { number: view.generation.number, summaryTokens: estimateTokens(view.generation.summary) };

/** A failed summary, by the one function that records them (G1); one that would have grown the view is no strike: nothing was too full. */
const failedGuards = (guards: GuardState, failure: SummaryFailure) =>
  failure === "would_grow" ? { state: guards, cooldownSeconds: 0 } : afterFailure(guards, failure, "micro");

interface Attempt {
  readonly sizes: MicroSizes;
  /** What is remembered if it fails. */
  readonly failedState: MicroState;
}

const failed = (input: MicroInput, attempt: Attempt, failure: SummaryFailure, reason: string): MicroOutcome => {
  const { state: guards, cooldownSeconds } = failedGuards(input.guards, failure);
  return { kind: "failed", failure, reason, guards, cooldownSeconds, state: attempt.failedState, sizes: attempt.sizes };
};

interface Made {
  readonly generation: Generation;
  readonly view: ViewState;
  readonly summary: Extract<MicroSummary, { kind: "summary" }>;
  readonly before: SizedView;
  readonly after: SizedView;
  readonly evicted: number;
  readonly written: { readonly sizeBytes: number | null; readonly sha256: string | null };
}

const changeOf = async (input: MicroInput, made: Made): Promise<RevisionChange> => ({
  view: made.view,
  reason: "micro",
  trigger: "micro",
  compaction: {
    generation: made.generation,
    receipt: {
      attemptId: input.attemptId,
      reason: "micro",
      tokensBefore: made.before.tokens,
      tokensAfter: made.after.tokens,
      evicted: made.evicted,
      model: made.summary.model,
      usage: made.summary.usage,
      promptVersion: PROMPT_VERSION,
      coveredHash: await coveredHash(made.generation.covered),
      historySizeBytes: made.written.sizeBytes,
      historySha256: made.written.sha256,
    },
  },
  guards: afterMicro(input.guards, { generation: made.generation.number }),
  sizes: { before: made.before.tokens, after: made.after.tokens },
});

const ports = ({ summariser, estimateTokens }: MicroInput) => ({
  summariser,
  estimateTokens,
  redact: (text: string) => redact(text).text,
});

const absorb = async (
  input: MicroInput,
  before: SizedView,
  base: MicroBase | null,
  { exchange, waitingTokens }: { readonly exchange: Exchange; readonly waitingTokens: number },
): Promise<MicroOutcome> => {
  const { rows } = exchange;
  const first = rows[0];
  const last = rows.at(-1);
  if (first === undefined || last === undefined) throw new Error("an exchange without messages");
  const attempt: Attempt = {
    sizes: {
      ...NO_SIZES,
      pass: "absorb",
      before: before.tokens,
      exchangeTokens: exchange.tokens,
      exchangeMessages: rows.length,
    },
    failedState: afterExchangeFailed(input.state, { firstSeq: first.seq, lastSeq: last.seq }),
  };
  const written = await input.history.append(rows).catch(() => null);
  // Nobody waits for the room that a pass makes: without the history it is not made (M1).
  if (written === null) return failed(input, attempt, "transient", "the history file could not be written");

  const previous = input.view.generation?.summary ?? "";
  const summary = await summariseExchange(exchange, previous, input.budgets.windowTokens, ports(input));
  if (summary.kind === "failed") return failed(input, attempt, summary.failure, summary.reason);
  const { generation, view } = viewWith(input, {
    covered: coveredWith(input, exchange),
    summary: summary.text,
    sections: sectionsWith(input, exchange),
    history: written.pointer,
  });
  const after = input.measure(view);
  const summaryTokens = input.estimateTokens(generation.summary);
  const tried = { ...attempt, sizes: { ...attempt.sizes, summaryTokens } };
  if (problemsOf(input, view, after.messages).length > 0)
    return failed(input, tried, "invalid_view", "the new view breaks a rule of the provider");
  if (summaryTokens >= exchange.tokens + (base?.summaryTokens ?? 0))
    return failed(input, tried, "would_grow", "the summary is longer than what it replaces");
  if (after.tokens >= before.tokens + allowance(input, exchange, waitingTokens))
    return failed(input, tried, "would_grow", "the new view is not smaller");
  return {
    kind: "made",
    change: await changeOf(input, { generation, view, summary, before, after, evicted: rows.length, written }),
    state: afterAbsorbed(input.state, base, generation.number),
    sizes: { ...tried.sizes, after: after.tokens },
  };
};

const defrag = async (input: MicroInput, before: SizedView, base: MicroBase): Promise<MicroOutcome> => {
  const { generation: current } = input.view;
  if (current === null) throw new Error("there is no summary to write anew");
  const { settings, state, estimateTokens } = input;
  const attempt: Attempt = {
    sizes: { ...NO_SIZES, pass: "defrag", before: before.tokens },
    failedState: afterDefragFailed(state, base),
  };
  const summary = await defragSummary(
    current.summary,
    current.covered.at(-1)?.to ?? seq(0),
    {
      targetTokens: anchorOf(state, base) + Math.floor(settings.defragTokens / 2),
      windowTokens: input.budgets.windowTokens,
    },
    ports(input),
  );
  if (summary.kind === "failed") return failed(input, attempt, summary.failure, summary.reason);
  // Nothing is absorbed: what is covered, its sections and its history are the base's.
  const { generation, view } = viewWith(input, { ...current, summary: summary.text });
  const summaryTokens = estimateTokens(generation.summary);
  const tried = { ...attempt, sizes: { ...attempt.sizes, summaryTokens } };
  const after = input.measure(view);
  if (problemsOf(input, view, after.messages).length > 0)
    return failed(input, tried, "invalid_view", "the new view breaks a rule of the provider");
  if (summaryTokens >= base.summaryTokens || after.tokens >= before.tokens)
    return failed(input, tried, "would_grow", "the summary did not become shorter");
  const none = { sizeBytes: null, sha256: null };
  return {
    kind: "made",
    change: await changeOf(input, { generation, view, summary, before, after, evicted: 0, written: none }),
    state: afterDefragged(state, { generation: generation.number, summaryTokens }, settings),
    sizes: { ...tried.sizes, after: after.tokens },
  };
};

/**
 * Makes a pass (section 11). Waits where automatic compaction waits: in a cooldown (G1), for the reading of a compaction (G7), while it is
 * paused (G3).
 * @returns never throws for a failed summary or history write
 */
export const microPass = async (input: MicroInput): Promise<MicroOutcome> => {
  const { budgets, guards, state, settings } = input;
  // A pass is as automatic as what happens at the trigger, and no reading proves it necessary.
  const allowed = decideGuards(guards, {
    reason: "threshold",
    reading: null,
    triggerTokens: budgets.triggerTokens,
  });
  if (allowed.kind !== "go") return { kind: "blocked", guard: allowed.guard, sizes: NO_SIZES };
  const before = input.measure(input.view);
  const base = baseOf(input);
  const plan = planMicro({
    rows: shown(input.rows, input.view),
    view: input.view,
    base,
    state,
    settings,
    budgets,
    tokensOf: (row: LogRow) => input.rowTokens(row, input.view),
    pays: paysFor(input, before),
  });
  switch (plan.kind) {
    case "nothing":
      return { kind: "nothing", why: plan.why, sizes: { ...NO_SIZES, before: before.tokens } };
    case "defrag":
      if (base === null) throw new Error("a defrag without a summary");
      return defrag(input, before, base);
    case "absorb":
      return absorb(input, before, base, plan);
    default:
      return plan satisfies never;
  }
};
