/** Sessions whose model is served over chat completions, through the built Worker, the real SDK and a strict server. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ScriptBlock } from "../../src/local/simulator/script.ts";
import { prose, rounds, talk, textOf, user } from "../support/compaction.ts";
import {
  callerOf,
  makeTenant,
  openTurn,
  readEvents,
  startTestPlatform,
  type Tenant,
  type TestPlatform,
} from "../support/platform.ts";

let platform: TestPlatform;
let tenant: Tenant;

beforeAll(async () => {
  const profiles = { "openai/sim-strict": { strict_alternation: true, max_input_tokens: 20_000 } };
  platform = await startTestPlatform({ chat: true, variables: { HANGO_MODEL_PROFILES: JSON.stringify(profiles) } });
  tenant = await makeTenant(platform.database);
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

const CHAT = "/v1/chat/completions";

const open = async (model: string, fields: object = {}) => {
  const { simulator, database } = platform;
  const call = callerOf(platform.url, tenant);
  const { body: session } = await call("POST", "/v1/sessions", { model, max_tokens: 1_000, ...fields });
  const id: string = session.id;
  const turn = (input: string) => call("POST", `/v1/sessions/${id}/turns`, { input });
  const answered = async (input: string) => {
    const { status, body } = await turn(input);
    expect([status, body.status, body.error?.message]).toEqual([200, "completed", undefined]);
    return body;
  };
  return {
    id,
    call,
    turn,
    answered,
    /** A turn that is answered with these, one after another. */
    scripted: (input: string, ...replies: readonly (string | readonly ScriptBlock[])[]) => {
      for (const content of replies)
        simulator.enqueue({
          match: { purpose: "turn" },
          reply: { content: typeof content === "string" ? content : [...content] },
        });
      return answered(input);
    },
    load: async (messages: readonly object[]) => {
      const { status, body } = await call("POST", `/v1/sessions/${id}/import`, { messages });
      expect([status, body.error]).toEqual([200, undefined]);
    },
    use: async (changed: string) => {
      const { status } = await call("PATCH", `/v1/sessions/${id}`, { model: changed });
      expect(status).toBe(200);
    },
    log: async () => {
      const { body } = await call("GET", `/v1/sessions/${id}/messages?order=asc&limit=100`);
      return body.data;
    },
    generations: () =>
      database.sql("select reason, model from compactions where session_id = $1 order by generation", [id]),
  };
};

/** Bodies of the requests for an answer, as they went to one of the APIs. */
const sentTo = (path: string) =>
  platform.simulator.requests
    .filter((request) => request.path === path && request.purpose !== "summarize")
    .map(({ bodyText }) => JSON.parse(bodyText));

const refusals = () =>
  platform.simulator.requests.filter(({ status }) => status !== 200).map(({ status, error }) => `${status} ${error}`);

/** One letter a message, as a template sees them: calls and results in lower case. */
const shape = (messages: readonly { role: string; tool_calls?: unknown }[]): string =>
  messages
    .map(({ role, tool_calls }) => (role === "tool" ? "t" : tool_calls ? "c" : role.charAt(0).toUpperCase()))
    .join("");

const write = (path: string): ScriptBlock => ({
  type: "tool_use",
  name: "write_file",
  input_json: `{"file_path": "${path}", "content": "1.0"}`,
});

