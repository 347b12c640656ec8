/**
 * Regular expressions for `grep`: the common syntax without what needs backtracking (backreferences, lookaround). Matched by
 * `pattern.ts`, in linear time.
 */
import { type CharSet, createMatcher, type Matcher, type Pattern } from "./pattern.ts";

export type CompiledRegex =
  | { readonly ok: true; readonly matcher: Matcher }
  | { readonly ok: false; readonly reason: string };

const MAX_LENGTH = 1_000;
const MAX_NESTING = 50;
const MAX_REPEAT = 1_000;

class SyntaxProblem extends Error {}

const MAX_CODE = 0x10ffff;
const DIGIT: CharSet = { ranges: [[0x30, 0x39]], negated: false };
const WORD: CharSet = {
  ranges: [
    [0x30, 0x39],
    [0x41, 0x5a],
    [0x5f, 0x5f],
    [0x61, 0x7a],
  ],
  negated: false,
};
const SPACE: CharSet = {
  ranges: [
    [0x09, 0x0d],
    [0x20, 0x20],
    [0xa0, 0xa0],
    [0x1680, 0x1680],
    [0x2000, 0x200a],
    [0x2028, 0x2029],
    [0x202f, 0x202f],
    [0x205f, 0x205f],
    [0x3000, 0x3000],
    [0xfeff, 0xfeff],
  ],
  negated: false,
};
const ANY: CharSet = {
  ranges: [
    [0x0a, 0x0a],
    [0x0d, 0x0d],
    [0x2028, 0x2029],
  ],
  negated: true,
};
const CLASSES: Readonly<Record<string, CharSet>> = { d: DIGIT, w: WORD, s: SPACE };
const CONTROLS: Readonly<Record<string, number>> = { n: 0x0a, r: 0x0d, t: 0x09, f: 0x0c, v: 0x0b, "0": 0 };

/** The ranges of a set with its negation worked out. */
const plainRanges = ({ ranges, negated }: CharSet): readonly (readonly [number, number])[] => {
  if (!negated) return ranges;
  const gaps: [number, number][] = [];
  let from = 0;
  for (const [low, high] of [...ranges].sort(([a], [b]) => a - b)) {
    if (low > from) gaps.push([from, low - 1]);
    from = Math.max(from, high + 1);
  }
  if (from <= MAX_CODE) gaps.push([from, MAX_CODE]);
  return gaps;
};

const single = (code: number): CharSet => ({ ranges: [[code, code]], negated: false });

