/**
 * One Worker for one request, message or tick: `Deps` of its own, as the door makes them, with everything that it calls counted, so that it can
 * die, freeze or be overtaken at any of its calls.
 */
import type { Config } from "../../src/config.ts";
import { tracedBucket } from "../../src/files/traced-bucket.ts";
import type { NewId } from "../../src/protocol/ids.ts";
import { connect } from "../../src/store/db.ts";
import { createLog } from "../../src/telemetry/log.ts";
import { noTelemetry } from "../../src/telemetry/none.ts";
import { noopTracer } from "../../src/telemetry/tracer.ts";
import type { Deps } from "../../src/turns/deps.ts";
import type { QueueMessage } from "../../src/turns/queue.ts";
import { outside, workerTimers } from "./timers.ts";

/** What happens to a Worker at one of its calls. */
export interface Fault {
  /** Dead: it never does anything again. Frozen: it goes on when it is thawed, perhaps after another took over. */
  readonly kind: "dies" | "freezes";
  /** At which of its calls, from 1. */
  readonly at: number;
  /** Whether the call is done before. */
  readonly when: "before" | "after";
}

/** Something that is done by others when the Worker comes to one of its calls. */
export interface Interruption {
  readonly at: number;
  readonly act: () => Promise<void>;
}

/** A line of the Worker's log, which says what compaction decided. */
export type Fact = Readonly<Record<string, unknown>> & { readonly msg: string; readonly order: number };

export interface WorkerWorld {
  readonly config: Config;
  /** For the driver; what the Worker is told apart by is added. */
  readonly databaseUrl: string;
  readonly bucket: R2Bucket;
  readonly newId: NewId;
  readonly nowMs: () => number;
  /** The next number in the order of everything that can be seen. */
  readonly order: () => number;
  readonly send: (message: QueueMessage) => void;
  readonly fetchOutside: (worker: Worker, url: string, init: RequestInit | undefined) => Promise<Response>;
}

export type Work<T> =
  | { readonly kind: "done"; readonly value: T }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "gone" };

export interface Worker {
  readonly name: string;
  readonly deps: Deps;
  readonly facts: readonly Fact[];
  /** Calls so far. */
  calls(): number;
  /** Calls that are being made. */
  pending(): number;
  isGone(): boolean;
  isFrozen(): boolean;
  /** Counts a call, and makes it if the Worker lives. */
  call<T>(act: () => Promise<T>): Promise<T>;
  /** Runs its work until it ends, dies or freezes. */
  run<T>(work: (deps: Deps) => Promise<T>): Promise<Work<T>>;
  /** Lets a frozen Worker go on. @returns what became of its work */
  thaw(): Promise<Work<unknown>>;
  /** Lets the timers go off that are due. */
  tick(): void;
}

export interface WorkerOptions {
  readonly fault?: Fault | undefined;
  readonly interruptions?: readonly Interruption[];
}

const never = <T>(): Promise<T> => new Promise<T>(() => undefined);

const queueOf = (worker: () => Worker, send: WorkerWorld["send"]): Queue<QueueMessage> => {
  const queue = {
    send: (message: QueueMessage) => worker().call(async () => send(message)),
    sendBatch: (batch: Iterable<{ readonly body: QueueMessage }>) =>
      worker().call(async () => {
        for (const { body } of batch) send(body);
      }),
  };
  return queue as unknown as Queue<QueueMessage>;
};

/** Every operation of the bucket as a call of the Worker. */
const counted = (bucket: R2Bucket, worker: () => Worker): R2Bucket =>
  new Proxy(bucket, {
    get: (target, name) => {
      const operation: unknown = Reflect.get(target, name);
      if (typeof operation !== "function") return operation;
      return (...args: readonly unknown[]) => worker().call(async () => Reflect.apply(operation, target, args));
    },
  });

export const createWorker = (name: string, world: WorkerWorld, options: WorkerOptions = {}): Worker => {
  const { config, nowMs } = world;
  const { fault, interruptions = [] } = options;
  const timers = workerTimers(nowMs);
  const facts: Fact[] = [];
  const stopped = Promise.withResolvers<void>();
  const thawed = Promise.withResolvers<void>();
  let state: "alive" | "dead" | "frozen" | "thawed" = "alive";
  let calls = 0;
  let pending = 0;
  let work: Promise<Work<unknown>> | undefined;

  const stop = (): void => {
    if (fault === undefined || state !== "alive") return;
    state = fault.kind === "dies" ? "dead" : "frozen";
    if (state === "dead") timers.clear();
    stopped.resolve();
  };
  /** Passes while the Worker is alive, waits while it is frozen, and never ends once it is dead. */
  const pass = (): Promise<void> =>
    state === "dead" ? never() : state === "frozen" ? thawed.promise : Promise.resolve();

  const call: Worker["call"] = async (act) => {
    calls += 1;
    const number = calls;
    await pass();
    if (state === "alive") for (const one of interruptions) if (one.at === number) await outside(one.act);
    if (fault?.at === number && fault.when === "before") stop();
    await pass();
    pending += 1;
    try {
      return await outside(act);
    } finally {
      pending -= 1;
      if (fault?.at === number && fault.when === "after") stop();
      await pass();
    }
  };

  const worker: Worker = {
    name,
    get deps() {
      return deps;
    },
    facts,
    calls: () => calls,
    pending: () => pending,
    isGone: () => state === "dead" || state === "frozen",
    isFrozen: () => state === "frozen",
    call,
    run: (act) => {
      const done = timers
        .within(() => act(deps))
        .then(
          (value) => ({ kind: "done", value }) as const,
          (error: unknown) => ({ kind: "failed", error }) as const,
        );
      work = done;
      return Promise.race([done, stopped.promise.then(() => ({ kind: "gone" }) as const)]);
    },
    thaw: async () => {
      if (state === "frozen") state = "thawed";
      thawed.resolve();
      return work ?? { kind: "gone" };
    },
    tick: () => {
      if (state === "alive" || state === "thawed") timers.fire();
    },
  };
  const self = (): Worker => worker;
  const sleep = async (): Promise<void> => undefined;
  const url = new URL(world.databaseUrl);
  url.searchParams.set("application_name", name);
  const deps: Deps = {
    config,
    db: connect(
      { databaseUrl: url.href, fetchEndpoint: config.databaseFetchEndpoint, timeoutMs: config.databaseTimeoutMs },
      noopTracer,
    ),
    bucket: tracedBucket(counted(world.bucket, self), noopTracer, sleep),
    queue: queueOf(self, world.send),
    ...noTelemetry,
    log: createLog({
      level: "info",
      sink: (line) => facts.push({ ...JSON.parse(line), order: world.order() }),
      traceIds: () => undefined,
    }),
    newId: world.newId,
    now: nowMs,
    sleep,
    fetch: (input, init) =>
      worker.call(() => world.fetchOutside(worker, String(input instanceof Request ? input.url : input), init)),
    waitUntil: (left) => void left.catch(() => undefined),
  };
  return worker;
};
