/**
 * Glob patterns over file paths: `*` and `?` within a name, `**` across names, `[abc]`, `[a-z]`, `[!abc]`, `{a,b}`, `\` before a
 * character to take it as it is. Matched in linear time (`pattern.ts`).
 */
import type { DirectoryPath } from "./path.ts";
import { createMatcher, type Pattern } from "./pattern.ts";

export type CompiledGlob =
  | { readonly ok: true; readonly test: (path: string) => boolean }
  | { readonly ok: false; readonly reason: string };

const MAX_LENGTH = 1_000;
const MAX_NESTING = 10;
const SLASH = 0x2f;

class SyntaxProblem extends Error {}

type Range = readonly [number, number];

const set = (ranges: readonly Range[], negated: boolean): Pattern => ({ kind: "set", set: { ranges, negated } });
const NOT_SLASH = set([[SLASH, SLASH]], true);
const ANYTHING = set([], true);
const many = (item: Pattern, min = 0): Pattern => ({ kind: "repeat", item, min, max: undefined });
const literal = (char: string): Pattern => {
  const code = char.codePointAt(0) ?? 0;
  return set([[code, code]], false);
};

/** Ranges without the slash, which no class may match. */
const withoutSlash = (ranges: readonly Range[]): readonly Range[] =>
  ranges.flatMap(([low, high]) => {
    if (low > SLASH || high < SLASH) return [[low, high] as const];
    const parts: Range[] = [
      [low, SLASH - 1],
      [SLASH + 1, high],
    ];
    return parts.filter(([from, to]) => from <= to);
  });

const parse = (source: string): Pattern => {
  const chars = [...source];
  let at = 0;

  const bracket = (): Pattern => {
    const negated = chars[at] === "!" || chars[at] === "^";
    if (negated) at++;
    const ranges: Range[] = [];
    do {
      const low = chars[at++];
      if (low === undefined) throw new SyntaxProblem('a "[" has no "]"; write \\[ for the character itself');
      const isRange = chars[at] === "-" && chars[at + 1] !== "]" && chars[at + 1] !== undefined;
      const high = isRange ? (chars[at + 1] ?? low) : low;
      if (isRange) at += 2;
      ranges.push([low.codePointAt(0) ?? 0, high.codePointAt(0) ?? 0]);
    } while (chars[at] !== "]");
    at++;
    return negated ? set([...ranges, [SLASH, SLASH]], true) : set(withoutSlash(ranges), false);
  };

  const stars = (): Pattern => {
    const startsName = at === 1 || chars[at - 2] === "/";
    if (chars[at] !== "*") return many(NOT_SLASH);
    while (chars[at] === "*") at++;
    if (startsName && chars[at] === "/") {
      at++;
      return {
        kind: "choice",
        items: [
          { kind: "sequence", items: [] },
          { kind: "sequence", items: [many(ANYTHING), literal("/")] },
        ],
      };
    }
    return many(ANYTHING);
  };

  const sequence = (nesting: number): Pattern => {
    if (nesting > MAX_NESTING) throw new SyntaxProblem(`{...} are nested more than ${MAX_NESTING} deep`);
    const items: Pattern[] = [];
    for (;;) {
      const char = chars[at];
      if (char === undefined || (nesting > 0 && (char === "," || char === "}"))) return { kind: "sequence", items };
      at++;
      if (char === "*") items.push(stars());
      else if (char === "?") items.push(NOT_SLASH);
      else if (char === "[") items.push(bracket());
      else if (char === "{") items.push(braces(nesting));
      else if (char === "\\") items.push(literal(chars[at++] ?? "\\"));
      else items.push(literal(char));
    }
  };

  const braces = (nesting: number): Pattern => {
    const items = [sequence(nesting + 1)];
    while (chars[at] === ",") {
      at++;
      items.push(sequence(nesting + 1));
    }
    if (chars[at] !== "}") throw new SyntaxProblem('a "{" has no "}"; write \\{ for the character itself');
    at++;
    return { kind: "choice", items };
  };

  return sequence(0);
};

/**
 * Compiles a glob. One that begins with "/" is about whole paths; one with a "/" elsewhere about paths below `base`; one without
 * is about file names at any depth below `base`.
 * @returns a test of whole paths, or a reason written for a model
 */
export const compileGlob = (source: string, base: DirectoryPath): CompiledGlob => {
  if (source.length > MAX_LENGTH)
    return { ok: false, reason: `the pattern has ${source.length} characters; at most ${MAX_LENGTH} are allowed` };
  const plain = source.replace(/^(?:\.\/)+/, "");
  const complete = plain.endsWith("/") ? `${plain}**` : plain;
  const absolute = complete.startsWith("/");
  const scoped = absolute || complete.includes("/") ? complete : `**/${complete}`;
  try {
    const items: readonly Pattern[] = [
      { kind: "assertion", at: "start" },
      parse(scoped),
      { kind: "assertion", at: "end" },
    ];
    const matcher = createMatcher({ kind: "sequence", items }, { caseSensitive: true });
    if (matcher === undefined) return { ok: false, reason: "the pattern has too many parts" };
    return {
      ok: true,
      test: (path) => path.startsWith(base) && matcher.test(absolute ? path : path.slice(base.length)),
    };
  } catch (error) {
    if (error instanceof SyntaxProblem) return { ok: false, reason: error.message };
    throw error;
  }
};
