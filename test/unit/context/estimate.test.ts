import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { estimateTokens } from "../../../src/context/estimate.ts";
import { COUNTERS, growthErrors, nextCallErrors, scriptRatio } from "../../../src/local/bench/estimator.ts";
import { readRequests, readScripts, readSteps, sampleReadingsFolder } from "../../../src/local/bench/readings.ts";

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

describe("estimateTokens (E3)", () => {
  it("finds no tokens in no text, and whole tokens in any other", () => {
    expect(estimateTokens("")).toBe(0);
    expect(["a", " ", "\n", "7", "(", "é", "ß", "中", "😀", "\u0000", "\ud800"].map(estimateTokens)).toEqual(
      ["a", " ", "\n", "7", "(", "é", "ß", "中", "😀", "\u0000", "\ud800"].map(() => expect.any(Number)),
    );
  });

  it("never shrinks when text is appended", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (text, more) => {
        expect(estimateTokens(text + more)).toBeGreaterThanOrEqual(estimateTokens(text));
      }),
    );
  });

  it("counts a text about the same in one piece and in two", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme" }), (text, more) => {
        const together = estimateTokens(text + more);
        expect(Math.abs(together - estimateTokens(text) - estimateTokens(more))).toBeLessThanOrEqual(12);
      }),
    );
  });

  it.each(Object.keys(readScripts()))("on %s is within 15 percent of a byte-pair tokenizer", (name) => {
    expect(Math.abs(scriptRatio(readScripts()[name] ?? "") - 1)).toBeLessThanOrEqual(0.15);
  });

  it("gives opaque text more tokens a character than prose", () => {
    const perCharacter = (text: string): number => estimateTokens(text) / text.length;
    const prose = perCharacter(
      "The quick review of the migration found three tables that nobody had moved yet. ".repeat(5),
    );
    const digits = perCharacter("918273645546372819102938475665748392".repeat(5));
    const hex = perCharacter("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".repeat(5));
    const base64 = perCharacter("dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIHRoZSBsYXp5IGRvZw".repeat(5));
    expect([digits, hex, base64].map((each) => each > 1.5 * prose)).toEqual([true, true, true]);
  });

  it("counts repeated signs far below their number", () => {
    expect(["-", "=", "*", " "].map((sign) => estimateTokens(sign.repeat(400)) < 40)).toEqual([true, true, true, true]);
  });
});

describe("the estimator against a provider's readings (issue 3, 8)", () => {
  const steps = readSteps(sampleReadingsFolder);
  const [hango, characters] = COUNTERS;

  it("misses the growth between calls by at most 10 % in the median", () => {
    expect(steps).toHaveLength(8);
    expect(hango && median(growthErrors(steps, hango))).toBeLessThanOrEqual(0.1);
  });

  it("projects the next call after a reading within 3 %", () => {
    expect(hango && Math.max(...nextCallErrors(steps, hango, true))).toBeLessThanOrEqual(0.03);
  });

  it("misses whole requests of at least 500 tokens by at most 15 % in the median, far less than characters / 4", () => {
    const requests = readRequests(sampleReadingsFolder).filter(({ tokens }) => tokens >= 500);
    const errorOf = (counter: typeof hango): number =>
      counter === undefined
        ? Number.NaN
        : median(requests.map((each) => Math.abs(counter.request(each) / each.tokens - 1)));
    expect(requests).toHaveLength(14);
    expect(errorOf(hango)).toBeLessThanOrEqual(0.15);
    expect(errorOf(characters)).toBeGreaterThan(0.3);
  });
});
