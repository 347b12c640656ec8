/**
 * Random sessions as plans: what was imported, what users ask, what the model calls and says, how the summariser, the history file, the
 * provider and the store behave. A plan is data, so that fast-check can make a failing one smaller.
 */
import fc from "fast-check";
import type { LogRow } from "../../src/protocol/messages.ts";
import { randomLog, SCRIPTS } from "./random-log.ts";

export type SummaryKind =
  | "good"
  | "short"
  | "empty"
  | "echo"
  | "too_long"
  | "truncated"
  | "refusal"
  | "handoff"
  | "timeout"
  | "overloaded";

/** A text by its script and its size; huge ones are a share of the window. */
export interface Words {
  readonly script: string;
  readonly chars: number;
  /** Where set, the size is this share of the window instead. */
  readonly share?: number;
}

export interface Input {
  readonly origin: "user" | "event" | "injected";
  readonly words: Words;
  /** `same` is always the same text, `tagged` one that occurs nowhere else. */
  readonly sort: "plain" | "same" | "tagged" | "image";
}

export interface ToolStep {
  readonly calls: number;
  readonly args: Words;
  readonly result: Words;
  readonly says: boolean;
  readonly thinks: boolean;
  readonly sort: "plain" | "image" | "error" | "compact" | "skill";
  /** Input that arrived meanwhile: it stands behind the results (M5). */
  readonly waiting: Input | null;
  /** The run dies before its results are stored (M7). */
  readonly dies: boolean;
}

export interface TurnPlan {
  readonly inputs: readonly Input[];
  readonly steps: readonly ToolStep[];
  /** How often the steps are repeated: long tool loops. */
  readonly rounds: number;
  readonly answer: Words;
  readonly thinks: boolean;
  /** Asked for from outside (G9). */
  readonly forced: boolean;
  /** Which text memory has; 0 for none (V8). */
  readonly memory: number;
  /** Input that arrives while the last answer is written. */
  readonly late: Input | null;
  /** By the database's clock. */
  readonly cooldownOver: boolean;
}

export interface SessionPlan {
  readonly model: "claude-sonnet-5-5" | "claude-sonnet-5" | "claude-haiku-4-5";
  readonly windowTokens: number;
  readonly windowKnown: boolean;
  readonly thinking: boolean;
  readonly triggerFrac: number;
  readonly keepFrac: number;
  readonly clipTokens: number;
  readonly minTailUserMessages: number;
  /** Most bytes of a request. */
  readonly maxBytes: number;
  /** The provider's tokens per token of ours. */
  readonly factor: number;
  /** Counts by a real byte-pair encoding instead. */
  readonly countsByBpe: boolean;
  readonly canCount: boolean;
  /** Whether an overflow says how much was sent and how much fits. */
  readonly statesSizes: boolean;
  readonly summaries: readonly SummaryKind[];
  /** Which of the writes to the history file fail, in turn. */
  readonly historyFails: readonly boolean[];
  /** Which commit comes too late, counted from 1; 0 for none. */
  readonly lateCommit: number;
  readonly imported: readonly LogRow[];
  /** Whether the first rows were this hango's own: their thinking is then signed by nobody (V5). */
  readonly importedAsOwn: boolean;
  readonly turns: readonly TurnPlan[];
  /** The log ends with a batch of which only some calls are answered (C3). */
  readonly inFlight: { readonly calls: number; readonly answered: number } | null;
  /** The provider's template counts roles (R8). */
  readonly strictAlternation?: true;
}

const wordsOf: fc.Arbitrary<Words> = fc.record(
  {
    script: fc.constantFrom(...Object.keys(SCRIPTS)),
    chars: fc.oneof(
      { weight: 10, arbitrary: fc.integer({ min: 1, max: 300 }) },
      { weight: 4, arbitrary: fc.integer({ min: 300, max: 3_000 }) },
      { weight: 1, arbitrary: fc.integer({ min: 3_000, max: 12_000 }) },
    ),
    share: fc.oneof(
      { weight: 30, arbitrary: fc.constant(0) },
      { weight: 3, arbitrary: fc.double({ min: 0.01, max: 0.3, noNaN: true }) },
      { weight: 1, arbitrary: fc.double({ min: 0.3, max: 1.2, noNaN: true }) },
    ),
  },
  { requiredKeys: ["script", "chars"] },
);

const inputOf: fc.Arbitrary<Input> = fc.record({
  origin: fc.oneof(
    { weight: 8, arbitrary: fc.constant("user" as const) },
    { weight: 1, arbitrary: fc.constant("event" as const) },
    { weight: 1, arbitrary: fc.constant("injected" as const) },
  ),
  words: wordsOf,
  sort: fc.constantFrom("plain" as const, "same" as const, "tagged" as const, "tagged" as const, "image" as const),
});

