/**
 * A random session as a plan: what its settings are and what happens to it, pass by pass. A plan is data that follows from the seed and its number alone,
 * so that a failing one can be run again, and without some of its passes.
 */
import type { ModelKind, SummariserKind } from "./provider.ts";
import { mixed, type Random, randomOf } from "./random.ts";
import type { Fault } from "./worker.ts";

/** One answer of the model that calls tools. */
export interface StepPlan {
  readonly tool: "fetch_page" | "write_file" | "write_todos" | "ls" | "compact_conversation" | "nothing_known";
  /** How many calls at once. */
  readonly calls: number;
  readonly argChars: number;
  readonly resultChars: number;
  readonly says: boolean;
}

export interface TurnPlan {
  readonly chars: number;
  readonly image: boolean;
  readonly steps: readonly StepPlan[];
  readonly answerChars: number;
}

/** What others do while a Worker is at one of its calls. */
export interface Beside {
  readonly kind: "join" | "queue" | "interrupt" | "cancel" | "compact" | "again" | "tick" | "jump";
  readonly at: number;
}

export type EventPlan =
  | { readonly kind: "turn"; readonly turn: TurnPlan; readonly beside: Beside | null }
  /** Two Workers at once: the same request, two requests, or two deliveries of one message of the queue. */
  | { readonly kind: "race"; readonly what: "same_turn" | "two_turns" | "message" | "compact"; readonly turn: TurnPlan }
  | { readonly kind: "background"; readonly turn: TurnPlan }
  | { readonly kind: "compact"; readonly focus: boolean }
  | { readonly kind: "dry_run" }
  | { readonly kind: "void"; readonly back: number }
  | { readonly kind: "rewind"; readonly turns: number }
  | { readonly kind: "retry" }
  | { readonly kind: "model" }
  | { readonly kind: "nothing" };

export interface PassPlan {
  readonly number: number;
  /** What the summariser does from now on; null: as before. */
  readonly summariser: readonly SummariserKind[] | null;
  /** What the model does with the calls of this pass, in turn; it answers after that. */
  readonly model: readonly ModelKind[];
  /** The bucket refuses writes in this pass. */
  readonly bucketFails: boolean;
  readonly event: EventPlan;
  readonly fault: Fault | null;
  /** Of the Workers that go on with what the first one left. */
  readonly laterFaults: readonly Fault[];
  /** How what was left is found: by the sweeper, or by whoever comes next. */
  readonly found: "sweeper" | "next_turn";
  /** How much time passes afterwards, in s. */
  readonly seconds: number;
}

export interface ShapePlan {
  readonly seed: number;
  readonly index: number;
  readonly models: readonly [string, string];
  readonly windowTokens: number;
  readonly triggerFrac: number;
  readonly keepFrac: number;
  readonly clipTokens: number;
  readonly minTailUserMessages: number;
  readonly thinking: boolean;
  readonly maxTokens: number;
  readonly summariser: readonly SummariserKind[];
  readonly passes: readonly PassPlan[];
}

const BAD: readonly (readonly [number, SummariserKind])[] = [
  [2, "empty"],
  [3, "truncated"],
  [4, "growing"],
  [2, "echo"],
  [2, "refusing"],
  [1, "regret"],
  [1, "handoff"],
  [2, "silent"],
  [1, "slow"],
  [1, "unauthorised"],
  [1, "no_credit"],
  [1, "rate_limited"],
  [1, "overloaded"],
  [2, "server_error"],
  [2, "network"],
  [1, "cut"],
  [1, "malformed"],
  [1, "too_long"],
];

const summarisers = (random: Random): readonly SummariserKind[] => {
  if (random.chance(0.45)) return [random.pick(["good", "good", "good", "short"])];
  const one = random.weighted(BAD);
  return random.chance(0.6) ? [one] : [one, random.chance(0.5) ? "good" : random.weighted(BAD)];
};

const charsOf = (random: Random): number =>
  random.weighted([
    [8, random.int(20, 400)],
    [5, random.int(400, 3_000)],
    [2, random.int(3_000, 9_000)],
  ]);

const step = (random: Random): StepPlan => ({
  tool: random.weighted([
    [10, "fetch_page"],
    [2, "write_file"],
    [1, "write_todos"],
    [1, "ls"],
    [1, "compact_conversation"],
    [0.5, "nothing_known"],
  ]),
  calls: random.weighted([
    [4, 1],
    [2, random.int(2, 3)],
  ]),
  argChars: random.chance(0.15) ? random.int(500, 4_000) : random.int(5, 100),
  resultChars: charsOf(random),
  says: random.chance(0.5),
});

