/** What is done about a request whose turn has compacted once: a second time needs the provider's word (M4); and the room for the answer. */
import { describe, expect, it } from "vitest";
import { newCalibration } from "../../../src/context/calibration.ts";
import { type CompactionOptions, compaction } from "../../../src/context/compact.ts";
import { NO_GUARDS } from "../../../src/context/guards/state.ts";
import { budgets } from "../../../src/context/trigger.ts";
import { EMPTY_VIEW } from "../../../src/context/view-state.ts";
import type { RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { ModelRequest } from "../../../src/protocol/messages.ts";
import type { RunContext } from "../../../src/protocol/middleware.ts";
import { noopSpan, noopTracer } from "../../../src/telemetry/tracer.ts";
import { plainOptions } from "../../support/compaction-options.ts";
import { log } from "../../support/log.ts";

const PROSE = "The index of the archive was read and every entry was found to be in order. ".repeat(20);
const NO_USAGE = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 };

interface Sent {
  /** What changed the view before the call, or kept it from being changed. */
  readonly steps: readonly string[];
  /** As the provider gets it. */
  readonly maxTokens: number | undefined;
}

/** Sends a request of about 16,000 tokens in a turn that has compacted once. */
const send = async (
  counted: number | undefined,
  { windowTokens = 20_000, outputInWindow = false, maxTokens = 1_000 } = {},
): Promise<Sent> => {
  const { rows } = log()
    .chat(
      20,
      (nth) => `Question ${nth}. ${PROSE}`,
      (nth) => `Answer ${nth}. ${PROSE}`,
    )
    .user("And now?");
  const steps: string[] = [];
  let sentMaxTokens: number | undefined;
  const options: CompactionOptions = {
    live: {
      view: EMPTY_VIEW,
      stored: EMPTY_VIEW,
      calibration: newCalibration("m"),
      guards: { ...NO_GUARDS, turn: { compactions: 1, attempts: 1 } },
      reading: 1_000,
      compactions: 1,
      nextGeneration: 2,
    },
    rows,
    ...plainOptions(),
    budgets: budgets(
      { maxInputTokens: windowTokens, outputInWindow, maxMediaItems: 600, known: true },
      { triggerFrac: 0.7, keepFrac: 0.1, maxTokens },
    ),
    countTokens: async () => counted,
    events: {
      compacting: () => undefined,
      attempted: () => undefined,
      compacted: (facts) => void steps.push(...facts.steps),
      refused: ({ why }) => void steps.push(why.kind === "guard" ? `guard ${why.guard}` : why.kind),
      usage: () => undefined,
      invalid: () => undefined,
    },
  };
  const run: RunContext = {
    sessionId: "ses_1" as SessionId,
    runId: "run_1" as RunId,
    user: null,
    model: "m",
    windowTokens,
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
  const request: ModelRequest = { model: "m", maxTokens, system: [], tools: [], messages: [] };
  const answer = { id: "msg_1", model: "m", content: "[]", text: "", calls: [], stopReason: "end_turn" } as const;
  const next = async (sent: ModelRequest) => {
    sentMaxTokens = sent.maxTokens;
    return { ...answer, usage: NO_USAGE };
  };
  await compaction(options).wrapModelCall?.(request, next, run);
  return { steps, maxTokens: sentMaxTokens };
};

describe("a second compaction in a turn", () => {
  it("is made where the provider counts the very request at the trigger or over it (M4)", async () => {
    expect((await send(15_000)).steps).toEqual(["summarise"]);
  });

  it("is not made by an estimate alone (M4)", async () => {
    expect((await send(undefined)).steps).toEqual(["guard budget"]);
  });
});

describe("max_tokens (context.md, Window)", () => {
  it("is as the session has it where the answer is outside of the window", async () => {
    expect((await send(undefined, { windowTokens: 30_000, maxTokens: 25_000 })).maxTokens).toBe(25_000);
  });

  it("is lowered to what the prompt leaves free where the answer counts inside of the window", async () => {
    const inside = { windowTokens: 30_000, outputInWindow: true };
    // A projection may be wrong: a tenth of it is left free too.
    expect((await send(17_000, { ...inside, maxTokens: 25_000 })).maxTokens).toBe(30_000 - 18_700);
    expect((await send(17_000, { ...inside, maxTokens: 2_000 })).maxTokens).toBe(2_000);
  });
});
