import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { createRecord } from "../../../src/local/simulator/record.ts";
import type { Simulator } from "../../../src/local/simulator/server.ts";
import { startSimulator } from "../../../src/local/simulator/server.ts";
import { ask, assistant, call, post, result, text, tool, user } from "./harness.ts";

let nowMs = 0;
const simulator: Simulator = await startSimulator({ clock: () => nowMs });
beforeEach(() => {
  nowMs = 1_000_000;
  simulator.reset();
});
afterAll(() => simulator.close());

const mark = { cache_control: { type: "ephemeral" } };
const hour = { cache_control: { type: "ephemeral", ttl: "1h" } };
const big = "A sentence that fills the prompt. ".repeat(300);
const other = "Another sentence, quite as long. ".repeat(300);

/** Cache reads, cache writes and plain input of a request. */
const usage = async (body: unknown): Promise<readonly (number | undefined)[]> => {
  const reply = await post(simulator, body);
  expect(reply.status, reply.text).toBe(200);
  const { cache_read_input_tokens: read, cache_creation_input_tokens: written, input_tokens: input } = reply.json.usage;
  return [read, written, input];
};
const total = (counts: readonly (number | undefined)[]): number =>
  counts.reduce<number>((sum, count) => sum + (count ?? 0), 0);

describe("the prompt cache (point 3)", () => {
  it("writes at a mark, reads the same prefix afterwards, and always adds up to the prompt", async () => {
    const system = [text(big, mark)];
    const first = await usage(ask([user("one")], { system }));
    const second = await usage(ask([user("one"), assistant("1"), user("two")], { system }));
    expect(first).toEqual([0, expect.any(Number), expect.any(Number)]);
    expect(first[1]).toBeGreaterThan(1_024);
    expect(second.slice(0, 2)).toEqual([first[1], 0]);
    const plain = await usage(ask([user("one"), assistant("1"), user("two")], { system: big }));
    expect(total(second)).toBe(total(plain));
  });

  it("grows with a conversation whose newest message is marked", async () => {
    const one = await usage(ask([user([text(big, mark)])]));
    const two = await usage(ask([user(big), assistant("ok"), user([text(other, mark)])]));
    const three = await usage(
      ask([user(big), assistant("ok"), user(other), assistant("ok"), user([text("end", mark)])]),
    );
    expect(two[0]).toBe(one[1]);
    expect(three[0]).toBe((two[0] ?? 0) + (two[1] ?? 0));
    expect([one[2], two[2], three[2]]).toEqual([0, 0, 0]);
  });

  it("says nothing and stores nothing below the minimum", async () => {
    expect((await usage(ask([user([text("short", mark)])]))).slice(0, 2)).toEqual([0, 0]);
    expect((await usage(ask([user([text("short", mark)])]))).slice(0, 2)).toEqual([0, 0]);
  });

  it.each([
    [19, true],
    [20, false],
  ])("looks back 20 positions: an entry %i blocks before the mark is found: %s", async (distance, found) => {
    const first = await usage(ask([user([text(big, mark)])]));
    const more = Array.from({ length: distance }, (_, index) => text(`block ${index}`));
    const blocks = more.map((block, index) => (index === distance - 1 ? { ...block, ...mark } : block));
    const second = await usage(ask([user([text(big), ...blocks])]));
    expect(second[0]).toBe(found ? first[1] : 0);
  });

  it.each([
    ["5m", mark, 5 * 60_000],
    ["1h", hour, 60 * 60_000],
  ])("forgets a %s entry when its time is over, counted from its last use", async (ttl, marked, ttlMs) => {
    const body = ask([user([text(big, marked)])]);
    const first = await post(simulator, body);
    expect(first.json.usage.cache_creation).toEqual({
      ephemeral_5m_input_tokens: ttl === "5m" ? first.json.usage.cache_creation_input_tokens : 0,
      ephemeral_1h_input_tokens: ttl === "1h" ? first.json.usage.cache_creation_input_tokens : 0,
    });
    const written = first.json.usage.cache_creation_input_tokens;
    nowMs += ttlMs - 1;
    expect((await usage(body))[0]).toBe(written);
    nowMs += ttlMs - 1;
    expect((await usage(body))[0]).toBe(written);
    nowMs += ttlMs;
    expect((await usage(body)).slice(0, 2)).toEqual([0, written]);
  });

  const base = () => ({
    tools: [tool("ls")],
    system: [text(big, mark)],
    messages: [user([text(other, mark)])],
    model: "claude-sonnet-5-5",
    max_tokens: 100,
  });
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGFuZ28=" } };
  it.each([
    ["max_tokens and the place of the marks change nothing", { max_tokens: 200 }, "all"],
    ["a tool's description loses everything", { tools: [{ ...tool("ls"), description: "x" }] }, "nothing"],
    ["an added tool loses everything", { tools: [tool("ls"), tool("rm")] }, "nothing"],
    ["the system prompt loses everything after the tools", { system: [text(`${big}!`, mark)] }, "nothing"],
    ["another model shares nothing", { model: "claude-opus-5-5" }, "nothing"],
    ["tool_choice loses the messages", { tool_choice: { type: "auto" } }, "system"],
    ["thinking parameters lose the messages", { thinking: { type: "adaptive" } }, "system"],
    ["an image loses the messages", { messages: [user([text(other, mark), image])] }, "system"],
  ])("%s", async (_title, change, kept) => {
    const [, written] = await usage(base());
    const [, system] = await usage({
      ...base(),
      messages: [user("alone")],
      system: [text(big)],
      cache_control: { type: "ephemeral" },
    });
    const [read] = await usage({ ...base(), ...change });
    if (kept === "all") expect(read).toBe(written);
    if (kept === "nothing") expect(read).toBe(0);
    if (kept === "system") {
      expect(read).toBeGreaterThan(1_024);
      expect(read).toBeLessThan(written ?? 0);
    }
    expect(system).toBeGreaterThan(0);
  });

  it("is exact: a number written otherwise or keys in another order are another prefix (V9)", async () => {
    const body = (input: string): string =>
      JSON.stringify(ask([user(big), assistant([call("a", "INPUT")]), user([{ ...result("a"), ...mark }])])).replace(
        '"INPUT"',
        input,
      );
    const [, written] = await usage(body('{"10":1.0,"2":1}'));
    expect((await usage(body('{"10":1.0,"2":1}')))[0]).toBe(written);
    expect((await usage(body('{ "10": 1.0, "2": 1 }')))[0]).toBe(written);
    expect((await usage(body('{"10":1,"2":1}')))[0]).toBe(0);
    expect((await usage(body('{"2":1,"10":1.0}')))[0]).toBe(0);
  });

  it("has nothing to read from a request that failed before its response began", async () => {
    simulator.enqueue({ fault: { kind: "status", status: 529 } });
    const body = ask([user([text(big, mark)])]);
    expect((await post(simulator, body)).status).toBe(529);
    expect((await usage(body))[0]).toBe(0);
    expect((await usage(body))[0]).toBeGreaterThan(0);
  });
});

describe("the record of requests (point 6)", () => {
  it("lets go of the oldest bodies of a long replay, never of the newest", () => {
    const record = createRecord();
    const received = { method: "POST", path: "/v1/messages", headers: {}, timeMs: 0 };
    const half = "a".repeat(50 * 1024 * 1024);
    for (const body of ["[1]", half, half, "[2]"]) record.keep(record.add(received), body);
    expect(record.list.map((one) => one.bodyText.length)).toEqual([0, 0, half.length, 3]);
    expect(record.list.map((one) => one.index === 3 && one.body)).toEqual([false, false, false, [2]]);
  });
});
