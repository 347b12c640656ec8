/** What stands before the messages, and thinking that is bound to it (V2, V5, V8), through the built Worker. */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { compactingSession, prose, textOf } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform();
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

/** A value as JSON without its cache marks. */
const unmarked = (value: unknown): string =>
  JSON.stringify(value, (key, inner) => (key === "cache_control" ? undefined : inner));

it("memory is loaded behind the cache mark; a change of it is a recorded revision, and costs no earlier cache mark (V8, section 10)", async () => {
  const session = await compactingSession(platform, {
    windowTokens: 100_000,
    fields: { system: prose(300, 3) },
    model: { cacheMinimumTokens: 256 },
  });
  const { id, call, scripted, untouched, sent, revisions } = session;
  const remember = (text: string) =>
    call("PUT", `/v1/sessions/${id}/files/memories/AGENTS.md`, text, { "Content-Type": "text/markdown" });
  await untouched(() => scripted("One.", "First."));
  expect(await revisions()).toEqual([]);
  await remember("The user likes short answers.");
  const second = await untouched(() => scripted("Two.", "Second."));
  expect(await revisions()).toEqual(["volatile"]);
  await untouched(() => scripted("Three.", "Third."));
  expect(await revisions()).toEqual(["volatile"]);
  await remember("The user likes long answers.");
  const fourth = await untouched(() => scripted("Four.", "Fourth."));
  expect(await revisions()).toEqual(["volatile", "volatile"]);

  const requests = sent();
  const memory = requests.map(({ system }) => textOf(system.slice(-1)).match(/likes \w+/)?.[0]);
  expect(memory).toEqual([undefined, "likes short", "likes short", "likes long"]);
  const stable = requests[0].system.length;
  for (const request of requests) {
    expect(unmarked(request.system.slice(0, stable))).toBe(unmarked(requests[0].system));
    expect(unmarked(request.tools)).toBe(unmarked(requests[0].tools));
    const marks = request.system.map((block: object) => "cache_control" in block);
    expect(marks.indexOf(true)).toBe(stable - 1);
    expect(marks.lastIndexOf(true)).toBe(stable - 1);
  }
  for (const { body } of [second, fourth]) expect(body.usage.cache_read_input_tokens).toBeGreaterThan(1_000);
});

it("between two calls without a new revision the earlier request is a prefix of the later one; revisions are few (V2)", async () => {
  const session = await compactingSession(platform, { windowTokens: 20_000 });
  const { scripted, untouched, sent, rejections } = session;
  const counted: number[] = [];
  for (let n = 0; n < 20; n++) {
    const before = sent().length;
    const from = (await session.head()).revision;
    await untouched(() =>
      scripted(
        `Question ${n}: ${prose(900, n)}`,
        [
          {
            type: "tool_use",
            id: `t${n}`,
            name: "write_file",
            input: { file_path: `/f${n}.md`, content: prose(600, n) },
          },
        ],
        `Answer ${n}. ${prose(100, 50 + n)}`,
      ),
    );
    const { revision } = await session.head();
    // Where the view changed during the turn it is not known between which calls: those are only counted.
    for (let at = before; at < sent().length; at++) counted[at] = revision === from ? revision : Number.NaN;
  }
  const requests = sent();
  let breaks = 0;
  for (const [at, request] of requests.entries()) {
    const earlier = requests[at - 1];
    if (earlier === undefined) continue;
    const parts = earlier.messages.map(unmarked);
    const isPrefix =
      unmarked(earlier.system) === unmarked(request.system) &&
      parts.every((part: string, index: number) => part === unmarked(request.messages[index]));
    if (!isPrefix) breaks++;
    if (counted[at] === counted[at - 1]) expect([at, isPrefix]).toEqual([at, true]);
  }
  const { revision } = await session.head();
  expect(revision).toBeGreaterThanOrEqual(2);
  expect(breaks).toBeLessThanOrEqual(revision);
  expect(rejections()).toEqual([]);
});

it("thinking of a model that binds it survives compactions in the middle of turns, with no request refused (V5)", async () => {
  const session = await compactingSession(platform, {
    windowTokens: 20_000,
    fields: { thinking: { type: "adaptive" } },
  });
  const { scripted, untouched, sent, generations, rejections } = session;
  const think = (text: string) => ({ type: "thinking" as const, thinking: text });
  for (let n = 0; n < 9; n++) {
    const steps = Array.from({ length: 4 }, (_, at) => [
      think(`Thought ${n}.${at}: ${prose(40, at)}`),
      {
        type: "tool_use" as const,
        id: `k${n}_${at}`,
        name: "write_file",
        input: { file_path: `/k${n}_${at}.md`, content: prose(700, at) },
      },
    ]);
    await untouched(() =>
      scripted(`Do ${n}: ${prose(100, n)}`, ...steps, [think(`Last ${n}.`), { type: "text", text: `Did ${n}.` }]),
    );
  }
  expect((await generations()).length).toBeGreaterThanOrEqual(2);
  expect(rejections()).toEqual([]);
  const shown = sent().map(({ messages }) => JSON.stringify(messages).split('"type":"thinking"').length - 1);
  expect(Math.max(...shown)).toBeGreaterThan(1);
});

it("a second call in the same turn reuses the generation; another needs a reading over the trigger (M4, G7)", async () => {
  const session = await compactingSession(platform, { windowTokens: 20_000 });
  const { load, scripted, untouched, generations, summaries } = session;
  await load(
    Array.from({ length: 30 }, (_, at) => [
      { role: "user" as const, content: `Q${at} ${prose(230, at)}` },
      { role: "assistant" as const, content: `A${at} ${prose(230, at + 40)}` },
    ]).flat(),
  );
  await untouched(() =>
    scripted(
      "Look around.",
      ...Array.from({ length: 5 }, (_, at) => [
        { type: "tool_use" as const, id: `l${at}`, name: "ls", input: { path: "/" } },
      ]),
      "Looked.",
    ),
  );
  expect(await generations()).toHaveLength(1);
  const asked = summaries();
  await untouched(() => scripted("And again.", "Yes."));
  expect([(await generations()).length, summaries()]).toEqual([1, asked]);
});
