import { createContext, Script } from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileRegex } from "../../../src/files/regex.ts";

const compile = (source: string, caseSensitive = true) => {
  const compiled = compileRegex(source, { caseSensitive });
  if (!compiled.ok) throw new Error(`${source}: ${compiled.reason}`);
  return compiled.matcher;
};

const anAtom = fc.constantFrom(
  "a",
  "b",
  "B",
  "_",
  "1",
  " ",
  "é",
  "\u{1f600}",
  ".",
  "\\d",
  "\\w",
  "\\s",
  "\\D",
  "\\W",
  "\\S",
  "\\b",
  "\\B",
  "^",
  "$",
  "\\.",
  "\\x61",
  "\\u{62}",
  "[ab]",
  "[^a]",
  "[a-c1]",
  "[^\\w\\s]",
  "[\\]\\-]",
  "[é-\u{1f600}]",
  "[^]",
  "[]",
);
const aQuantifier = fc.constantFrom("", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "{0}");
/** Patterns that mean the same to JavaScript with the flag u. */
const { pattern } = fc.letrec<{ pattern: string; item: string }>((tie) => ({
  item: fc.oneof(
    { maxDepth: 3 },
    fc
      .tuple(anAtom, aQuantifier)
      .map(([atom, quantifier]) => (/^(\\b|\\B|\^|\$)$/.test(atom) ? atom : atom + quantifier)),
    fc
      .tuple(fc.constantFrom("(", "(?:", "(?<n>"), tie("pattern"), aQuantifier)
      .map(([open, inner, quantifier]) => `${open}${inner})${quantifier}`),
    fc.tuple(tie("pattern"), tie("pattern")).map(([left, right]) => `(${left}|${right})`),
  ),
  pattern: fc.array(tie("item"), { maxLength: 4 }).map((items) => items.join("")),
}));
const subject = fc.string({
  unit: fc.constantFrom("a", "b", "B", "c", "_", "1", " ", "-", "]", ".", "é", "\u{1f600}"),
  maxLength: 12,
});

/** Longest wait for JavaScript's engine, which tries every way through nested repeats: some random patterns would take hours. */
const ENGINE_TIMEOUT_MS = 250;
const engine = new Script("expression.test(text)");
const context = createContext({});

/** What JavaScript's engine finds; undefined where it takes too long to say. */
const inJavaScript = (expression: RegExp, text: string): boolean | undefined => {
  try {
    Object.assign(context, { expression, text });
    return engine.runInContext(context, { timeout: ENGINE_TIMEOUT_MS });
  } catch (error) {
    // An error of another realm, which `instanceof` does not know.
    if (Object(error).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined;
    throw error;
  }
};

describe("a regular expression", () => {
  it("is compared with an engine that is stopped where it would not end", () => {
    expect(inJavaScript(/^(?:(?:(?:a*)*)*)*$/u, `${"a".repeat(40)}b`)).toBeUndefined();
    expect(inJavaScript(/^a*$/u, "aa")).toBe(true);
  });

  it("finds what JavaScript's engine finds", () => {
    fc.assert(
      fc.property(
        pattern,
        fc.array(subject, { minLength: 1, maxLength: 5 }),
        fc.boolean(),
        (source, texts, caseSensitive) => {
          let expected: RegExp;
          try {
            // Group names may be given once only there.
            expected = new RegExp(source.replaceAll("(?<n>", "("), caseSensitive ? "u" : "iu");
          } catch {
            return;
          }
          const matcher = compile(source, caseSensitive);
          // V8 finds \B inside a surrogate pair, which is no place between characters.
          const plain = texts.map((text) => (source.includes("\\B") ? text.replaceAll("\u{1f600}", "\u00e9") : text));
          for (const text of plain) {
            const found = matcher.test(text);
            const wanted = inJavaScript(expected, text);
            if (wanted !== undefined) expect([source, text, found]).toEqual([source, text, wanted]);
          }
        },
      ),
      { numRuns: 3_000 },
    );
  });

  it.each([
    ["function {", "function {", true],
    ["a{,2}", "a{,2}", true],
    ["x{2}y", "xxy", true],
    ["(?i)ERROR", "an error", true],
    ["^$", "", true],
    ["^\\s*$", "  x", false],
    ["colou?r", "The color", true],
    ["\\bfoo\\b", "a.foo(", true],
    ["\\bfoo\\b", "foods", false],
    ["[$&`]", "`", true],
  ])("%j on %j: %j", (source, text, expected) => {
    expect(compile(source).test(text)).toBe(expected);
  });

  it.each([
    ["(a)\\1", "backreferences"],
    ["(?=a)", "lookahead"],
    ["(?<!a)b", "lookbehind"],
    ["a**", "two quantifiers"],
    ["*a", "nothing to repeat"],
    ["^*", "nothing to repeat"],
    ["(a", 'no ")"'],
    ["a)", 'no "("'],
    ["[a", 'no "]"'],
    ["[b-a]", "wrong order"],
    ["[[:alpha:]]", "[A-Za-z]"],
    ["a{3,2}", "wrong order"],
    ["a{5000}", "up to 1000"],
    ["(a{1000}){1000}", "too large"],
    ["((((a{50}){50}){50}){50}){50}", "too large"],
    ["a\\", "ends in a backslash"],
    ["\\p{L}", "not supported"],
    ["(".repeat(60) + ")".repeat(60), "nested more than"],
    ["a".repeat(1_001), "at most 1000"],
  ])("%j is refused with a reason that names %j", (source, words) => {
    expect(compileRegex(source, { caseSensitive: true })).toEqual({
      ok: false,
      reason: expect.stringContaining(words),
    });
  });

  it.each([
    ["(a+)+b", "a"],
    ["(a|a)*b", "a"],
    ["(a|aa)+c", "a"],
    ["a*a*a*a*a*a*b", "a"],
    ["(.*a){20}b", "a"],
    ["(a?){50}a{50}b", "a"],
    ["(x+x+)+y", "x"],
    ["(()*)*b", "a"],
  ])("%j takes steps in proportion to the text, where backtracking would never end", (source, char) => {
    const matcher = compile(source);
    expect(matcher.test(char.repeat(20_000))).toBe(false);
    const before = matcher.steps();
    expect(matcher.test(char.repeat(20_000))).toBe(false);
    expect(before).toBeLessThan(20_000 * 400);
    expect(matcher.steps()).toBeLessThanOrEqual(2 * before);
  });

  it("keeps few states although a pattern has exponentially many", () => {
    const matcher = compile("(a|b)*a(a|b){14}c");
    let seed = 1;
    const text = Array.from({ length: 20_000 }, () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % 2 === 0 ? "a" : "b";
    }).join("");
    expect(matcher.test(text)).toBe(false);
    expect(matcher.test(`${text}a${"b".repeat(14)}c`)).toBe(true);
    expect(matcher.steps()).toBeLessThan(5_000_000);
  });
});
