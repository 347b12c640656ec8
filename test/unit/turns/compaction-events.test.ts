import { describe, expect, it } from "vitest";
import type { Why } from "../../../src/context/ladder-input.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { noopSpan } from "../../../src/telemetry/tracer.ts";
import { compactionEvents } from "../../../src/turns/compaction-events.ts";

const collecting = () => {
  const lines: { readonly level: string; readonly line: Readonly<Record<string, unknown>> }[] = [];
  const log = createLog({
    level: "debug",
    traceIds: () => undefined,
    sink: (line, level) => void lines.push({ level, line: JSON.parse(line) }),
  });
  const run = { sessionId: "ses_1", span: noopSpan, state: { private: {} } };
  const events = compactionEvents({
    journal: { tell: () => undefined },
    // biome-ignore lint/suspicious/noExplicitAny: of a run it reads no more than this
    run: run as any,
    log,
    count: () => undefined,
  });
  return { events, lines };
};

const WHYS: readonly Why[] = [
  { kind: "fits" },
  { kind: "guard", guard: "cooldown", words: "words for people" } as Why,
  { kind: "nothing_to_cut", words: "words for people" },
  { kind: "failed", failure: "timeout", words: "words for people", cooldownSeconds: 60 },
];

describe("the log line of a compaction", () => {
  it("tells of what was not done at info, whatever kept it, and of an invalid view at error", () => {
    const { events, lines } = collecting();
    for (const why of WHYS) events.refused({ reason: "threshold", why });
    events.invalid(["message 3 has no content"]);
    expect(lines.map(({ level }) => level)).toEqual(["info", "info", "info", "info", "error"]);
    expect(lines.map(({ line }) => line["why"] ?? line["problems"])).toEqual([
      "fits",
      "guard",
      "nothing_to_cut",
      "failed",
      "message 3 has no content",
    ]);
    expect(JSON.stringify(lines)).not.toContain("words for people");
  });
});
