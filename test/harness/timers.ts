/**
 * The timers of Workers, moved by the harness: what a Worker sets to go off later goes off when the harness lets time pass, so that silence of two
 * minutes takes none. Everybody else's timers are the machine's.
 */
import { AsyncLocalStorage } from "node:async_hooks";

interface Timer {
  dueMs: number;
  readonly everyMs: number | null;
  readonly act: () => void;
}

export interface WorkerTimers {
  /** Lets the timers go off that are due; a repeated one once. */
  fire(): void;
  /** Forgets all. */
  clear(): void;
}

class Handle {
  readonly timers: Map<Handle, Timer>;
  constructor(timers: Map<Handle, Timer>) {
    this.timers = timers;
  }
  unref(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  hasRef(): boolean {
    return false;
  }
}

interface Scope {
  readonly timers: Map<Handle, Timer>;
  readonly nowMs: () => number;
}

const scopes = new AsyncLocalStorage<Scope>();

/** Runs something of the harness's own, called from inside of a Worker, with the machine's timers. */
export const outside = <T>(work: () => T): T => scopes.exit(work);

/** What is put off for less is done by the machine's clock. */
const SHORT_MS = 50;

let installed = false;

/** Puts the Workers' timers in front of the machine's. Once in a process. */
const install = (): void => {
  if (installed) return;
  installed = true;
  const { setTimeout: realTimeout, setInterval: realInterval, clearTimeout: realClear } = globalThis;
  const add = (act: (...args: readonly unknown[]) => void, ms: number, args: readonly unknown[], repeats: boolean) => {
    const scope = scopes.getStore();
    // A library that puts something off to the next tick is not waiting for time to pass.
    if (scope === undefined || ms < SHORT_MS) return undefined;
    const handle = new Handle(scope.timers);
    const timer = { dueMs: scope.nowMs() + ms, everyMs: repeats ? ms : null, act: () => act(...args) };
    scope.timers.set(handle, timer);
    return handle;
  };
  const clear = (handle: unknown): void => {
    if (handle instanceof Handle) handle.timers.delete(handle);
    else realClear(handle as Parameters<typeof realClear>[0]);
  };
  Object.assign(globalThis, {
    setTimeout: Object.assign(
      (act: () => void, ms = 0, ...args: []) => add(act, ms, args, false) ?? realTimeout(act, ms, ...args),
      realTimeout,
    ),
    setInterval: (act: () => void, ms = 0, ...args: []) => add(act, ms, args, true) ?? realInterval(act, ms, ...args),
    clearTimeout: clear,
    clearInterval: clear,
  });
};

/**
 * The timers of one Worker.
 * @param nowMs its clock
 * @returns `within` runs the Worker's own work
 */
export const workerTimers = (nowMs: () => number): WorkerTimers & { within<T>(work: () => T): T } => {
  install();
  const timers = new Map<Handle, Timer>();
  const scope: Scope = { timers, nowMs };
  return {
    within: (work) => scopes.run(scope, work),
    fire: () => {
      for (const [handle, timer] of [...timers].sort(([, a], [, b]) => a.dueMs - b.dueMs)) {
        if (timer.dueMs > nowMs() || !timers.has(handle)) continue;
        if (timer.everyMs === null) timers.delete(handle);
        else timer.dueMs = nowMs() + timer.everyMs;
        scopes.run(scope, timer.act);
      }
    },
    clear: () => timers.clear(),
  };
};
