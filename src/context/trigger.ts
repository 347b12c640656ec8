/** When the view has to shrink: what a model's window allows (E7) and which of the three budgets a request exceeds (E5, E6). */
import type { Projection } from "./calibration.ts";

/** What a model can take, as far as budgets need it. */
export interface WindowProfile {
  /** Most tokens of a prompt. */
  readonly maxInputTokens: number;
  /** Whether the answer counts inside the window. */
  readonly outputInWindow: boolean;
  /** Most images and PDF pages of a request. */
  readonly maxMediaItems: number;
  /** False where the window is only assumed. */
  readonly known: boolean;
}

export interface BudgetSettings {
  /** Share of the window at which the ladder begins, in (0,1): `HANGO_CONTEXT_TRIGGER_FRAC`. */
  readonly triggerFrac: number;
  /** Share of the messages that a compaction keeps, in (0,1): `HANGO_CONTEXT_KEEP_FRAC`. */
  readonly keepFrac: number;
  /** Most tokens of an answer, as the session asks for. */
  readonly maxTokens: number;
}

/** Every number that follows from the window. */
export interface Budgets {
  /** Room for the prompt, in tokens: `max_input_tokens` without the reserve. */
  readonly windowTokens: number;
  /** Room kept free for the answer where it counts inside the window, in tokens; else 0. */
  readonly reserveTokens: number;
  /** Where the ladder begins, in tokens. */
  readonly triggerTokens: number;
  /** What a prompt must never exceed, in tokens. */
  readonly hardLimitTokens: number;
  /** Most tokens that a compaction keeps verbatim (C1). */
  readonly keepTokens: number;
  /** What a compaction keeps: a share of the messages, or a number of them where the model is unknown (C1, E7). */
  readonly keep:
    | { readonly kind: "share"; readonly frac: number }
    | { readonly kind: "messages"; readonly count: number };
  /** Results over it are written to a file (ladder step 1), in tokens. */
  readonly offloadTokens: number;
  readonly maxMediaItems: number;
}

/** Where an unknown model's session is compacted, in tokens, and how many messages stay (E7). */
export const UNKNOWN_TRIGGER_TOKENS = 170_000;
export const UNKNOWN_KEEP_MESSAGES = 6;

/** Most bytes of a request unless configured (V10): an isolate has 128 MB for everything. */
export const DEFAULT_REQUEST_BYTES = 8_000_000;

/** context.md, "Window". */
const RESERVE_FRAC = 0.1;
const SCALED_BUDGET_FRAC = 0.05;
const OFFLOAD_TOKENS = 20_000;
const OFFLOAD_FRAC = 0.1;

/** C1. */
const KEEP_WINDOW_FRAC = 0.25;

/** E5: a projection this near to the trigger is counted, and without a reading an estimate beyond this share of it. */
const CLOSE_FRAC = 0.15;
const UNREAD_FRAC = 0.6;

/** As near to the window's end a projection is counted too: what is over it would be refused, whatever the trigger is. */
const CLOSE_TO_LIMIT_FRAC = 0.05;

/** Derives the budgets of a window. Pure arithmetic, so a new window recomputes all of them (E7). */
export const budgets = (profile: WindowProfile, settings: BudgetSettings): Budgets => {
  const reserveTokens = profile.outputInWindow
    ? Math.floor(Math.min(settings.maxTokens, RESERVE_FRAC * profile.maxInputTokens))
    : 0;
  const windowTokens = profile.maxInputTokens - reserveTokens;
  const triggerTokens = profile.known
    ? Math.floor(settings.triggerFrac * windowTokens)
    : Math.min(UNKNOWN_TRIGGER_TOKENS, windowTokens);
  return {
    windowTokens,
    reserveTokens,
    triggerTokens,
    hardLimitTokens: windowTokens,
    keepTokens: Math.floor(KEEP_WINDOW_FRAC * windowTokens),
    keep: profile.known
      ? { kind: "share", frac: settings.keepFrac }
      : { kind: "messages", count: UNKNOWN_KEEP_MESSAGES },
    offloadTokens: Math.floor(Math.min(OFFLOAD_TOKENS, OFFLOAD_FRAC * windowTokens)),
    maxMediaItems: profile.maxMediaItems,
  };
};

/** A fixed budget, scaled down to the window: `min(tokens, 0.05 x window)` (context.md, "Window"). */
export const scaledBudget = (tokens: number, windowTokens: number): number =>
  Math.floor(Math.min(tokens, SCALED_BUDGET_FRAC * windowTokens));

/**
 * `max_tokens` as sent: lowered to what the prompt leaves free where the answer counts inside the window (context.md, "Window").
 * @param promptTokens the projected size of the prompt
 * @returns at least 1
 */
export const fittingMaxTokens = (
  profile: Pick<WindowProfile, "maxInputTokens" | "outputInWindow">,
  maxTokens: number,
  promptTokens: number,
): number => {
  if (!profile.outputInWindow) return maxTokens;
  const reserve = Math.floor(RESERVE_FRAC * profile.maxInputTokens);
  return Math.max(1, Math.min(maxTokens, Math.max(reserve, profile.maxInputTokens - promptTokens)));
};

export interface TriggerInput {
  readonly projection: Projection;
  readonly budgets: Budgets;
  /** Bytes of the request, media inlined. */
  readonly bytes: number;
  /** Images and PDF pages of the request. */
  readonly mediaItems: number;
  /** Most bytes of a request. */
  readonly maxBytes: number;
  /** Whether the provider can count tokens. */
  readonly canCount: boolean;
}

export type Trigger =
  | { readonly kind: "under" }
  /** The ladder has to run, for this budget (E6). */
  | { readonly kind: "over"; readonly budget: "tokens" | "bytes" | "media" }
  /** Too near to call: ask the provider, then decide again with its count as the projection; on error, with `canCount: false` (E5). */
  | { readonly kind: "close" };

/**
 * Whether a request is over one of its three budgets (E6). Bytes and media are exact and so decided first.
 * A count is final, and never asked for on every turn (E5): only near the trigger, or in the upper part of a view that was never read.
 */
export const decideTrigger = (input: TriggerInput): Trigger => {
  if (input.bytes > input.maxBytes) return { kind: "over", budget: "bytes" };
  if (input.mediaItems > input.budgets.maxMediaItems) return { kind: "over", budget: "media" };
  if (input.canCount && isClose(input.projection, input.budgets)) return { kind: "close" };
  return input.projection.tokens >= input.budgets.triggerTokens
    ? { kind: "over", budget: "tokens" }
    : { kind: "under" };
};

const isClose = (
  { tokens, basis }: Projection,
  { triggerTokens, hardLimitTokens }: Pick<Budgets, "triggerTokens" | "hardLimitTokens">,
): boolean => {
  switch (basis) {
    case "count":
      return false;
    case "reading":
      return (
        Math.abs(tokens - triggerTokens) <= CLOSE_FRAC * triggerTokens ||
        Math.abs(tokens - hardLimitTokens) <= CLOSE_TO_LIMIT_FRAC * hardLimitTokens
      );
    case "estimate":
      return tokens > UNREAD_FRAC * triggerTokens;
    default: {
      const unhandled: never = basis;
      return unhandled;
    }
  }
};
