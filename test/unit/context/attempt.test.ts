/** What is told of an attempt, over real climbs of the ladder: each outcome has its status, and the sizes are those of what was committed. */
import { describe, expect, it } from "vitest";
import { type Attempt, attemptOf, endedAttempt } from "../../../src/context/attempt.ts";
import { type CompactionOptions, compactNow } from "../../../src/context/compact.ts";
import { defaultEstimator } from "../../../src/context/estimate-request.ts";
import { type GuardState, NO_GUARDS } from "../../../src/context/guards/state.ts";
import { budgets } from "../../../src/context/trigger.ts";
import { contains, EMPTY_VIEW } from "../../../src/context/view-state.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import type { RunContext } from "../../../src/protocol/middleware.ts";
import { plainOptions } from "../../support/compaction-options.ts";
import { log } from "../../support/log.ts";

const PROSE = "The index of the archive was read and every entry was found to be in order. ".repeat(20);

const chatted = (rounds: number): readonly LogRow[] =>
  log()
    .chat(
      rounds,
      (nth) => `Question ${nth}. ${PROSE}`,
      (nth) => `Answer ${nth}. ${PROSE}`,
    )
    .user("And now?").rows;

interface Tried {
  readonly rounds?: number;
  readonly guards?: Partial<GuardState>;
  readonly options?: Partial<CompactionOptions>;
}

/** Compacts once, and returns everything that was told. */
const tried = async ({ rounds = 22, guards = {}, options = {} }: Tried) => {
  const told: Attempt[] = [];
  const live = {
    view: EMPTY_VIEW,
    stored: EMPTY_VIEW,
    calibration: null,
    guards: { ...NO_GUARDS, ...guards },
    reading: null,
    compactions: 0,
    nextGeneration: 1,
  };
  const rows = chatted(rounds);
  const all: CompactionOptions = {
    live,
    rows,
    ...plainOptions(),
    budgets: budgets(
      { maxInputTokens: 20_000, outputInWindow: false, maxMediaItems: 600, known: true },
      { triggerFrac: 0.7, keepFrac: 0.1, maxTokens: 1_000 },
    ),
    countTokens: undefined,
    events: {
      compacting: () => undefined,
      attempted: (attempt) => void told.push(attempt),
      compacted: () => undefined,
      refused: () => undefined,
      usage: () => undefined,
      invalid: () => undefined,
    },
    ...options,
  };
  const run = { sessionId: "ses_1", state: { private: { forced: null } } } as unknown as RunContext;
  const request = { model: "m", maxTokens: 1_000, system: [], tools: [], messages: [] };
  const need = { kind: "climb", reason: "threshold", forced: null } as const;
  const error = await compactNow(all, run, request, need).then(
    () => undefined,
    (caught: unknown) => caught,
  );
  expect(told).toHaveLength(1);
  return { attempt: told[0] as Attempt, rows, live, error, options: all };
};

const failing = (failure: "quota" | "timeout") => ({
  summariser: {
    ...plainOptions().summariser,
    failureOf: () => failure,
    call: () => Promise.reject(new Error("no")),
  },
});

describe("an attempt to compact is told of once", () => {
  it("committed: with the sizes of what is covered, kept and written, which add up to what was there", async () => {
    const { attempt, live, rows } = await tried({});
    expect(attempt).toMatchObject({ attemptId: "cmp_1", reason: "threshold", status: "committed", generation: 1 });
    expect([attempt.why, attempt.guard, attempt.failure, attempt.cooldownSeconds]).toEqual([null, null, null, null]);
    expect(attempt.summaryTokens).toBe(defaultEstimator.text(live.view.generation?.summary ?? ""));
    const covered = live.view.generation?.covered ?? [];
    expect(attempt.coveredMessages).toBe(rows.filter(({ seq }) => contains(covered, seq)).length);
    const { estimateTokens, coveredTokens, keptTokens, afterTokens } = attempt;
    expect(Number(coveredTokens) + Number(keptTokens)).toBeLessThanOrEqual(Number(estimateTokens));
    expect(Number(coveredTokens)).toBeGreaterThan(0.8 * Number(estimateTokens));
    expect(Number(keptTokens)).toBeLessThan(Number(afterTokens));
  });

  it("refused by a guard, by its name", async () => {
    const cooldown = { ...NO_GUARDS.cooldown, active: true, reason: "timeout" } as const;
    const { attempt } = await tried({ rounds: 20, guards: { cooldown } });
    expect(attempt).toMatchObject({ status: "refused", why: "guard", guard: "cooldown", generation: null });
    expect(attempt.coveredTokens).toBe(null);
  });

  it("refused for a failed summary that can wait, with its class and how long none is tried", async () => {
    const { attempt } = await tried({ rounds: 20, options: failing("timeout") });
    expect(attempt).toMatchObject({ status: "refused", why: "failed", failure: "timeout", cooldownSeconds: 60 });
  });

  it("aborted where the view does not fit and the summariser cannot be had", async () => {
    const { attempt } = await tried({ rounds: 40, options: failing("quota") });
    expect(attempt).toMatchObject({ status: "aborted", why: "failed", failure: "quota" });
  });

  it("discarded_late where the session was lost before the commit", async () => {
    const commit = { ...plainOptions().commit, commit: async () => false };
    const { attempt } = await tried({ options: { commit } });
    expect(attempt).toMatchObject({ status: "discarded_late", generation: null, afterTokens: null });
  });

  it("aborted where the run was ended while the summary was written, and the error passes on", async () => {
    const ended = new Error("ended");
    const summariser = {
      ...plainOptions().summariser,
      failureOf: () => null,
      call: () => Promise.reject(ended),
    };
    const { attempt, error } = await tried({ options: { summariser } });
    expect(error).toBe(ended);
    expect(attempt).toEqual(
      endedAttempt({ attemptId: "cmp_1", reason: "threshold", estimateTokens: Number(attempt.estimateTokens) }),
    );
    expect([attempt.status, attempt.why]).toEqual(["aborted", "run_ended"]);
  });

  it("cannot_fit: aborted, or committed where a generation was made on the way", async () => {
    const { options } = await tried({});
    const begun = { attemptId: "cmp_2", reason: "overflow", estimateTokens: 9, before: EMPTY_VIEW } as const;
    const none = attemptOf(options, begun, { kind: "cannot_fit", what: "w", guards: NO_GUARDS, committed: null });
    expect([none.status, none.why]).toEqual(["aborted", "cannot_fit"]);
  });
});
