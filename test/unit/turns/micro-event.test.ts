/** What is told of a pass of micro-compaction (section 11): one event, always of one shape, without content. */
import { describe, expect, it } from "vitest";
import { NO_SIZES } from "../../../src/context/micro.ts";
import { EMPTY_SECTIONS } from "../../../src/context/sections.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { recordingMeter } from "../../../src/telemetry/meter.ts";
import { noopSpan } from "../../../src/telemetry/tracer.ts";
import { isBaseReadable } from "../../../src/turns/micro-base.ts";
import { type MicroPassFacts, microEvent, tellOfPass } from "../../../src/turns/micro-event.ts";
import { EMPTY, generation } from "../../support/store.ts";

const facts: MicroPassFacts = {
  sessionId: "ses_1" as SessionId,
  attemptId: "cmp_1",
  outcome: "committed",
  why: null,
  sizes: { pass: "absorb", before: 5_000, after: 4_250, exchangeTokens: 900, exchangeMessages: 3, summaryTokens: 150 },
  generation: 4,
  durationMs: 1_200,
  totals: { passes: 4, tokensSaved: 2_900 },
  model: "claude-sonnet-5-5",
  summariserModel: "claude-haiku-4-5",
  windowTokens: 20_000,
  triggerTokens: 17_000,
};

describe("the event of a pass (section 11)", () => {
  it("has tokens before and after, sizes, duration, running totals, and occupancy = after / trigger", () => {
    expect(microEvent(facts)).toEqual({
      session_id: "ses_1",
      attempt: "cmp_1",
      outcome: "committed",
      why: null,
      pass: "absorb",
      generation: 4,
      tokens_before: 5_000,
      tokens_after: 4_250,
      exchange_tokens: 900,
      exchange_messages: 3,
      summary_tokens: 150,
      duration_ms: 1_200,
      passes_total: 4,
      tokens_saved_total: 2_900,
      model: "claude-sonnet-5-5",
      summarizer_model: "claude-haiku-4-5",
      window_tokens: 20_000,
      trigger_tokens: 17_000,
      occupancy: 0.25,
    });
  });

  it("has the same keys whatever became of the pass; a view that was not changed is as large as before", () => {
    const keys = Object.keys(microEvent(facts));
    const failed = microEvent({ ...facts, outcome: "failed", why: "timeout", sizes: { ...facts.sizes, after: null } });
    const blocked = microEvent({ ...facts, outcome: "blocked", why: "cooldown", sizes: NO_SIZES, generation: null });
    expect([Object.keys(failed), Object.keys(blocked)]).toEqual([keys, keys]);
    expect([failed.tokens_after, failed.occupancy]).toEqual([5_000, 0.294]);
    expect([blocked.tokens_after, blocked.occupancy]).toEqual([null, null]);
  });

  it("says null for the occupancy where the window is not known, and looks nothing up", () => {
    expect(microEvent({ ...facts, windowTokens: null, triggerTokens: null })).toMatchObject({
      window_tokens: null,
      trigger_tokens: null,
      occupancy: null,
    });
  });

  it("is one line of the log, one count and, of a committed pass, one event of its span", () => {
    const lines: string[] = [];
    const meter = recordingMeter();
    const events: string[] = [];
    const quiet = () => undefined;
    const log = { debug: quiet, warn: quiet, error: quiet, info: (msg: string) => lines.push(msg), with: () => log };
    const span = { ...noopSpan, addEvent: (name: string) => events.push(name) };
    tellOfPass({ log, meter }, span, facts);
    tellOfPass({ log, meter }, span, { ...facts, outcome: "discarded_late" });
    tellOfPass({ log, meter }, span, { ...facts, outcome: "blocked", why: "cooldown" });
    expect(lines).toEqual(Array.from({ length: 3 }, () => "a micro-compaction pass"));
    expect(events).toEqual(["gen_ai.conversation.compacted"]);
    expect(meter.points.map(({ name, value, attributes }) => [name, value, attributes])).toEqual([
      ["hango.context.compactions", 1, { reason: "micro", outcome: "committed" }],
      ["hango.context.evicted_messages", facts.sizes.exchangeMessages, {}],
      ["hango.context.compactions", 1, { reason: "micro", outcome: "discarded_late" }],
      ["hango.context.compactions", 1, { reason: "micro", outcome: "blocked" }],
      ["hango.guard.blocked", 1, { guard: "cooldown" }],
    ]);
  });
});

describe("the summary that a pass builds on (section 11)", () => {
  const viewOf = (sections: string, covered = [{ from: 1, to: 2 }]) => ({
    baseMissing: false,
    view: { ...EMPTY, revision: 1, generation: { ...generation(1), covered: covered as never, sections } },
  });
  const whole = JSON.stringify({ sections: EMPTY_SECTIONS, rendered: "What was done." });

  it("is there, or there is none yet", () => {
    expect(isBaseReadable({ baseMissing: false, view: null })).toBe(true);
    expect(isBaseReadable({ baseMissing: false, view: EMPTY })).toBe(true);
    expect(isBaseReadable(viewOf(whole))).toBe(true);
  });

  it("that cannot be loaded is never replaced: no pass is made", () => {
    expect(isBaseReadable({ baseMissing: true, view: { ...EMPTY, revision: 1 } })).toBe(false);
    for (const sections of [
      "{",
      "{}",
      "null",
      '{"sections":{},"rendered":"x"}',
      JSON.stringify({ sections: EMPTY_SECTIONS }),
    ])
      expect(isBaseReadable(viewOf(sections)), sections).toBe(false);
    expect(isBaseReadable(viewOf(whole, []))).toBe(false);
  });
});
