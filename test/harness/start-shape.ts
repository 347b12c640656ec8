/** Makes the session of a plan on a lane, with a provider that does as it is told, and the Workers' ways to it. */
import type { SimRequest } from "../../src/local/simulator/request.ts";
import type { ScriptBlock, ScriptReply } from "../../src/local/simulator/script.ts";
import { maintain } from "../../src/turns/maintenance.ts";
import { turnTasks } from "../../src/turns/tasks.ts";
import { type Lane, MODEL_URL } from "./lane.ts";
import { markOf } from "./log-text.ts";
import type { ShapePlan, StepPlan } from "./plan.ts";
import { createProvider, type ModelKind, type SummariserKind } from "./provider.ts";
import { mixed, prose, randomOf } from "./random.ts";
import { sessionState } from "./records.ts";
import { requestChecks } from "./request-checks.ts";
import { deliver, makeSession, settingsOf } from "./session.ts";
import type { Tally } from "./tally.ts";
import type { PassFacts, Shape, Violate } from "./under-test.ts";
import type { Worker } from "./worker.ts";

/** The tasks of every tick: the sweeper's among them. */
export const TICK = turnTasks.filter(({ everySeconds }) => everySeconds === 0);

/** Longer than a lease lives without a write, in s. */
const PAST_THE_LEASE_SECONDS = 181;

/** Takeovers after which a session must be idle: each run is started three times, and there are a few. */
const MAX_ROUNDS = 16;

/** A picture of one pixel. */
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const nameOf = (error: unknown): string => (error instanceof Error ? `${error.name}: ${error.message}` : String(error));

/** Starts the session of a plan on a lane. */
export const startShape = async (plan: ShapePlan, lane: Lane, tally: Tally, violate: Violate): Promise<Shape> => {
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
  const facts: PassFacts = {
    asks: [],
    workers: [],
    answered: [],
    cancelled: false,
    disturbed: false,
    modelChanged: false,
    late: new Set(),
  };

  const mark = (kind: string): string => markOf(`${kind}${++marks}`);
  const call = (step: StepPlan, request: SimRequest): ScriptBlock => {
    const page = prose(random, step.argChars);
    switch (step.tool) {
      case "fetch_page":
        return { type: "tool_use", name: "fetch_page", input: { page, chars: step.resultChars } };
      case "write_file":
        return {
          type: "tool_use",
          name: "write_file",
          input: { file_path: `/notes-${random.int(1, 3)}.md`, content: page },
        };
      case "write_todos":
        return {
          type: "tool_use",
          name: "write_todos",
          input: { todos: [{ content: page.slice(0, 60), status: "pending" }] },
        };
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
    lane.order,
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

  const shape: Shape = {
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
          violate(
            "progress",
            `after ${round} rounds ${unfinished.length} runs are unfinished: ${JSON.stringify(unfinished)}`,
          );
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
