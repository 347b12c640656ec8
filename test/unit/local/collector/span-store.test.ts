import { describe, expect, test } from "vitest";
import { createSpanStore, type SpanStore } from "../../../../src/local/collector/span-store.ts";
import { idOf, span } from "./spans.ts";

const ROOMY = { maxTraces: 100, maxSpans: 1_000, maxBytes: 1_000_000 };
const traceId = (serial: number): string => serial.toString(16).padStart(32, "0");
const listed = (store: SpanStore) =>
  store.traces().map((trace) => [Number.parseInt(trace.traceId, 16), trace.spans.length]);

describe("the store of spans", () => {
  test("lists the newest start first, each trace with its spans in the order of their start", () => {
    const store = createSpanStore(ROOMY);
    store.add([span(1, { traceId: traceId(1), startMs: 5 }), span(2, { traceId: traceId(2), startMs: 9 })]);
    store.add([
      span(3, { traceId: traceId(1), startMs: 2 }),
      span(4, { traceId: traceId(1), startMs: 5, endMs: 2_000 }),
    ]);
    expect(listed(store)).toEqual([
      [2, 1],
      [1, 3],
    ]);
    expect(store.trace(traceId(1))?.spans.map(({ spanId }) => spanId)).toEqual([idOf(3), idOf(4), idOf(1)]);
    expect(store.trace(traceId(9))).toBe(undefined);
  });

  test("replaces a span that is sent again", () => {
    const store = createSpanStore(ROOMY);
    store.add([span(1, { name: "first" }), span(1, { name: "second" })]);
    expect(store.traces().map(({ spans }) => spans.map(({ name }) => name))).toEqual([["second"]]);
  });

  test.each([
    ["traces", { ...ROOMY, maxTraces: 2 }],
    ["spans", { ...ROOMY, maxSpans: 3 }],
    ["bytes", { ...ROOMY, maxBytes: 3 * JSON.stringify(span(1)).length }],
  ])("over its bound of %s forgets the traces that have not grown for longest", (_, limits) => {
    const store = createSpanStore(limits);
    store.add([span(1, { traceId: traceId(1) }), span(2, { traceId: traceId(2) })]);
    store.add([span(3, { traceId: traceId(1) })]);
    expect(listed(store).toSorted()).toEqual([
      [1, 2],
      [2, 1],
    ]);
    store.add([span(4, { traceId: traceId(3) })]);
    expect(listed(store).toSorted()).toEqual([
      [1, 2],
      [3, 1],
    ]);
  });

  test("forgets the first spans of a trace that alone is too many, and says how many", () => {
    const store = createSpanStore({ ...ROOMY, maxSpans: 2 });
    store.add([1, 2, 3, 4, 5].map((serial) => span(serial)));
    const [trace] = store.traces();
    expect([trace?.forgotten, trace?.spans.map(({ spanId }) => spanId)]).toEqual([3, [idOf(4), idOf(5)]]);
  });

  test("does not list a trace of whose spans none fits", () => {
    const store = createSpanStore({ ...ROOMY, maxBytes: 1_000 });
    store.add([span(1, { traceId: traceId(1) }), span(2, { traceId: traceId(2), name: "x".repeat(1_000) })]);
    expect(listed(store)).toEqual([]);
    store.add([span(3, { traceId: traceId(3) })]);
    expect(listed(store)).toEqual([[3, 1]]);
  });

  test("has room again for what comes after something was forgotten", () => {
    const store = createSpanStore({ ...ROOMY, maxSpans: 10 });
    for (let serial = 1; serial <= 1_000; serial += 1)
      store.add([span(serial, { traceId: traceId(serial), startMs: serial })]);
    expect(listed(store).map(([serial]) => serial)).toEqual([1000, 999, 998, 997, 996, 995, 994, 993, 992, 991]);
  });
});
