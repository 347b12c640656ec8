/** A prompt that the provider finds too long (section 8), through the built Worker. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ScriptEntry } from "../../src/local/simulator/script.ts";
import { compactingSession, occurrences, talk, textOf } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";

const WINDOW = 20_000;

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform();
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

/** A session under its trigger, so that only the provider can say that it is too long. */
const middling = async () => {
  const session = await compactingSession(platform, { windowTokens: WINDOW });
  await session.load(talk(15, 230));
  return session;
};

const overflow = (times: number, fault: ScriptEntry["fault"] = { kind: "overflow" }): void =>
  platform.simulator.enqueue({ match: { purpose: "turn" }, fault, times });

const PROMPT_TOO_LONG = "prompt is too long: 23310 tokens > 20000 maximum";

describe("an overflow", () => {
  it("triggers compaction and one retry", async () => {
    const { untouched, scripted, generations, sent, log } = await middling();
    overflow(1);
    await untouched(() => scripted("And now?", "Now this."));
    expect(await generations()).toMatchObject([{ reason: "overflow" }]);
    const [first, second, ...more] = sent();
    expect(more).toEqual([]);
    expect(first.messages.length).toBe(31);
    expect(second.messages.length).toBeLessThan(15);
    expect(textOf(second.messages.at(-1))).toBe("And now?");
    expect((await log()).slice(-2).map(({ content }) => textOf(content))).toEqual(["And now?", "Now this."]);
  });

  it("a second time degrades to mechanical truncation and succeeds", async () => {
    const { untouched, scripted, generations, revisions, sent, summaries } = await middling();
    overflow(2, { kind: "overflow", tokens: 21_000 });
    await untouched(() => scripted("And now?", "Now this."));
    expect(await generations()).toHaveLength(1);
    expect(await revisions()).toEqual(["summarise", "truncate"]);
    expect(summaries()).toBe(1);
    const [, compacted, truncated] = sent();
    expect(truncated.messages.length).toBeLessThan(compacted.messages.length);
    expect(occurrences(textOf(truncated.messages), "## Messages that were left out")).toBe(1);
    expect(textOf(truncated.messages.at(-1))).toBe("And now?");
  });

  it("a third time fails the run with context_cannot_fit, and the session stays usable", async () => {
    const { untouched, turn, scripted, log, rejections } = await middling();
    overflow(3);
    const failed = await untouched(() => turn("And now?"));
    expect([failed.status, failed.body.error.code]).toEqual([422, "context_cannot_fit"]);
    expect(textOf((await log()).at(-1).content)).toBe("And now?");
    await untouched(() => scripted("Still there?", "Still here."));
    expect(rejections()).toEqual([]);
  });

  it("inside a stream that began well is answered in the same way, and nothing of that stream is stored", async () => {
    const { untouched, generations, scripted, log } = await middling();
    platform.simulator.enqueue({
      match: { purpose: "turn" },
      reply: { content: "A half answer that never ends." },
      fault: { kind: "error_event", type: "invalid_request_error", message: PROMPT_TOO_LONG, after_pieces: 2 },
    });
    await untouched(() => scripted("And now?", "Now this."));
    expect(await generations()).toMatchObject([{ reason: "overflow" }]);
    expect((await log()).slice(-2).map(({ content }) => textOf(content))).toEqual(["And now?", "Now this."]);
  });

  it("told as stop reason model_context_window_exceeded is answered in the same way, and its partial output is not stored", async () => {
    const { untouched, generations, scripted, log } = await middling();
    platform.simulator.enqueue({
      match: { purpose: "turn" },
      reply: { content: "A half answer.", stop_reason: "model_context_window_exceeded" },
    });
    await untouched(() => scripted("And now?", "Now this."));
    expect(await generations()).toMatchObject([{ reason: "overflow" }]);
    expect((await log()).slice(-2).map(({ content }) => textOf(content))).toEqual(["And now?", "Now this."]);
    // The half answer was paid for, though it is no step of the turn.
    const [booked] = await platform.database.sql(
      "select r.steps, count(*)::int as calls from (select * from runs order by created_at desc limit 1) r join usage_records u on u.run_id = r.id and u.purpose = 'turn' and u.output_tokens > 0 group by r.steps",
    );
    expect(booked).toEqual({ steps: 1, calls: 2 });
  });

  it("that states a lower limit re-targets the budget: the retry is under that limit", async () => {
    const { untouched, scripted, generations, sent } = await middling();
    overflow(1, { kind: "overflow", tokens: 23_000, limit: 12_000 });
    await untouched(() => scripted("And now?", "Now this."));
    const [generation] = await generations();
    expect(generation.tokens_read).toBeLessThan(12_000);
    expect(sent()).toHaveLength(2);
  });

  it("beats a cooldown once, without a summary in vain before it (G6)", async () => {
    const { untouched, scripted, generations, head } = await middling();
    platform.simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: "  " } });
    overflow(1);
    await untouched(() => scripted("One.", "First."));
    expect((await head()).cooldown_reason).toBe("empty");
    overflow(1);
    await untouched(() => scripted("Two.", "Second."));
    expect(await generations()).toMatchObject([{ reason: "overflow" }]);
    expect((await head()).cooldown_reason).toBe(null);
  });

  it("is not what another 400 is: that is not retried, and nothing is compacted", async () => {
    const { untouched, turn, generations, sent } = await middling();
    overflow(1, { kind: "status", status: 400, message: "tools: nonsense" });
    const failed = await untouched(() => turn("And now?"));
    expect([failed.status, failed.body.error.code]).toEqual([502, "provider_rejected"]);
    expect([await generations(), sent().length]).toEqual([[], 1]);
  });
});
