/** Skills in a view and in the record of a generation (R5). */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { nextClipBoundary } from "../../../src/context/clip.ts";
import { demotionOrder } from "../../../src/context/demote.ts";
import { estimateTokens } from "../../../src/context/estimate.ts";
import { renderHandoff } from "../../../src/context/handoff.ts";
import { LOST_BODY_CHARS, MAX_LOST_SKILLS, skillMarker } from "../../../src/context/lost-skills.ts";
import { renderSections } from "../../../src/context/render-sections.ts";
import { EMPTY_SECTIONS, mergeSections, type Sections, sectionsOf } from "../../../src/context/sections.ts";
import { demotedSkills, hiddenSkills, rowsForSummary, stillLost, withoutMarkers } from "../../../src/context/skills.ts";
import { createRenderer } from "../../../src/context/view.ts";
import { EMPTY_VIEW, type ViewState } from "../../../src/context/view-state.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { type LogBuilder, log } from "../../support/log.ts";

const WINDOW = 200_000;
const LONG = "Check the order, then the payment. ".repeat(400);
const SHORT = "Check the order. ".repeat(120);

const load = (built: LogBuilder, id: string, name: string, text = LONG, isError = false): LogBuilder =>
  built
    .row("assistant", [{ type: "tool_use", id, name: "load_skill", input: { name } }], [id])
    .results({ id, text, isError });

const rendered = (rows: readonly LogRow[], view: ViewState) =>
  createRenderer({
    sessionId: "ses_1",
    estimateTokens,
    messageTokens: ({ content }) => estimateTokens(content),
  }).messages(rows, view);

const resultIn = (rows: readonly LogRow[], view: ViewState, id: string): unknown =>
  rendered(rows, view)
    .flatMap(({ content }) => JSON.parse(content))
    .find((block) => block.tool_use_id === id)?.content;

/** The view after a clip, as the ladder makes it. */
const clipped = (rows: readonly LogRow[], keptFrom: number | null = null, view: ViewState = EMPTY_VIEW): ViewState => {
  const clip = nextClipBoundary(rows, view, WINDOW, estimateTokens, () => (keptFrom === null ? null : seq(keptFrom)));
  if (clip === null) throw new Error("nothing was clipped");
  return { ...view, clippedBefore: clip.clippedBefore, skills: clip.skills };
};

/** Loads one skill early, then much else. */
const early = (text = LONG, name = "refunds") =>
  load(log().user("Help."), "t1", name, text).loop(20, "c", "found ".repeat(900));

describe("the marker of a lost skill", () => {
  it("is one line with the exact call that loads it again, and says when it is history (R5)", () => {
    expect(skillMarker("refunds")).toBe(
      '[skill "refunds": its text was left out to make room. To follow it again, first call load_skill {"name":"refunds"}. Where that was done after this message, this note is history.]',
    );
  });

  it("is the same text where a skill is clipped, demoted, covered and hidden (R5)", () => {
    const { rows } = early();
    const marker = skillMarker("refunds");
    expect(resultIn(rows, clipped(rows), "t1")).toBe(marker);
    const demoted = { ...EMPTY_VIEW, skills: demotedSkills(rows, [], ["t1"]).facts };
    expect(resultIn(rows, demoted, "t1")).toBe(marker);
    expect(renderSections(sectionsOf(rows))).toContain(`\n- ${marker}`);
    const hidden = {
      ...EMPTY_VIEW,
      hidden: [{ from: seq(1), to: seq(5) }],
      skills: hiddenSkills(rows.slice(0, 5), []),
    };
    expect(renderHandoff(hidden, "ses_1")).toContain(`\n- ${marker}`);
  });
});

