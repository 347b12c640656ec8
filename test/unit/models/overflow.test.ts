import { describe, expect, it } from "vitest";
import { isOverflowByEstimate, readOverflow } from "../../../src/models/overflow.ts";
import fixture from "../../fixtures/overflow-texts.json" with { type: "json" };

interface Row {
  readonly from: string;
  readonly status?: number;
  readonly text: string;
  readonly limit?: number;
  readonly size?: number;
}
const overflows: readonly Row[] = fixture.overflow;
const others: readonly Row[] = fixture.other;

describe("context overflow by text (context.md section 8)", () => {
  it.each(overflows)("is read from $from: $text", ({ status, text, limit, size }) => {
    expect(readOverflow(status, text)).toEqual({
      ...(limit === undefined ? {} : { limit }),
      ...(size === undefined ? {} : { size }),
    });
  });

  it.each(others)("is not seen in $from: $text", ({ status, text }) => {
    expect(readOverflow(status, text)).toBeUndefined();
  });

  it("does not read a text's far end, where a prompt may be echoed", () => {
    expect(readOverflow(400, `invalid: ${"x".repeat(5_000)} prompt is too long: 3 tokens > 2 maximum`)).toBeUndefined();
  });

  it("answers in linear time on a hostile text", () => {
    // Quadratic work on so much would outlast the test's time limit.
    expect(() => {
      readOverflow(429, `request too large for ${"request too large for limit 1, ".repeat(5_000)}`);
      readOverflow(400, "maximum context length is 1,".repeat(5_000));
    }).not.toThrow();
  });
});

describe("context overflow by estimate (context.md section 8)", () => {
  it.each([
    [400, 190_000, true],
    [400, 189_999, false],
    [429, 200_000, false],
    [undefined, 200_000, false],
  ] as const)("status %s with an estimate of %d in a window of 200,000: %s", (status, estimate, expected) => {
    expect(isOverflowByEstimate(status, estimate, 200_000)).toBe(expected);
  });
});
