import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  countLines,
  formatIndex,
  indexLines,
  joinIndexes,
  markBefore,
  parseIndex,
} from "../../../src/files/line-index.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
/** Texts long enough to have marks. */
const text = fc
  .array(
    fc.tuple(fc.string({ unit: fc.constantFrom("x", "é", "\r"), maxLength: 20 }), fc.integer({ min: 1, max: 9_000 })),
    { maxLength: 6 },
  )
  .chain((parts) =>
    fc
      .constantFrom("", "\n")
      .map(
        (end) =>
          parts.map(([line, times]) => `${line}\n`.repeat(times)).join("") + end + "tail".repeat(parts.length % 2),
      ),
  );

describe("a line index", () => {
  it.each([
    ["", 0],
    ["a", 1],
    ["a\n", 1],
    ["a\nb", 2],
    ["\n\n", 2],
  ])("counts the lines of %j as %d", (content, lines) => {
    expect(countLines(indexLines(bytes(content)), content.length)).toBe(lines);
  });

  it("has marks that are line starts, survives its text form, and stays under 2 KB", () => {
    fc.assert(
      fc.property(text, (content) => {
        const all = bytes(content);
        const index = indexLines(all);
        expect(parseIndex(formatIndex(index))).toEqual(index);
        expect(formatIndex(index).length).toBeLessThan(2_048);
        for (const { newlines, offsetBytes } of index.marks) {
          expect(all.subarray(0, offsetBytes).filter((byte) => byte === 10).length).toBe(newlines);
          expect(offsetBytes === 0 || all[offsetBytes - 1] === 10).toBe(true);
        }
        expect(markBefore(index, 1)).toEqual({ newlines: 0, offsetBytes: 0 });
        expect(markBefore(index, index.newlines + 1)).toEqual(index.marks.at(-1));
      }),
      { numRuns: 50 },
    );
  });

  it("of joined pieces is one of the joined text", () => {
    fc.assert(
      fc.property(fc.array(text, { maxLength: 4 }), (pieces) => {
        const whole = bytes(pieces.join(""));
        const joined = joinIndexes(
          pieces.map((piece) => ({ sizeBytes: bytes(piece).length, lines: indexLines(bytes(piece)) })),
        );
        const expected = indexLines(whole);
        expect({ ...joined, marks: [] }).toEqual({ ...expected, marks: [] });
        for (const { newlines, offsetBytes } of joined.marks) {
          expect(whole.subarray(0, offsetBytes).filter((byte) => byte === 10).length).toBe(newlines);
          expect(offsetBytes === 0 || whole[offsetBytes - 1] === 10).toBe(true);
        }
      }),
      { numRuns: 50 },
    );
  });

  it.each([undefined, "", "x", "1", "1 2", "3 1 4", "1 1 a:b"])("is not read from %j", (stored) => {
    expect(parseIndex(stored)).toBeUndefined();
  });
});
