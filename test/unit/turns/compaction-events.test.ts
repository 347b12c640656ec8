import { describe, expect, it } from "vitest";
import { UNKNOWN } from "../../../src/context/attempt.ts";
import type { Why } from "../../../src/context/ladder-input.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { recordingMeter } from "../../../src/telemetry/meter.ts";
import { noopSpan } from "../../../src/telemetry/tracer.ts";
import { attemptEvent } from "../../../src/turns/attempt-event.ts";
import { compactionEvents } from "../../../src/turns/compaction-events.ts";

const collecting = () => {
  const lines: { readonly level: string; readonly line: Readonly<Record<string, unknown>> }[] = [];
  const log = createLog({
    level: "debug",
    traceIds: () => undefined,
    sink: (line, level) => void lines.push({ level, line: JSON.parse(line) }),
  });
  const run = { sessionId: "ses_1", runId: "run_1", model: "m", span: noopSpan, state: { private: {} } };
  const meter = recordingMeter();
  const clock = { ms: 1_000, summary: { ms: 0, calls: 0 } };
  const events = compactionEvents({
    journal: { tell: () => undefined },
    // biome-ignore lint/suspicious/noExplicitAny: of a run it reads no more than this
    run: run as any,
    deps: { log, meter, now: () => clock.ms },
    summariserModel: "s",
    budgets: { windowTokens: 20_000, triggerTokens: 17_000 },
    summaryTime: () => clock.summary,
  });
  return { events, lines, meter, clock };
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

/** Every key of the event, in its order. */
const KEYS = [
  ...["session_id", "run_id", "attempt", "source", "commit", "why", "guard", "failure", "cooldown_s", "model"],
  ...["summarizer_model", "window_tokens", "trigger_tokens", "estimate_tokens", "after_tokens", "covered_tokens"],
  ...["covered_messages", "kept_tokens", "summary_tokens", "generation", "duration_ms", "summary_ms", "summary_calls"],
  "occupancy",
];

describe("the event of an attempt (telemetry.md)", () => {
  const refused = {
    ...UNKNOWN,
    attemptId: "cmp_1",
    reason: "threshold",
    status: "refused",
    estimateTokens: 18_000,
  } as const;

  it("has one shape whatever is known, says what the attempt took and what of it the summariser took", () => {
    const { events, lines, meter, clock } = collecting();
    clock.summary = { ms: 500, calls: 2 };
    events.compacting({ reason: "threshold", tokens: 18_000, messages: 40 });
    clock.ms += 2_500;
    clock.summary = { ms: 2_500, calls: 4 };
    events.attempted({ ...refused, why: "guard", guard: "cooldown" });
    expect(lines.map(({ level, line }) => [level, line["msg"]])).toEqual([["info", "a compaction attempt"]]);
    const { level, msg, ...fields } = lines[0]?.line ?? {};
    expect(Object.keys(fields)).toEqual(KEYS);
    expect(fields).toMatchObject({
      session_id: "ses_1",
      run_id: "run_1",
      attempt: "cmp_1",
      source: "threshold",
      commit: "refused",
      why: "guard",
      guard: "cooldown",
      failure: null,
      estimate_tokens: 18_000,
      after_tokens: null,
      duration_ms: 2_500,
      summary_ms: 2_000,
      summary_calls: 2,
      occupancy: 1.059,
    });
    expect(meter.points).toEqual([
      { name: "hango.context.compactions", value: 1, attributes: { reason: "threshold", outcome: "refused" } },
      { name: "hango.guard.blocked", value: 1, attributes: { guard: "cooldown" } },
    ]);
  });

  it("has the same keys where nothing is known but that the session was held", () => {
    const line = attemptEvent({ reason: "manual", status: "lock_contended", sessionId: null, runId: null });
    expect(Object.keys(line)).toEqual(KEYS);
    expect(Object.entries(line).filter(([, value]) => value !== null)).toEqual([
      ["source", "manual"],
      ["commit", "lock_contended"],
    ]);
  });
});