describe("a session over chat completions", () => {
  it("runs a turn with tools: streamed, its arguments as they came (V9), its reasoning kept with its call (V5), each request the beginning of the next (V2)", async () => {
    const { id, scripted, log } = await open("openai/sim-reasoner", { system: "Be careful." });
    const { simulator } = platform;
    simulator.script([
      {
        reply: {
          content: [
            { type: "thinking", thinking: "First I write." },
            { type: "text", text: "I write." },
            write("/a.md"),
            write("/b.md"),
          ],
        },
      },
      {
        reply: {
          content: [
            { type: "thinking", thinking: "Done." },
            { type: "text", text: "Both are written." },
          ],
        },
      },
    ]);
    const events = await readEvents(await openTurn(platform.url, tenant, id, { input: "Write two files." }));
    const told = (kind: string) =>
      events
        .filter(({ event, data }) => event === "message.delta" && data.kind === kind)
        .map(({ data }) => data.text)
        .join("|");
    expect(told("text").replaceAll("|", "")).toBe("I write.Both are written.");
    expect(told("thinking").replaceAll("|", "")).toBe("First I write.Done.");
    expect(events.at(-1)).toMatchObject({ event: "session.idle" });
    await scripted("Thank you.", "You are welcome.");

    const [first, second, third] = sentTo(CHAT).map(({ messages }) => messages);
    expect(shape(third)).toBe("SUcttAU");
    expect([second.slice(0, first.length), third.slice(0, second.length)]).toEqual([first, second]);
    const { reasoning_content: reasoning, tool_calls: calls } = second[2];
    expect([reasoning, calls[0].function.arguments]).toEqual([
      "First I write.",
      '{"file_path": "/a.md", "content": "1.0"}',
    ]);
    expect(JSON.stringify(third)).not.toContain("Done.");
    const rows = await log();
    expect(rows[1].content.map(({ type }: { type: string }) => type)).toEqual([
      "thinking",
      "text",
      "tool_use",
      "tool_use",
    ]);
    expect(rows[1].content[0]).toEqual({ type: "thinking", thinking: "First I write.", signature: "" });
    expect(refusals()).toEqual([]);
  });

  it("counts what the server counted, and takes no count for none (E4)", async () => {
    const { answered, call, id } = await open("openai/sim-chat");
    platform.simulator.script([{ reply: { content: "x", usage: { none: true } } }, { reply: { content: "y" } }]);
    expect((await answered("one")).usage).toMatchObject({ input_tokens: 0, output_tokens: 0 });
    const calibration = () =>
      platform.database.sql("select calibration from session_heads where session_id = $1", [id]);
    expect(await calibration()).toEqual([{ calibration: null }]);
    const { usage } = await answered("two");
    expect(usage.input_tokens).toBeGreaterThan(0);
    expect(usage.cache_read_input_tokens).toBeGreaterThan(1_024);
    expect(await calibration()).not.toEqual([{ calibration: null }]);
    const { body } = await call("GET", `/v1/sessions/${id}/context?view=full`);
    expect(body.request).toMatchObject({ model: "sim-chat", stream: true, stream_options: { include_usage: true } });
  });

  it("is compacted after an overflow in the server's own words (section 8)", async () => {
    platform.simulator.setModels({ "sim-chat": { maxInputTokens: 20_000, server: "llama.cpp" } });
    const { load, scripted, generations } = await open("openai/sim-chat", { context: { max_input_tokens: 20_000 } });
    await load(talk(15, 230));
    platform.simulator.enqueue({ match: { purpose: "turn" }, fault: { kind: "overflow" } });
    await scripted("And now?", "Now this.");
    expect(await generations()).toEqual([{ reason: "overflow", model: "openai/sim-chat" }]);
    expect(refusals()).toEqual([expect.stringContaining("400 the request exceeds the available context size")]);
    const last = sentTo(CHAT).at(-1);
    expect(textOf(last.messages[1])).toContain("[Handoff from earlier turns]");
    expect(last).not.toHaveProperty("cache_control");
  });

  it("has its summaries written by another provider's model, both ways (S7)", async () => {
    for (const [model, summarizer] of [
      ["openai/sim-chat", "claude-haiku-4-5"],
      ["claude-sonnet-5-5", "openai/sim-chat"],
    ] as const) {
      const context = { max_input_tokens: 20_000, summarizer_model: summarizer };
      const { load, answered, generations } = await open(model, { context });
      await load(talk(30, 230));
      await answered("And now?");
      expect(await generations()).toMatchObject([{ reason: "threshold" }]);
    }
    const summaries = platform.simulator.requests.filter(({ purpose }) => purpose === "summarize");
    expect(summaries.map(({ path }) => path)).toEqual(["/v1/messages", CHAT]);
    expect(refusals()).toEqual([]);
  });

  it("changes to another provider and back: neither is sent the other's thinking, and each takes the ids of both (V5)", async () => {
    const { scripted, use, log } = await open("claude-sonnet-5-5", { thinking: { type: "adaptive" } });
    const thought = (thinking: string): ScriptBlock => ({ type: "thinking", thinking });
    await scripted(
      "Write a.",
      [thought("Signed thought."), write("/a.md")],
      [thought("Signed end."), { type: "text", text: "A." }],
    );
    await use("openai/sim-reasoner");
    await scripted(
      "Write b.",
      [thought("Plain thought."), write("/b.md")],
      [thought("Plain end."), { type: "text", text: "B." }],
    );
    await use("claude-sonnet-5-5");
    await scripted("Write c.", [thought("Signed again."), write("/c.md")], "C.");
    expect(refusals()).toEqual([]);
    const texts = (path: string) => JSON.stringify(sentTo(path).at(-1));
    expect(texts("/v1/messages")).toContain("Signed thought.");
    expect(texts("/v1/messages")).not.toContain("Plain");
    expect(texts(CHAT)).toContain('"reasoning_content":"Plain thought."');
    expect(texts(CHAT)).not.toContain("Signed");
    expect((await log()).filter(({ role }: { role: string }) => role === "assistant")).toHaveLength(6);
  });
});

