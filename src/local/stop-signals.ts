/** Ctrl-C and its kin, handled in one place. */

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** One Ctrl-C reaches a process more than once: from the terminal, and passed on by npm and the bootstrap. */
const SAME_KEYPRESS_MS = 1_000;

const isStopSignal = (event: string | symbol): boolean => SIGNALS.some((signal) => signal === event);

export interface StopSignalOptions {
  /** Called once. */
  readonly stop: () => void;
  /** ms, monotonic. */
  readonly now: () => number;
}

/**
 * Calls `stop` when the process is first asked to end; what it does should end with the process ending. Asked again later, by someone who
 * does not want to wait, the process ends at once.
 *
 * Listeners that are added afterwards are taken off again: Miniflare adds one that ends the process before anything else can be closed.
 * What it does on the process's `exit` still happens.
 */
export const onStopSignal = ({ stop, now }: StopSignalOptions): void => {
  let askedMs: number | undefined;
  const ask = (): void => {
    const nowMs = now();
    if (askedMs === undefined) {
      askedMs = nowMs;
      stop();
    } else if (nowMs - askedMs > SAME_KEYPRESS_MS) process.exit(130);
  };
  for (const signal of SIGNALS) process.on(signal, ask);
  process.on("newListener", (event: string | symbol, listener: (...args: unknown[]) => void) => {
    if (isStopSignal(event)) queueMicrotask(() => process.off(event, listener));
  });
};
