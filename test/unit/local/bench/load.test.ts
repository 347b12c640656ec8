import { describe, expect, test } from "vitest";
import { loadTable, percentile } from "../../../../src/local/bench/load-figures.ts";
import { faultsOf, inputOf, type LoggedMessage } from "../../../../src/local/bench/load-plan.ts";

const RUNS = ["run_a", "run_b", "run_c"];

/** The log of session 7 after three turns, the third with a tool. */
const log = (): LoggedMessage[] =>
  [
    ["user", 0, inputOf(7, 0)],
    ["assistant", 0, "Yes."],
    ["user", 1, inputOf(7, 1)],
    ["assistant", 1, "Yes."],
    ["user", 2, inputOf(7, 2)],
    ["assistant", 2, ""],
    ["tool", 2, ""],
    ["assistant", 2, "Written."],
  ].map(([origin, turn, text], at) => ({
    id: `msg_${at}`,
    seq: at + 1,
    origin: String(origin),
    run_id: RUNS[Number(turn)] ?? null,
    content: [{ type: "text", text: String(text) }],
  }));

describe("The log of a session under load", () => {
  test("is right when every message is there once, in order, from its turn's run", () => {
    expect(faultsOf(7, RUNS, log())).toEqual([]);
  });

  test("tells turns and sessions apart", () => {
    expect(new Set([1, 11, 111].flatMap((session) => [0, 1, 2].map((turn) => inputOf(session, turn)))).size).toBe(9);
  });

  test.each<[string, (rows: LoggedMessage[]) => unknown, RegExp]>([
    ["a lost message", (rows) => rows.pop(), /7 messages instead of 8/],
    [
      "a doubled message",
      (rows) => rows.push({ ...(rows[7] as LoggedMessage) }),
      /9 messages instead of 8.*a message twice/s,
    ],
    ["two turns in the other order", (rows) => rows.push(...rows.splice(0, 2)), /message 1 has the seq 3/],
    ["a gap in the seqs", (rows) => Object.assign(rows[7] as LoggedMessage, { seq: 9 }), /message 8 has the seq 9/],
    [
      "another's text",
      (rows) => Object.assign(rows[2] as LoggedMessage, { content: inputOf(8, 1) }),
      /not what turn 1 was told/,
    ],
    [
      "another run's row",
      (rows) => Object.assign(rows[3] as LoggedMessage, { run_id: "run_x" }),
      /another run than turn 1/,
    ],
    [
      "a result out of place",
      (rows) => Object.assign(rows[6] as LoggedMessage, { origin: "user" }),
      /of user instead of tool/,
    ],
  ])("is wrong with %s", (_, change, fault) => {
    const rows = log();
    change(rows);
    expect(faultsOf(7, RUNS, rows).join("\n")).toMatch(fault);
  });

  test("is wrong when one run answered two turns", () => {
    expect(faultsOf(7, ["run_a", "run_a"], log().slice(0, 4)).join()).toContain("two turns with one run");
  });
});

describe("The figures of a load", () => {
  test.each([
    [0.5, 50],
    [0.95, 95],
    [0.99, 99],
    [1, 100],
  ])("the share %f of 1 to 100 does not exceed %i", (share, value) => {
    expect(
      percentile(
        Array.from({ length: 100 }, (_, n) => 100 - n),
        share,
      ),
    ).toBe(value);
  });

  test("of one value is that value, of none is no number", () => {
    expect([percentile([3], 0.99), percentile([], 0.5)]).toEqual([3, Number.NaN]);
  });

  test("are a table", () => {
    const turns = [10, 20, 30, 40].map((overheadMs) => ({ overheadMs, clientMs: overheadMs + 5.4 }));
    expect(loadTable(turns, 2_000).split("\n")).toEqual([
      "4 turns in 2.0 s: 2.0 turns/s",
      "",
      "ms                                     p50     p95     p99    most",
      "the run's own (overhead_ms)             20      40      40      40",
      "the client's, without the model         25      45      45      45",
    ]);
  });
});
