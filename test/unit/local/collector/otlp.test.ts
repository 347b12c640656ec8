import { describe, expect, test } from "vitest";
import { OtlpError, readMetrics, readSpans } from "../../../../src/local/collector/otlp.ts";
import { idOf, metricsBody, TRACE, tracesBody, wireSpan } from "./spans.ts";

const errorOf = (act: () => unknown): string => {
  try {
    act();
  } catch (error) {
    if (error instanceof OtlpError) return error.message;
    throw error;
  }
  return "no error";
};

describe("a body of /v1/traces", () => {
  test("is read with its times in ms, its attributes of every kind, its events and its status", () => {
    const body = tracesBody(
      wireSpan({
        traceId: TRACE.toUpperCase(),
        parentSpanId: idOf(7),
        attributes: [
          { key: "text", value: { stringValue: "" } },
          { key: "whole", value: { intValue: "42" } },
          { key: "large", value: { intValue: "9223372036854775807" } },
          { key: "part", value: { doubleValue: 0.5 } },
          { key: "yes", value: { boolValue: false } },
          { key: "list", value: { arrayValue: { values: [{ stringValue: "a" }, { intValue: 1 }] } } },
          { key: "map", value: { kvlistValue: { values: [{ key: "k", value: { boolValue: true } }] } } },
          { key: "none", value: {} },
          { key: "absent" },
        ],
        events: [{ name: "e", timeUnixNano: "1764580000200000000", attributes: [] }],
        status: { code: 2, message: "broke" },
      }),
    );
    expect(readSpans(body)).toEqual([
      {
        traceId: TRACE,
        spanId: idOf(1),
        parentSpanId: idOf(7),
        name: "chat",
        kind: "client",
        startMs: 1_764_580_000_123.456,
        endMs: 1_764_580_000_223.456,
        attributes: {
          text: "",
          whole: 42,
          large: "9223372036854775807",
          part: 0.5,
          yes: false,
          list: ["a", 1],
          map: { k: true },
          none: null,
          absent: null,
        },
        events: [{ name: "e", atMs: 1_764_580_000_200, attributes: {} }],
        isError: true,
        statusMessage: "broke",
      },
    ]);
  });

  test("may leave out what OTLP lets a sender leave out, and an empty parent is none", () => {
    const { traceId, spanId, name, startTimeUnixNano, endTimeUnixNano } = wireSpan() as Record<string, unknown>;
    const [read] = readSpans(
      tracesBody({ traceId, spanId, name, startTimeUnixNano, endTimeUnixNano, parentSpanId: "" }),
    );
    expect(read).toMatchObject({
      kind: "unspecified",
      parentSpanId: undefined,
      attributes: {},
      events: [],
      isError: false,
    });
    expect(readSpans("{}")).toEqual([]);
  });

  const nested = (depth: number): object => (depth === 0 ? {} : { arrayValue: { values: [nested(depth - 1)] } });

  test.each([
    ["that is no JSON", "{", "the body is not JSON: "],
    ["that is no object", "[]", "the body: "],
    ["with something else for its spans", JSON.stringify({ resourceSpans: {} }), "resourceSpans: "],
    [
      "with a wrong id",
      tracesBody(wireSpan({ traceId: "x" })),
      "resourceSpans.0.scopeSpans.0.spans.0.traceId: should be 32 hexadecimal digits",
    ],
    ["with a time that is none", tracesBody(wireSpan({ endTimeUnixNano: "-1" })), "spans.0.endTimeUnixNano: "],
    [
      "with an attribute whose value is bare",
      tracesBody(wireSpan({ attributes: [{ key: "a", value: "b" }] })),
      "has no value object",
    ],
    [
      "with an attribute that is nested without end",
      tracesBody(wireSpan({ attributes: [{ key: "a", value: nested(17) }] })),
      "nested deeper than 16",
    ],
  ])("%s is refused, and is told what is wrong", (_, body, message) => {
    expect(errorOf(() => readSpans(body))).toContain(message);
  });
});

describe("a body of /v1/metrics", () => {
  const sum = { aggregationTemporality: 1, isMonotonic: true, dataPoints: [{ asInt: "3", timeUnixNano: "2000000" }] };
  const histogram = {
    aggregationTemporality: 1,
    dataPoints: [
      {
        count: "3",
        sum: 7.5,
        min: 1,
        max: 5,
        explicitBounds: [2, 4],
        bucketCounts: ["1", "1", 1],
        timeUnixNano: "2000000",
      },
    ],
  };

  test("is read as the points of its counters and histograms", () => {
    const body = metricsBody({ name: "c", unit: "{x}", description: "d", sum }, { name: "h", histogram });
    expect(readMetrics(body)).toEqual({
      points: [
        { kind: "counter", name: "c", unit: "{x}", description: "d", attributes: {}, atMs: 2, value: 3 },
        {
          ...{ kind: "histogram", name: "h", unit: "", description: "", attributes: {}, atMs: 2 },
          ...{ count: 3, sum: 7.5, min: 1, max: 5, bounds: [2, 4], bucketCounts: [1, 1, 1] },
        },
      ],
      refused: { count: 0, names: [] },
    });
  });

  test("has its points of other kinds counted: totals since a start, gauges", () => {
    const gauge = { dataPoints: [{ asInt: "1" }, { asInt: "2" }] };
    const body = metricsBody(
      { name: "total", sum: { ...sum, aggregationTemporality: 2 } },
      { name: "g", gauge },
      { name: "c", sum },
    );
    const { points, refused } = readMetrics(body);
    expect(points.map(({ name }) => name)).toEqual(["c"]);
    expect(refused).toEqual({ count: 3, names: ["total", "g"] });
  });

  test("whose buckets do not fit their bounds is refused", () => {
    const [point] = histogram.dataPoints;
    const wrong = { ...histogram, dataPoints: [{ ...point, explicitBounds: [2] }] };
    expect(errorOf(() => readMetrics(metricsBody({ name: "h", histogram: wrong })))).toContain(
      "dataPoints.0.bucketCounts: should be one more than explicitBounds",
    );
  });
});
