/** Compaction between turns, where the newest message is an answer and the next request is still to come (G9, C7). */
import { describe, expect, it } from "vitest";
import { defaultEstimator, estimateRow } from "../../../src/context/estimate-request.ts";
import { NO_GUARDS } from "../../../src/context/guards/state.ts";
import { climb } from "../../../src/context/ladder.ts";
import type { RevisionChange } from "../../../src/context/ports.ts";
import { budgets } from "../../../src/context/trigger.ts";
import { createRenderer } from "../../../src/context/view.ts";
import { EMPTY_VIEW } from "../../../src/context/view-state.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { HISTORY } from "../../support/compaction-options.ts";
import { log } from "../../support/log.ts";

const SESSION = "ses_00000000000000000000000000";
const PROSE = "The index of the archive was read and every entry was found to be in order. ".repeat(20);

const compacted = async (rows: readonly LogRow[]) => {
  const commits: RevisionChange[] = [];
  const renderer = createRenderer({
    sessionId: SESSION,
    estimateTokens: defaultEstimator.text,
    messageTokens: (message) => estimateRow(message.content),
  });
  const outcome = await climb({
    sessionId: SESSION,
    rows,
    view: EMPTY_VIEW,
    guards: NO_GUARDS,
    reason: "manual",
    focus: null,
    budgets: budgets(
      { maxInputTokens: 100_000, outputInWindow: false, maxMediaItems: 600, known: true },
      { triggerFrac: 0.85, keepFrac: 0.1, maxTokens: 1_000 },
    ),
    triggerTokens: 85_000,
    hardLimitTokens: 100_000,
    maxBytes: 8_000_000,
    reading: null,
    thinkingBound: false,
    minTailUserMessages: 1,
    maxMarks: 3,
    measure: (view) => renderer.measure(rows, view),
    estimateTokens: defaultEstimator.text,
    rowTokens: (row, view) => renderer.row(row, view).tokens,
    attemptId: "cmp_1",
    nextGeneration: 1,
    ports: {
      history: HISTORY,
      summariser: {
        model: "m",
        windowTokens: 100_000,
        failureOf: () => "transient",
        call: async () => ({
          text: "The archive was checked.",
          stopReason: "end_turn",
          usage: { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 },
          model: "m",
        }),
      },
      commit: {
        commit: async (change) => {
          commits.push(change);
          return true;
        },
        recordFailure: async () => undefined,
        armProbation: async () => null,
        takeProbe: async () => {
          throw new Error("no probe is due");
        },
      },
    },
  });
  return { outcome, commits };
};

describe("a session between two turns", () => {
  it("can be compacted: that its view ends with an answer is no fault, the next request is still to come (C7)", async () => {
    const { rows } = log().chat(
      15,
      (nth) => `Question ${nth}. ${PROSE}`,
      (nth) => `Answer ${nth}. ${PROSE}`,
    );
    const { outcome, commits } = await compacted(rows);
    expect(outcome).toMatchObject({ kind: "changed", steps: ["summarise"] });
    expect(commits.map(({ reason }) => reason)).toEqual(["summarise"]);
  });

  it("is not compacted where what is kept would still be refused (C7)", async () => {
    const { rows } = log()
      .chat(
        15,
        (nth) => `Question ${nth}. ${PROSE}`,
        (nth) => `Answer ${nth}. ${PROSE}`,
      )
      .row("user", [{ type: "text", text: "" }])
      .assistant("Yes?");
    const { outcome, commits } = await compacted(rows);
    expect(outcome).toMatchObject({ kind: "unchanged", why: { kind: "failed", failure: "invalid_view" } });
    expect(commits).toEqual([]);
  });
});
