/**
 * What a pass of micro-compaction takes up (section 11): the oldest exchange that is worth it, the rolling summary itself, or nothing. Pure.
 * Rows are addressed by their seq (V4), so nothing that a pass does can make a cursor of the next one stale.
 */
import type { LogRow } from "../protocol/messages.ts";
import { endsTurn } from "./ask.ts";
import { batchEnd, isAnswered } from "./batches.ts";
import { blockTexts, blockType } from "./imported.ts";
import { isDefragDue, type MicroBase, type MicroSettings, type MicroState } from "./micro-state.ts";
import type { Budgets } from "./trigger.ts";
import type { Generation, ViewState } from "./view-state.ts";

/** An assistant's turn with its results, between user messages. */
export interface Exchange {
  /** Ascending; never a user's message. */
  readonly rows: readonly LogRow[];
  /** As the view shows them. */
  readonly tokens: number;
  /** The user's messages right before it: what it answers. They stay as they are. */
  readonly asks: readonly LogRow[];
  /** The row right after it; null at the end. */
  readonly next: LogRow | null;
}

/** Why a pass has nothing to do, in one word. */
export type NothingToAbsorb =
  /** The newest message is no answer: a turn is open. */
  | "open_turn"
  /** Every exchange is among the newest, which stay, or was taken up or passed over before. */
  | "all_protected"
  /** Those that are left would save less than a pass costs. */
  | "too_small";

export type MicroPlan =
  | { readonly kind: "absorb"; readonly exchange: Exchange; readonly waitingTokens: number }
  /** The rolling summary has grown: it alone is written anew, and nothing is absorbed. */
  | { readonly kind: "defrag" }
  | { readonly kind: "nothing"; readonly why: NothingToAbsorb };

export interface PlanInput {
  /** The rows that the view shows, ascending. */
  readonly rows: readonly LogRow[];
  readonly view: Pick<ViewState, "hidden"> & { readonly generation: Pick<Generation, "covered"> | null };
  readonly base: MicroBase | null;
  readonly state: MicroState;
  readonly settings: MicroSettings;
  readonly budgets: Budgets;
  readonly tokensOf: (row: LogRow) => number;
  /** Whether a pass over it would be worth it; asked from the oldest on. */
  readonly pays: (exchange: Exchange, waitingTokens: number) => boolean;
}

/** Whether a row holds nothing but results of tools. */
const isPlainResults = ({ content }: LogRow): boolean =>
  blockTexts(content).every((block) => blockType(block) === "tool_result");

/** Whether a row is a user's or an event's, blank ones too, or may hold words of one beside results: it is never absorbed (section 11). */
export const isUserMessage = (row: LogRow): boolean =>
  row.origin === "user" || row.origin === "event" || (row.origin === "tool" && !isPlainResults(row));

/** The rows that stay whatever a pass does, by index: users' messages, and whole batches that hold one, or that lack a result. */
const keptIndexes = (rows: readonly LogRow[]): ReadonlySet<number> => {
  const kept = new Set<number>();
  for (let at = 0; at < rows.length; ) {
    const end = batchEnd(rows, at);
    if (!isAnswered(rows, at) || rows.slice(at, end).some(isUserMessage))
      for (let index = at; index < end; index++) kept.add(index);
    at = end;
  }
  return kept;
};

/** Whether rows that are covered or hidden lie between two that are shown: what is told of in one piece must lie in one piece. */
const isParted = (view: PlanInput["view"], before: LogRow, after: LogRow): boolean =>
  [...(view.generation?.covered ?? []), ...view.hidden].some(({ from, to }) => from < after.seq && to > before.seq);

/** The exchanges of the rows that a view shows, oldest first. */
export const exchangesOf = (input: Pick<PlanInput, "rows" | "view" | "tokensOf">): readonly Exchange[] => {
  const { rows, view, tokensOf } = input;
  const kept = keptIndexes(rows);
  const exchanges: Exchange[] = [];
  let from = 0;
  const close = (end: number): void => {
    const own = rows.slice(from, end);
    if (own.some((row) => row.role === "assistant")) {
      let ask = from;
      for (let row = rows[ask - 1]; row !== undefined && isUserMessage(row); row = rows[ask - 1]) ask--;
      exchanges.push({
        rows: own,
        tokens: own.reduce((sum, row) => sum + tokensOf(row), 0),
        asks: rows.slice(ask, from),
        next: rows[end] ?? null,
      });
    }
    from = end;
  };
  for (const [at, row] of rows.entries()) {
    const before = rows[at - 1];
    if (kept.has(at)) {
      if (from < at) close(at);
      from = at + 1;
    } else if (from < at && before !== undefined && isParted(view, before, row)) close(at);
  }
  if (from < rows.length) close(rows.length);
  return exchanges;
};

/** The newest rows that stay: about what a full compaction at the trigger would keep, and at most a quarter of the window (C1). */
const tailTokens = (budgets: Budgets): number =>
  budgets.keep.kind === "share" ? Math.min(budgets.keep.frac * budgets.triggerTokens, budgets.keepTokens) : 0;

/** Of an unknown model's so many of the newest rows stay instead (E7). */
const tailRows = (budgets: Budgets): number => (budgets.keep.kind === "messages" ? budgets.keep.count : 0);

/** The exchanges outside of the tail: the newest one stays, and those before it as far as everything from them on fits the budget. */
const outsideTail = (input: PlanInput, exchanges: readonly Exchange[]): readonly Exchange[] => {
  const { rows, budgets, tokensOf } = input;
  const indexes = new Map(rows.map((row, index) => [row, index]));
  const sums = new Float64Array(rows.length + 1);
  for (let at = rows.length - 1; at >= 0; at--) {
    const row = rows[at];
    sums[at] = (sums[at + 1] ?? 0) + (row === undefined ? 0 : tokensOf(row));
  }
  return exchanges.slice(0, -1).filter((exchange) => {
    const first = exchange.rows[0];
    const at = first === undefined ? rows.length : (indexes.get(first) ?? rows.length);
    return (sums[at] ?? 0) > tailTokens(budgets) && rows.length - at > tailRows(budgets);
  });
};

/** An exchange under it saves less than a cache break is worth, in tokens; of a small window, 5 % (context.md, "Window"). */
export const leastGain = (windowTokens: number): number => Math.min(200, 0.05 * windowTokens);

/**
 * Decides what a pass does (section 11). Only what comes after everything that is covered is taken up, so that the summary is written in
 * the order in which things happened; what was passed over stays as it is until a full compaction covers it.
 */
export const planMicro = (input: PlanInput): MicroPlan => {
  const { rows, view, base, state, settings, budgets, pays } = input;
  const last = rows.at(-1);
  if (last === undefined || !endsTurn(last)) return { kind: "nothing", why: "open_turn" };
  if (isDefragDue(state, base, settings)) return { kind: "defrag" };
  const frontier = Math.max(view.generation?.covered.at(-1)?.to ?? 0, state.floor - 1);
  const waiting = outsideTail(input, exchangesOf(input)).filter(({ rows: [first] }) => (first?.seq ?? 0) > frontier);
  if (waiting.length === 0) return { kind: "nothing", why: "all_protected" };
  const waitingTokens = waiting.reduce((sum, { tokens }) => sum + tokens, 0);
  const least = leastGain(budgets.windowTokens);
  const exchange = waiting.find((each) => each.tokens >= least && pays(each, waitingTokens));
  return exchange === undefined ? { kind: "nothing", why: "too_small" } : { kind: "absorb", exchange, waitingTokens };
};
