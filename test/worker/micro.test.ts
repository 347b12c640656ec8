/** Micro-compaction through the built Worker (section 11): off unless asked for, one exchange a pass, the users' words untouched. */
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { compactingSession, occurrences, prose, textOf } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";

const WINDOW = 20_000;

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform();
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

/** Events of passes, as they were logged. */
const passes = (sessionId: string) =>
  platform.logs
    .filter((line) => line.includes("a micro-compaction pass") && line.includes(sessionId))
    .map((line) => JSON.parse(line.slice(line.indexOf("{"))));

const passesOf = (sessionId: string, count: number) =>
  vi.waitFor(
    () => {
      const found = passes(sessionId);
      expect(found.length).toBeGreaterThanOrEqual(count);
      return found;
    },
    { timeout: 10_000, interval: 25 },
  );

const session = (micro: unknown) =>
  compactingSession(platform, {
    windowTokens: WINDOW,
    context: micro === undefined ? {} : { micro_compaction: micro },
    fields: { system: "You are a careful agent.", max_tokens: 4_000 },
  });

it("is off by default: no message of the queue, no pass, no generation (section 11)", async () => {
  const { id, scripted, generations } = await session(undefined);
  for (let n = 0; n < 3; n++) await scripted(`Question ${n}`, prose(1_500, n));
  expect(await generations()).toEqual([]);
  const [head] = await platform.database.sql(
    "select micro_turns, micro_state::text as state from session_heads where session_id = $1",
    [id],
  );
  expect([head, passes(id)]).toEqual([{ micro_turns: 0, state: "{}" }, []]);
});

it("on: each finished turn absorbs one exchange, the users' words stay as they are, the next turn is valid, the log is untouched (section 11, M6)", async () => {
  const { id, scripted, answered, untouched, generations, lastSent, rejections, history, call } = await session({});
  await scripted("Question one: never touch table invoices_2019.", prose(1_500, 1));
  expect((await passesOf(id, 1))[0]).toMatchObject({ outcome: "nothing", why: "all_protected" });
  await untouched(async () => {
    await scripted("Question two", prose(1_500, 2));
    await passesOf(id, 2);
  });
  expect(await generations()).toMatchObject([
    { generation: 1, base_generation: 0, covered: "{[2,3)}", reason: "micro", evicted: 1, pinned_seq: null },
  ]);
  await scripted("Question three", prose(1_500, 3));
  await passesOf(id, 3);
  await answered("And now?");
  expect(rejections()).toEqual([]);
  expect(await generations()).toMatchObject([
    { generation: 1 },
    { generation: 2, base_generation: 1, covered: "{[2,3),[4,5)}", evicted: 1 },
  ]);
  const { messages } = lastSent();
  const text = textOf(messages);
  for (const said of ["never touch table invoices_2019.", "Question two", "Question three", "And now?"])
    expect(occurrences(text, said)).toBeGreaterThanOrEqual(1);
  expect(text).toContain('2 of those after the end mark, up to and including the one that begins "Question two"');
  expect(text).not.toContain(prose(1_500, 1));
  expect(text).toContain(prose(1_500, 3));
  expect(await history()).toContain(prose(1_500, 1));
  const events = await passesOf(id, 3);
  const { body } = await call("GET", `/v1/sessions/${id}/context`);
  expect(body.micro_compaction).toMatchObject({ enabled: true, every_n_turns: 1, batch_compactions: 0, failing: null });
  expect(body.micro_compaction.passes).toBeGreaterThanOrEqual(2);
  expect(body.micro_compaction.occupancy).toBeLessThan(0.5);
  expect(events[2]).toMatchObject({ outcome: "committed", pass: "absorb", passes_total: 2, exchange_messages: 1 });
}, 60_000);

it("counts no turn that did not end normally: cut off, out of steps, failed (section 11)", async () => {
  const { id, turn, call } = await session({});
  const { simulator, database } = platform;
  simulator.enqueue({ match: { purpose: "turn" }, fault: { kind: "truncate", tokens: 12 } });
  expect((await turn("Question one")).body.stop_reason).toBe("max_tokens");
  simulator.enqueue({
    match: { purpose: "turn" },
    reply: { content: [{ type: "tool_use", id: "toolu_1", name: "ls", input: {} }] },
  });
  expect((await call("POST", `/v1/sessions/${id}/turns`, { input: "Look", max_steps: 1 })).body.stop_reason).toBe(
    "max_steps",
  );
  simulator.enqueue({ match: { purpose: "turn" }, fault: { kind: "status", status: 400 } });
  expect((await turn("And?")).body.error).toBeDefined();
  const [head] = await database.sql("select micro_turns from session_heads where session_id = $1", [id]);
  expect([head, passes(id)]).toEqual([{ micro_turns: 0 }, []]);
}, 60_000);

it("a turn that comes while the summariser is at work is answered at once, and the pass is discarded (M2)", async () => {
  const { id, scripted, answered, generations } = await session({});
  await scripted("Question one", prose(1_500, 1));
  await passesOf(id, 1);
  platform.simulator.enqueue({
    match: { purpose: "summarize" },
    hold: { name: "summary", at: "start" },
    reply: { content: "The late summary." },
  });
  await scripted("Question two", prose(1_500, 2));
  await platform.simulator.reached("summary");
  // The turn has the session while the pass waits; the pass that it asks for itself is made and counts.
  await answered("Question three");
  await passesOf(id, 2);
  platform.simulator.release("summary");
  const outcomes = (await passesOf(id, 3)).map(({ outcome }) => outcome);
  expect(outcomes).toEqual(["nothing", "committed", "discarded_late"]);
  const made = await generations();
  expect(made.map(({ generation, summary }) => [generation, summary.includes("late")])).toEqual([[1, false]]);
}, 60_000);
