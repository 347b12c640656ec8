/**
 * The guards' counters, kept a second time from what could be seen: what the provider was asked and answered, and what the Workers logged. Where others
 * had a hand in a pass, or a Worker was gone, only what always holds is checked.
 */
import { reportContext } from "../../src/turns/context-report.ts";
import type { Call } from "./provider.ts";
import type { SessionState } from "./records.ts";
import type { Passed, Shape } from "./under-test.ts";
import type { Fact } from "./worker.ts";

/** The guards as the session's head has them. */
export interface Guards {
  readonly strikes: number;
  readonly timeouts: number;
  readonly truncations: number;
  readonly cooldownReason: string | null;
  /** Whether the newest commit waits for its reading (G7). */
  readonly awaiting: boolean;
  /** Whether compactions without effect block further ones (G3, G8). */
  readonly blocked: boolean;
  /** The model that they were learned with; null where that is not kept. */
  readonly model: string | null;
}

const STRIKES_TO_BLOCK = 2;

export const guardsOf = ({ head, generation }: SessionState): Guards => {
  const strikes = Number(head.strikes);
  return {
    strikes,
    timeouts: Number(head.summary_timeouts),
    truncations: Number(head.summary_truncations),
    cooldownReason: head.cooldown_reason as string | null,
    // A generation that is not shown any more will not be measured (R4).
    awaiting: head.guarded_reading === "awaiting" && Number(head.guarded_generation) === generation,
    blocked: strikes >= STRIKES_TO_BLOCK || head.compaction_pause === "same_result",
    model: head.guards_model as string | null,
  };
};

/** Where the ladder begins, in tokens (context.md, "Window"). */
export const triggerTokens = ({ plan }: Shape, model: string): number => {
  const reserve = model === "claude-haiku-4-5" ? Math.floor(Math.min(plan.maxTokens, 0.1 * plan.windowTokens)) : 0;
  return Math.floor(plan.triggerFrac * (plan.windowTokens - reserve));
};

/** G1, in s; a ladder is climbed by each failure of its class in a row. */
const LADDER = [60, 300, 900];
const COOLDOWN: Readonly<Record<string, number>> = {
  malformed: 30,
  empty: 30,
  network: 30,
  refused: 60,
  transient: 60,
  overloaded: 60,
  too_long: 60,
  invalid_view: 60,
  configuration: 600,
  authentication: 600,
  quota: 600,
  would_grow: 0,
};

/** G4, in s. */
export const PROBATION_SECONDS = 300;

/** M4. */
const ATTEMPTS_PER_RUN = 3;

type Event = { readonly fact: Fact } | { readonly call: Call };

const orderOf = (event: Event): number => ("fact" in event ? event.fact.order : event.call.order);

/** What could be seen of a pass, in the order in which it happened. */
const eventsOf = ({ calls, facts }: Passed): readonly Event[] =>
  [
    ...facts.workers.flatMap((worker) => worker.facts.map((fact) => ({ fact }))),
    ...calls.map((call) => ({ call })),
  ].sort((a, b) => orderOf(a) - orderOf(b));

const isMade = ({ msg, generation }: Fact): boolean => msg === "the context was compacted" && generation !== null;
const isRefused = ({ msg }: Fact): boolean => msg === "the context was not compacted";
const isAutomatic = ({ reason }: Fact): boolean => reason === "threshold";

/** A summary was tried, of its own accord. */
const isAttempt = (fact: Fact): boolean =>
  isAutomatic(fact) && (isMade(fact) || (isRefused(fact) && fact.why === "failed"));

/** What the counters may be: a failure on the way to a truncation, or to the end of a run, is not in the log. */
interface Expected {
  least: number;
  most: number;
  timeouts: number;
  truncations: number;
  awaiting: boolean;
  /** Whether something happened that the log does not tell of. */
  unsure: boolean;
  /** The newest summary that was made or failed: null before one, "" for one that was made. */
  last: string | null;
}

