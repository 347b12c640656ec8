/**
 * What calibration defers, and what stands behind it where it defers too much (E4): an estimate far over the trigger does not compact while
 * the projection is under it, and a reading at the trigger, or the provider's refusal, does at once.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Calibration, newCalibration, observe, project, type Reading } from "../../../src/context/calibration.ts";
import { type CompactionOptions, compaction, type LiveView } from "../../../src/context/compact.ts";
import { NO_GUARDS } from "../../../src/context/guards/state.ts";
import { budgets, decideTrigger } from "../../../src/context/trigger.ts";
import { EMPTY_VIEW } from "../../../src/context/view-state.ts";
import type { RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { ModelRequest } from "../../../src/protocol/messages.ts";
import type { ForcedCompaction, RunContext } from "../../../src/protocol/middleware.ts";
import { noopSpan, noopTracer } from "../../../src/telemetry/tracer.ts";
import { plainOptions } from "../../support/compaction-options.ts";
import { log } from "../../support/log.ts";

const MODEL = "m";
const WINDOW = 20_000;
const LIMITS = budgets(
  { maxInputTokens: WINDOW, outputInWindow: false, maxMediaItems: 600, known: true },
  { triggerFrac: 0.5, keepFrac: 0.1, maxTokens: 1_000 },
);
const PROSE = "The index of the archive was read and every entry was found to be in order. ".repeat(20);
const usage = (inputTokens: number) => ({ inputTokens, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 });

/** Some 12,000 tokens by our estimate, over the trigger of 10,000. */
const { rows } = log()
  .chat(
    15,
    (nth) => `Question ${nth}. ${PROSE}`,
    (nth) => `Answer ${nth}. ${PROSE}`,
  )
  .user("And now?");

const session = (calibration: Calibration | null) => {
  const live: LiveView = {
    view: EMPTY_VIEW,
    stored: EMPTY_VIEW,
    calibration,
    guards: NO_GUARDS,
    reading: null,
    compactions: 0,
    nextGeneration: 1,
  };
  const steps: string[] = [];
  const plain = plainOptions(MODEL);
  const options: CompactionOptions = {
    live,
    rows,
    ...plain,
    budgets: LIMITS,
    commit: {
      ...plain.commit,
      commit: async ({ view }) => {
        live.stored = view;
        return true;
      },
    },
    countTokens: undefined,
    events: {
      compacting: () => undefined,
      attempted: () => undefined,
      compacted: (facts) => void steps.push(...facts.steps),
      refused: ({ why }) => void steps.push(why.kind),
      usage: () => undefined,
      invalid: () => undefined,
    },
  };
  /** Sends a request. @returns what was done before it */
  const send = async (reading: number, forced: ForcedCompaction | null = null): Promise<readonly string[]> => {
    steps.length = 0;
    const run: RunContext = {
      sessionId: "ses_1" as SessionId,
      runId: "run_1" as RunId,
      user: null,
      model: MODEL,
      windowTokens: WINDOW,
      promptCaching: true,
      state: {
        messages: rows,
        private: {
          todos: [],
          forced,
          estimate: null,
          compacted: false,
          volatile: new Map(),
          skills: { listed: [], skipped: [] },
        },
      },
      signal: new AbortController().signal,
      span: noopSpan,
      tracer: noopTracer,
    };
    const request: ModelRequest = { model: MODEL, maxTokens: 1_000, system: [], tools: [], messages: [] };
    const answer = { id: "msg_1", model: MODEL, content: "[]", text: "", calls: [], stopReason: "end_turn" } as const;
    await compaction(options).wrapModelCall?.(request, async () => ({ ...answer, usage: usage(reading) }), run);
    return [...steps];
  };
  return { live, send };
};

/** As learned from a provider that makes half as many tokens of it. */
const HALF: Calibration = { ...newCalibration(MODEL), factor: 0.5, pairs: 9 };

describe("deferral (E4)", () => {
  it("sends what the estimate alone would have compacted, as long as the projection is under the trigger", async () => {
    expect(await session(null).send(6_000)).toEqual(["summarise"]);
    const { send } = session(HALF);
    expect([await send(6_000), await send(6_100), await send(9_999)]).toEqual([[], [], []]);
  });

  it("ends with a reading at the trigger: the next call compacts, whatever was estimated", async () => {
    const { send } = session(HALF);
    expect([await send(LIMITS.triggerTokens), await send(3_000)]).toEqual([[], ["summarise"]]);
  });

  it("does not keep a proven overflow from being compacted for", async () => {
    const { send } = session(HALF);
    expect(await send(6_000, { reason: "overflow", statedSize: WINDOW + 1, statedLimit: WINDOW })).toEqual([
      "summarise",
    ]);
  });

  it("does not let the reading of before a compaction begin another one", async () => {
    const { live, send } = session(HALF);
    await send(LIMITS.triggerTokens + 5_000);
    expect(await send(4_000)).toEqual(["summarise"]);
    expect(live.calibration?.baseline).toMatchObject({ reading: 4_000, revision: 1 });
    expect(await send(4_100)).toEqual([]);
  });

  it("has its baseline moved by readings alone: what was deferred leaves it where it was", async () => {
    const { live, send } = session(HALF);
    await send(6_000);
    const { baseline } = live.calibration ?? HALF;
    for (let calls = 0; calls < 3; calls++) project(live.calibration, { model: MODEL, revision: 0, estimate: 50_000 });
    expect(live.calibration?.baseline).toEqual(baseline);
  });
});

describe("the backstop of calibration (E4)", () => {
  const size = fc.integer({ min: 1, max: 200_000 });
  const reading: fc.Arbitrary<Reading> = fc.record({
    model: fc.constant(MODEL),
    revision: fc.nat(1),
    estimate: size,
    reading: size,
  });

  it("holds after any readings: one at or over the trigger triggers the next request that is no smaller, and another model starts anew", () => {
    fc.assert(
      fc.property(fc.array(reading), size, size, fc.nat(50_000), (before, estimate, over, growth) => {
        const last = { model: MODEL, revision: 2, estimate, reading: LIMITS.triggerTokens + over };
        const calibration = [...before, last].reduce<Calibration>(observe, newCalibration(MODEL));
        const next = { model: MODEL, revision: 2, estimate: estimate + growth };
        const facts = { budgets: LIMITS, bytes: 1, mediaItems: 0, maxBytes: 8_000_000, canCount: false };
        expect(decideTrigger({ ...facts, projection: project(calibration, next) }).kind).toBe("over");
        expect(project(calibration, { ...next, model: "other" })).toEqual({ tokens: next.estimate, basis: "estimate" });
      }),
    );
  });
});
