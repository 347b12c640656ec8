import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type RepeatedRead, unchangedNote, unchangedSince } from "../../../src/context/dedup.ts";
import { defaultEstimator, estimateRow } from "../../../src/context/estimate-request.ts";
import { EMPTY_SECTIONS } from "../../../src/context/sections.ts";
import { createRenderer } from "../../../src/context/view.ts";
import { EMPTY_VIEW, type Generation, type SeqRange, union, type ViewState } from "../../../src/context/view-state.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { log } from "../../support/log.ts";
import { randomLog } from "../../support/random-log.ts";

const rendererOf = () =>
  createRenderer({
    sessionId: "ses_1",
    estimateTokens: defaultEstimator.text,
    messageTokens: (message, rowTokens) => rowTokens ?? estimateRow(message.content),
  });

const covering = (covered: readonly SeqRange[]): Generation => ({
  number: 1,
  base: 0,
  covered,
  summary: "It was read.",
  sections: EMPTY_SECTIONS,
  pinned: null,
  history: { kind: "api" },
  prefixVersion: 1,
});

const range = (from: number, to: number): SeqRange => ({ from: seq(from), to: seq(to) });

const pathOf = (inputText: string): string => JSON.parse(inputText).file_path;

/** The logs of these tests read `/src/{call id}.ts` with call `{call id}`. */
const again = (over: Partial<RepeatedRead>): RepeatedRead => ({
  tool: "read_file",
  path: "/src/a.ts",
  text: "",
  pathOf,
  ...over,
});

const TEXT = "     1\tconst total = 4711;\n".repeat(200);

