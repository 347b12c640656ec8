/** Ends a model call that takes too long: an idle limit, the turn's deadline and the caller's signal behind one signal. */

/** Time, injected. */
export interface Timers {
  /** ms since the epoch. */
  nowMs(): number;
  /** Runs a function once, later; the answer takes it back. */
  after(delayMs: number, run: () => void): () => void;
}

export type AbortedBy = "caller" | "idle" | "deadline";

export interface CallWatch {
  /** Aborted at the first of: the caller's abort, the deadline, the idle limit. */
  readonly signal: AbortSignal;
  /** Who aborted it, once it is. */
  abortedBy(): AbortedBy | undefined;
  /** Something arrived: the idle limit counts from now. */
  touch(idleMs: number): void;
  /** Nothing is expected to arrive (a wait before a retry): only the deadline counts. */
  rest(): void;
  /** Lets go of timers and listeners; called once, when the call is over. */
  stop(): void;
}

/** setTimeout fires at once for a delay above this (2^31 - 1 ms); such a deadline is beyond every turn. */
const MAX_TIMER_MS = 2_147_483_647;

/**
 * Starts watching a call. No idle limit counts until the first `touch`.
 * @param deadlineMs ms since the epoch, in the future
 */
export const watchCall = (timers: Timers, caller: AbortSignal, deadlineMs: number): CallWatch => {
  const controller = new AbortController();
  let by: AbortedBy | undefined;
  let cancelIdle = (): void => {};

  const abort = (reason: AbortedBy): void => {
    by ??= reason;
    controller.abort();
  };
  const onCallerAbort = (): void => abort("caller");
  caller.addEventListener("abort", onCallerAbort, { once: true });
  const remainingMs = Math.min(Math.max(0, deadlineMs - timers.nowMs()), MAX_TIMER_MS);
  const cancelDeadline = timers.after(remainingMs, () => abort("deadline"));

  const rest = (): void => {
    cancelIdle();
    cancelIdle = () => {};
  };
  return {
    signal: controller.signal,
    abortedBy: () => by,
    touch: (idleMs) => {
      cancelIdle();
      cancelIdle = timers.after(idleMs, () => abort("idle"));
    },
    rest,
    stop: () => {
      rest();
      cancelDeadline();
      caller.removeEventListener("abort", onCallerAbort);
    },
  };
};
