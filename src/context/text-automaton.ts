/**
 * The estimator's automaton (E3): reading a text unit by unit, it knows the sort of the last character and how long its run is, and each
 * step has a cost. Built once from the weights into one table, so that counting a text is two array reads a character.
 */
import { CLASS_NAMES, isPunctuation } from "./char-classes.ts";
import {
  AFTER,
  DIGIT_RUN,
  EXTRA_COST,
  FIRST_LETTER,
  INDENT_RUN,
  LETTER_PAIR,
  LETTER_RUN,
  MIXED_CASE,
  ONE_COST,
  PUNCTUATION_RUN,
  SCRIPT,
  SPACE_RUN,
  UPPER_RUN,
} from "./token-weights.ts";

/** Costs are whole thousandths of a token: sums of integers are exact, whatever the order. */
export const COSTS_PER_TOKEN = 1_000;

type LetterSort = keyof typeof FIRST_LETTER;

/** What the automaton knows of the text so far. `run` counts the run of one sort up to a cap; `sort` is the last letter's. */
interface State {
  readonly family: string;
  readonly run: number;
  readonly sort: LetterSort;
  /** Whether a run of spaces began a line. */
  readonly indent: boolean;
}

const START: State = { family: "start", run: 1, sort: "vowel", indent: false };

const LETTERS: Readonly<Record<string, LetterSort>> = {
  vowel: "vowel",
  consonant: "consonant",
  rare: "rare",
  latin: "rare",
  vietnamese: "rare",
};

/** Classes that run on with another one, at an extra cost. */
const SAME_SCRIPT: Readonly<Record<string, string>> = { cyrillicOther: "cyrillic", hanTraditional: "han" };

const RUN_CAP: Readonly<Record<string, number>> = { letter: 12, upper: 6, space: 5, newline: 2, tab: 2 };
const PUNCTUATION_CAP = 4;
const SCRIPT_CAP = 5;

/** Columns of `AFTER`: the sort of what stands before. */
const KIND: Readonly<Record<string, number>> = {
  ...{ start: 0, newline: 0, tab: 0, letter: 3, upper: 4, digit: 5, underscore: 6, hyphen: 6, dot: 7, slash: 7 },
  ...{ backslash: 7, quote: 8, apostrophe: 8, backtick: 8, open: 9, close: 10 },
  ...{ typographic: 13, symbol: 13, box: 13, cjkPunctuation: 13, latin1: 13, control: 13, unknown: 13 },
  ...{ highSurrogate: 13, lowSurrogate: 13, variation: 13 },
};
const SPACE_KIND = 1;
const SPACES_KIND = 2;
const PUNCTUATION_KIND = 11;
const SCRIPT_KIND = 12;

const kindOf = ({ family, run }: State): number => {
  if (family === "space") return run === 1 ? SPACE_KIND : SPACES_KIND;
  return KIND[family] ?? (isPunctuation(family) ? PUNCTUATION_KIND : SCRIPT_KIND);
};

const capOf = (family: string): number => RUN_CAP[family] ?? (isPunctuation(family) ? PUNCTUATION_CAP : SCRIPT_CAP);

/** The state after one more character of a class. */
const after = (state: State, className: string): State => {
  const name = SAME_SCRIPT[className] ?? className;
  const sort = LETTERS[name];
  if (sort !== undefined) {
    // A capital and what follows it are one word.
    const before = state.family === "letter" ? state.run : state.family === "upper" ? 1 : 0;
    return { family: "letter", run: Math.min(capOf("letter"), before + 1), sort, indent: false };
  }
  const continues = state.family === name;
  const cap = capOf(name);
  const run = !continues ? 1 : name === "digit" ? (state.run % 3) + 1 : Math.min(cap, state.run + 1);
  const lineStart = state.family === "newline" || state.family === "tab";
  return { family: name, run, sort: "vowel", indent: name === "space" && (continues ? state.indent : lineStart) };
};

const at = (row: readonly number[] | undefined, index: number): number => row?.[Math.min(index, row.length - 1)] ?? 0;

const letterCost = (state: State, sort: LetterSort): number => {
  if (state.family === "letter") return at(LETTER_RUN, state.run - 1) + LETTER_PAIR[state.sort][sort];
  if (state.family === "upper") return state.run === 1 ? MIXED_CASE.capitalised : MIXED_CASE.afterCapitals;
  return at(AFTER["letter"], kindOf(state)) + FIRST_LETTER[sort];
};

const upperCost = (state: State): number => {
  if (state.family === "letter") return state.run < 3 ? MIXED_CASE.afterShortWord : MIXED_CASE.afterWord;
  return state.family === "upper" ? at(UPPER_RUN, state.run - 1) : at(AFTER["upper"], kindOf(state));
};

/** What one more character of class `name` costs, in thousandths of a token. Never negative: more text is never fewer tokens. */
const cost = (state: State, name: string): number => {
  const script = SAME_SCRIPT[name];
  return script === undefined ? plainCost(state, name) : plainCost(state, script) + (EXTRA_COST[name] ?? 0);
};

const plainCost = (state: State, name: string): number => {
  const one = ONE_COST[name];
  if (one !== undefined) return state.family === "letter" || state.family === "upper" ? one.inWord : one.alone;
  const sort = LETTERS[name];
  if (sort !== undefined) return letterCost(state, sort);
  if (name === "upper") return upperCost(state);
  const continues = state.family === name;
  if (continues && name === "digit") return at(DIGIT_RUN, state.run - 1);
  if (continues && name === "space") return at(state.indent ? INDENT_RUN : SPACE_RUN, state.run - 1);
  if (continues && isPunctuation(name)) return at(PUNCTUATION_RUN[name], state.run - 1);
  const script = SCRIPT[name];
  if (script === undefined) return at(AFTER[name], kindOf(state));
  if (continues) return at(script.run, state.run - 1);
  const kind = kindOf(state);
  if (kind === SPACE_KIND || kind === SPACES_KIND) return script.afterSpace;
  return kind === SCRIPT_KIND ? script.afterScript : script.afterOther;
};

const key = ({ family, run, sort, indent }: State): string => `${family} ${run} ${sort} ${indent}`;

/** Bits of an entry that hold where the next state's row starts; the cost is above them. */
export const NEXT_BITS = 15;

/**
 * One entry for each state and class: the cost times 2^15, plus where the next state's row starts. The first row is the start.
 * States are numbered as they are reached, so the table holds no others.
 */
const build = (): Int32Array => {
  const states: State[] = [START];
  const numbers = new Map([[key(START), 0]]);
  const entries: number[] = [];
  for (let index = 0; index < states.length; index++) {
    const state = states[index];
    if (state === undefined) break;
    for (const name of CLASS_NAMES) {
      const next = after(state, name);
      const known = numbers.get(key(next));
      if (known === undefined) numbers.set(key(next), states.push(next) - 1);
      entries.push((cost(state, name) << NEXT_BITS) | ((known ?? states.length - 1) * CLASS_NAMES.length));
    }
  }
  return Int32Array.from(entries);
};

export const STEPS: Int32Array = build();
