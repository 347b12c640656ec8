import { describe, expect, it } from "vitest";
import { planTruncation } from "../../../src/context/truncate.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { log } from "../../support/log.ts";

/** Every row costs 10 tokens, where its text does not say otherwise: `cost:400`. */
const tokensOf = ({ content }: LogRow): number => Number(/cost:(\d+)/.exec(content)?.[1] ?? 10);

/** What is hidden, or what stands in the way. */
const hidden = (rows: readonly LogRow[], tokensToFree: number) => {
  const plan = planTruncation({ rows, hidden: [], tokensToFree, tokensOf });
  return plan.kind === "truncate" ? { ranges: plan.hidden, freed: plan.freedTokens } : plan;
};

describe("truncation (ladder step 5)", () => {
  it("hides whole turns, the oldest first, and no more than needed", () => {
    const { rows } = log().user("a").loop(2).assistant("x").user("b").loop(1).assistant("y").user("c");
    expect(hidden(rows, 1)).toEqual({ ranges: [{ from: 1, to: 6 }], freed: 60 });
    expect(hidden(rows, 61)).toEqual({ ranges: [{ from: 1, to: 10 }], freed: 100 });
  });

  it("joins what is hidden to what was before", () => {
    const { rows } = log({ from: 5 }).chat(3).user("now");
    expect(planTruncation({ rows, hidden: [{ from: seq(1), to: seq(4) }], tokensToFree: 15, tokensOf })).toMatchObject({
      hidden: [{ from: 1, to: 6 }],
      freedTokens: 20,
    });
  });

  it("hides the rest of a turn whose ask is covered as one", () => {
    const { rows } = log({ from: 9 }).loop(2).assistant("x").user("b").assistant("y").user("c");
    expect(hidden(rows, 1)).toEqual({ ranges: [{ from: 9, to: 13 }], freed: 50 });
  });

  it("hides the oldest batches of a turn that is too long by itself, and keeps its ask (C4)", () => {
    const { rows } = log().user("a").assistant("x").user("migrate").loop(10);
    expect(hidden(rows, 55)).toEqual({
      ranges: [
        { from: 1, to: 2 },
        { from: 4, to: 7 },
      ],
      freed: 60,
    });
  });

  it("hides even the newest result, the last, but nothing in flight (C3)", () => {
    expect(hidden(log().user("show the log").tools("big").answered("cost:184000").rows, 20_000)).toEqual({
      ranges: [{ from: 2, to: 3 }],
      freed: 184_010,
    });
    expect(hidden(log().user("a").loop(1).tools("s1", "s2").answered("cost:500", 1).rows, 100)).toEqual({
      kind: "cannot_fit",
      what: "batch_in_flight",
      seq: 5,
      keptTokens: 520,
      missingTokens: 80,
    });
  });

  it("hides no answer without the request that it ends: that would read as open (C4)", () => {
    const { rows } = log().user("a").loop(2).assistant("x").injected("wake up").loop(2);
    expect(hidden(rows, 1)).toEqual({ ranges: [{ from: 1, to: 6 }], freed: 60 });
    expect(hidden(rows, 61)).toEqual({ ranges: [{ from: 1, to: 7 }], freed: 70 });
  });

  it("hides batch by batch in a session without a user, but leaves something to answer (R1, R7)", () => {
    const { rows } = log().injected("start").loop(5);
    expect(hidden(rows, 35)).toEqual({ ranges: [{ from: 1, to: 5 }], freed: 50 });
    expect(hidden(rows, 91)).toMatchObject({ kind: "cannot_fit", keptTokens: 20 });
    // A request that the handoff restates is something to answer.
    expect(planTruncation({ rows, hidden: [], tokensToFree: 91, tokensOf, isPinned: true })).toMatchObject({
      freedTokens: 110,
    });
  });
});

describe("what cannot fit (ladder step 6)", () => {
  it("names the request that is larger than the window", () => {
    expect(hidden(log().chat(2).user("cost:400000").rows, 380_000)).toEqual({
      kind: "cannot_fit",
      what: "live_ask",
      seq: 5,
      keptTokens: 400_000,
      missingTokens: 379_960,
    });
  });

  it("names what is no row where all rows together would not do", () => {
    expect(hidden(log().chat(2).user("hi").rows, 5_000)).toMatchObject({
      what: "fixed_parts",
      seq: null,
      missingTokens: 4_960,
    });
  });

  it.each([0, 1])("does not plan what would hide nothing, to free %i tokens", (tokensToFree) => {
    expect(hidden(log().user("hi").rows, tokensToFree)).toMatchObject({ kind: "cannot_fit", what: "live_ask" });
  });
});
