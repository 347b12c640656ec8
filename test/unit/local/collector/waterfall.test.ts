import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { layOut } from "../../../../src/local/collector/waterfall.ts";
import { idOf, span } from "./spans.ts";

const shown = (spans: Parameters<typeof layOut>[0]) =>
  layOut(spans).rows.map(({ span: { name }, depth, offsetPercent, widthPercent }) => [
    name,
    depth,
    Math.round(offsetPercent * 10) / 10,
    Math.round(widthPercent * 10) / 10,
  ]);

describe("a waterfall", () => {
  test("has parents before children and siblings by their start, each bar where it lies in the whole", () => {
    const spans = [
      span(3, { name: "second", parentSpanId: idOf(1), startMs: 150, endMs: 200 }),
      span(4, { name: "under the first", parentSpanId: idOf(2), startMs: 120, endMs: 130 }),
      span(1, { name: "root", startMs: 100, endMs: 200 }),
      span(2, { name: "first", parentSpanId: idOf(1), startMs: 110, endMs: 140 }),
    ];
    expect(shown(spans)).toEqual([
      ["root", 0, 0, 100],
      ["first", 1, 10, 30],
      ["under the first", 2, 20, 10],
      ["second", 1, 50, 50],
    ]);
    expect(layOut(spans)).toMatchObject({ startMs: 100, durationMs: 100 });
  });

  test("shows a span whose parent is not there as a root", () => {
    const spans = [span(1, { parentSpanId: idOf(99), startMs: 0, endMs: 10 }), span(2, { startMs: 5, endMs: 10 })];
    expect(shown(spans)).toEqual([
      ["span 1", 0, 0, 100],
      ["span 2", 0, 50, 50],
    ]);
  });

  test("is not led astray by clocks: a child before its parent, an end before its start", () => {
    const spans = [
      span(1, { startMs: 100, endMs: 200 }),
      span(2, { parentSpanId: idOf(1), startMs: 0, endMs: 50 }),
      span(3, { parentSpanId: idOf(1), startMs: 150, endMs: 120 }),
    ];
    expect(shown(spans)).toEqual([
      ["span 1", 0, 50, 50],
      ["span 2", 1, 0, 25],
      ["span 3", 1, 75, 0.4],
    ]);
  });

  test("ends where spans go in circles, from its earliest on", () => {
    const spans = [
      span(1, { parentSpanId: idOf(2), startMs: 0, endMs: 4 }),
      span(2, { parentSpanId: idOf(1), startMs: 1, endMs: 4 }),
      span(3, { parentSpanId: idOf(3), startMs: 2, endMs: 4 }),
    ];
    expect(shown(spans).map(([name, depth]) => [name, depth])).toEqual([
      ["span 1", 0],
      ["span 2", 1],
      ["span 3", 0],
    ]);
  });

  test("keeps a bar of no length inside, wherever it is, and marks events where they happened", () => {
    const event = { name: "e", atMs: 75, attributes: {} };
    const spans = [span(1, { startMs: 0, endMs: 100, events: [event] }), span(2, { startMs: 100, endMs: 100 })];
    expect(shown(spans)[1]).toEqual(["span 2", 0, 99.6, 0.4]);
    expect(layOut(spans).rows[0]?.marks).toEqual([{ name: "e", atPercent: 75 }]);
    expect(shown([span(1, { startMs: 5, endMs: 5 })])).toEqual([["span 1", 0, 0, 100]]);
    expect(layOut([])).toEqual({ startMs: 0, durationMs: 0, rows: [] });
  });

  test("is not ended by a chain that is deeper than the stack", () => {
    const spans = Array.from({ length: 30_000 }, (_, at) =>
      span(at + 1, { parentSpanId: at === 0 ? undefined : idOf(at) }),
    );
    expect(layOut(spans).rows.at(-1)?.depth).toBe(29_999);
  });

  test("of any spans has each once, and every bar within the whole", () => {
    const time = fc.integer({ min: 0, max: 1_000 });
    const any = fc.array(
      fc.record({ parent: fc.option(fc.integer({ min: 1, max: 12 })), startMs: time, endMs: time }),
      {
        maxLength: 12,
      },
    );
    fc.assert(
      fc.property(any, (given) => {
        const spans = given.map(({ parent, startMs, endMs }, at) =>
          span(at + 1, { parentSpanId: parent === null ? undefined : idOf(parent), startMs, endMs }),
        );
        const { rows } = layOut(spans);
        expect(rows.map((row) => row.span.spanId).toSorted()).toEqual(spans.map(({ spanId }) => spanId).toSorted());
        for (const { offsetPercent, widthPercent } of rows) {
          expect(offsetPercent).toBeGreaterThanOrEqual(0);
          expect(widthPercent).toBeGreaterThan(0);
          expect(offsetPercent + widthPercent).toBeLessThanOrEqual(100 + 1e-9);
        }
      }),
    );
  });
});
