/** Whether step 3 of the ladder may be tried, and what becomes of the guards when it was (section 7). */
import type { Cut } from "./cut.ts";
import { afterFailure, afterNothing, afterProbation, afterSkip, afterSuccess } from "./guards/after.ts";
import { decideGuards, type GuardFacts, isInfeasible } from "./guards/decide.ts";
import type { GuardState } from "./guards/state.ts";
import { guardWords, SKIPPED_WORDS } from "./guards/words.ts";
import { type Climbed, type LadderInput, lastSeq, type Why } from "./ladder-input.ts";
import { cutOf, NOTHING_WORDS, sliceTokens, summariseStep } from "./summarise-step.ts";
import type { SizedView } from "./view.ts";
import type { ViewState } from "./view-state.ts";

/** What the step came to. */
export type Rung =
  | {
      readonly kind: "made";
      readonly guards: GuardState;
      readonly view: ViewState;
      readonly compaction: NonNullable<Climbed["compaction"]>;
    }
  | { readonly kind: "none"; readonly guards: GuardState; readonly why: Exclude<Why, { readonly kind: "fits" }> };

const factsOf = (input: LadderInput): GuardFacts => ({
  reason: input.reason,
  reading: input.reading,
  // A reading is in the provider's tokens, and so is this; the ladder's own limits are in ours.
  triggerTokens: input.budgets.triggerTokens,
});

/**
 * Asks the guards, and the database where a probation is to be set or a probe to be had (G4). A probe is not asked for where there is
 * nothing to cut: it would be spent for nothing.
 */
const admitted = async (
  input: LadderInput,
  guards: GuardState,
  isAnythingToCut: () => boolean,
): Promise<
  | { readonly kind: "go"; readonly guards: GuardState }
  | { readonly kind: "blocked"; readonly guards: GuardState; readonly why: Extract<Why, { readonly kind: "guard" }> }
> => {
  const decision = decideGuards(guards, factsOf(input));
  if (decision.kind === "go") return { kind: "go", guards };
  const { guard, relief } = decision;
  const blocked = (state: GuardState) =>
    ({
      kind: "blocked",
      guards: state,
      why: { kind: "guard", guard, words: guardWords(guard, state) },
    }) as const;
  const { commit } = input.ports;
  switch (relief) {
    case "wait":
      return blocked(guards);
    case "arm":
      return blocked(afterProbation(guards, await commit.armProbation()));
    case "probe": {
      if (!isAnythingToCut()) return blocked(guards);
      const { isGranted, probation } = await commit.takeProbe(input.attemptId);
      const after = afterProbation(guards, probation);
      return isGranted ? { kind: "go", guards: after } : blocked(after);
    }
    default:
      return relief satisfies never;
  }
};

/** G5. In our tokens, as the slice is. */
const isTooSmall = (input: LadderInput, view: ViewState, guards: GuardState, cut: Cut): boolean =>
  isInfeasible(guards, {
    reason: input.reason,
    reading: input.reading,
    triggerTokens: input.triggerTokens,
    sliceTokens: sliceTokens(input, view, cut),
  });

/**
 * Summarises, where the guards let it. A failure is recorded here, and nowhere else (G1).
 * @param view as the steps before left it
 */
export const summaryRung = async (
  input: LadderInput,
  view: ViewState,
  size: SizedView,
  before: GuardState,
): Promise<Rung> => {
  const cut = cutOf(input, view, before);
  const admission = await admitted(input, before, () => cut.kind === "cut");
  if (admission.kind === "blocked") return { kind: "none", guards: admission.guards, why: admission.why };
  const { guards } = admission;
  if (cut.kind === "nothing") {
    const words = NOTHING_WORDS[cut.reason];
    return { kind: "none", guards: afterNothing(guards, input.reason), why: { kind: "nothing_to_cut", words } };
  }
  if (isTooSmall(input, view, guards, cut)) {
    return { kind: "none", guards: afterSkip(guards), why: { kind: "skipped", words: SKIPPED_WORDS } };
  }
  const made = await summariseStep(input, view, size, cut);
  if (made.kind === "failed") {
    const { failure, words } = made;
    const after = afterFailure(guards, failure, input.reason);
    await input.ports.commit.recordFailure(failure, after.state, after.cooldownSeconds);
    const why = { kind: "failed", failure, words, cooldownSeconds: after.cooldownSeconds } as const;
    return { kind: "none", guards: after.state, why };
  }
  const { generation, receipt } = made;
  const result = { coveredHash: receipt.coveredHash, summaryTokens: input.estimateTokens(generation.summary) };
  return {
    kind: "made",
    guards: afterSuccess(guards, { generation: generation.number, newestSeq: lastSeq(input.rows), result }),
    view: made.view,
    compaction: { generation, receipt },
  };
};
