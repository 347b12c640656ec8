/** Any history of attempts, readings, restarts and changes, over the guards alone: nothing blocks for ever, and no count goes wrong. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  afterFailure,
  afterNothing,
  afterProbation,
  afterReading,
  afterSkip,
  afterSuccess,
  beforeForced,
} from "../../../src/context/guards/after.ts";
import { decideGuards, isInfeasible } from "../../../src/context/guards/decide.ts";
import {
  atTime,
  atTurnStart,
  forModel,
  forView,
  type GuardState,
  isBlocked,
  NO_GUARDS,
  PROBATION_SECONDS,
} from "../../../src/context/guards/state.ts";
import { reportGuards } from "../../../src/context/guards/words.ts";
import type { CompactionReason, SummaryFailure } from "../../../src/context/reasons.ts";

const TRIGGER = 1_000;
/** G1: the longest cooldown. */
const LONGEST_COOLDOWN_S = 900;

const failures: readonly SummaryFailure[] = [
  "timeout",
  "truncated",
  "malformed",
  "empty",
  "refused",
  "transient",
  "configuration",
  "authentication",
  "quota",
  "network",
  "overloaded",
  "too_long",
  "would_grow",
  "invalid_view",
];
const reasons: readonly CompactionReason[] = ["threshold", "threshold", "threshold", "overflow", "manual", "tool"];

/** The session's columns, and the database's clock. */
interface World {
  readonly state: GuardState;
  readonly nowS: number;
  readonly cooldownUntilS: number;
  readonly probationAtS: number;
  readonly generation: number;
}

type Event =
  | {
      readonly kind: "attempt";
      readonly reason: CompactionReason;
      readonly outcome: SummaryFailure | "made" | "nothing" | "skip";
      readonly summaryTokens: number;
      readonly reading: number | null;
    }
  | { readonly kind: "reading"; readonly tokens: number }
  | { readonly kind: "time"; readonly seconds: number }
  | { readonly kind: "turn" }
  | { readonly kind: "void" }
  | { readonly kind: "model"; readonly model: string; readonly provider: string };

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("attempt" as const),
      reason: fc.constantFrom(...reasons),
      outcome: fc.constantFrom<SummaryFailure | "made" | "nothing" | "skip">(
        ...failures,
        "made",
        "made",
        "made",
        "made",
        "nothing",
        "skip",
      ),
      summaryTokens: fc.constantFrom(100, 101, 500),
      reading: fc.constantFrom(null, TRIGGER - 1, TRIGGER),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("reading" as const), tokens: fc.integer({ min: 1, max: 2 * TRIGGER }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("time" as const), seconds: fc.constantFrom(1, 29, 60, 299, 300, 900) }),
  },
  { weight: 4, arbitrary: fc.constant({ kind: "turn" as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: "void" as const }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("model" as const),
      model: fc.constantFrom("a", "b"),
      provider: fc.constantFrom("p", "q"),
    }),
  },
);

const START: World = { state: NO_GUARDS, nowS: 0, cooldownUntilS: 0, probationAtS: 0, generation: 0 };

/** As a Worker loads it: what is over is the clock's word. */
const loaded = ({ state, nowS, cooldownUntilS, probationAtS }: World): GuardState =>
  atTime(state, { cooldownActive: nowS < cooldownUntilS, probationDue: probationAtS <= nowS });

const probationOf = (atS: number) => ({ at: String(atS), due: false });

/** Asks as the ladder asks. @returns whether the attempt may be made */
const asked = (world: World, reason: CompactionReason, reading: number | null): readonly [boolean, World] => {
  const state = loaded(world);
  const decision = decideGuards(state, { reason, reading, triggerTokens: TRIGGER });
  if (decision.kind === "go") return [true, { ...world, state }];
  const probationAtS = world.nowS + PROBATION_SECONDS;
  switch (decision.relief) {
    case "wait":
      return [false, { ...world, state }];
    case "arm":
      return [false, { ...world, state: afterProbation(state, probationOf(probationAtS)), probationAtS }];
    case "probe":
      return [true, { ...world, state: afterProbation(state, probationOf(probationAtS)), probationAtS }];
    default:
      return decision.relief satisfies never;
  }
};

const attempted = (
  world: World,
  { reason, outcome, summaryTokens, reading }: Extract<Event, { kind: "attempt" }>,
): World => {
  const forced = reason === "manual" || reason === "tool";
  const before = forced ? { ...world, state: beforeForced(loaded(world)) } : world;
  const [goes, so] = asked(before, reason, reading);
  if (!goes) return so;
  if (outcome === "nothing") return { ...so, state: afterNothing(so.state, reason) };
  if (outcome === "skip") {
    const skips = isInfeasible(so.state, { reason, reading, triggerTokens: TRIGGER, sliceTokens: 1 });
    return skips ? { ...so, state: afterSkip(so.state) } : so;
  }
  if (outcome === "made") {
    const generation = so.generation + 1;
    const result = { coveredHash: String(generation), summaryTokens };
    return { ...so, generation, state: afterSuccess(so.state, { generation, newestSeq: generation, result }) };
  }
  const after = afterFailure(so.state, outcome, reason);
  const cooldownUntilS = after.cooldownSeconds === 0 ? so.cooldownUntilS : so.nowS + after.cooldownSeconds;
  return { ...so, state: after.state, cooldownUntilS };
};

