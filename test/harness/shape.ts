/** Runs one random session: pass by pass on Workers that die, freeze and race, and holds it against the invariants after each. */
import type { SimRequest } from "../../src/local/simulator/request.ts";
import type { ScriptBlock, ScriptReply } from "../../src/local/simulator/script.ts";
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
import { turnTasks } from "../../src/turns/tasks.ts";
import { type Lane, MODEL_URL } from "./lane.ts";
import { markOf } from "./log-text.ts";
import { checkPass, type PassFacts } from "./pass-checks.ts";
import type { Beside, PassPlan, ShapePlan, StepPlan, TurnPlan } from "./plan.ts";
import { type Call, createProvider, type ModelKind, type Provider, type SummariserKind } from "./provider.ts";
import { mixed, prose, type Random, randomOf } from "./random.ts";
import { fingerprint, type SessionState, sessionState } from "./records.ts";
import { checkRecovery } from "./recovery.ts";
import { requestChecks, type Violate } from "./request-checks.ts";
import { type Answered, type Ask, askFor, deliver, type HarnessSession, makeSession, settingsOf } from "./session.ts";
import type { Tally, Violation } from "./tally.ts";
import type { Fault, Interruption, Work, Worker } from "./worker.ts";

/** The tasks of every tick: the sweeper's among them. */
const TICK = turnTasks.filter(({ everySeconds }) => everySeconds === 0);

/** Longer than a lease lives without a write, in s. */
const PAST_THE_LEASE_SECONDS = 181;

/** Takeovers after which a session must be idle: each run is started three times, and there are a few. */
const MAX_ROUNDS = 16;

/** A picture of one pixel. */
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** A session under test, as the parts of the harness share it. */
export interface Shape {
  readonly plan: ShapePlan;
  readonly lane: Lane;
  readonly session: HarnessSession;
  readonly provider: Provider;
  readonly random: Random;
  readonly tally: Tally;
  readonly violate: Violate;
  /** What the session's model is asked to do from now on. */
  script(steps: readonly StepPlan[], answerChars: number): void;
  setSummariser(kinds: readonly SummariserKind[]): void;
  setModel(kinds: readonly ModelKind[]): void;
  setBucket(fails: boolean): void;
  /** A request that nobody has made before. */
  ask(turn: Pick<TurnPlan, "chars" | "image">, onBusy: Ask["onBusy"]): Ask & { readonly mark: string };
  /** Does something on a Worker of its own. */
  on<T>(work: (deps: Deps) => Promise<T>, how?: { fault?: Fault; interruptions?: readonly Interruption[] }): Promise<{ readonly worker: Worker; readonly result: Work<T> }>;
  /** Delivers messages of the queue until none is left. */
  drain(faults?: Fault[]): Promise<void>;
  /** Lets time pass until nothing of the session is unfinished. */
  settle(faults?: Fault[]): Promise<SessionState>;
  state(): Promise<SessionState>;
}

const nameOf = (error: unknown): string => (error instanceof Error ? `${error.name}: ${error.message}` : String(error));

