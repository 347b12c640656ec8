import { describe, expect, it } from "vitest";
import { type CutInput, decideCut } from "../../../src/context/cut.ts";
import { EMPTY_SECTIONS } from "../../../src/context/sections.ts";
import { type Generation, rangesOf } from "../../../src/context/view-state.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { log } from "../../support/log.ts";
import { imageBlock } from "../../support/random-log.ts";

/** Every row costs 10 tokens, where its text does not say otherwise: `cost:400`. */
const tokensOf = ({ content }: LogRow): number => Number(/cost:(\d+)/.exec(content)?.[1] ?? 10);

const decide = (rows: readonly LogRow[], change: Partial<CutInput> = {}) =>
  decideCut({
    rows,
    base: null,
    keep: { kind: "fraction", frac: 0.1 },
    windowTokens: 1_000_000,
    tokensOf,
    ...change,
  });

const seqs = (rows: readonly LogRow[]): readonly number[] => rows.map((row) => row.seq);

/** What a cut keeps, by seq, and the ask it restates; or why there is none. */
const outcome = (rows: readonly LogRow[], change: Partial<CutInput> = {}) => {
  const cut = decide(rows, change);
  return cut.kind === "nothing" ? cut.reason : { kept: seqs(cut.kept), pinned: cut.pinned };
};

const baseOf = (from: number, to: number, pinned: Generation["pinned"] = null): Generation => ({
  number: 1,
  base: 0,
  covered: [{ from: seq(from), to: seq(to) }],
  summary: "s",
  sections: EMPTY_SECTIONS,
  pinned,
  history: { kind: "api" },
  prefixVersion: 1,
});

const range = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from + 1 }, (_, nth) => from + nth);

describe("the raw boundary (C1)", () => {
  it("keeps a tenth of the rows, from an answer on together with the message that it answers", () => {
    expect(decide(log().chat(20).rows)).toMatchObject({
      kind: "cut",
      covered: [{ from: 1, to: 34 }],
      keptFrom: 35,
      keptAsk: null,
      pinned: null,
      keepBudgetTokens: 40,
    });
  });

  it("keeps the last six of an unknown model's", () => {
    expect(outcome(log().chat(20).rows, { keep: { kind: "messages", count: 6 } })).toEqual({
      kept: range(33, 40),
      pinned: null,
    });
  });

  it("does not keep one more row because 0.07 x 100 is a little over 7", () => {
    const { rows } = log().chat(50);
    expect(decide(rows, { keep: { kind: "fraction", frac: 0.07 } })).toMatchObject({ keepBudgetTokens: 70 });
  });

  it("moves forward until the rows fit a quarter of the window", () => {
    const { rows } = log().chat(8).user("cost:90").assistant("cost:80").user("cost:10").assistant("cost:10");
    expect(outcome(rows, { keep: { kind: "messages", count: 4 }, windowTokens: 100 })).toEqual({
      kept: [19, 20],
      pinned: null,
    });
  });

  it("counts what micro-compaction left in view as kept slice too: its users' messages (section 11)", () => {
    const all = log().chat(20).rows;
    // The answers of the first 16 turns are covered: 16 questions and four whole turns are shown, and a tenth of 24 is 3, with the pair's other half 4.
    const covered = all.filter(({ role, seq: at }) => role === "assistant" && at <= 32).map((row) => row.seq);
    const base = { ...baseOf(1, 1), covered: rangesOf(covered) };
    const rows = all.filter((row) => !covered.includes(row.seq));
    expect(outcome(rows, { base })).toEqual({ kept: range(37, 40), pinned: null });
    expect(decide(rows, { base })).toMatchObject({ covered: [{ from: 1, to: 36 }] });
  });

  it("counts from where the kept slice of the base began", () => {
    const { rows } = log({ from: 21 }).chat(20);
    expect(decide(rows, { base: baseOf(1, 20) })).toMatchObject({ covered: [{ from: 1, to: 54 }], keptFrom: 55 });
  });

  it("covers an ask that the base left out once its turn is over, and does not count it", () => {
    const ask = log().user("old ask").rows;
    const later = log({ from: 21 }).loop(2).assistant("done").chat(7).user("next").rows;
    const cut = decide([...ask, ...later], { base: baseOf(2, 20) });
    expect(cut).toMatchObject({ covered: [{ from: 1, to: 37 }], keptAsk: null, keepBudgetTokens: 20 });
  });
});

