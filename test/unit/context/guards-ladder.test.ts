/** What the ladder does where a guard is on, a summary fails, or one is not worth having (sections 6 and 7). */
import { describe, expect, it } from "vitest";
import { STRIKES_TO_BLOCK } from "../../../src/context/guards/state.ts";
import type { LadderOutcome } from "../../../src/context/ladder-input.ts";
import { climbed, NEXT } from "../../support/climb.ts";
import { log } from "../../support/log.ts";

const PROSE = "The index of the archive was read and every entry was found to be in order. ".repeat(20);

/** About 850 tokens a turn, and a question at the end. */
const talk = (turns: number) =>
  log()
    .chat(
      turns,
      (nth) => `Question ${nth}. ${PROSE}`,
      (nth) => `Answer ${nth}. ${PROSE}`,
    )
    .user("And now?").rows;

/** Over the trigger of 17,000 tokens, and under the window of 20,000. */
const OVER_TRIGGER = talk(23);
const OVER_WINDOW = talk(30);
/** Most of it is system prompt and tools, and the newest part, which is kept: what could be covered is under a tenth of the trigger. */
const SMALL_SLICE = {
  fixedTokens: 15_000,
  rows: log()
    .chat(
      20,
      () => "Hello?",
      () => "Hello.",
    )
    .chat(
      3,
      (nth) => `Question ${nth}. ${PROSE}`,
      (nth) => `Answer ${nth}. ${PROSE}`,
    )
    .user("And now?").rows,
};

const BLOCKED = { strikes: STRIKES_TO_BLOCK };
const DUE = { ...BLOCKED, probation: { ...NEXT, due: true } };
const AUTHENTICATION = {
  active: true,
  until: NEXT.at,
  reason: "authentication",
  failures: { timeout: 0, truncated: 0 },
} as const;

const whyOf = (outcome: LadderOutcome): string => {
  if (outcome.kind !== "unchanged" && outcome.kind !== "changed") return outcome.kind;
  const { why } = outcome;
  if (why.kind === "guard") return `${outcome.kind}: ${why.guard}`;
  return `${outcome.kind}: ${why.kind === "failed" ? why.failure : why.kind}`;
};

it("the fixtures are as large as they say", async () => {
  const [trigger, window, slice] = await Promise.all(
    [{ rows: OVER_TRIGGER }, { rows: OVER_WINDOW }, SMALL_SLICE].map((plan) => climbed(plan)),
  );
  const sizes = [trigger, window, slice].map((one) => one?.before ?? 0);
  expect(sizes.map((tokens) => [tokens >= 17_000, tokens < 20_000])).toEqual([
    [true, true],
    [true, false],
    [true, true],
  ]);
});

describe("a failed summary (G2)", () => {
  it("under the window changes nothing, and is recorded in one place, once (G1)", async () => {
    const { outcome, commits, failures } = await climbed({ rows: OVER_TRIGGER, summary: { failure: "timeout" } });
    expect([whyOf(outcome), commits, failures]).toEqual(["unchanged: timeout", [], [["timeout", 60]]]);
  });

  it("over the window truncates", async () => {
    const { outcome, commits } = await climbed({ rows: OVER_WINDOW, summary: { failure: "timeout" } });
    expect([whyOf(outcome), commits.map(({ reason }) => reason)]).toEqual(["changed: timeout", ["truncate"]]);
  });

  it.each(["authentication", "quota", "network", "overloaded"] as const)(
    "over the window gives the turn up for %s, and loses nothing",
    async (failure) => {
      const { outcome, commits, failures } = await climbed({ rows: OVER_WINDOW, summary: { failure } });
      expect([outcome.kind, commits, failures.length]).toEqual(["aborted", [], 1]);
    },
  );

  it("for which a turn was given up gives up the next one within the cooldown too, without a call", async () => {
    const { outcome, commits, calls, failures } = await climbed({
      rows: OVER_WINDOW,
      guards: { cooldown: AUTHENTICATION },
    });
    expect(outcome).toMatchObject({ kind: "aborted", failure: "authentication" });
    expect([commits, calls, failures]).toEqual([[], [], []]);
    expect(whyOf((await climbed({ rows: OVER_TRIGGER, guards: { cooldown: AUTHENTICATION } })).outcome)).toBe(
      "unchanged: cooldown",
    );
  });

  it("that the end of the run caused is passed on: no failure, no counter, no change", async () => {
    await expect(climbed({ rows: OVER_WINDOW, summary: { failure: null } })).rejects.toThrow("no summary");
  });
});