describe("an earlier result of the same read (R6)", () => {
  const { rows } = log().user("read it").tools("a").answered(TEXT).assistant("Read.").user("again").tools("b");
  const find = (view: Partial<ViewState>, over: Partial<RepeatedRead> = {}, of: readonly LogRow[] = rows) =>
    unchangedSince(of, { ...EMPTY_VIEW, ...view }, rendererOf(), again({ text: TEXT, ...over }));

  it("is found where the view shows it whole, by call and message", () => {
    expect(find({})).toEqual({ callId: "a", seq: 3 });
    expect(find({ generation: covering([range(1, 1)]) })).toEqual({ callId: "a", seq: 3 });
  });

  it.each<[string, Partial<ViewState>]>([
    ["covered by a compaction", { generation: covering([range(1, 4)]) }],
    ["hidden", { hidden: [range(1, 3)] }],
    ["clipped", { clippedBefore: seq(4) }],
    ["demoted", { demoted: ["a"] }],
  ])("is not one that is %s", (_, view) => {
    expect(find(view)).toBeNull();
  });

  it("is not one that was rewound: it is not among the rows", () => {
    expect(find({}, {}, rows.slice(4))).toBeNull();
  });

  it("is not one with another text, of another path, of another tool, or of the batch that is being answered", () => {
    expect(find({}, { text: `${TEXT}     201\tx` })).toBeNull();
    expect(find({}, { path: "/src/c.ts" })).toBeNull();
    expect(find({}, { tool: "fetch" })).toBeNull();
    expect(find({}, { path: "/src/b.ts" })).toBeNull();
  });

  it("is not a result with an image beside the text", () => {
    const { rows: odd } = log()
      .user("look")
      .tools("a")
      .results({ id: "a", blocks: [{ type: "text", text: TEXT }, { type: "image" }] });
    expect(find({}, {}, odd)).toBeNull();
  });

  it("is the newest of several", () => {
    const same = () => "/src/a.ts";
    const { rows: twice } = log().user("x").tools("a").answered(TEXT).tools("b").answered(TEXT).tools("c");
    expect(find({}, { pathOf: same }, twice)).toEqual({ callId: "b", seq: 5 });
    expect(find({ demoted: ["b"] }, { pathOf: same }, twice)).toEqual({ callId: "a", seq: 3 });
  });

  it("is not looked for behind a note: who asks once more gets the text", () => {
    const same = () => "/src/a.ts";
    const note = unchangedNote("/src/a.ts", { callId: "a", seq: 3 });
    const noted = log().user("x").tools("a").answered(TEXT).tools("b").answered(note);
    expect(find({}, { pathOf: same }, noted.tools("c").rows)).toBeNull();
    expect(find({}, { pathOf: same }, noted.answered(TEXT).tools("d").rows)).toEqual({ callId: "c", seq: 7 });
  });

  it("is found among random logs and views exactly where the request shows it whole (R6)", () => {
    const spans = (most: number) =>
      fc
        .array(fc.tuple(fc.integer({ min: 1, max: most }), fc.integer({ min: 0, max: 6 })), { maxLength: 3 })
        .map((pairs) => union(pairs.map(([from, length]) => range(from, from + length))));
    const cases = randomLog({ maxChars: 4_000, orphans: true }).chain((rows) => {
      const calls = rows.flatMap((row) => row.calls);
      const last = Number(rows.at(-1)?.seq ?? 1);
      return fc.record({
        rows: fc.constant(rows),
        covered: spans(last),
        hidden: spans(last),
        clippedBefore: fc.integer({ min: 1, max: last + 1 }),
        clipTokens: fc.constantFrom(64, 500),
        demoted: fc.subarray([...calls], { maxLength: Math.min(3, calls.length) }),
        paths: fc.integer({ min: 1, max: 6 }),
      });
    });
    let found = 0;
    let asked = 0;
    fc.assert(
      fc.property(cases, ({ rows, covered, hidden, clippedBefore, clipTokens, demoted, paths }) => {
        const view: ViewState = {
          ...EMPTY_VIEW,
          generation: covered.length === 0 ? null : covering(covered),
          hidden,
          clippedBefore: seq(clippedBefore),
          clipTokens,
          demoted,
        };
        // Several calls are about one path.
        const fewPaths = (input: string): string => `/p${(Number(/\d+/.exec(pathOf(input))?.[0]) || 0) % paths}`;
        // biome-ignore lint/suspicious/noExplicitAny: blocks of every shape
        const blocksOf = (of: readonly { content: string }[]): any[] =>
          of.flatMap(({ content }) => JSON.parse(content));
        const callsIn = (of: readonly { content: string }[]) =>
          new Map(
            blocksOf(of)
              .filter(({ type }) => type === "tool_use")
              .map(({ id, input }) => [id, fewPaths(JSON.stringify(input))]),
          );
        const sent = rendererOf().messages(rows, view);
        const shownCalls = callsIn(sent);
        const shown = new Map(
          blocksOf(sent)
            .filter(({ type, content }) => type === "tool_result" && typeof content === "string")
            .map((block) => [block.tool_use_id, block.content]),
        );
        const renderer = rendererOf();
        const stored = blocksOf(rows).filter(({ type }) => type === "tool_result");
        const pathOfCall = callsIn(rows);
        for (const { tool_use_id: id, content: text } of stored) {
          if (typeof text !== "string") continue;
          const path = pathOfCall.get(id) ?? "";
          const whole = [...shown].filter(([call, body]) => shownCalls.get(call) === path && body === text);
          const read = { tool: "read_file", path, text, pathOf: fewPaths };
          const earlier = unchangedSince(rows, view, renderer, read);
          asked++;
          if (earlier !== null) found++;
          expect([id, earlier?.callId]).toEqual([id, whole.at(-1)?.[0]]);
          const row = rows.find((each) => each.seq === earlier?.seq);
          expect(row === undefined || row.content.includes(earlier?.callId ?? "?")).toBe(true);
        }
      }),
      { numRuns: 120 },
    );
    // Both outcomes were seen, many times.
    expect([found > asked / 10, asked - found > asked / 10]).toEqual([true, true]);
  });
});
