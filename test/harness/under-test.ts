/** A session under test, and what happened to it in a pass: the words that the parts of the harness speak to each other. */
import type { Deps } from "../../src/turns/deps.ts";
import type { Lane } from "./lane.ts";
import type { PassPlan, ShapePlan, StepPlan, TurnPlan } from "./plan.ts";
import type { Call, ModelKind, Provider, SummariserKind } from "./provider.ts";
import type { Random } from "./random.ts";
import type { SessionState } from "./records.ts";
import type { Answered, Ask, HarnessSession } from "./session.ts";
import type { Tally } from "./tally.ts";
import type { Fault, Interruption, Work, Worker } from "./worker.ts";

/** Told of what does not hold. */
export type Violate = (invariant: string, words: string) => void;

/** What happened in a pass, as far as the harness did it. */
export interface PassFacts {
  asks: readonly (Ask & { readonly mark: string })[] & { push(ask: Ask & { readonly mark: string }): number };
  workers: Worker[];
  answered: { readonly ask: Ask; readonly answer: Answered }[];
  /** A run was cancelled, or interrupted. */
  cancelled: boolean;
  /** Others had a hand in it: what one Worker alone would have come to is not known. */
  disturbed: boolean;
  /** The session's model was changed, and nothing of the one before has been refused yet. Outlives a pass. */
  modelChanged: boolean;
  /** Workers that were overtaken. */
  late: Set<string>;
}

export interface Passed {
  readonly pass: PassPlan;
  readonly before: SessionState;
  readonly state: SessionState;
  readonly calls: readonly Call[];
  readonly facts: PassFacts;
}

/** A session under test, as the parts of the harness share it. */
export interface Shape {
  readonly facts: PassFacts;
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
  on<T>(
    work: (deps: Deps) => Promise<T>,
    how?: { fault?: Fault; interruptions?: readonly Interruption[] },
  ): Promise<{ readonly worker: Worker; readonly result: Work<T> }>;
  /** Delivers messages of the queue until none is left. */
  drain(faults?: Fault[]): Promise<void>;
  /** Lets time pass until nothing of the session is unfinished. */
  settle(faults?: Fault[]): Promise<SessionState>;
  state(): Promise<SessionState>;
}