describe("a blocked session (G3, G4)", () => {
  it("has its probation set by the first evaluation, and goes on as it is", async () => {
    const { outcome, asked, calls } = await climbed({ rows: OVER_TRIGGER, guards: BLOCKED });
    expect([whyOf(outcome), asked, calls]).toEqual(["unchanged: effectiveness", ["arm"], []]);
    if (outcome.kind !== "unchanged" || outcome.why.kind !== "guard") throw new Error(outcome.kind);
    expect(outcome.guards.probation).toEqual(NEXT);
    expect(outcome.why.words).toContain(`paused until ${NEXT.at}`);
  });

  it("does not ask the database before the time is over", async () => {
    const { asked } = await climbed({ rows: OVER_TRIGGER, guards: { ...BLOCKED, probation: NEXT } });
    expect(asked).toEqual([]);
  });

  it("compacts with the probe that it is granted, and not without", async () => {
    const granted = await climbed({ rows: OVER_TRIGGER, guards: DUE });
    expect([whyOf(granted.outcome), granted.asked, granted.calls.length]).toEqual([
      "changed: fits",
      ["probe cmp_1"],
      1,
    ]);
    expect(granted.commits[0]?.guards).toMatchObject({
      strikes: STRIKES_TO_BLOCK,
      probation: NEXT,
      reading: "awaiting",
    });
    const refused = await climbed({ rows: OVER_TRIGGER, guards: DUE, isGranted: false });
    expect([whyOf(refused.outcome), refused.calls]).toEqual(["unchanged: effectiveness", []]);
  });

  it("does not spend a probe where there is nothing to cut", async () => {
    const rows = log().user(PROSE.repeat(45)).rows;
    const { outcome, asked } = await climbed({ rows, guards: DUE });
    expect([whyOf(outcome), asked]).toEqual(["unchanged: effectiveness", []]);
  });

  it("keeps its probe's window where the summary fails, and has a cooldown beside it (G1)", async () => {
    const { outcome } = await climbed({ rows: OVER_TRIGGER, guards: DUE, summary: { failure: "empty" } });
    if (outcome.kind !== "unchanged") throw new Error(outcome.kind);
    expect(outcome.guards).toMatchObject({ probation: NEXT, cooldown: { active: true, reason: "empty" } });
  });

  it("is truncated where it does not fit, and named by its status where two compactions came to the same (G8)", async () => {
    const { outcome } = await climbed({ rows: OVER_WINDOW, guards: { sameResult: true, probation: NEXT } });
    expect(whyOf(outcome)).toBe("changed: same_result");
  });
});

describe("feasibility (G5)", () => {
  it("truncates to under the trigger without a summary: counted apart, no strike, no failure in what is told", async () => {
    const { outcome, calls, failures, commits } = await climbed({
      ...SMALL_SLICE,
      guards: { strikes: 1, cooldown: { ...AUTHENTICATION, active: false } },
    });
    if (outcome.kind !== "changed") throw new Error(outcome.kind);
    expect([outcome.steps, calls, failures, commits.length]).toEqual([["truncate"], [], [], 1]);
    expect(outcome.tokensAfter).toBeLessThan(17_000);
    expect(outcome.guards).toMatchObject({ strikes: 1, skips: 1, turn: { attempts: 0 } });
    expect(outcome.why).toEqual({ kind: "skipped", words: expect.not.stringMatching(/authentication|failed/) });
  });

  it("asks for a summary without a strike, and for a compaction that was asked for (G9)", async () => {
    expect((await climbed({ ...SMALL_SLICE })).calls).toHaveLength(1);
    expect((await climbed({ ...SMALL_SLICE, guards: { strikes: 1 }, reason: "manual" })).calls).toHaveLength(1);
  });

  it("gives no turn up: what cannot be hidden is sent as it is", async () => {
    const rows = log().user("Hello?").assistant("Hello.").user(PROSE.repeat(45)).rows;
    const { outcome } = await climbed({ rows, guards: { strikes: 1 } });
    expect(["unchanged", "changed"]).toContain(outcome.kind);
  });
});