describe("snapping to whole batches (C2)", () => {
  it("goes back over a parallel batch that the boundary falls into", () => {
    const { rows } = log().chat(15).user("read them").tools("a", "b", "c").answered().assistant("done");
    // Raw: the last 4 of 34 begin with the request; the next answer before it is the chat's last one.
    expect(outcome(rows)).toEqual({ kept: range(29, 34), pinned: null });
    expect(outcome(rows, { keep: { kind: "messages", count: 2 } })).toEqual({ kept: range(32, 34), pinned: null });
  });

  it("goes forward past a batch that would cost more than half as much again", () => {
    const { rows } = log()
      .chat(15)
      .user("read it")
      .tools("a")
      .answered("cost:1000")
      .assistant("one")
      .user("two")
      .assistant("three");
    expect(outcome(rows, { windowTokens: 200 })).toEqual({ kept: [34, 35, 36], pinned: null });
  });

  it("stays before a message that is no part of a batch when the answer before it costs too much", () => {
    const { rows } = log().chat(5).user("q").assistant("cost:500").user("x").assistant("y").user("z").assistant("w");
    expect(outcome(rows, { keep: { kind: "messages", count: 4 } })).toEqual({ kept: range(13, 16), pinned: null });
  });

  it("leaves the message before an answer behind where it costs too much", () => {
    const { rows } = log().chat(10).user("cost:500").assistant("a").user("b").assistant("c");
    expect(outcome(rows, { keep: { kind: "messages", count: 3 } })).toEqual({ kept: range(22, 24), pinned: null });
  });

  it("does not begin at calls that nobody answered further back", () => {
    const { rows } = log().chat(5).tools("lost").user("hm").user("there?").user("hello?");
    expect(outcome(rows, { keep: { kind: "messages", count: 3 } })).toEqual({ kept: range(12, 14), pinned: null });
  });

  it("does not take a text that ends like the mark of a result for one", () => {
    const { rows } = log().chat(10).tools("a").answered("cost:1000").user('what is a "tool_result');
    expect(outcome(rows, { keep: { kind: "messages", count: 1 } })).toEqual({ kept: [23], pinned: null });
  });

  it("takes results that follow in several rows as one batch", () => {
    const { rows } = log().chat(10).tools("a", "b").answered("ok", 1).results({ id: "b" }).assistant("done");
    expect(outcome(rows, { keep: { kind: "messages", count: 3 } })).toEqual({ kept: range(21, 24), pinned: null });
    expect(outcome(rows, { keep: { kind: "messages", count: 2 } })).toEqual({ kept: [24], pinned: null });
  });
});

describe("the batch in flight (C3)", () => {
  it.each([
    ["no result yet", 0, [31, 32]],
    ["some results", 1, [31, 32, 33]],
  ])("is kept whole with %s, whatever it costs", (_, answered, kept) => {
    const built = log().chat(15).user("snapshots").tools("s1", "s2", "cost:9000");
    const { rows } = answered === 0 ? built : built.answered("cost:500", answered);
    expect(outcome(rows, { windowTokens: 1_000 })).toEqual({ kept, pinned: null });
  });

  it("is no longer in flight with all its results", () => {
    const { rows } = log().chat(15).user("snapshots").tools("s1", "s2").answered("cost:9000");
    expect(outcome(rows, { windowTokens: 1_000 })).toEqual({ kept: [31], pinned: null });
  });
});

