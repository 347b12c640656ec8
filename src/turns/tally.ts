/** What a run has used so far. */
import type { PaidCall } from "../models/errors.ts";
import { costUsd } from "../models/prices.ts";
import type { PriceList } from "../models/profiles.ts";
import type { NewId } from "../protocol/ids.ts";
import { type ModelResponse, promptTokens, type Usage } from "../protocol/messages.ts";
import type { NewUsage, RunTotals } from "../store/statements.ts";
import { plus } from "./used.ts";

export interface Tally {
  /** Counts an answer, stored or not: it was paid for. */
  add(response: ModelResponse): void;
  /** Counts a call whose answer is none: it was paid for, but the turn is no step further. */
  addPaid(call: PaidCall): void;
  /** Counts a call that was made on the way: it costs, but is no step of the turn and says nothing about its prompt. */
  addApart(call: {
    readonly purpose: "summarize";
    readonly model: string;
    readonly usage: Usage;
    readonly prices: PriceList | null;
  }): void;
  totals(): RunTotals;
  /** Prompt size of the newest call, in tokens; null before the first. */
  lastInputTokens(): number | null;
  /** Hands over the records that are not stored yet. */
  take(): readonly NewUsage[];
  /** Takes back records that were not stored after all: what was paid for goes with the next write. */
  putBack(records: readonly NewUsage[]): void;
}

/**
 * @param prices null where none are known: the cost is then null too
 * @param before what earlier parts of the run used
 * @param purpose of the calls that are its steps
 */
export const createTally = (
  newId: NewId,
  prices: PriceList | null,
  before: RunTotals,
  purpose: "turn" | "subagent" = "turn",
): Tally => {
  let totals = before;
  let last: number | null = null;
  let records: NewUsage[] = [];
  const count = ({ model, usage }: PaidCall, of: NewUsage["purpose"], list: PriceList | null): void => {
    const cost = costUsd(list, usage);
    records.push({ id: newId("usg"), purpose: of, model, usage, costUsd: cost });
    totals = { ...totals, ...plus(totals, { usage, costUsd: cost }) };
  };
  return {
    add: ({ model, usage, usageMissing }) => {
      count({ model, usage }, purpose, prices);
      totals = { ...totals, steps: totals.steps + 1 };
      // What the provider did not count is no reading (E4).
      if (usageMissing !== true) last = promptTokens(usage);
    },
    addPaid: (call) => count(call, purpose, prices),
    addApart: (call) => count(call, call.purpose, call.prices),
    totals: () => totals,
    lastInputTokens: () => last,
    take: () => {
      const taken = records;
      records = [];
      return taken;
    },
    putBack: (returned) => {
      records = [...returned, ...records];
    },
  };
};