/** Starts the session of a plan on a lane. */
const startShape = async (
  plan: ShapePlan,
  lane: Lane,
  tally: Tally,
  violate: Violate,
): Promise<Shape & { readonly facts: PassFacts }> => {
  const random = randomOf(mixed(plan.seed, plan.index + 1_000_000));
  const session = await makeSession(lane, plan.models[0], settingsOf(plan));
  const checks = requestChecks(lane, session.id, violate);
  const live = new Map<string, Worker>();
  let summarisers: readonly SummariserKind[] = plan.summariser;
  let summaries = 0;
  let models: ModelKind[] = [];
  let steps: StepPlan[] = [];
  let answerChars = 100;
  let marks = 0;
  let bucketFails = false;
  const facts: PassFacts = { asks: [], workers: [], answered: [], cancelled: false, disturbed: false, modelChanged: false, late: new Set() };

  const mark = (kind: string): string => markOf(`${kind}${++marks}`);
  const call = (step: StepPlan, request: SimRequest): ScriptBlock => {
    const page = prose(random, step.argChars);
    switch (step.tool) {
      case "fetch_page":
        return { type: "tool_use", name: "fetch_page", input: { page, chars: step.resultChars } };
      case "write_file":
        return { type: "tool_use", name: "write_file", input: { file_path: `/notes-${random.int(1, 3)}.md`, content: page } };
      case "write_todos":
        return { type: "tool_use", name: "write_todos", input: { todos: [{ content: page.slice(0, 60), status: "pending" }] } };
      case "ls":
        return { type: "tool_use", name: "ls", input: { path: "/" } };
      case "compact_conversation":
        return { type: "tool_use", name: "compact_conversation", input: {} };
      case "nothing_known":
        return { type: "tool_use", name: request.tools.length > 0 ? "no_such_tool" : "ls", input: {} };
      default:
        return step.tool satisfies never;
    }
  };
  const reply = (request: SimRequest): ScriptReply => {
    const step = steps.shift();
    const thinking = request.thinks ? [{ type: "thinking" as const, thinking: prose(random, 80) }] : [];
    if (step === undefined)
      return { content: [...thinking, { type: "text", text: `${mark("a")} ${prose(random, answerChars)}` }] };
    const says = step.says ? [{ type: "text" as const, text: `${mark("a")} ${prose(random, 40)}` }] : [];
    return { content: [...thinking, ...says, ...Array.from({ length: step.calls }, () => call(step, request))] };
  };

  const provider = createProvider(
    {
      model: () => models.shift() ?? "answers",
      summariser: () => summarisers[summaries++ % summarisers.length] ?? "good",
      reply,
      sees: (request, worker) => checks.seen(request, facts.late.has(worker)),
    },
    random,
    lane.nowMs,
    plan.windowTokens,
    [...plan.models],
  );

  const tool = async (init: RequestInit | undefined): Promise<Response> => {
    const { input }: { input?: { chars?: unknown } } = JSON.parse(String(init?.body));
    return new Response(prose(random, typeof input?.chars === "number" ? input.chars : 100));
  };

  /** Waits until a Worker has nothing under way but the call that it waits in. */
  const quiet = async (worker: Worker, others: number): Promise<void> => {
    for (let looks = 0; looks < 2_000; looks++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (worker.pending() <= others && looks > 3) return;
    }
  };

  lane.answers = async (worker, url, init) => {
    if (!url.startsWith(MODEL_URL)) return tool(init);
    const caller = {
      worker: worker.name,
      advance: async (ms: number) => {
        const others = worker.pending();
        await lane.advance(ms / 1000);
        await quiet(worker, others);
      },
    };
    return provider.fetch(caller, url, init);
  };
  lane.bucketFails = () => bucketFails;

  const shape: Shape & { readonly facts: PassFacts } = {
    plan,
    lane,
    session,
    provider,
    random,
    tally,
    violate,
    facts,
    script: (next, chars) => {
      steps = [...next];
      answerChars = chars;
    },
    setSummariser: (kinds) => {
      summarisers = kinds;
    },
    setModel: (kinds) => {
      models = [...kinds];
    },
    setBucket: (fails) => {
      bucketFails = fails;
    },
    ask: ({ chars, image }, onBusy) => {
      const name = `u${++marks}`;
      const text = `${markOf(name)} ${prose(random, chars)}`;
      const picture = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } } as const;
      const ask = {
        input: image ? [{ type: "text" as const, text }, picture] : text,
        key: `${session.id} ${name}`,
        onBusy,
        mark: markOf(name),
      };
      facts.asks.push(ask);
      return ask;
    },
    on: async (work, { fault, interruptions } = {}) => {
      const worker = lane.worker({ fault, ...(interruptions === undefined ? {} : { interruptions }) });
      live.set(worker.name, worker);
      facts.workers.push(worker);
      const result = await worker.run(work);
      if (!worker.isFrozen()) lane.forget(worker);
      if (result.kind === "failed" && !isExpected(result.error)) violate("typed errors", nameOf(result.error));
      return { worker, result };
    },
    drain: async (faults = []) => {
      for (let deliveries = 0; lane.queue.length > 0; deliveries++) {
        if (deliveries > 60) {
          violate("progress", "the queue does not come to an end");
          lane.queue.length = 0;
          return;
        }
        const [message] = lane.queue.splice(random.int(0, lane.queue.length - 1), 1);
        if (message === undefined) return;
        const fault = faults.shift();
        const { result } = await shape.on((deps) => deliver(deps, message), fault === undefined ? {} : { fault });
        if (result.kind === "done" && result.value) lane.queue.push({ ...message, attempts: message.attempts + 1 });
      }
    },
    settle: async (faults = []) => {
      for (let round = 0; ; round++) {
        await shape.drain(faults);
        const state = await shape.state();
        const unfinished = state.runs.filter(({ status }) => !["completed", "failed", "cancelled"].includes(status));
        if (state.holder === null && unfinished.length === 0 && lane.queue.length === 0) return state;
        if (round >= MAX_ROUNDS) {
          violate("progress", `after ${round} rounds ${unfinished.length} runs are unfinished: ${JSON.stringify(unfinished)}`);
          return state;
        }
        tally.add("takeovers", state.holder === null ? "of a queued run" : "of a session whose worker is gone");
        await lane.advance(PAST_THE_LEASE_SECONDS);
        await shape.on((deps) => maintain(deps, TICK));
      }
    },
    state: () => sessionState(lane, session.id),
  };
  return shape;
};

/** What a Worker's work may end with: its session was lost, or the bucket or the database could not be reached. */
const isExpected = (error: unknown): boolean =>
  error instanceof Error && ["LeaseLost", "BucketUnavailable", "BacklogBusy", "MaintenanceFailed"].includes(error.name);

/** What somebody else does while a Worker is at work. */
const besides = (shape: Shape & { readonly facts: PassFacts }, beside: Beside, ask: Ask): Interruption => ({
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

type Passing = Shape & { readonly facts: PassFacts };

const doEvent = async (shape: Passing, pass: PassPlan): Promise<void> => {
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
      const { result } = await shape.on((deps) => askFor(deps, session, ask), { ...(fault && { fault }), interruptions });
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

/** Wakes the Workers that froze: what another took over meanwhile, they must not change by a byte. */
const thaw = async (shape: Passing): Promise<void> => {
  const { facts, lane, session, tally } = shape;
  for (const worker of facts.workers) {
    if (!worker.isFrozen()) continue;
    facts.late.add(worker.name);
    const began = worker.calls() > 1;
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

const runPass = async (shape: Passing, pass: PassPlan, before: SessionState): Promise<SessionState> => {
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
  await thaw(shape);
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
  const told = facts.workers.flatMap((worker) => [`${worker.name} ${worker.calls()} calls`, ...worker.facts.map((fact) => JSON.stringify(fact))]);
  console.log(
    [
      `\npass ${JSON.stringify(pass)}`,
      ...calls.map(({ worker, purpose, behaviour, status, error, promptTokens, model, usage }) => `  ${worker} ${model} ${purpose} ${behaviour} ${status} ${promptTokens} ${error ?? ""} ${JSON.stringify(usage)}`),
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
