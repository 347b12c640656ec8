import { describe, expect, it } from "vitest";
import { exchangesOf, type PlanInput, planMicro } from "../../../src/context/micro-plan.ts";
import { NO_MICRO } from "../../../src/context/micro-state.ts";
import { budgets } from "../../../src/context/trigger.ts";
import { rangesOf, type SeqRange } from "../../../src/context/view-state.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { type LogBuilder, log, toolResult } from "../../support/log.ts";

/** Every row costs 500 tokens, where its text does not say otherwise: `cost:40`. */
const tokensOf = ({ content }: LogRow): number => Number(/cost:(\d+)/.exec(content)?.[1] ?? 500);
const seqs = (rows: readonly LogRow[]): readonly number[] => rows.map((row) => row.seq);

const NOTHING_COVERED: PlanInput["view"] = { generation: null, hidden: [] };
const covering = (...at: readonly number[]): PlanInput["view"] => ({
  generation: { covered: rangesOf(at.map(seq)) },
  hidden: [],
});

const exchanges = (rows: readonly LogRow[], view = NOTHING_COVERED) =>
  exchangesOf({ rows, view, tokensOf }).map((exchange) => seqs(exchange.rows));

/** A window of 20,000 tokens: the newest 1,700 stay. */
const LIMITS = (known = true) =>
  budgets(
    { maxInputTokens: 20_000, outputInWindow: false, maxMediaItems: 600, known },
    { triggerFrac: 0.85, keepFrac: 0.1, maxTokens: 1_000 },
  );

const plan = (rows: readonly LogRow[], changes: Partial<PlanInput> = {}) => {
  const planned = planMicro({
    rows,
    view: NOTHING_COVERED,
    base: null,
    state: NO_MICRO,
    settings: { everyNTurns: 1, defragTokens: 2_000 },
    budgets: LIMITS(),
    tokensOf,
    pays: () => true,
    ...changes,
  });
  return planned.kind === "absorb"
    ? seqs(planned.exchange.rows)
    : planned.kind === "nothing"
      ? planned.why
      : planned.kind;
};

const without = (rows: readonly LogRow[], covered: readonly SeqRange[]): readonly LogRow[] =>
  rows.filter((row) => !covered.some(({ from, to }) => from <= row.seq && row.seq <= to));

describe("an exchange (section 11)", () => {
  it("is an assistant's turn with its results, between user messages; never a user's message", () => {
    const { rows } = log()
      .user("a")
      .tools("x", "y")
      .answered()
      .tools("z")
      .answered()
      .assistant("b")
      .user("c")
      .assistant("d");
    expect(exchanges(rows)).toEqual([[2, 3, 4, 5, 6], [8]]);
  });

  it("ends at events and at several user messages in a row, which are what it answers", () => {
    const { rows } = log().user("a").event("b").assistant("c").event("d").assistant("e");
    const found = exchangesOf({ rows, view: NOTHING_COVERED, tokensOf });
    expect(
      found.map(({ rows: own, asks, next, tokens }) => [seqs(own), seqs(asks), next?.seq ?? null, tokens]),
    ).toEqual([
      [[3], [1, 2], 4, 500],
      [[5], [4], null, 500],
    ]);
  });

  it("holds notes of the system that stand in it: a stray one cannot wedge the passes", () => {
    const { rows } = log()
      .user("a")
      .injected("note")
      .assistant("b")
      .injected("note")
      .user("c")
      .injected("note")
      .assistant("d");
    expect(exchanges(rows)).toEqual([
      [2, 3, 4],
      [6, 7],
    ]);
  });

  it("leaves a batch whole that holds words beside its results, and one that lacks a result (C2, C3)", () => {
    const beside = log()
      .user("a")
      .tools("x")
      .row("tool", [toolResult({ id: "x" }), { type: "text", text: "and stop" }])
      .assistant("b");
    expect(exchanges(beside.user("c").assistant("d").rows)).toEqual([[4], [6]]);
    const lacking = log().user("a").tools("x", "y").answered("ok", 1).user("b").assistant("c");
    expect(exchanges(lacking.rows)).toEqual([[5]]);
  });

  it("never spans what is covered or hidden", () => {
    const { rows } = log().user("a").tools("x").answered().tools("y").answered().tools("z").answered().assistant("b");
    const hidden = rangesOf([seq(4), seq(5)]);
    expect(exchanges(without(rows, hidden), { generation: null, hidden })).toEqual([
      [2, 3],
      [6, 7, 8],
    ]);
  });
});