describe("a session on a strict template (R8)", () => {
  it("is never refused: the lesson's shape, compacted, talked to, and compacted again", async () => {
    // The configuration says that the model is strict.
    const { load, scripted, generations } = await open("openai/sim-strict");
    // A request, then nothing but calls and results: what a compaction keeps of it begins with tool traffic.
    await load([user("Read every file."), ...rounds(24, 3_600)]);
    await scripted("Stop. What have you found?", "An index is missing.");
    await scripted(`Then go on. ${prose(1_500, 3)}`, [write("/a.md")], "Done.");
    for (let n = 0; n < 6; n++)
      await scripted(`Question ${n}: ${prose(1_500, n)}`, `Answer ${n}. ${prose(300, 50 + n)}`);
    expect((await generations()).length).toBeGreaterThanOrEqual(2);
    expect(refusals()).toEqual([]);
    const shapes = sentTo(CHAT).map(({ messages }) => shape(messages));
    for (const each of shapes) expect(each.replace(/^S/, "").replaceAll(/[ct]/g, "")).toMatch(/^(UA)*U?$/);
    expect(JSON.stringify(sentTo(CHAT))).toContain("[Handoff from earlier turns]");
  });

  it("is told what helps where nobody said that it is one", async () => {
    platform.simulator.setModels({ devstral: { server: "llama.cpp", strictTemplate: true, maxInputTokens: 32_768 } });
    const { load, turn } = await open("openai/devstral");
    await load([user("One."), user("Two.")]);
    const { status, body } = await turn("Three.");
    expect([status, body.error.code]).toEqual([502, "provider_rejected"]);
    expect(body.error.message).toContain("set `context.strict_alternation`");
  });

  it("takes two messages of the user in a row, and what is said while tools run (M5)", async () => {
    // Here the session says it, of a model that nothing is known of.
    platform.simulator.setModels({ devstral: { server: "llama.cpp", strictTemplate: true, maxInputTokens: 32_768 } });
    const { load, id, call, log } = await open("openai/devstral", { context: { strict_alternation: true } });
    await load([user("One."), user("Two.")]);
    const { simulator } = platform;
    simulator.script([
      { reply: { content: [write("/a.md")] }, hold: { name: "calling", at: "start" } },
      { reply: { content: "All done." } },
    ]);
    const running = call("POST", `/v1/sessions/${id}/turns`, { input: "Three." });
    await simulator.reached("calling");
    const joined = call("POST", `/v1/sessions/${id}/turns`, { input: "And four.", on_busy: "join" });
    // Stored before the answer is let go on.
    await expect
      .poll(
        async () =>
          (await platform.database.sql("select count(*)::int as n from inputs where session_id = $1", [id]))[0]?.n,
      )
      .toBe(1);
    simulator.release("calling");
    expect((await running).body.status).toBe("completed");
    await joined;
    expect(refusals()).toEqual([]);
    const [first, second] = sentTo(CHAT).map(({ messages }) => messages);
    expect([shape(first), shape(second)]).toEqual(["SUAUAU", "SUAUAUctAU"]);
    expect(second.slice(0, first.length)).toEqual(first);
    expect((await log()).map(({ role }: { role: string }) => role).join()).toBe(
      "user,user,user,assistant,user,user,assistant",
    );
  });
});