const expectedOf = (shape: Shape, passed: Passed): Expected => {
  const before = guardsOf(passed.before);
  const trigger = triggerTokens(shape, passed.state.model);
  const fresh = before.model !== null && before.model !== passed.before.model;
  const expected: Expected = {
    // Cleared by the next run (G10), where there is one.
    least: fresh ? 0 : before.strikes,
    most: before.strikes,
    timeouts: fresh ? 0 : before.timeouts,
    truncations: fresh ? 0 : before.truncations,
    awaiting: fresh ? false : before.awaiting,
    unsure: fresh,
    last: null,
  };
  const strike = (sure: boolean): void => {
    if (sure) expected.least += 1;
    expected.most += 1;
  };
  for (const event of eventsOf(passed)) {
    if ("call" in event) {
      const { purpose, usage, promptTokens, stopReason } = event.call;
      if (purpose !== "turn" || usage === null || stopReason === "model_context_window_exceeded" || !expected.awaiting)
        continue;
      expected.awaiting = false;
      if (promptTokens >= trigger) strike(true);
      else expected.least = expected.most = 0;
      continue;
    }
    const { fact } = event;
    if (isMade(fact)) Object.assign(expected, { timeouts: 0, truncations: 0, awaiting: true, last: "" });
    else if (fact.msg === "the context was compacted") {
      strike(false);
      expected.unsure = true;
    } else if (fact.msg === "a run failed") {
      strike(false);
      expected.unsure = true;
    } else if (isRefused(fact)) {
      const failure = typeof fact.failure === "string" ? fact.failure : null;
      const forced = fact.reason === "manual" || fact.reason === "tool";
      // Whoever asks ends the cooldown, whatever becomes of it (G9).
      if (forced) expected.last = null;
      if (fact.why === "nothing_to_cut" && isAutomatic(fact)) strike(true);
      if (failure === "would_grow" && !forced) strike(true);
      if (failure === "timeout") expected.timeouts += 1;
      if (failure === "truncated") expected.truncations += 1;
      if (failure !== null && failure !== "would_grow") expected.last = failure;
      if (failure !== null) checkCooldown(shape, fact, failure, expected);
    }
  }
  return expected;
};

/** G1: as long as the table says. */
const checkCooldown = (
  shape: Shape,
  fact: Fact,
  failure: string,
  { timeouts, truncations, unsure }: Expected,
): void => {
  const row = failure === "timeout" ? timeouts : truncations;
  const wanted =
    failure === "timeout" || failure === "truncated" ? LADDER[Math.min(row, LADDER.length) - 1] : COOLDOWN[failure];
  if (!unsure && fact.cooldown_s !== wanted)
    shape.violate("G1", `after a summary that failed (${failure}) the cooldown is ${fact.cooldown_s} s, not ${wanted}`);
};

const checkCounters = (shape: Shape, passed: Passed): void => {
  const expected = expectedOf(shape, passed);
  const now = guardsOf(passed.state);
  if (now.strikes < expected.least || now.strikes > expected.most)
    shape.violate("G3", `${now.strikes} strikes, where there were ${expected.least} to ${expected.most}`);
  if (expected.unsure) return;
  if (now.timeouts !== expected.timeouts || now.truncations !== expected.truncations)
    shape.violate(
      "G1",
      `${now.timeouts} timeouts and ${now.truncations} truncations in a row, where there were ${expected.timeouts} and ${expected.truncations}`,
    );
  if (expected.last === "" && (passed.state.cooldownSeconds !== null || now.cooldownReason !== null))
    shape.violate("G1", `a cooldown (${now.cooldownReason}) outlives a summary that was made`);
  if (expected.last !== null && expected.last !== "" && now.cooldownReason !== expected.last)
    shape.violate(
      "G1",
      `the cooldown is for ${now.cooldownReason}, where the newest summary failed with ${expected.last}`,
    );
  if (now.awaiting !== expected.awaiting && expected.last === "")
    shape.violate("G7", `the newest commit ${now.awaiting ? "waits" : "does not wait"} for its reading`);
};

/** When automatic compaction of a blocked session was last tried, by session. */
const probes = new WeakMap<object, number>();