describe("the live ask (C4)", () => {
  it("is kept verbatim as the last row, whatever it costs", () => {
    expect(outcome(log().chat(10).user("cost:30000").rows, { windowTokens: 20_000 })).toEqual({
      kept: [21],
      pinned: null,
    });
  });

  it("is kept apart from the kept slice while its turn is open", () => {
    const { rows } = log().user("migrate").loop(100);
    expect(decide(rows)).toMatchObject({
      covered: [{ from: 2, to: 179 }],
      keptFrom: 180,
      keptAsk: 1,
      pinned: null,
      keepBudgetTokens: 210,
    });
    expect(outcome(rows)).toEqual({ kept: [1, ...range(180, 201)], pinned: null });
  });

  it("is pinned where it costs more than 1.5 times the keep budget, then carried on while its turn is open", () => {
    const { rows } = log()
      .row("user", [{ type: "text", text: "migrate cost:9000" }, imageBlock])
      .loop(100);
    const pinned = { seq: 1, text: "migrate cost:9000\n\n[image]" };
    expect(outcome(rows)).toEqual({ kept: range(180, 201), pinned });

    const base = baseOf(1, 179, { seq: seq(1), text: pinned.text });
    const later = log({ from: 180 }).loop(50);
    expect(decide(later.rows, { base })).toMatchObject({ keptAsk: null, pinned });
    expect(decide(later.user("stop").loop(50).rows, { base })).toMatchObject({ keptAsk: 280, pinned: null });
    expect(
      decide(log({ from: 180 }).loop(50).assistant("done").injected("x").assistant("y").rows, { base }),
    ).toMatchObject({
      keptAsk: null,
      pinned: null,
    });
  });

  it("is neither kept nor pinned once its turn is over", () => {
    const { rows } = log().user("rename").loop(60).assistant("Renamed.").user("changelog").loop(20);
    expect(decide(rows)).toMatchObject({
      keptAsk: 123,
      pinned: null,
      covered: [
        { from: 1, to: 122 },
        { from: 124, to: expect.any(Number) },
      ],
    });
    expect(decide(log().user("rename").loop(60).assistant("Renamed.").rows)).toMatchObject({
      keptAsk: null,
      pinned: null,
    });
  });

  it("is an event as well, and never what was injected (R7)", () => {
    expect(decide(log().event("paid").loop(50).rows)).toMatchObject({ keptAsk: 1 });
    expect(decide(log().injected("start").loop(50).rows)).toMatchObject({ keptAsk: null, pinned: null });
  });

  it("keeps by default what it keeps for one message, and the ask in any case (C4)", () => {
    const logs = [
      log().chat(20).user("a new request"),
      log().chat(15).user("snapshots").tools("s1"),
      log().chat(15).user("work").loop(10),
      log().user("cost:9000").chat(3),
    ];
    for (const { rows } of logs) expect(outcome(rows)).toEqual(outcome(rows, { minTailUserMessages: 1 }));
  });

  it("may be more than one, by min_tail_user_messages", () => {
    const { rows } = log().chat(20);
    expect(outcome(rows, { minTailUserMessages: 5 })).toEqual({ kept: range(31, 40), pinned: null });
    expect(outcome(rows, { minTailUserMessages: 50 })).toBe("all_kept");
  });
});

describe("coverage (V3, V4)", () => {
  it("covers rows only, never a gap that may belong to something undone", () => {
    const { rows } = log().chat(5).skip(7).chat(20);
    expect(decide(rows)).toMatchObject({
      covered: [
        { from: 1, to: 10 },
        { from: 18, to: 51 },
      ],
    });
  });

  it("tells identical messages apart", () => {
    const { rows } = log().chat(
      20,
      () => "same",
      () => "same",
    );
    expect(decide(rows)).toMatchObject({ covered: [{ from: 1, to: 34 }], keptFrom: 35 });
  });
});

describe("nothing to cut (C5, C6)", () => {
  it.each([
    ["no row", log().rows, "no_rows"],
    ["one request", log().user("hello").rows, "all_kept"],
    ["one huge request", log().user("cost:999999").rows, "all_kept"],
    ["a request and its calls in flight", log().user("a").tools("x").rows, "all_kept"],
    ["an open request and one answered call", log().user("a").tools("x").answered("cost:100").rows, "all_kept"],
    ["one exchange", log().user("cost:100").assistant("b").rows, { kept: [2], pinned: null }],
  ])("has an answer for %s", (_, rows, expected) => {
    expect(outcome(rows)).toEqual(expected);
  });

  it("does not cut the kept slice again before a row came, except after an overflow", () => {
    const { rows } = log({ from: 71 }).chat(5);
    const base = baseOf(1, 70);
    expect(outcome(rows, { base, settledSeq: seq(80) })).toBe("no_new_rows");
    expect(decide(rows, { base, settledSeq: seq(79) }).kind).toBe("cut");
    expect(decide(rows, { base }).kind).toBe("cut");
  });

  it("waits until a paused answer has gone on (V6)", () => {
    const call = { type: "server_tool_use", id: "s", name: "web_search", input: {} };
    expect(outcome(log().chat(20).user("search").row("assistant", [call]).rows)).toBe("paused");
  });
});

describe("a restated request (C4)", () => {
  const pinned = { seq: seq(1), text: "migrate" };
  const base = baseOf(1, 3, pinned);

  it("stays restated through the turn that is about it", () => {
    const { rows } = log({ from: 4 }).loop(6);
    expect(outcome(rows, { base })).toMatchObject({ pinned });
  });

  it("is over once its turn has ended, also where the answer is hidden", () => {
    const loaded = log({ from: 4 }).assistant("done").injected("wake up").loop(6).rows;
    expect(outcome(loaded.slice(1), { base, loaded })).toMatchObject({ pinned: null });
  });
});