const step = (world: World, happened: Event): World => {
  switch (happened.kind) {
    case "attempt":
      return attempted(world, happened);
    case "reading": {
      const read = { generation: world.generation, reading: happened.tokens, triggerTokens: TRIGGER };
      return { ...world, state: afterReading(world.state, read) };
    }
    case "time":
      return { ...world, nowS: world.nowS + happened.seconds };
    case "turn":
      return { ...world, state: atTurnStart(world.state) };
    case "void":
      return { ...world, state: forView(world.state, 0) };
    case "model": {
      const { model, provider } = happened;
      return { ...world, state: forModel(world.state, { model, provider, summariser: model }).state };
    }
    default:
      return happened satisfies never;
  }
};

const worlds = fc.array(event, { maxLength: 60 }).map((events) => events.reduce(step, START));
const runs = { numRuns: 3_000 };

describe("the guards, after any history", () => {
  it("block no automatic compaction for good: in the next turn, after an answer, and one window and the longest cooldown later, one is let through (G1, G4)", () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const answered = step(step(world, { kind: "turn" }), { kind: "reading", tokens: TRIGGER });
        // The cooldown is over first, so that an evaluation is blocked by nothing but what has a probation.
        const cool: World = { ...answered, nowS: answered.nowS + LONGEST_COOLDOWN_S };
        const [first, armed] = asked(cool, "threshold", null);
        const [then] = first ? [true] : asked({ ...armed, nowS: armed.nowS + PROBATION_SECONDS }, "threshold", null);
        expect(then).toBe(true);
      }),
      runs,
    );
  });

  it("give one probe in a window, whoever asks (G4)", () => {
    fc.assert(
      fc.property(worlds, (world) => {
        fc.pre(isBlocked(world.state));
        const next = step(step(world, { kind: "turn" }), { kind: "reading", tokens: TRIGGER });
        const [first, after] = asked(next, "threshold", null);
        // It is blocked still, so within the window nobody else gets in, in whichever turn.
        const again = asked(
          { ...step(after, { kind: "turn" }), nowS: after.nowS + PROBATION_SECONDS - 1 },
          "threshold",
          null,
        );
        expect([first, again[0]]).not.toEqual([true, true]);
      }),
      runs,
    );
  });

  it("keep counts that are whole and not negative, and a state that survives being stored (G1, G3, G5, M4)", () => {
    fc.assert(
      fc.property(worlds, ({ state }) => {
        const { cooldown, strikes, skips, turn, generation, newestSeq } = state;
        const counts = [
          cooldown.failures.timeout,
          cooldown.failures.truncated,
          strikes,
          skips,
          turn.compactions,
          turn.attempts,
          generation,
          newestSeq,
        ];
        expect(counts.every((count) => Number.isInteger(count) && count >= 0)).toBe(true);
        expect(turn.attempts).toBeLessThanOrEqual(3);
        expect(turn.compactions).toBeLessThanOrEqual(turn.attempts);
        expect(JSON.parse(JSON.stringify(state))).toEqual(state);
      }),
      runs,
    );
  });

  it("hold back what was asked for, or proven by the provider, by nothing but the attempts of its turn (G6, G9)", () => {
    fc.assert(
      fc.property(worlds, fc.constantFrom<CompactionReason>("manual", "tool", "overflow"), (world, reason) => {
        const state = loaded(world);
        const facts = { reason, reading: null, triggerTokens: TRIGGER };
        const decision = decideGuards(state, facts);
        expect(decision.kind === "go" || decision.guard === "budget").toBe(true);
        expect(decideGuards(atTurnStart(state), facts).kind).toBe("go");
        expect(isInfeasible(state, { ...facts, sliceTokens: 0 })).toBe(false);
      }),
      runs,
    );
  });

  it("are forgotten by a reading under the trigger of a compaction that waits for it (G3, G8)", () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const made = { ...world, generation: world.generation + 1 };
        const result = { coveredHash: "new", summaryTokens: 100 };
        const committed = afterSuccess(world.state, { generation: made.generation, newestSeq: 1, result });
        const after = step({ ...made, state: committed }, { kind: "reading", tokens: TRIGGER - 1 });
        expect(after.state).toMatchObject({ strikes: 0, sameResult: false, probation: null, skips: 0 });
        expect(reportGuards(loaded(after))).toEqual([]);
      }),
      runs,
    );
  });

  it("say what holds automatic compaction back exactly where something does between two turns", () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const state = atTurnStart(loaded(world));
        const decision = decideGuards(state, { reason: "threshold", reading: null, triggerTokens: TRIGGER });
        expect(reportGuards(state).length > 0).toBe(decision.kind === "blocked");
        expect(reportGuards(state)[0]?.words).toBe(decision.kind === "blocked" ? decision.words : undefined);
      }),
      runs,
    );
  });
});