const turnPlan = (random: Random): TurnPlan => ({
  chars: charsOf(random),
  image: random.chance(0.04),
  steps: Array.from(
    {
      length: random.weighted([
        [5, 0],
        [3, 1],
        [1, 2],
        [0.5, 4],
      ]),
    },
    () => step(random),
  ),
  answerChars: random.chance(0.8) ? random.int(20, 600) : random.int(600, 1_500),
});

const besides: readonly (readonly [number, Beside["kind"]])[] = [
  [3, "join"],
  [2, "queue"],
  [1, "interrupt"],
  [2, "cancel"],
  [2, "compact"],
  [1, "again"],
  [1, "tick"],
  [1, "jump"],
];

const event = (random: Random): EventPlan => {
  const kind = random.weighted<EventPlan["kind"]>([
    [20, "turn"],
    [2, "race"],
    [1.5, "background"],
    [2, "compact"],
    [0.7, "dry_run"],
    [0.8, "void"],
    [1, "rewind"],
    [0.6, "retry"],
    [0.7, "model"],
    [1, "nothing"],
  ]);
  switch (kind) {
    case "turn":
      return {
        kind,
        turn: turnPlan(random),
        beside: random.chance(0.15) ? { kind: random.weighted(besides), at: random.int(2, 6) } : null,
      };
    case "race":
      return { kind, what: random.pick(["same_turn", "two_turns", "message", "compact"]), turn: turnPlan(random) };
    case "background":
      return { kind, turn: turnPlan(random) };
    case "compact":
      return { kind, focus: random.chance(0.3) };
    case "void":
      return { kind, back: random.int(0, 1) };
    case "rewind":
      return { kind, turns: random.int(1, 3) };
    case "dry_run":
    case "retry":
    case "model":
    case "nothing":
      return { kind };
    default:
      return kind satisfies never;
  }
};

const fault = (random: Random): Fault => ({
  kind: random.chance(0.6) ? "dies" : "freezes",
  at: random.weighted([
    [1, 1],
    [6, random.int(2, 5)],
    [3, random.int(6, 12)],
  ]),
  when: random.pick(["before", "after"]),
});

const model = (random: Random): readonly ModelKind[] =>
  random.chance(0.9)
    ? []
    : [
        random.weighted<ModelKind>([
          [3, "overflow"],
          [1, "window_full"],
          [1, "server_error"],
          [1, "overloaded"],
          [1, "network"],
          [1, "cut"],
          [1, "silent"],
        ]),
        ...(random.chance(0.3) ? (["overflow"] as const) : []),
      ];

const pass = (random: Random, number: number): PassPlan => {
  const first = random.chance(0.15) ? fault(random) : null;
  return {
    number,
    summariser: random.chance(0.3) ? summarisers(random) : null,
    model: model(random),
    bucketFails: random.chance(0.04),
    event: event(random),
    fault: first,
    laterFaults:
      first !== null && random.chance(0.3)
        ? Array.from({ length: random.int(1, 4) }, () => ({ ...fault(random), kind: "dies" as const }))
        : [],
    found: random.pick(["sweeper", "next_turn"]),
    seconds: random.weighted([
      [6, 0],
      [3, random.int(5, 90)],
      [2, random.int(100, 400)],
      [1, random.int(600, 2_000)],
    ]),
  };
};

const MODELS = ["claude-sonnet-5-5", "claude-sonnet-5", "claude-haiku-4-5"] as const;

/** @param passes how many things happen to it */
export const shapePlan = (seed: number, index: number, passes: number): ShapePlan => {
  const random = randomOf(mixed(seed, index));
  const first = random.pick(MODELS);
  // In a narrow session what stands before the messages is most of what the trigger allows: compactions come without effect.
  const narrow = random.chance(0.25);
  const windowTokens = narrow ? random.int(9_000, 11_000) : random.int(10_000, 20_000);
  return {
    seed,
    index,
    models: [first, random.pick(MODELS)],
    windowTokens,
    triggerFrac: narrow ? 0.42 + random.next() * 0.1 : 0.55 + random.next() * 0.35,
    keepFrac: 0.05 + random.next() * 0.35,
    clipTokens: random.pick([64, 200, 500]),
    minTailUserMessages: random.pick([1, 1, 1, 2]),
    thinking: random.chance(0.3),
    maxTokens: random.int(400, 800),
    summariser: summarisers(random),
    passes: Array.from({ length: passes }, (_, number) => pass(random, number + 1)),
  };
};