const rarely = (weight: number) =>
  fc.oneof({ weight, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) });

const waitingOf = (weight: number): fc.Arbitrary<Input | null> =>
  fc.oneof({ weight, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: inputOf });

const stepOf: fc.Arbitrary<ToolStep> = fc.record({
  calls: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 2, arbitrary: fc.integer({ min: 1, max: 6 }) }),
  args: wordsOf,
  result: wordsOf,
  says: fc.boolean(),
  thinks: fc.boolean(),
  sort: fc.oneof(
    { weight: 12, arbitrary: fc.constant("plain" as const) },
    { weight: 1, arbitrary: fc.constant("image" as const) },
    { weight: 1, arbitrary: fc.constant("error" as const) },
    { weight: 1, arbitrary: fc.constant("compact" as const) },
    { weight: 2, arbitrary: fc.constant("skill" as const) },
  ),
  waiting: waitingOf(12),
  dies: rarely(40),
});

const turnOf: fc.Arbitrary<TurnPlan> = fc.record({
  inputs: fc.array(inputOf, { minLength: 1, maxLength: 2 }),
  steps: fc.array(stepOf, { maxLength: 5 }),
  rounds: fc.oneof({ weight: 12, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.integer({ min: 2, max: 8 }) }),
  answer: wordsOf,
  thinks: fc.boolean(),
  forced: rarely(7),
  memory: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 2 }) }),
  late: waitingOf(15),
  cooldownOver: fc.boolean(),
});

const windowOf: fc.Arbitrary<number> = fc.oneof(
  { weight: 10, arbitrary: fc.integer({ min: 3_000, max: 12_000 }) },
  { weight: 4, arbitrary: fc.integer({ min: 12_000, max: 40_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 40_000, max: 200_000 }) },
);

const summaryOf: fc.Arbitrary<SummaryKind> = fc.oneof(
  { weight: 12, arbitrary: fc.constant("good" as const) },
  ...(
    [
      "short",
      "empty",
      "echo",
      "too_long",
      "truncated",
      "refusal",
      "handoff",
      "timeout",
      "overloaded",
    ] satisfies readonly SummaryKind[]
  ).map((kind) => ({ weight: 1, arbitrary: fc.constant(kind) })),
);

/** @param maxTurns most turns of a session */
export const sessionPlan = (maxTurns: number): fc.Arbitrary<SessionPlan> =>
  fc.record({
    model: fc.constantFrom("claude-sonnet-5-5" as const, "claude-sonnet-5" as const, "claude-haiku-4-5" as const),
    windowTokens: windowOf,
    windowKnown: fc.oneof({ weight: 7, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
    thinking: fc.boolean(),
    triggerFrac: fc.double({ min: 0.4, max: 0.95, noNaN: true }),
    keepFrac: fc.double({ min: 0.02, max: 0.5, noNaN: true }),
    clipTokens: fc.constantFrom(64, 200, 500, 2_000),
    minTailUserMessages: fc.constantFrom(1, 1, 1, 2, 3),
    maxBytes: fc.oneof(
      { weight: 6, arbitrary: fc.constant(8_000_000) },
      { weight: 1, arbitrary: fc.integer({ min: 15_000, max: 100_000 }) },
    ),
    factor: fc.oneof(
      { weight: 3, arbitrary: fc.constant(1) },
      { weight: 4, arbitrary: fc.double({ min: 0.6, max: 1.6, noNaN: true }) },
    ),
    countsByBpe: rarely(15),
    canCount: rarely(2),
    statesSizes: fc.boolean(),
    summaries: fc.array(summaryOf, { minLength: 1, maxLength: 6 }),
    historyFails: fc.array(rarely(5), { minLength: 1, maxLength: 4 }),
    lateCommit: fc.oneof(
      { weight: 12, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }) },
    ),
    imported: fc.oneof(
      { weight: 3, arbitrary: fc.constant([]) },
      {
        weight: 2,
        arbitrary: randomLog({ orphans: true, maxSteps: 20, maxChars: 12_000, idPrefix: "imp" }),
      },
    ),
    importedAsOwn: rarely(5),
    turns: fc.array(turnOf, { minLength: 1, maxLength: maxTurns, size: "max" }),
    inFlight: fc.oneof(
      { weight: 2, arbitrary: fc.constant(null) },
      {
        weight: 1,
        arbitrary: fc
          .integer({ min: 1, max: 5 })
          .chain((calls) => fc.record({ calls: fc.constant(calls), answered: fc.integer({ min: 0, max: calls - 1 }) })),
      },
    ),
  });