describe("a compaction that is asked for (G9)", () => {
  it.each(["manual", "tool"] as const)("%s is made in spite of cooldown, strikes and pause", async (reason) => {
    const guards = { ...BLOCKED, sameResult: true, cooldown: AUTHENTICATION };
    const { outcome, asked } = await climbed({ rows: OVER_TRIGGER, guards, reason });
    expect([outcome.kind, asked]).toEqual(["changed", []]);
  });

  it("passes the same checks as any other: what is larger than what it replaces, or no summary, is refused", async () => {
    const refused = async (summary: string) => {
      const { outcome, commits } = await climbed({ rows: OVER_TRIGGER, reason: "manual", summary });
      return [whyOf(outcome), commits];
    };
    expect(await refused(" \n ")).toEqual(["unchanged: empty", []]);
    expect(await refused("I'm sorry, I cannot help with that.")).toEqual(["unchanged: refused", []]);
    const short = await climbed({
      rows: talk(1),
      reason: "manual",
      summary: PROSE.repeat(2),
    });
    expect([whyOf(short.outcome), short.commits]).toEqual(["unchanged: would_grow", []]);
    if (short.outcome.kind !== "unchanged") throw new Error(short.outcome.kind);
    expect(short.outcome.guards.strikes).toBe(0);
  });

  it("that fails ends the cooldown before it begins its own (G1)", async () => {
    const { outcome, failures } = await climbed({
      rows: OVER_TRIGGER,
      guards: { cooldown: AUTHENTICATION },
      reason: "manual",
      summary: { failure: "network" },
    });
    if (outcome.kind !== "unchanged") throw new Error(outcome.kind);
    expect([outcome.guards.cooldown.reason, failures]).toEqual(["network", [["network", 30]]]);
  });
});

describe("an overflow (G6)", () => {
  it("is compacted for in spite of cooldown, strikes and pause", async () => {
    const guards = { ...BLOCKED, sameResult: true, cooldown: { ...AUTHENTICATION, reason: "timeout" as const } };
    const { outcome, asked } = await climbed({ rows: OVER_WINDOW, guards, reason: "overflow" });
    expect([outcome.kind, asked]).toEqual(["changed", []]);
  });

  it("that fails clears none of them", async () => {
    const guards = { ...BLOCKED, probation: NEXT, sameResult: true };
    const failed = await climbed({ rows: OVER_WINDOW, guards, reason: "overflow", summary: { failure: "empty" } });
    if (failed.outcome.kind !== "changed") throw new Error(failed.outcome.kind);
    expect(failed.outcome.guards).toMatchObject(guards);
  });
});

describe("a request that does not fit even with a summary (ladder step 6)", () => {
  const rows = log()
    .chat(
      20,
      (nth) => `Question ${nth}. ${PROSE}`,
      (nth) => `Answer ${nth}. ${PROSE}`,
    )
    .user(PROSE.repeat(60)).rows;

  it("keeps the summary that was paid for: it is committed, and the next turn begins with it (M1, M3)", async () => {
    const { outcome, commits, calls } = await climbed({ rows });
    if (outcome.kind !== "cannot_fit") throw new Error(outcome.kind);
    expect([calls.length, commits.map(({ reason }) => reason)]).toEqual([1, ["summarise"]]);
    expect(outcome.committed?.compaction?.generation.number).toBe(1);
    expect(outcome.guards).toMatchObject({ generation: 1, reading: "awaiting" });
    const again = await climbed({
      rows,
      view:
        outcome.committed?.view ??
        commits[0]?.view ??
        (() => {
          throw new Error();
        })(),
      guards: outcome.guards,
    });
    expect([again.outcome.kind, again.calls, again.commits]).toEqual(["cannot_fit", [], []]);
  });

  it("stores nothing where the worker is late (M2)", async () => {
    const { outcome, commits } = await climbed({ rows, isLate: true });
    expect([outcome.kind, commits]).toEqual(["late", []]);
  });
});