/** Reads a pattern's text from left to right. @throws SyntaxProblem */
const parse = (source: string): Pattern => {
  const chars = [...source];
  let at = 0;
  const peek = (): string | undefined => chars[at];
  const fail = (problem: string): never => {
    throw new SyntaxProblem(`${problem} (at character ${at + 1} of the pattern)`);
  };
  const take = (text: string): boolean => {
    const found = [...text].every((char, index) => chars[at + index] === char);
    if (found) at += text.length;
    return found;
  };

  const choice = (nesting: number): Pattern => {
    if (nesting > MAX_NESTING) fail(`groups are nested more than ${MAX_NESTING} deep`);
    const items = [sequence(nesting)];
    while (take("|")) items.push(sequence(nesting));
    return items.length === 1 && items[0] !== undefined ? items[0] : { kind: "choice", items };
  };

  const sequence = (nesting: number): Pattern => {
    const items: Pattern[] = [];
    for (let char = peek(); char !== undefined && char !== "|" && char !== ")"; char = peek())
      items.push(repeated(nesting));
    return { kind: "sequence", items };
  };

  const repeated = (nesting: number): Pattern => {
    const item = atom(nesting);
    const counts = quantifier();
    if (counts === undefined) return item;
    if (item.kind === "assertion") fail("there is nothing to repeat before the quantifier");
    take("?"); // a lazy quantifier finds the same lines
    if (quantifier() !== undefined) fail("two quantifiers in a row; put the first one's item in a group");
    return { kind: "repeat", item, ...counts };
  };

  const quantifier = (): { readonly min: number; readonly max: number | undefined } | undefined => {
    if (take("*")) return { min: 0, max: undefined };
    if (take("+")) return { min: 1, max: undefined };
    if (take("?")) return { min: 0, max: 1 };
    const counted = /^\{(\d{1,6})(,(\d{1,6})?)?\}/.exec(chars.slice(at, at + 20).join(""));
    if (counted === null) return undefined;
    const min = Number(counted[1]);
    const max = counted[2] === undefined ? min : counted[3] === undefined ? undefined : Number(counted[3]);
    if (min > MAX_REPEAT || (max ?? 0) > MAX_REPEAT) fail(`repeat counts go up to ${MAX_REPEAT}`);
    if (max !== undefined && max < min) fail("the counts of a quantifier are in the wrong order");
    at += counted[0].length;
    return { min, max };
  };

  const atom = (nesting: number): Pattern => {
    const char = chars[at++];
    switch (char) {
      case "(":
        return group(nesting);
      case "[":
        return { kind: "set", set: bracket() };
      case ".":
        return { kind: "set", set: ANY };
      case "^":
        return { kind: "assertion", at: "start" };
      case "$":
        return { kind: "assertion", at: "end" };
      case "*":
      case "+":
      case "?":
        at--;
        return fail(`there is nothing to repeat before "${char}"`);
      case "\\":
        if (take("b")) return { kind: "assertion", at: "word" };
        if (take("B")) return { kind: "assertion", at: "notWord" };
        return { kind: "set", set: escaped() };
      default:
        return { kind: "set", set: single(char?.codePointAt(0) ?? 0) };
    }
  };

  const group = (nesting: number): Pattern => {
    if (take("?")) {
      const named = /^<[A-Za-z_]\w*>/.exec(chars.slice(at, at + 100).join(""));
      if (named !== null) at += named[0].length;
      else if (!take(":"))
        fail("lookahead, lookbehind and inline flags are not supported; only (...), (?:...) and (?<name>...) are");
    }
    const inner = choice(nesting + 1);
    if (!take(")")) fail('a "(" has no ")"');
    return inner;
  };

  const escaped = (): CharSet => {
    const char = chars[at++];
    if (char === undefined) return fail("the pattern ends in a backslash");
    const named = CLASSES[char.toLowerCase()];
    if (named !== undefined) return char === char.toLowerCase() ? named : { ...named, negated: true };
    const control = CONTROLS[char];
    if (control !== undefined) return single(control);
    const rest = chars.slice(at, at + 10).join("");
    const hex =
      char === "x"
        ? /^([0-9a-fA-F]{2})/.exec(rest)
        : char === "u"
          ? /^(?:([0-9a-fA-F]{4})|\{([0-9a-fA-F]{1,6})\})/.exec(rest)
          : null;
    if (hex !== null) {
      at += hex[0].length;
      return single(Math.min(MAX_CODE, Number.parseInt(hex[1] ?? hex[2] ?? "0", 16)));
    }
    if (/[1-9k]/.test(char)) return fail(`backreferences (\\${char}) are not supported`);
    if (/[A-Za-z]/.test(char))
      return fail(
        `the escape \\${char} is not supported; \\d \\w \\s \\b and their capitals, \\n \\t \\xHH \\uHHHH are`,
      );
    return single(char.codePointAt(0) ?? 0);
  };

  const bracket = (): CharSet => {
    const negated = take("^");
    const ranges: (readonly [number, number])[] = [];
    for (let first = true; first || peek() !== "]"; first = false) {
      if (first && peek() === "]") break;
      if (peek() === undefined) fail('a "[" has no "]"');
      if (chars[at] === "[" && chars[at + 1] === ":") fail("classes like [:alpha:] are not supported; write [A-Za-z]");
      const low = bracketItem();
      const lowCode = oneCode(low);
      if (lowCode === undefined || peek() !== "-" || chars[at + 1] === "]" || chars[at + 1] === undefined) {
        ranges.push(...plainRanges(low));
        continue;
      }
      at++;
      const highCode = oneCode(bracketItem());
      if (highCode === undefined) {
        fail("a range in [...] needs a single character at both ends");
      } else {
        if (highCode < lowCode) fail("a range in [...] is in the wrong order");
        ranges.push([lowCode, highCode]);
      }
    }
    at++;
    return { ranges, negated };
  };

  const bracketItem = (): CharSet => {
    const char = chars[at++];
    if (char !== "\\") return single(char?.codePointAt(0) ?? 0);
    if (take("b")) return single(0x08);
    return escaped();
  };

  const pattern = choice(0);
  if (peek() === ")") fail('a ")" has no "("');
  return pattern;
};

const oneCode = ({ ranges, negated }: CharSet): number | undefined => {
  const [range, ...more] = ranges;
  return range !== undefined && more.length === 0 && !negated && range[0] === range[1] ? range[0] : undefined;
};

/** Compiles a regular expression. A leading `(?i)` makes it ignore case. @returns the matcher, or a reason written for a model */
export const compileRegex = (source: string, options: { readonly caseSensitive: boolean }): CompiledRegex => {
  if (source.length > MAX_LENGTH)
    return { ok: false, reason: `the pattern has ${source.length} characters; at most ${MAX_LENGTH} are allowed` };
  const ignoreCase = source.startsWith("(?i)");
  try {
    const pattern = parse(ignoreCase ? source.slice(4) : source);
    const matcher = createMatcher(pattern, { caseSensitive: options.caseSensitive && !ignoreCase });
    return matcher === undefined
      ? { ok: false, reason: "the pattern is too large once its counts are written out; use smaller counts" }
      : { ok: true, matcher };
  } catch (error) {
    if (error instanceof SyntaxProblem) return { ok: false, reason: error.message };
    throw error;
  }
};