describe("what a pass takes up (section 11)", () => {
  const chat = (count: number): LogBuilder => log().chat(count);

  it("the oldest exchange outside of the newest rows, which stay as far as the keep budget reaches", () => {
    // 1,700 tokens: of five exchanges of 1,000 with their questions the last stays.
    expect(plan(chat(5).rows)).toEqual([2]);
    expect(plan(without(chat(5).rows, rangesOf([seq(2)])), { view: covering(2) })).toEqual([4]);
    expect(plan(without(chat(5).rows, rangesOf([2, 4, 6].map(seq))), { view: covering(2, 4, 6) })).toBe(
      "all_protected",
    );
  });

  it("never the newest exchange, however large", () => {
    expect(plan(log().user("a").assistant("cost:9000").rows)).toBe("all_protected");
    expect(plan(log().user("a").assistant("cost:9000").user("b").assistant("c").rows)).toEqual([2]);
  });

  it("never one of the last six messages of an unknown model (E7)", () => {
    expect(plan(chat(3).rows, { budgets: LIMITS(false) })).toBe("all_protected");
    expect(plan(chat(4).rows, { budgets: LIMITS(false) })).toEqual([2]);
  });

  it("nothing while a turn is open, paused or in flight (C3, V6)", () => {
    expect(plan([])).toBe("open_turn");
    expect(plan(chat(5).user("and?").rows)).toBe("open_turn");
    expect(plan(chat(5).user("and?").tools("x").rows)).toBe("open_turn");
    expect(plan(chat(5).user("and?").tools("x").answered().rows)).toBe("open_turn");
  });

  it("nothing that comes before what is covered: the summary is written in the order of things", () => {
    const { rows } = chat(6);
    expect(plan(without(rows, rangesOf([seq(4)])), { view: covering(4) })).toEqual([6]);
  });

  it("nothing that would not pay, and the next one that does", () => {
    expect(plan(chat(5).rows, { pays: () => false })).toBe("too_small");
    expect(plan(chat(5).rows, { pays: ({ rows }) => rows[0]?.seq === 6 })).toEqual([6]);
    const { rows } = log().user("a").assistant("cost:40").user("b").assistant("c").chat(3);
    expect(plan(rows)).toEqual([4]);
  });

  it("nothing that was passed over", () => {
    expect(plan(chat(5).rows, { state: { ...NO_MICRO, floor: 3 } })).toEqual([4]);
  });

  it("the summary itself once it has grown by more than 2,000 tokens: that pass absorbs nothing", () => {
    const state = { ...NO_MICRO, generation: 3 };
    const at = (summaryTokens: number) => plan(chat(5).rows, { state, base: { number: 3, summaryTokens } });
    expect([at(2_000), at(2_001)]).toEqual([[2], "defrag"]);
  });

  it("every exchange once, in order, none left out, however many results it has: no cursor can overshoot", () => {
    let builder = log();
    for (let nth = 0; nth < 14; nth++) {
      builder = builder.user(`q${nth}`);
      for (let step = 0; step < nth % 4; step++)
        builder = builder.tools(`a${nth}${step}`, `b${nth}${step}`, `c${nth}${step}`).answered();
      builder = builder.assistant(`r${nth}`);
    }
    const { rows } = builder;
    const all = exchanges(rows);
    const absorbed: (readonly number[])[] = [];
    for (let covered: number[] = []; ; ) {
      const taken = plan(without(rows, rangesOf(covered.map(seq))), {
        view: covered.length === 0 ? NOTHING_COVERED : covering(...covered),
      });
      if (typeof taken === "string") break;
      absorbed.push(taken);
      covered = [...covered, ...taken];
    }
    expect(absorbed).toEqual(all.slice(0, absorbed.length));
    expect(absorbed.length).toBeGreaterThanOrEqual(all.length - 2);
  });
});