/** G1, G4: no summary is tried of its own accord during a cooldown, and one at most in a probation. */
const checkAttempts = (shape: Shape, passed: Passed): void => {
  const { before, facts, calls } = passed;
  const events = eventsOf(passed);
  const guards = guardsOf(before);
  const trigger = triggerTokens(shape, passed.state.model);
  // A compaction that helped ends the block: what is tried after its reading is no probe any more.
  const helped = events.findIndex(
    (event, at) =>
      "call" in event &&
      event.call.purpose === "turn" &&
      event.call.usage !== null &&
      event.call.promptTokens < trigger &&
      (guards.awaiting || events.slice(0, at).some((earlier) => "fact" in earlier && isMade(earlier.fact))),
  );
  const attempts = events
    .slice(0, helped < 0 ? events.length : helped)
    .flatMap((event) => ("fact" in event && isAttempt(event.fact) ? [event.fact] : []));
  const asked = events.some((event) => "fact" in event && event.fact.reason !== undefined && !isAutomatic(event.fact));
  const fresh = guards.model !== null && guards.model !== before.model;
  const first = attempts[0];
  const firstCall = calls.find(({ purpose }) => purpose === "summarize");
  if (first === undefined || firstCall === undefined || asked || fresh || facts.disturbed) return;
  const untilCooldownEnds = (before.cooldownSeconds ?? 0) - (firstCall.atMs - before.atMs) / 1000;
  if (untilCooldownEnds > 2)
    shape.violate("G1", `a summary was tried ${untilCooldownEnds} s before the end of a cooldown`);
  if (!guards.blocked) return;
  const last = probes.get(shape);
  const since = last === undefined ? Number.POSITIVE_INFINITY : (firstCall.atMs - last) / 1000;
  shape.tally.add("probes", "granted");
  if (since < PROBATION_SECONDS - 2) shape.violate("G4", `a blocked session was compacted twice within ${since} s`);
  if (attempts.length > 1) shape.violate("G4", `one probe was used ${attempts.length} times`);
  probes.set(shape, firstCall.atMs);
};

/** M4: three attempts in a run. */
const checkBudget = (shape: Shape, { facts }: Passed): void => {
  for (const worker of facts.workers) {
    const tried = worker.facts.filter((fact) => isMade(fact) || (isRefused(fact) && fact.why === "failed"));
    // A Worker delivers one message of the queue, or makes one request: one run.
    if (tried.length > ATTEMPTS_PER_RUN) shape.violate("M4", `${tried.length} attempts in one run`);
  }
};

/**
 * A session that stands over its trigger and was not compacted says why: which guard holds it, and what ends that; or why there is nothing to do.
 */
export const checkNamed = async (shape: Shape, { calls, facts, state }: Passed): Promise<void> => {
  const last = calls.findLast(({ purpose, usage }) => purpose === "turn" && usage !== null);
  if (last === undefined || last.promptTokens < triggerTokens(shape, state.model)) return;
  if (facts.disturbed || facts.workers.some((worker) => worker.facts.some(isMade))) return;
  const { session, tally } = shape;
  const { result } = await shape.on((deps) => reportContext(deps, session.tenantId, { id: session.id }, false));
  if (result.kind !== "done" || result.value === undefined) return;
  const { projection, budgets, guards, next } = result.value;
  if (projection.tokens < budgets.triggerTokens) return;
  const named = guards.on.filter(({ words, until, ends }) => words !== "" && (until !== null || ends !== ""));
  tally.add("over the trigger, and named", named[0]?.status ?? next.action);
  if (next.action === "send" && named.length === 0 && !next.reason.includes(", but "))
    shape.violate("a named state", `over its trigger, and all that is said is: ${next.reason}`);
};

export const checkGuards = (shape: Shape, passed: Passed): void => {
  const { facts, state } = passed;
  if (state.head.strikes === undefined) return;
  checkBudget(shape, passed);
  if (facts.workers.some((worker) => worker.isGone() || facts.late.has(worker.name))) return;
  checkAttempts(shape, passed);
  if (!facts.disturbed && !facts.cancelled) checkCounters(shape, passed);
};
