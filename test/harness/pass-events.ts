/** What happens to a session in a pass: one event, on a Worker or on two, and what others do beside it. */
import { cancelRun } from "../../src/store/cancel.ts";
import { voidCompaction } from "../../src/store/compactions.ts";
import { changeSession } from "../../src/store/sessions.ts";
import { compactOnRequest, type RequestedCompaction } from "../../src/turns/compact-on-request.ts";
import type { Deps } from "../../src/turns/deps.ts";
import { maintain } from "../../src/turns/maintenance.ts";
import { planCompaction } from "../../src/turns/plan-compaction.ts";
import { beginRetry } from "../../src/turns/retry.ts";
import { rewind } from "../../src/turns/rewind.ts";
import { executeRun } from "../../src/turns/run.ts";
import type { Beside, PassPlan } from "./plan.ts";
import { type Answered, type Ask, askFor, deliver } from "./session.ts";
import { TICK } from "./start-shape.ts";
import type { Shape } from "./under-test.ts";
import type { Interruption, Work } from "./worker.ts";

/** What somebody else does while a Worker is at work. */
const besides = (shape: Shape, beside: Beside, ask: Ask): Interruption => ({
  at: beside.at,
  act: async () => {
    const { session, lane, tally, facts } = shape;
    tally.add("beside", beside.kind);
    facts.disturbed = true;
    const current = async () => (await shape.state()).holder;
    switch (beside.kind) {
      case "join":
      case "queue":
      case "interrupt": {
        if (beside.kind === "interrupt") facts.cancelled = true;
        const other = shape.ask({ chars: 60, image: false }, beside.kind);
        const { result } = await shape.on((deps) => askFor(deps, session, other));
        if (result.kind === "done") facts.answered.push({ ask: other, answer: result.value });
        return;
      }
      case "again": {
        const { result } = await shape.on((deps) => askFor(deps, session, ask));
        if (result.kind === "done" && result.value.kind === "ran")
          shape.violate("one run a key", "the same request ran twice");
        return;
      }
      case "cancel": {
        const holder = await current();
        if (holder === null) return;
        facts.cancelled = true;
        await shape.on((deps) => cancelRun(deps.db, session.tenantId, holder));
        return;
      }
      case "compact":
        await shape.on((deps) => compact(shape, deps, null));
        return;
      case "tick":
        await shape.on((deps) => maintain(deps, TICK));
        return;
      case "jump":
        await lane.advance(shape.random.int(20, 250));
        return;
      default:
        beside.kind satisfies never;
    }
  },
});

const compact = (shape: Shape, deps: Deps, focus: string | null): Promise<RequestedCompaction> =>
  compactOnRequest(deps, {
    tenantId: shape.session.tenantId,
    keyId: shape.session.keyId,
    session: { id: shape.session.id },
    focus,
    runId: deps.newId("run"),
    startedMs: deps.now(),
  });

/** What a forced compaction came to, for the tally. */
const tallyForced = (shape: Shape, result: Work<RequestedCompaction>): void => {
  const words =
    result.kind !== "done" ? result.kind : result.value.kind === "done" ? result.value.outcome.kind : result.value.kind;
  shape.tally.add("asked for", words);
};

