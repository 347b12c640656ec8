/** What most tests of the Compaction middleware have in common: a history that takes everything, a summariser that answers, a store that says yes. */
import type { CompactionOptions } from "../../src/context/compact.ts";
import { defaultEstimator, estimateRow } from "../../src/context/estimate-request.ts";
import { createRenderer } from "../../src/context/view.ts";

export const HISTORY: CompactionOptions["history"] = {
  append: async () => ({ pointer: { kind: "file", path: "/h.md" }, sizeBytes: 1, sha256: "0".repeat(64) }),
};

const USAGE = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 };

/** @param model of the summaries */
export const plainOptions = (
  model = "m",
): Omit<CompactionOptions, "live" | "rows" | "budgets" | "countTokens" | "events"> => ({
  renderer: createRenderer({
    sessionId: "ses_1",
    estimateTokens: defaultEstimator.text,
    messageTokens: (message) => estimateRow(message.content),
  }),
  maxBytes: 8_000_000,
  thinkingBound: false,
  minTailUserMessages: 1,
  estimateTokens: defaultEstimator.text,
  newAttemptId: () => "cmp_1",
  history: HISTORY,
  summariser: {
    model,
    windowTokens: 100_000,
    failureOf: () => "transient",
    call: async () => ({ text: "It was checked.", stopReason: "end_turn", usage: USAGE, model }),
  },
  commit: {
    commit: async () => true,
    recordFailure: async () => undefined,
    armProbation: async () => null,
    takeProbe: async () => {
      throw new Error("no probe is due");
    },
  },
});