describe("clipping (ladder step 2)", () => {
  it("replaces the text of an old skill by the marker; other results keep head and tail (R5)", () => {
    const { rows } = early();
    const view = clipped(rows);
    expect(view.skills).toEqual([{ callId: "t1", name: "refunds", seq: 3, shown: "marker" }]);
    expect(resultIn(rows, view, "c0")).toContain("…[clipped: ");
  });

  it("leaves a short skill whole, over the limit of other results as it is (R5)", () => {
    const { rows } = early(SHORT);
    const view = clipped(rows);
    expect(SHORT.length).toBeLessThanOrEqual(LOST_BODY_CHARS);
    expect([view.skills[0]?.shown, resultIn(rows, view, "t1")]).toEqual(["whole", SHORT]);
  });

  it.each<readonly [string, () => LogBuilder, number | null]>([
    ["that a kept message of the user names", () => early().user("Use refunds again, please."), null],
    ["that one names in other letters", () => early().user("the REFUNDS skill."), null],
    ["in the slice that a cut would keep", early, 3],
  ])("leaves a skill whole %s (R5)", (_what, build, keptFrom) => {
    const { rows } = build();
    const view = clipped(rows, keptFrom);
    expect([view.skills[0]?.shown, resultIn(rows, view, "t1")]).toEqual(["whole", LONG]);
  });

  it("leaves a skill of the newest 10 messages whole by the newest 20 (R5)", () => {
    const { rows } = load(log().user("Help.").loop(20, "c", "found ".repeat(900)), "t1", "refunds").loop(4);
    const view = clipped(rows);
    expect([view.skills, resultIn(rows, view, "t1")]).toEqual([[], LONG]);
  });

  it("does not take a longer word, an old message or a tool's text for the name (R5)", () => {
    const { rows } = load(log().user("Load refunds."), "t1", "refunds")
      .loop(20, "c", "refunds ".repeat(900))
      .user("What of myrefunds and refunds-eu?");
    expect(clipped(rows).skills[0]?.shown).toBe("marker");
  });

  it("protects the newest text of a skill; an earlier copy is history (R5)", () => {
    const { rows } = load(early(), "t2", "refunds").loop(12).user("Go on with refunds.");
    const view = clipped(rows);
    expect(view.skills.map(({ callId, shown }) => [callId, shown])).toEqual([
      ["t1", "marker"],
      ["t2", "whole"],
    ]);
  });

  it("does not take the answer to a failed load, or another tool's, for a skill (R5)", () => {
    const failed = load(log().user("Help."), "t1", "refunds", LONG, true).loop(20, "c", "found ".repeat(900)).rows;
    const named = load(log().user("Help."), "t1", "No Skill", LONG).loop(20, "c", "found ".repeat(900)).rows;
    for (const rows of [failed, named]) {
      const view = clipped(rows);
      expect(view.skills).toEqual([]);
      expect(resultIn(rows, view, "t1")).toContain("…[clipped: ");
      expect(sectionsOf(rows).skills).toEqual([]);
    }
  });

  it("does not show a skill again that was replaced, nor change a view by what comes later (V2)", () => {
    const first = early();
    const view = clipped(first.rows);
    const before = rendered(first.rows, view).map(({ content }) => content);
    const later = first.user("Use refunds again.").loop(20, "d", "found ".repeat(900)).user("And refunds.").rows;
    expect(
      rendered(later, view)
        .slice(0, before.length)
        .map(({ content }) => content),
    ).toEqual(before);
    expect(clipped(later, null, view).skills).toContainEqual({
      callId: "t1",
      name: "refunds",
      seq: 3,
      shown: "marker",
    });
  });

  it("renders a revision from before there were skills as it always did (V2)", () => {
    const { rows } = early();
    const old: ViewState = { ...EMPTY_VIEW, clippedBefore: seq(10), demoted: ["c0"] };
    expect(resultIn(rows, old, "t1")).toMatch(/^Check the order.*…\[clipped: /s);
    expect(resultIn(rows, { ...old, demoted: ["t1"] }, "t1")).toMatch(/^\[result of 14,000 characters left out/);
  });
});

describe("demoting (ladder step 4)", () => {
  it("takes a protected skill too, with the marker instead of the note of a size; once (R5)", () => {
    const { rows } = early().user("Use refunds again.");
    const view = clipped(rows);
    expect(demotionOrder(rows, view, estimateTokens).map(({ callId }) => callId)).toContain("t1");
    const { facts, others } = demotedSkills(rows, view.skills, ["t1", "c14"]);
    expect([facts, others]).toEqual([[{ callId: "t1", name: "refunds", seq: 3, shown: "marker" }], ["c14"]]);
    const after = { ...view, skills: facts, demoted: others };
    expect(resultIn(rows, after, "t1")).toBe(skillMarker("refunds"));
    expect(demotionOrder(rows, after, estimateTokens).map(({ callId }) => callId)).not.toContain("t1");
  });
});

describe("the record of lost skills", () => {
  it("keeps names of texts over 5,000 characters, newest first, each once, 20 at most (R5)", () => {
    const built = log().user("Help.");
    for (let nth = 0; nth < 24; nth++) load(built, `t${nth}`, `s${nth}`);
    load(built, "again", "s5");
    load(built, "short", "small", "x".repeat(LOST_BODY_CHARS));
    const names = sectionsOf(built.rows).skills?.map(({ name }) => name);
    expect(names?.length).toBe(MAX_LOST_SKILLS);
    expect(names?.slice(0, 4)).toEqual(["s5", "s23", "s22", "s21"]);
    expect(names).not.toContain("small");
  });

  it("is merged over generations, also with one from before there were skills (R5, S2)", () => {
    const { rows } = early();
    const { skills: _, ...old } = EMPTY_SECTIONS;
    const first = mergeSections(old, sectionsOf(rows));
    const second = mergeSections(first, sectionsOf(load(log({ from: 50 }), "t9", "on-call").rows));
    expect(second.skills).toEqual([
      { name: "on-call", seq: 51 },
      { name: "refunds", seq: 3 },
    ]);
    expect(renderSections({ ...second, skills: [] })).not.toContain("load_skill {");
    expect(renderSections(old)).toBe("");
  });

  it("is headed by what had been, and reads as nothing to do (S3)", () => {
    const heading = renderSections(sectionsOf(early().rows)).match(/## Skills.*/)?.[0];
    expect(heading).toBe("## Skills that had been loaded and whose text was left out, newest first");
  });

  it("forgets a skill that was loaded again and is whole in the kept slice, and no other (R5)", () => {
    const lost = sectionsOf(load(early(), "t3", "on-call").rows).skills;
    const { rows: kept } = load(log({ from: 100 }), "t2", "refunds");
    expect(stillLost(lost, kept, EMPTY_VIEW).map(({ name }) => name)).toEqual(["on-call"]);
    const marked = { skills: demotedSkills(kept, [], ["t2"]).facts };
    expect(stillLost(lost, kept, marked)).toEqual(lost);
  });

  it("keeps a name until a text is shown whole that would be named itself when it is lost: a short one takes none out (R5)", () => {
    const lost = sectionsOf(early().rows).skills;
    expect(stillLost(lost, load(log({ from: 100 }), "t2", "refunds", SHORT).rows, EMPTY_VIEW)).toEqual(lost);
    // The same where the long text is in a hidden row, and the short one stands whole in a clipped one (ladder steps 2 and 5).
    const { rows } = load(early(), "t2", "refunds", SHORT).loop(20, "d", "found ".repeat(900));
    const hidden = {
      ...EMPTY_VIEW,
      hidden: [{ from: seq(1), to: seq(3) }],
      skills: hiddenSkills(rows.slice(0, 3), []),
    };
    const view = clipped(rows.slice(3), null, hidden);
    expect(view.skills.map(({ callId, shown }) => [callId, shown])).toEqual([
      ["t1", "marker"],
      ["t2", "whole"],
    ]);
    expect(renderHandoff(view, "ses_1")).toContain(`\n- ${skillMarker("refunds")}`);
    // A long one says all that there is to say; nothing has to be named while it stands there.
    const { rows: again } = load(early(), "t2", "refunds")
      .loop(20, "d", "found ".repeat(900))
      .user("Go on with refunds.");
    expect(renderHandoff(clipped(again.slice(3), null, hidden), "ses_1")).not.toContain("load_skill {");
  });

  it("names each skill of which a long text was covered, through cuts anywhere, unless a later one is shown whole (R5)", () => {
    const step = fc.record({ name: fc.integer({ min: 0, max: 3 }), long: fc.boolean(), covers: fc.nat({ max: 4 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const built = log();
        let sections: Sections = EMPTY_SECTIONS;
        let from = 0;
        for (const [nth, { name, long, covers }] of steps.entries()) {
          load(built, `t${nth}`, `s${name}`, long ? LONG : SHORT);
          const to = Math.min(from + 2 * covers, built.rows.length);
          sections = mergeSections(sections, sectionsOf(built.rows.slice(from, to), WINDOW), WINDOW);
          sections = { ...sections, skills: stillLost(sections.skills, built.rows.slice(to), EMPTY_VIEW) };
          from = to;
          const loads = steps.slice(0, nth + 1).map((each, at) => ({ ...each, isCovered: 2 * at < to }));
          const lost = loads.filter((each) => each.long && each.isCovered).map((each) => `s${each.name}`);
          const shown = loads.filter((each) => each.long && !each.isCovered).map((each) => `s${each.name}`);
          const expected = [...new Set(lost)].filter((each) => !shown.includes(each)).sort();
          expect(sections.skills?.map((each) => each.name).sort()).toEqual(expected);
        }
      }),
      { numRuns: 200 },
    );
  });

  it("holds no name that reads like a secret (S6)", () => {
    const name = `ghp-${"a1".repeat(18)}`;
    const secret = load(log().user("Help."), "t1", `sk-ant-api03-${"a1b2c3d4".repeat(6)}`).rows;
    expect(sectionsOf(secret).skills).toEqual([]);
    expect(sectionsOf(load(log().user("Help."), "t1", name.slice(0, 20)).rows).skills).toHaveLength(1);
  });

  it("names every lost skill up to the cap, whatever a summariser wrote and in however many generations (R5)", () => {
    const step = fc.record({ name: fc.integer({ min: 0, max: 30 }), long: fc.boolean(), cut: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.string(), (steps, summary) => {
        const built = log().user("Help.");
        let sections: Sections = EMPTY_SECTIONS;
        let from = 0;
        const expected = new Map<string, number>();
        for (const [nth, { name, long, cut }] of steps.entries()) {
          load(built, `t${nth}`, `s${name}`, long ? LONG : "short");
          if (!cut) continue;
          const covered = built.rows.slice(from);
          from = built.rows.length;
          sections = mergeSections(sections, sectionsOf(covered, WINDOW), WINDOW);
        }
        for (const [nth, { name, long }] of steps.entries())
          if (long && 3 + 2 * nth <= from) expected.set(`s${name}`, 3 + 2 * nth);
        const handoff = renderHandoff(
          {
            ...EMPTY_VIEW,
            generation: {
              number: 1,
              base: 0,
              covered: [{ from: seq(1), to: seq(Math.max(1, from)) }],
              summary,
              sections,
              pinned: null,
              history: { kind: "api" },
              prefixVersion: 1,
            },
          },
          "ses_1",
        );
        const newest = [...expected].sort((a, b) => b[1] - a[1]).slice(0, MAX_LOST_SKILLS);
        const named = (handoff ?? "").split("\n").filter((line) => line.startsWith('- [skill "'));
        expect(named).toEqual(newest.map(([name]) => `- ${skillMarker(name)}`));
      }),
      { numRuns: 60 },
    );
  });
});

describe("a summary", () => {
  it("is made without the text of a skill that the record names, and holds no marker (R5, S1)", () => {
    const { rows } = load(early(), "t2", "small", SHORT);
    const input = rowsForSummary(rows);
    const texts = JSON.stringify(input.map(({ content }) => content));
    expect(texts).not.toContain(LONG.slice(0, 200));
    expect(texts).toContain(SHORT.slice(0, 200));
    expect(input.filter((row, index) => row !== rows[index]).map((row) => row.seq)).toEqual([3]);
    const { rows: plain } = log().user("a").loop(3);
    expect(rowsForSummary(plain)).toBe(plain);
    const wrote = `It was done. ${skillMarker("refunds")} Then more.`;
    expect(withoutMarkers(wrote, ["refunds"])).toBe("It was done. (the skill refunds) Then more.");
  });

  it("holds no part of a marker that would name the call a second time: an answer or its input may be cut anywhere (R5, S1)", () => {
    const marker = skillMarker("refunds");
    const cut = fc.tuple(fc.nat({ max: marker.length }), fc.nat({ max: marker.length }));
    fc.assert(
      fc.property(fc.array(cut, { minLength: 1, maxLength: 3 }), (cuts) => {
        const parts = cuts.map(([a, b]) => marker.slice(Math.min(a, b), Math.max(a, b)));
        const plain = withoutMarkers(`It was done. ${parts.join(" Then more. ")}`, ["refunds"]);
        expect(plain).not.toContain('load_skill {"name":"refunds"}');
        expect(plain).toContain("It was done. ");
        expect(plain.split("Then more.")).toHaveLength(cuts.length);
      }),
      { numRuns: 500 },
    );
    const begun = marker.slice(0, marker.indexOf("Where that") + 7);
    expect(withoutMarkers(`It was done. ${begun}`, ["refunds"])).toBe("It was done. (the skill refunds)");
    expect(withoutMarkers(`Then ${marker.slice(50)} Done.`, ["refunds"])).toContain("load_skill of refunds");
    expect(withoutMarkers(begun, ["refunds-eu", "on-call"])).toBe(begun);
  });
});
