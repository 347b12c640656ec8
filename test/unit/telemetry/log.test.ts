import { describe, expect, test } from "vitest";
import { createLog, type LogLevel } from "../../../src/telemetry/log.ts";

const collecting = (
  level: LogLevel,
  traceIds = () => undefined as { trace_id: string; span_id: string } | undefined,
) => {
  const lines: unknown[] = [];
  const log = createLog({ level, traceIds, sink: (line, at) => void lines.push([at, JSON.parse(line)]) });
  return { log, lines };
};

describe("a log line", () => {
  test("is one JSON object with level, message, fields and the ids of the active span", () => {
    const { log, lines } = collecting("info", () => ({ trace_id: "t1", span_id: "s1" }));
    log.with({ session_id: "ses_1" }).info("compacted", { evicted: 3, path: null, unknown: undefined });
    log.error("request failed");
    expect(lines).toEqual([
      [
        "info",
        { session_id: "ses_1", evicted: 3, path: null, level: "info", msg: "compacted", trace_id: "t1", span_id: "s1" },
      ],
      ["error", { level: "error", msg: "request failed", trace_id: "t1", span_id: "s1" }],
    ]);
  });

  test("stays one line whatever a field holds, and its own names win", () => {
    const raw: string[] = [];
    const log = createLog({ level: "debug", traceIds: () => undefined, sink: (line) => void raw.push(line) });
    log.warn("odd", { text: 'a\nb"c\u2028', level: "fake", msg: "fake" });
    expect(raw).toEqual(['{"text":"a\\nb\\"c\u2028","level":"warn","msg":"odd"}']);
  });

  test.each([
    ["debug", ["debug", "info", "warn", "error"]],
    ["info", ["info", "warn", "error"]],
    ["warn", ["warn", "error"]],
    ["error", ["error"]],
  ] as const)("is written from level %s up", (level, written) => {
    const { log, lines } = collecting(level);
    for (const each of ["debug", "info", "warn", "error"] as const) log[each]("x");
    expect(lines.map((line) => (line as [string])[0])).toEqual(written);
  });

  test("is cut where a field is long", () => {
    const { log, lines } = collecting("info");
    log.info("x", { long: "a".repeat(5000) });
    expect(lines).toEqual([["info", { long: `${"a".repeat(1000)}...`, level: "info", msg: "x" }]]);
  });

  test("does not throw when the sink or the ids do", () => {
    const broken = () => {
      throw new Error("broken");
    };
    createLog({ level: "info", sink: broken, traceIds: () => undefined }).info("x");
    createLog({ level: "info", sink: () => undefined, traceIds: broken }).info("x");
  });
});
