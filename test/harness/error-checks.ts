/** Progress: a turn ends completed, or with the error that is right for what happened to it. */
import { guardsOf } from "./guard-checks.ts";
import type { Call } from "./provider.ts";
import type { RunRow } from "./records.ts";
import type { Passed, Shape } from "./under-test.ts";

/** What a run may fail with once the provider did so; what a summariser does counts where a session cannot go on without a summary (G2). */
const CAUSES: Readonly<Record<string, (call: Call) => boolean>> = {
  provider_error: ({ behaviour }) => ["server_error", "network", "cut", "malformed", "silent"].includes(behaviour),
  provider_overloaded: ({ behaviour }) => ["overloaded", "rate_limited"].includes(behaviour),
  provider_rate_limited: ({ behaviour }) => behaviour === "rate_limited",
  provider_rejected: ({ behaviour }) => ["unauthorised", "no_credit"].includes(behaviour),
  timeout: ({ behaviour }) => behaviour === "silent" || behaviour === "slow",
};

/** A share of the window that nothing can be done about, from which on a session may fail to fit. */
const UNAVOIDABLE = 0.5;

/** Whether a session that failed with `context_cannot_fit` really could not: what must be kept is most of the window, or the provider said so. */
const couldNotFit = (shape: Shape, { calls, pass }: Passed): boolean => {
  const overflows = calls.filter(
    ({ behaviour, purpose }) => behaviour === "overflow" || (purpose === "turn" && behaviour === "window_full"),
  );
  if (overflows.length > 0) return true;
  const { event } = pass;
  const turn = "turn" in event ? event.turn : null;
  const chars =
    turn === null
      ? 0
      : turn.chars +
        turn.steps.reduce((sum, step) => sum + step.calls * (Math.min(step.resultChars, 8_000) + step.argChars), 0);
  // Four characters a token, 1.3 for the newer tokenizers, and what stands before every message.
  return FIXED_TOKENS + chars / 3 >= UNAVOIDABLE * shape.plan.windowTokens;
};

/** System prompt and tools, about. */
const FIXED_TOKENS = 4_000;

const isRight = (shape: Shape, passed: Passed, run: RunRow): boolean => {
  const { calls, facts } = passed;
  const code = run.code ?? "";
  const gone = facts.workers.some((worker) => worker.isGone() || facts.late.has(worker.name));
  if (code === "run_interrupted") return gone || facts.disturbed;
  if (code === "context_cannot_fit") return couldNotFit(shape, passed);
  if (code === "unavailable") return passed.pass.bucketFails;
  if (CAUSES[code] !== undefined && calls.some(CAUSES[code])) return true;
  // During a cooldown nothing is tried again: the session waits for what failed (G2).
  return (COOLING[code] ?? []).includes(guardsOf(passed.before).cooldownReason ?? "");
};

/** What a session that cannot go on without a summary fails with, by what the newest one failed with. */
const COOLING: Readonly<Record<string, readonly string[]>> = {
  provider_error: ["network"],
  provider_overloaded: ["overloaded"],
  provider_rejected: ["authentication", "quota"],
};

export const checkErrors = (shape: Shape, passed: Passed): void => {
  const known = new Set(passed.before.runs.map(({ id }) => id));
  for (const run of passed.state.runs) {
    if (known.has(run.id) || run.status !== "failed") continue;
    if (!isRight(shape, passed, run))
      shape.violate("typed errors", `a ${run.trigger} run failed with ${run.code}: ${run.message}`);
  }
};
