/** How a run's end is told: the data of `run.completed`, `run.failed` and `run.cancelled`. */
import type { RunRecord } from "../store/runs.ts";
import { usageJson } from "./usage-json.ts";

export type EndFacts = Pick<
  RunRecord,
  "status" | "stopReason" | "outputText" | "steps" | "usage" | "costUsd" | "error"
>;

/** The data of a run's last event, in the words of docs/events.md. */
export const runEndData = ({ status, stopReason, outputText, steps, usage, costUsd, error }: EndFacts) => ({
  status,
  stop_reason: stopReason,
  output_text: outputText,
  steps,
  usage: usageJson(usage),
  cost_usd: costUsd,
  ...(error === null ? {} : { error }),
});
