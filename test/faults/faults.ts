/** Numbers the calls that leave a Worker, and lets one of them go wrong. */

export type Kind = "sql" | "r2" | "provider" | "tool" | "queue";

/** A call that has come to the line between a Worker and what it calls. */
export interface Crossing {
  readonly worker: string;
  readonly kind: Kind;
  /** What it is, in words that are the same in every run of the same turn. */
  readonly label: string;
}

/** The n-th call of a kind and label within a turn. */
export interface Point extends Omit<Crossing, "worker"> {
  readonly occurrence: number;
}

export const MODES = [
  "killed before it",
  "killed after it",
  "refused",
  "away",
  "answer cut",
  "late",
  "cancelled",
] as const;

/**
 * `killed before it`: the process dies when the call has left it; nobody gets the call. `killed after it`: the call is done in full, and the
 * process dies before the answer comes. `refused`: the call is not done, and fails; `away`: so does every later one of its kind until the turn is answered. `answer cut`: it is done, and its answer breaks off.
 * `late` and `cancelled`: it is held up until it is released, while somebody else takes the session over, or cancels the run.
 */
export type Mode = (typeof MODES)[number];

export interface Verdict {
  readonly mode: Mode | "pass";
  readonly kill: () => Promise<void>;
  /** To be waited for by a call that is late. */
  readonly released: Promise<void>;
  /** To be called when the fault has happened. */
  readonly done: () => void;
}

export interface Faults {
  /** Forgets what was counted, and does this at a point of a Worker: once. Null to count only. */
  arm(
    worker: string,
    fault: { readonly point: Point; readonly mode: Mode; readonly kill: () => Promise<void> } | null,
  ): void;
  /** Calls of the armed Worker since then, in order. */
  points(): readonly Point[];
  /** Resolves once the fault has happened. */
  readonly happened: () => Promise<void>;
  /** Whether the fault has happened. */
  readonly hasHappened: () => boolean;
  /** Lets a call go on that is held up, and brings back what is away. */
  release(): void;
  /** Calls that are refused as long as this says so; of every Worker. */
  outage(refuses: ((crossing: Crossing) => boolean) | null): void;
  /** Asked by a line for each call. */
  verdict(crossing: Crossing): Verdict;
}

export const nameOf = ({ kind, label, occurrence }: Point): string => `${kind} ${label} #${occurrence}`;

export const createFaults = (): Faults => {
  let armed: Parameters<Faults["arm"]>[1] = null;
  let watched = "";
  let points: Point[] = [];
  let happened = Promise.withResolvers<void>();
  let released = Promise.withResolvers<void>();
  let over = false;
  let away: Kind | null = null;
  let refuses: ((crossing: Crossing) => boolean) | null = null;

  const number = ({ kind, label }: Crossing): Point => {
    const occurrence = 1 + points.filter((point) => point.kind === kind && point.label === label).length;
    const point = { kind, label, occurrence };
    points.push(point);
    return point;
  };

  return {
    arm: (worker, fault) => {
      watched = worker;
      armed = fault;
      points = [];
      happened = Promise.withResolvers<void>();
      released = Promise.withResolvers<void>();
      over = false;
      away = null;
    },
    release: () => {
      away = null;
      released.resolve();
    },
    points: () => points,
    happened: () => happened.promise,
    hasHappened: () => over,
    outage: (next) => {
      refuses = next;
    },
    verdict: (crossing) => {
      const nothing = { done: () => undefined, kill: () => Promise.resolve(), released: Promise.resolve() };
      if (refuses?.(crossing) === true) return { mode: "refused", ...nothing };
      if (crossing.worker !== watched) return { mode: "pass", ...nothing };
      if (away === crossing.kind) return { mode: "refused", ...nothing };
      const point = number(crossing);
      if (armed === null || over || nameOf(point) !== nameOf(armed.point)) return { mode: "pass", ...nothing };
      over = true;
      const { mode, kill } = armed;
      const { resolve } = happened;
      if (mode === "away") {
        away = crossing.kind;
        resolve();
        return { mode: "refused", ...nothing };
      }
      return { mode, done: resolve, kill, released: released.promise };
    },
  };
};
