/**
 * Patterns as data, and their matching in linear time: a Thompson automaton, made deterministic as it runs. A pattern comes from
 * a model, so that no backtracking engine may run it: `(a+)+b` would hang the Worker. Syntax: `regex.ts`, `glob.ts`.
 */

/** A set of code points: ascending or not, ranges inclusive. */
export interface CharSet {
  readonly ranges: readonly (readonly [number, number])[];
  readonly negated: boolean;
}

export type Pattern =
  | { readonly kind: "set"; readonly set: CharSet }
  | { readonly kind: "sequence"; readonly items: readonly Pattern[] }
  | { readonly kind: "choice"; readonly items: readonly Pattern[] }
  | { readonly kind: "repeat"; readonly item: Pattern; readonly min: number; readonly max: number | undefined }
  | { readonly kind: "assertion"; readonly at: "start" | "end" | "word" | "notWord" };

export interface Matcher {
  /** Whether the pattern matches anywhere in the text; a text is one line. */
  test(text: string): boolean;
  /** Steps taken so far: what bounds the time of a search, since a hard pattern takes more of them per character. */
  steps(): number;
}

type Instruction =
  | { readonly op: "set"; readonly set: CharSet; readonly next: number }
  | { readonly op: "split"; readonly next: number; readonly other: number }
  | { readonly op: "assertion"; readonly at: "start" | "end" | "word" | "notWord"; readonly next: number }
  | { readonly op: "match" };

/** Instructions that a pattern may take; `x{1000}` takes 1,000. */
const MAX_INSTRUCTIONS = 1_500;
/** Deterministic states kept; beyond them all are dropped and made anew. */
const MAX_STATES = 1_000;
const MAX_TRANSITIONS = 50_000;

/** @returns the program, its start, or undefined if it would have more than `MAX_INSTRUCTIONS` */
const compile = (
  pattern: Pattern,
): { readonly program: readonly Instruction[]; readonly start: number } | undefined => {
  const program: Instruction[] = [{ op: "match" }];
  let tooLarge = false;
  const emit = (instruction: Instruction): number => {
    if (program.length >= MAX_INSTRUCTIONS) tooLarge = true;
    return tooLarge ? 0 : program.push(instruction) - 1;
  };
  /** Emits an item so that a match of it goes on at `next`; answers where it starts. */
  const add = (item: Pattern, next: number): number => {
    if (tooLarge) return 0;
    switch (item.kind) {
      case "set":
        return emit({ op: "set", set: item.set, next });
      case "assertion":
        return emit({ op: "assertion", at: item.at, next });
      case "sequence":
        return item.items.reduceRight((after, each) => add(each, after), next);
      case "choice":
        return item.items
          .map((each) => add(each, next))
          .reduceRight((other, each) => emit({ op: "split", next: each, other }));
      case "repeat": {
        let start = next;
        if (item.max === undefined) {
          const loop = emit({ op: "split", next: 0, other: next });
          const body = add(item.item, loop);
          if (!tooLarge) program[loop] = { op: "split", next: body, other: next };
          start = loop;
        } else {
          for (let count = item.min; count < item.max && !tooLarge; count++) {
            start = emit({ op: "split", next: add(item.item, start), other: next });
          }
        }
        for (let count = 0; count < item.min && !tooLarge; count++) start = add(item.item, start);
        return start;
      }
    }
  };
  const start = add(pattern, 0);
  return tooLarge ? undefined : { program, start };
};

const isWord = (code: number): boolean =>
  (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a) || (code >= 0x30 && code <= 0x39) || code === 0x5f;

const inRanges = ({ ranges }: CharSet, code: number): boolean =>
  ranges.some(([low, high]) => code >= low && code <= high);

/** The code points that count as the same when case does not. */
const caseVariants = (code: number): readonly number[] => {
  const char = String.fromCodePoint(code);
  const upper = char.toUpperCase();
  return [char, char.toLowerCase(), upper, upper.toLowerCase()].flatMap((variant) => {
    const [first, ...rest] = [...variant].map((each) => each.codePointAt(0) ?? 0);
    return first === undefined || rest.length > 0 ? [] : [first];
  });
};

const END = -1;

/** Where a match stands between two characters: the instructions that may come next, and what was before. */
interface State {
  readonly waiting: readonly number[];
  readonly afterWord: boolean;
  readonly atStart: boolean;
  readonly next: Map<number, State | "matched">;
}

/**
 * Makes a pattern matchable.
 * @returns undefined if the pattern is too large (`MAX_INSTRUCTIONS`)
 */
export const createMatcher = (
  pattern: Pattern,
  { caseSensitive }: { readonly caseSensitive: boolean },
): Matcher | undefined => {
  const compiled = compile(pattern);
  if (compiled === undefined) return undefined;
  const { program, start } = compiled;
  const seen = new Uint32Array(program.length);
  let mark = 0;
  let steps = 0;
  let transitions = 0;
  let states = new Map<string, State>();

  const stateOf = (waiting: readonly number[], afterWord: boolean, atStart: boolean): State => {
    const key = `${afterWord ? "w" : ""}${atStart ? "s" : ""}${waiting.join()}`;
    const known = states.get(key);
    if (known !== undefined) return known;
    if (states.size >= MAX_STATES || transitions >= MAX_TRANSITIONS) {
      states = new Map();
      transitions = 0;
    }
    const state: State = { waiting, afterWord, atStart, next: new Map() };
    states.set(key, state);
    return state;
  };

  const accepts = (set: CharSet, code: number): boolean => {
    const found = caseSensitive ? inRanges(set, code) : caseVariants(code).some((variant) => inRanges(set, variant));
    return found !== set.negated;
  };

  const holds = (at: "start" | "end" | "word" | "notWord", state: State, code: number): boolean => {
    switch (at) {
      case "start":
        return state.atStart;
      case "end":
        return code === END;
      case "word":
        return state.afterWord !== isWord(code);
      case "notWord":
        return state.afterWord === isWord(code);
    }
  };

  const advance = (state: State, code: number): State | "matched" => {
    mark++;
    const stack = [...state.waiting, start];
    const reached = new Set<number>();
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      if (seen[at] === mark) continue;
      seen[at] = mark;
      steps++;
      const instruction = program[at];
      switch (instruction?.op) {
        case "match":
          return "matched";
        case "split":
          stack.push(instruction.next, instruction.other);
          break;
        case "assertion":
          if (holds(instruction.at, state, code)) stack.push(instruction.next);
          break;
        case "set":
          if (code !== END && accepts(instruction.set, code)) reached.add(instruction.next);
          break;
        case undefined:
          break;
      }
    }
    return stateOf(
      [...reached].sort((a, b) => a - b),
      isWord(code),
      false,
    );
  };

  const follow = (state: State, code: number): State | "matched" => {
    const known = state.next.get(code);
    if (known !== undefined) return known;
    const next = advance(state, code);
    state.next.set(code, next);
    transitions++;
    return next;
  };

  return {
    steps: () => steps,
    test: (text) => {
      let state = stateOf([], false, true);
      for (let at = 0; at < text.length; at++) {
        const code = text.codePointAt(at) ?? 0;
        if (code > 0xffff) at++;
        const next = follow(state, code);
        if (next === "matched") return true;
        state = next;
      }
      return follow(state, END) === "matched";
    },
  };
};
