/** Runs one random session: pass by pass on Workers that die, freeze and race, and holds it against the invariants after each. */
import type { Lane } from "./lane.ts";
import { checkPass } from "./pass-checks.ts";
import { doEvent } from "./pass-events.ts";
import type { PassPlan, ShapePlan } from "./plan.ts";
import type { Call } from "./provider.ts";
import { fingerprint, type SessionState } from "./records.ts";
import { checkRecovery } from "./recovery.ts";
import { askFor } from "./session.ts";
import { startShape } from "./start-shape.ts";
import type { Tally, Violation } from "./tally.ts";
import type { PassFacts, Shape, Violate } from "./under-test.ts";

/** Wakes the Workers that froze: what another took over meanwhile, they must not change by a byte. */
const thaw = async (shape: Shape, { event }: PassPlan): Promise<void> => {
  const { facts, lane, session, tally } = shape;
  for (const worker of facts.workers) {
    if (!worker.isFrozen()) continue;
    facts.late.add(worker.name);
    // A retry looks before it begins.
    const began = worker.calls() > (event.kind === "retry" ? 2 : 1);
    const before = await fingerprint(lane, session.id);
    const ended = await worker.thaw();
    lane.forget(worker);
    await shape.drain();
    const after = await fingerprint(lane, session.id);
    tally.add("late workers", ended.kind);
    if (began && before !== after)
      shape.violate("M2", `a Worker that was overtaken at call ${worker.calls()} changed the session afterwards`);
  }
};

const runPass = async (shape: Shape, pass: PassPlan, before: SessionState): Promise<SessionState> => {
  const { facts, lane, session, tally } = shape;
  const firstCall = shape.provider.calls.length;
  Object.assign(facts, { asks: [], workers: [], answered: [], cancelled: false, disturbed: false, late: new Set() });
  if (pass.summariser !== null) shape.setSummariser(pass.summariser);
  shape.setModel(pass.model);
  shape.setBucket(pass.bucketFails);
  tally.add("events", pass.event.kind);
  await doEvent(shape, pass);
  shape.setBucket(false);
  const gone = facts.workers.filter((worker) => worker.isGone());
  for (const worker of gone) tally.add("restarts", worker.isFrozen() ? "frozen" : "dead");
  if (gone.length > 0 && pass.found === "next_turn") {
    const next = shape.ask({ chars: 80, image: false }, "queue");
    const { result } = await shape.on((deps) => askFor(deps, session, next));
    if (result.kind === "done") facts.answered.push({ ask: next, answer: result.value });
  }
  const laterFaults = [...pass.laterFaults];
  await shape.settle(laterFaults);
  await thaw(shape, pass);
  const state = await shape.settle();
  const calls: readonly Call[] = shape.provider.calls.slice(firstCall);
  await checkPass(shape, { pass, before, state, calls, facts });
  if (process.env.HANGO_HARNESS_TRACE !== undefined) trace(pass, state, calls, facts);
  if (pass.seconds > 0) await lane.advance(pass.seconds);
  return state;
};

/** Says what a pass was and came to, for whoever looks for the reason of a violation. */
const trace = (pass: PassPlan, state: SessionState, calls: readonly Call[], facts: PassFacts): void => {
  const { rows: _, usage: __, runs, generations, head, ...rest } = state;
  const told = facts.workers.flatMap((worker) => [
    `${worker.name} ${worker.calls()} calls`,
    ...worker.facts.map((fact) => JSON.stringify(fact)),
  ]);
  console.log(
    [
      `\npass ${JSON.stringify(pass)}`,
      ...calls.map(
        ({ worker, purpose, behaviour, status, error, promptTokens, model, usage }) =>
          `  ${worker} ${model} ${purpose} ${behaviour} ${status} ${promptTokens} ${error ?? ""} ${JSON.stringify(usage)}`,
      ),
      ...told.map((line) => `  ${line}`),
      ...facts.answered.map(({ ask, answer }) => `  ${ask.key}: ${answer.kind}`),
      `  ${JSON.stringify(rest)}`,
      `  ${JSON.stringify(head)}`,
      ...runs.slice(-4).map((run) => `  ${JSON.stringify(run)}`),
      ...generations.slice(-2).map((one) => `  ${JSON.stringify(one)}`),
    ].join("\n"),
  );
};

export interface ShapeResult {
  readonly violations: readonly Violation[];
}

/** Runs a plan on a lane. Never throws for what the session does: that is a violation. */
export const runShape = async (plan: ShapePlan, lane: Lane, tally: Tally): Promise<ShapeResult> => {
  const violations: Violation[] = [];
  let at = 0;
  const violate: Violate = (invariant, words) => {
    violations.push({ invariant, words, shape: plan.index, pass: at });
  };
  lane.beginShape(plan.index);
  try {
    const shape = await startShape(plan, lane, tally, violate);
    tally.add("shapes", plan.models[0]);
    let state = await shape.state();
    for (const pass of plan.passes) {
      at = pass.number;
      state = await runPass(shape, pass, state);
      // What follows from a violation is not worth reading.
      if (violations.length > 0) break;
    }
    at = plan.passes.length + 1;
    if (violations.length === 0) await checkRecovery(shape);
  } catch (error) {
    violate("the harness", error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  return { violations };
};
