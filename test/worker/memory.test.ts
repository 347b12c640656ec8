/**
 * What a session keeps in mind, through the built Worker: memory, written in one turn and in force in the next, whatever becomes of the messages
 * between; and files that it read, for as long as the model sees them.
 */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { compactingSession, prose, talk, textOf } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform();
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

/** What a request says of memory; undefined for nothing. */
const memoryOf = ({ system }: { system: readonly { text: string }[] }): string | undefined =>
  system.find(({ text }) => text.includes("<memory path="))?.text;

/** Whether memory stands behind the last cache mark of the system prompt. */
const isBehindTheMark = ({ system }: { system: readonly { text: string }[] }): boolean => {
  const marked = system.findLastIndex((block) => "cache_control" in block);
  return marked >= 0 && system.findIndex(({ text }) => text.includes("<memory path=")) > marked;
};

it("is remembered in one turn and stands in the prompt of the next behind the cache mark, by a recorded revision; survives a compaction, whose summariser never sees it; a fork has it (V8, S4)", async () => {
  const session = await compactingSession(platform, { windowTokens: 20_000 });
  const { id, call, load, untouched, answered, sent, lastSent, revisions } = session;
  await load(talk(20, 100));
  await untouched(() => answered("remember: the user drinks tea, not coffee"));
  // The turn that writes it goes on with the prompt that it began with.
  expect([sent().length, sent().map(memoryOf), await revisions()]).toEqual([2, [undefined, undefined], []]);

  await untouched(() => answered("What do I drink?"));
  expect(memoryOf(lastSent())).toMatch(
    /<memory path="\/memories\/AGENTS\.md">\n- the user drinks tea, not coffee\n<\/memory>$/,
  );
  expect([isBehindTheMark(lastSent()), await revisions()]).toEqual([true, ["volatile"]]);

  expect((await untouched(() => call("POST", `/v1/sessions/${id}/compact`, {}))).status).toBe(200);
  await untouched(() => answered("And now?"));
  const [handoff] = lastSent().messages;
  expect(textOf(handoff)).toContain("your memory (what your instructions hold of /memories/)");
  expect([memoryOf(lastSent())?.includes("drinks tea"), isBehindTheMark(lastSent())]).toEqual([true, true]);
  expect(await revisions()).toEqual(["volatile", "summarise"]);
  const summaries = platform.simulator.requests.filter(({ purpose }) => purpose === "summarize");
  expect(summaries.length).toBeGreaterThan(0);
  for (const { bodyText } of summaries) expect(bodyText).not.toContain("<memory path=");

  const fork = await call("POST", `/v1/sessions/${id}/fork`, {});
  const copy = session.as(fork.body.id);
  await call("PUT", `/v1/sessions/${id}/files/memories/AGENTS.md`, "Only the original.", {
    "Content-Type": "text/markdown",
  });
  await copy.answered("Are you there?");
  expect(memoryOf(lastSent())).toContain("drinks tea");
  expect(memoryOf(lastSent())).not.toContain("Only the original");
});

it("a run that is gone on with reads memory anew: what the turn itself has written is a recorded revision, never a silent break (V2, V8)", async () => {
  const session = await compactingSession(platform, {
    windowTokens: 100_000,
    fields: { tools: [{ type: "custom", name: "ask", description: "Asks.", input_schema: { type: "object" } }] },
  });
  const { call, turn, sent, revisions, rejections } = session;
  const write = { file_path: "/memories/AGENTS.md", content: "Tea." };
  platform.simulator.enqueue({
    match: { purpose: "turn" },
    reply: {
      content: [
        { type: "tool_use", id: "w", name: "write_file", input: write },
        { type: "tool_use", id: "a", name: "ask", input: {} },
      ],
    },
  });
  platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "Noted." } });
  const { body } = await turn("Remember tea, then ask.");
  expect([body.status, await revisions()]).toEqual(["requires_action", []]);
  const ended = await call("POST", `/v1/runs/${body.id}/tool_results`, {
    tool_results: [{ tool_use_id: "a", content: "Yes." }],
  });
  expect(ended.body).toMatchObject({ status: "completed", output_text: "Noted." });
  expect(sent().map((request) => memoryOf(request)?.includes("Tea.") ?? false)).toEqual([false, true]);
  expect([await revisions(), rejections()]).toEqual([["volatile"], []]);
});

it("a file that the model still sees whole is not given again; after a compaction it is (R6, M6)", async () => {
  const session = await compactingSession(platform, { windowTokens: 40_000 });
  const { id, call, load, untouched, scripted, lastSent, rejections } = session;
  await load(talk(4, 30));
  const text = `${prose(1_500)} and so it ends`;
  await call("PUT", `/v1/sessions/${id}/files/big.md`, text, { "Content-Type": "text/markdown" });
  const read = (callId: string) =>
    untouched(() =>
      scripted(
        `Read it for ${callId}.`,
        [{ type: "tool_use", id: callId, name: "read_file", input: { file_path: "/big.md" } }],
        "Read.",
      ),
    );
  const answerTo = (callId: string): string =>
    lastSent()
      .messages.flatMap(({ content }: { content: object[] }) => content)
      .find((block: { tool_use_id?: string }) => block.tool_use_id === callId)?.content;
  await read("toolu_1");
  expect(answerTo("toolu_1")).toContain("and so it ends");
  await read("toolu_2");
  expect(answerTo("toolu_2")).toMatch(
    /^\/big\.md is unchanged since you last read it: the text is that of the result of call toolu_1, message 11\. /,
  );
  expect((await untouched(() => call("POST", `/v1/sessions/${id}/compact`, {}))).status).toBe(200);
  await read("toolu_3");
  expect([answerTo("toolu_1"), answerTo("toolu_3")]).toEqual([undefined, expect.stringContaining("and so it ends")]);
  expect(rejections()).toEqual([]);
});
