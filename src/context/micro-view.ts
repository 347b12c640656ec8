/** The view that a pass of micro-compaction makes, and whether it is worth making (section 11). Pure. */
import { answeredRequests } from "./answered-requests.ts";
import { historyPath, PREFIX_VERSION, renderGeneration, renderHandoff } from "./handoff.ts";
import { floorAfter, type LadderInput, shown } from "./ladder-input.ts";
import { skillLoads } from "./lost-skills.ts";
import { type Exchange, leastGain } from "./micro-plan.ts";
import type { MicroSettings, MicroState } from "./micro-state.ts";
import type { HistoryPort, SummariserPort } from "./ports.ts";
import { EMPTY_SECTIONS, mergeSections, type Sections, sectionsOf } from "./sections.ts";
import { stillLost, withoutMarkers } from "./skills.ts";
import type { SizedView } from "./view.ts";
import { type Generation, type HistoryPointer, rangesOf, union, type ViewState } from "./view-state.ts";

export interface MicroInput
  extends Pick<
    LadderInput,
    | "sessionId"
    | "rows"
    | "view"
    | "guards"
    | "budgets"
    | "thinkingBound"
    | "maxMarks"
    | "measure"
    | "estimateTokens"
    | "rowTokens"
    | "attemptId"
    | "nextGeneration"
  > {
  readonly state: MicroState;
  readonly settings: MicroSettings;
  readonly history: HistoryPort;
  readonly summariser: SummariserPort;
}

/** A generation and the view with it; everything else of the view stays, but thinking that is bound to other bytes goes (V5). */
export const viewWith = (
  input: MicroInput,
  parts: Pick<Generation, "covered" | "summary" | "sections" | "history">,
): { readonly generation: Generation; readonly view: ViewState } => {
  const base = input.view.generation;
  const names = [...skillLoads(input.rows), ...(parts.sections.skills ?? [])].map(({ name }) => name);
  const made: Generation = {
    ...parts,
    summary: withoutMarkers(parts.summary, names),
    number: input.nextGeneration,
    base: base?.number ?? 0,
    // The turn is over: whatever was restated is finished (C4).
    pinned: null,
    prefixVersion: PREFIX_VERSION,
  };
  const answered = answeredRequests(shown(input.rows, input.view), parts.covered);
  const generation: Generation = { ...made, rendered: renderGeneration(made, input.sessionId, answered) };
  const view: ViewState = {
    ...input.view,
    revision: input.view.revision + 1,
    generation,
    thinkingFloor: floorAfter(input),
  };
  return { generation, view };
};

/** What the rows of an exchange say (S2), with the answer that the user gave to a question at its end; the answer itself stays in view. */
export const sectionsWith = (input: MicroInput, { rows, next }: Exchange): Sections => {
  const window = input.budgets.windowTokens;
  const own = sectionsOf(rows, window);
  const answered = next === null ? own.answers : sectionsOf([...rows, next], window).answers;
  const merged = mergeSections(input.view.generation?.sections ?? null, { ...own, answers: answered }, window);
  const kept = shown(input.rows, input.view).filter((row) => !rows.includes(row));
  return { ...merged, skills: stillLost(merged.skills, kept, input.view) };
};

export const coveredWith = (input: MicroInput, { rows }: Exchange) =>
  union(input.view.generation?.covered ?? [], rangesOf(rows.map((row) => row.seq)));

/** Where the history is read once the pass is committed; needed before it is written, for what the view will cost. */
const pointerOf = (input: MicroInput): HistoryPointer => ({
  kind: "file",
  path: historyPath(input.sessionId),
});

/** The fixed words of a handoff, in tokens: what the first pass of a session pays, and no later one. */
const scaffolding = (input: MicroInput, exchange: Exchange): number => {
  const { view } = viewWith(input, {
    covered: coveredWith(input, exchange),
    summary: "",
    sections: EMPTY_SECTIONS,
    history: pointerOf(input),
  });
  return input.estimateTokens(renderHandoff(view, input.sessionId) ?? "");
};

/** So many times the fixed words of the handoff must be waiting before a session's first pass may cost tokens. */
const FIRST_PASS_FACTOR = 3;

/**
 * How much larger a view may become by a pass, in tokens: by nothing, but for the first pass of a chain. That one may pay for the handoff's fixed
 * words, if three times as much is waiting to be absorbed: the passes after it earn them.
 */
export const allowance = (input: MicroInput, exchange: Exchange, waitingTokens: number): number => {
  if (input.view.generation !== null) return 0;
  const fixed = scaffolding(input, exchange);
  return waitingTokens >= FIRST_PASS_FACTOR * fixed ? fixed : 0;
};

/** Whether a pass over an exchange would save enough, were the summary not to grow by it: known before a model is asked. */
export const paysFor =
  (input: MicroInput, before: SizedView) =>
  (exchange: Exchange, waitingTokens: number): boolean => {
    const { view } = viewWith(input, {
      covered: coveredWith(input, exchange),
      summary: input.view.generation?.summary ?? "",
      sections: sectionsWith(input, exchange),
      history: pointerOf(input),
    });
    const gain = before.tokens + allowance(input, exchange, waitingTokens) - input.measure(view).tokens;
    return gain >= leastGain(input.budgets.windowTokens);
  };
