/** The size that clients are told of a request that was just compacted (E4). */
import { expect, it } from "vitest";
import { newCalibration } from "../../../src/context/calibration.ts";
import { compaction, type LiveView } from "../../../src/context/compact.ts";
import { NO_GUARDS } from "../../../src/context/guards/state.ts";
import { budgets } from "../../../src/context/trigger.ts";
import { EMPTY_VIEW } from "../../../src/context/view-state.ts";
import type { RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { ModelRequest, ModelResponse } from "../../../src/protocol/messages.ts";
import type { RunContext } from "../../../src/protocol/middleware.ts";
import { noopSpan, noopTracer } from "../../../src/telemetry/tracer.ts";
import { plainOptions } from "../../support/compaction-options.ts";
import { log } from "../../support/log.ts";

const PROSE = "The index of the archive was read and every entry was found to be in order. ".repeat(20);
const NO_USAGE = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 };

const LIVE: LiveView = {
  view: EMPTY_VIEW,
  stored: EMPTY_VIEW,
  // The provider makes half as many tokens of it as we think.
  calibration: { ...newCalibration("m"), factor: 0.5 },
  guards: NO_GUARDS,
  reading: null,
  compactions: 0,
  nextGeneration: 1,
};

/** A call of a session over its trigger. */
const called = async (live: LiveView, answer: Partial<ModelResponse> = {}) => {
  const { rows } = log()
    .chat(
      20,
      (nth) => `Question ${nth}. ${PROSE}`,
      (nth) => `Answer ${nth}. ${PROSE}`,
    )
    .user("And now?");
  const told: { estimate: number; projected: number }[] = [];
  const steps: string[] = [];
  const { wrapModelCall } = compaction({
    live,
    rows,
    ...plainOptions(),
    budgets: budgets(
      { maxInputTokens: 7_000, outputInWindow: false, maxMediaItems: 600, known: true },
      { triggerFrac: 0.85, keepFrac: 0.1, maxTokens: 1_000 },
    ),
    countTokens: undefined,
    events: {
      compacting: () => undefined,
      attempted: () => undefined,
      compacted: (facts) => void steps.push(...facts.steps),
      refused: () => undefined,
      usage: ({ estimate, projected }) => void told.push({ estimate, projected }),
      invalid: () => undefined,
    },
  });
  const run: RunContext = {
    sessionId: "ses_1" as SessionId,
    runId: "run_1" as RunId,
    user: null,
    model: "m",
    windowTokens: 7_000,
    promptCaching: true,
    state: {
      messages: rows,
      private: {
        todos: [],
        forced: null,
        estimate: null,
        compacted: false,
        skills: { listed: [], skipped: [] },
        volatile: new Map(),
      },
    },
    signal: new AbortController().signal,
    span: noopSpan,
    tracer: noopTracer,
  };
  const request: ModelRequest = { model: "m", maxTokens: 1_000, system: [], tools: [], messages: [] };
  await wrapModelCall?.(
    request,
    async () => ({
      id: "msg_1",
      model: "m",
      content: "[]",
      text: "",
      calls: [],
      stopReason: "end_turn",
      usage: NO_USAGE,
      ...answer,
    }),
    run,
  );
  return { steps, told };
};

it("is in the provider's tokens after a compaction too, as the size that started it (E4)", async () => {
  const { steps, told } = await called({ ...LIVE });
  expect(steps).toEqual(["summarise"]);
  expect(told).toEqual([{ estimate: expect.any(Number), projected: Math.round((told[0]?.estimate ?? 0) / 2) }]);
});

it("learns nothing from an answer whose provider counted nothing, yet takes it for the one to wait for (E4, G7)", async () => {
  const live = { ...LIVE };
  await called(live, { usageMissing: true });
  expect(live).toMatchObject({ reading: null, guards: { reading: "over", strikes: 0 } });
  expect(live.calibration).toMatchObject({ factor: 0.5, baseline: null });
  const counted = { ...LIVE };
  await called(counted);
  expect(counted.reading).toBe(1);
});