export const doEvent = async (shape: Shape, pass: PassPlan): Promise<void> => {
  const { session, facts, tally, lane } = shape;
  const { event } = pass;
  const fault = pass.fault ?? undefined;
  const noted = (ask: Ask & { readonly mark: string }, result: Work<Answered>): void => {
    if (result.kind === "done") facts.answered.push({ ask, answer: result.value });
  };
  switch (event.kind) {
    case "turn": {
      shape.script(event.turn.steps, event.turn.answerChars);
      const ask = shape.ask(event.turn, "reject");
      const interruptions = event.beside === null ? [] : [besides(shape, event.beside, ask)];
      const { result } = await shape.on((deps) => askFor(deps, session, ask), {
        ...(fault && { fault }),
        interruptions,
      });
      noted(ask, result);
      return;
    }
    case "background": {
      shape.script(event.turn.steps, event.turn.answerChars);
      const ask = { ...shape.ask(event.turn, "queue"), background: true };
      const { result } = await shape.on((deps) => askFor(deps, session, ask));
      noted(ask, result);
      return shape.drain(fault === undefined ? [] : [fault]);
    }
    case "race": {
      facts.disturbed = true;
      tally.add("races", event.what);
      shape.script(event.turn.steps, event.turn.answerChars);
      if (event.what === "compact") {
        const both = await Promise.all([
          shape.on((deps) => compact(shape, deps, null), { ...(fault && { fault }) }),
          shape.on((deps) => compact(shape, deps, null)),
        ]);
        for (const { result } of both) tallyForced(shape, result);
        return;
      }
      const first = shape.ask(event.turn, event.what === "message" ? "queue" : "reject");
      if (event.what === "message") {
        await shape.on((deps) => askFor(deps, session, { ...first, background: true }));
        const [message] = lane.queue.splice(0, 1);
        if (message === undefined) return;
        await Promise.all([
          shape.on((deps) => deliver(deps, { ...message }), { ...(fault && { fault }) }),
          shape.on((deps) => deliver(deps, { ...message })),
        ]);
        return;
      }
      const second = event.what === "same_turn" ? first : shape.ask(event.turn, "reject");
      const both = await Promise.all([
        shape.on((deps) => askFor(deps, session, first), { ...(fault && { fault }) }),
        shape.on((deps) => askFor(deps, session, second)),
      ]);
      noted(first, both[0].result);
      noted(second, both[1].result);
      const ran = both.filter(({ result }) => result.kind === "done" && result.value.kind === "ran");
      if (event.what === "same_turn" && ran.length > 1) shape.violate("one run a key", "the same request ran twice");
      return;
    }
    case "compact": {
      const { result } = await shape.on((deps) => compact(shape, deps, event.focus ? "the costs" : null), {
        ...(fault && { fault }),
      });
      return tallyForced(shape, result);
    }
    case "dry_run":
      await shape.on((deps) => planCompaction(deps, session.tenantId, { id: session.id }, null));
      return;
    case "void": {
      const { generations } = await shape.state();
      const target = generations.filter(({ voided }) => !voided).at(-1 - event.back);
      if (target === undefined) return;
      facts.disturbed = true;
      await shape.on((deps) =>
        voidCompaction(deps.db, session.tenantId, { id: session.id }, target.generation, deps.newId("cmp")),
      );
      return;
    }
    case "rewind": {
      facts.disturbed = true;
      const { result } = await shape.on((deps) =>
        rewind(
          deps,
          {
            tenantId: session.tenantId,
            session: { id: session.id },
            target: { turns: event.turns },
            attemptId: deps.newId("cmp"),
            claim: null,
          },
          () => ({}),
        ),
      );
      tally.add("rewinds", result.kind === "done" ? result.value.kind : result.kind);
      return;
    }
    case "retry": {
      facts.disturbed = true;
      shape.script([], 100);
      const key = `${session.id} retry ${pass.number}`;
      await shape.on(
        async (deps) => {
          const outcome = await beginRetry(deps, {
            tenantId: session.tenantId,
            keyId: session.keyId,
            session: { id: session.id },
            idempotencyKey: key,
            requestHash: key,
            options: {},
            startedAt: new Date(deps.now()).toISOString(),
          });
          if (outcome.kind !== "started") return;
          await executeRun(deps, { session: outcome.session, startedMs: deps.now(), sink: () => undefined });
        },
        { ...(fault && { fault }) },
      );
      return;
    }
    case "model": {
      const { model } = await shape.state();
      const next = model === shape.plan.models[0] ? shape.plan.models[1] : shape.plan.models[0];
      facts.disturbed = true;
      facts.modelChanged = true;
      await shape.on((deps) =>
        changeSession(deps.db, session.tenantId, { id: session.id }, { model: next, settings: {}, metadata: {} }, 16),
      );
      return;
    }
    case "nothing":
      return;
    default:
      event satisfies never;
  }
};
