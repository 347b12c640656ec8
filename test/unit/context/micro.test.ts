/** A pass of micro-compaction (section 11): each test is one of the ways in which such a feature has lost, stalled or grown a session. */
import { describe, expect, it } from "vitest";
import { defaultEstimator } from "../../../src/context/estimate-request.ts";
import { NO_GUARDS } from "../../../src/context/guards/state.ts";
import { renderHandoff } from "../../../src/context/handoff.ts";
import { skillMarker } from "../../../src/context/lost-skills.ts";
import { NO_MICRO } from "../../../src/context/micro-state.ts";
import { mergeSections, sectionsOf } from "../../../src/context/sections.ts";
import { validateMessages } from "../../../src/context/validator.ts";
import { createRenderer } from "../../../src/context/view.ts";
import { EMPTY_VIEW, type Generation, rangesOf, type ViewState } from "../../../src/context/view-state.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { type LogBuilder, log } from "../../support/log.ts";
import { microSession, passage, SESSION } from "../../support/micro.ts";

const tokens = defaultEstimator.text;

/** Questions with answers of so many tokens. */
const talk = (count: number, answerTokens = 1_500, builder: LogBuilder = log()): LogBuilder =>
  builder.chat(
    count,
    (nth) => `Question ${nth}: never touch table t${nth}.`,
    (nth) => `Answer ${nth}: ${passage(answerTokens, `n${nth}x`)}`,
  );

const covered = (view: ViewState) => (view.generation?.covered ?? []).map(({ from, to }) => [from, to]);

/** As a full compaction leaves a session. */
const afterFull = (rows: readonly LogRow[], upTo: number, summary: string): ViewState => {
  const generation: Generation = {
    number: 1,
    base: 0,
    covered: rangesOf(rows.filter((row) => row.seq <= upTo).map((row) => row.seq)),
    summary,
    sections: mergeSections(null, sectionsOf(rows.filter((row) => row.seq <= upTo))),
    pinned: null,
    history: { kind: "file", path: "/h.md" },
    prefixVersion: 1,
  };
  return { ...EMPTY_VIEW, revision: 1, generation };
};

describe("a pass of micro-compaction (section 11)", () => {
  it("advances the generation by one exchange, writes it to the history first, and keeps every word of the user in view (M1)", async () => {
    const session = microSession();
    const { rows } = talk(4);
    const outcome = await session.pass(rows);
    expect(outcome).toMatchObject({
      kind: "made",
      change: {
        reason: "micro",
        trigger: "micro",
        compaction: { receipt: { reason: "micro", evicted: 1 }, generation: { number: 1, base: 0, pinned: null } },
      },
      sizes: { pass: "absorb", exchangeMessages: 1 },
    });
    expect(covered(session.view)).toEqual([[2, 2]]);
    expect(session.written).toEqual([[rows[1]]]);
    const shown = JSON.stringify(session.measure(rows).messages);
    for (let nth = 0; nth < 4; nth++) expect(shown).toContain(`Question ${nth}: never touch table t${nth}.`);
    expect(shown).not.toContain("Answer 0:");
  });

  it("leaves a view that the provider takes, with one handoff: no marker stands between two users (C7, R8)", async () => {
    const session = microSession({ thinkingBound: true });
    let builder = log();
    for (let nth = 0; nth < 5; nth++)
      builder = builder
        .user(`Question ${nth}`)
        .tools(`a${nth}`, `b${nth}`)
        .answered(passage(700, `r${nth}x`))
        .thinking("so it is", `Answer ${nth}`);
    for (let pass = 0; pass < 3; pass++) expect((await session.pass(builder.rows)).kind).toBe("made");
    const { messages } = session.measure(builder.user("and now?").rows);
    expect(validateMessages(messages, { maxMarks: 3, pauseTurn: false })).toEqual([]);
    expect(messages.filter((message) => message.handoff === true)).toHaveLength(1);
    // Thinking that is bound to what stood before is gone (V5).
    expect(JSON.stringify(messages)).not.toContain("so it is");
  });

  it("says in the handoff which requests are answered, so that none is carried out again", async () => {
    const session = microSession();
    const { rows } = talk(4);
    await session.pass(rows);
    await session.pass(rows);
    const handoff = renderHandoff(session.view, SESSION) ?? "";
    expect(handoff).toContain(
      '2 of those after the end mark, up to and including the one that begins "Question 1: never touch table t1.", were answered',
    );
  });

  it("gives the model the summary so far and merges it: what was absorbed before cannot get lost, in whatever process (S1)", async () => {
    const session = microSession({ says: ["FIRST-SUMMARY", "SECOND-SUMMARY"] });
    const { rows } = talk(5);
    await session.pass(rows);
    await session.pass(rows);
    expect(session.asked[1]?.prompt).toContain("FIRST-SUMMARY");
    expect(session.asked[1]?.prompt).toContain("Answer 1:");
    expect(session.asked[1]?.prompt).not.toContain("Answer 0:");
    expect(session.view.generation).toMatchObject({ number: 2, base: 1, summary: "SECOND-SUMMARY" });
    expect(covered(session.view)).toEqual([
      [2, 2],
      [4, 4],
    ]);
  });

  it("takes a full compaction's summary over whole, and defrags none of its words", async () => {
    const summary = `FULL-SUMMARY ${passage(1_500, "s")}`;
    const { rows } = talk(8);
    const session = microSession({ says: [`${summary} And more was done.`], defragTokens: 500 });
    session.view = afterFull(rows, 8, summary);
    session.nextGeneration = 2;
    const outcome = await session.pass(rows);
    expect(outcome).toMatchObject({ kind: "made", sizes: { pass: "absorb" } });
    expect(session.asked[0]?.prompt).toContain("FULL-SUMMARY");
    expect(covered(session.view)).toEqual([
      [1, 8],
      [10, 10],
    ]);
    expect(await session.pass(rows)).toMatchObject({ sizes: { pass: "absorb" } });
  });

  it("forgets nothing that an older pass knew where a full compaction came between: its state is of another generation", async () => {
    const { rows } = talk(8);
    const session = microSession({ says: ["MICRO"] });
    await session.pass(rows);
    // A full compaction has come; even a state that was not emptied claims nothing over it.
    session.view = {
      ...afterFull(rows, 8, "FULL"),
      revision: 2,
      generation: { ...afterFull(rows, 8, "FULL").generation, number: 2 } as Generation,
    };
    session.nextGeneration = 3;
    await session.pass(rows);
    expect(session.asked[1]?.prompt).toContain("FULL");
    expect(session.asked[1]?.prompt).not.toContain("MICRO");
    expect(session.view.generation).toMatchObject({ number: 3, base: 2 });
  });

  it("shows after the store what it showed before (persisted exactly, V2)", async () => {
    const session = microSession();
    const { rows } = talk(4);
    const outcome = await session.pass(rows);
    if (outcome.kind !== "made") throw new Error(outcome.kind);
    const renderer = createRenderer({ sessionId: SESSION, estimateTokens: tokens, messageTokens: () => 1 });
    expect(renderer.messages(rows, session.view)).toEqual(renderer.messages(rows, outcome.change.view));
  });

  it("keeps what the user answered to the agent's question, though the question is gone (S2)", async () => {
    const session = microSession();
    const { rows } = talk(
      3,
      1_500,
      log()
        .user("Move it.")
        .assistant(`${passage(1_500, "m")}.\n\nOn which day?`)
        .user("On Saturday."),
    );
    await session.pass(rows);
    expect(session.view.generation?.sections.answers).toMatchObject([
      { question: "On which day?", answer: "On Saturday." },
    ]);
  });

  it("names a skill whose text goes with the exchange, and the call that loads it again (R5)", async () => {
    const session = microSession();
    const load = { type: "tool_use", id: "s1", name: "load_skill", input: { name: "release-notes" } };
    const begun = log()
      .user("Release it.")
      .row("assistant", [load], ["s1"])
      .answered(passage(2_500, "s"))
      .assistant("Done.");
    await session.pass(talk(3, 1_500, begun).rows);
    expect(covered(session.view)).toEqual([[2, 4]]);
    expect(renderHandoff(session.view, SESSION)).toContain('first call load_skill {"name":"release-notes"}');
  });

  it("asks for no paraphrase of a skill, takes its marker out of the summary, and forgets what is shown whole again (R5, S1)", async () => {
    const load = (builder: LogBuilder, id: string, name: string, text: string): LogBuilder =>
      builder
        .row("assistant", [{ type: "tool_use", id, name: "load_skill", input: { name } }], [id])
        .results({ id, text });
    const text = passage(2_500, "s");
    const session = microSession({ says: [`It was done. ${skillMarker("refunds")} And ${skillMarker("on-call")}`] });
    const begun = load(load(log().user("Release it."), "s1", "refunds", text), "s2", "on-call", text).assistant(
      "Done.",
    );
    const { rows } = load(talk(3, 1_500, begun).user("Again."), "s3", "on-call", text).assistant("Done.");
    await session.pass(rows);
    expect(covered(session.view)).toEqual([[2, 6]]);
    expect(session.asked[0]?.prompt).not.toContain(text.slice(0, 200));
    expect(session.view.generation?.summary).toBe("It was done. (the skill refunds) And (the skill on-call)");
    const names = session.view.generation?.sections.skills?.map(({ name }) => name);
    expect(names).toEqual(["refunds"]);
    expect(renderHandoff(session.view, SESSION)?.split(skillMarker("refunds"))).toHaveLength(2);
  });

  it("is redacted on its way in and out (S6)", async () => {
    const secret = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz0123456789";
    const session = microSession({ says: [`It used ${secret}.`] });
    const { rows } = talk(
      3,
      1_500,
      log()
        .user("Deploy.")
        .assistant(`With ${secret}: ${passage(1_500, "d")}`),
    );
    await session.pass(rows);
    expect(JSON.stringify([session.asked, session.view])).not.toContain(secret);
  });
});

describe("a Worker that dies in a pass (M1, M3)", () => {
  it("after the history or the summary leaves the view as it was; the next pass writes the same section again", async () => {
    const { rows } = talk(4);
    const session = microSession({ says: [{ failure: "network" }, "It was done.", "It was done."] });
    await session.pass(rows);
    for (let died = 0; died < 2; died++) {
      // What came of it was never stored.
      Object.assign(session, { view: EMPTY_VIEW, state: NO_MICRO, guards: NO_GUARDS, nextGeneration: 1 });
      expect((await session.pass(rows)).kind).toBe("made");
    }
    expect(session.written.map((section) => section.map(({ seq }) => seq))).toEqual([[2], [2], [2]]);
    expect(session.view.generation).toMatchObject({ number: 1, base: 0 });
  });
});

describe("what a pass costs (section 11)", () => {
  it("the first may grow the view by the handoff's fixed words, if enough is waiting; later ones always shrink it", async () => {
    const { rows } = talk(8, 450);
    const session = microSession({
      says: ["It was done, at length and with care, and everything was found."],
      keepFrac: 0.05,
    });
    const sizes = [session.measure(rows).tokens];
    for (let pass = 0; pass < 4; pass++) {
      expect((await session.pass(rows)).kind).toBe("made");
      sizes.push(session.measure(rows).tokens);
    }
    const [before = 0, first = 0, ...later] = sizes;
    expect(first - before).toBeGreaterThan(0);
    expect(first - before).toBeLessThan(700);
    for (const [at, size] of later.entries()) expect(size).toBeLessThan(later[at - 1] ?? first);
    expect(later.at(-1)).toBeLessThan(before);
  });

  it("no model is asked where a pass could not save anything", async () => {
    const session = microSession();
    expect(await session.pass(talk(3, 300).rows)).toMatchObject({ kind: "nothing", why: "all_protected" });
    const small = microSession({ keepFrac: 0.01 });
    expect(await small.pass(talk(3, 250).rows)).toMatchObject({ kind: "nothing", why: "too_small" });
    expect([session.asked, small.asked]).toEqual([[], []]);
  });

  it("a summary that saves nothing is refused, is no strike, and holds no compaction back (S5, G3)", async () => {
    const session = microSession({ says: ["It was done.", passage(480, "long")], keepFrac: 0.02 });
    const { rows } = talk(6, 420);
    expect((await session.pass(rows)).kind).toBe("made");
    const { view, guards } = session;
    expect(await session.pass(rows)).toMatchObject({ kind: "failed", failure: "would_grow", cooldownSeconds: 0 });
    expect([session.guards, session.view]).toEqual([guards, view]);
  });
});

describe("a defrag (section 11)", () => {
  it("is given the summary and no message, covers what was covered, and costs no word of a user", async () => {
    const { rows } = talk(6);
    const session = microSession({
      says: [`EARLY ${passage(300, "e")}`, `EARLY LATE ${passage(600, "l")}`, "SHORT"],
      defragTokens: 500,
    });
    await session.pass(rows);
    await session.pass(rows);
    const before = session.view;
    expect(await session.pass(rows)).toMatchObject({
      kind: "made",
      sizes: { pass: "defrag", exchangeTokens: null },
      change: { compaction: { receipt: { evicted: 0 } } },
    });
    expect(session.asked[2]?.prompt).toContain("EARLY LATE");
    expect(session.asked[2]?.prompt).not.toMatch(/Question|Answer/);
    expect(covered(session.view)).toEqual(covered(before));
    expect(session.view.generation).toMatchObject({ number: 3, base: 2, summary: "SHORT" });
    expect(session.view.generation?.sections).toEqual(before.generation?.sections);
    const shown = JSON.stringify(session.measure(rows).messages);
    for (let nth = 0; nth < 6; nth++) expect(shown).toContain(`Question ${nth}`);
    expect(await session.pass(rows)).toMatchObject({ sizes: { pass: "absorb" } });
  });

  it("that brings nothing changes nothing, and after three times the passes go on", async () => {
    const { rows } = talk(8);
    const long = passage(700, "w");
    const session = microSession({ says: [long], defragTokens: 500 });
    await session.pass(rows);
    const before = session.view;
    for (let nth = 0; nth < 3; nth++)
      expect(await session.pass(rows)).toMatchObject({
        kind: "failed",
        failure: "would_grow",
        sizes: { pass: "defrag" },
      });
    expect(session.view).toEqual(before);
    expect(await session.pass(rows)).toMatchObject({ sizes: { pass: "absorb" } });
  });
});

describe("a pass that fails (section 11)", () => {
  it("leaves the view as it is and waits as every failed summary does (G1)", async () => {
    const session = microSession({ says: [{ failure: "timeout" }] });
    const { rows } = talk(4);
    expect(await session.pass(rows)).toMatchObject({ kind: "failed", failure: "timeout", cooldownSeconds: 60 });
    expect(session.view).toEqual(EMPTY_VIEW);
    expect(await session.pass(rows)).toMatchObject({ kind: "blocked", guard: "cooldown" });
    expect(session.asked).toHaveLength(1);
  });

  it.each([
    ["refused", { stopReason: "refusal", text: "No." }],
    ["empty", " "],
    ["truncated", { stopReason: "max_tokens", text: "It was" }],
  ] as const)(
    "three times over one exchange, %s each time, goes on with the next (poison exchange)",
    async (failure, said) => {
      const session = microSession({ says: [said, said, said, "It was done."] });
      const { rows } = talk(6);
      for (let nth = 0; nth < 3; nth++) {
        // The cooldown is over by then.
        session.guards = NO_GUARDS;
        expect(await session.pass(rows)).toMatchObject({ kind: "failed", failure });
      }
      session.guards = NO_GUARDS;
      expect((await session.pass(rows)).kind).toBe("made");
      expect(covered(session.view)).toEqual([[4, 4]]);
      expect(session.state.failing).toBeNull();
    },
  );

  it("by its history is no pass: nobody waits for its room (M1)", async () => {
    const session = microSession({ historyFails: true });
    expect(await session.pass(talk(4).rows)).toMatchObject({ kind: "failed", failure: "transient" });
    expect([session.asked, session.view]).toEqual([[], EMPTY_VIEW]);
  });
});

describe("passes and the compactions at the trigger (section 11)", () => {
  it("a pass waits for the reading of a compaction, and no compaction for that of a pass (G7, G3)", async () => {
    const { rows } = talk(4);
    const waiting = microSession();
    waiting.guards = { ...NO_GUARDS, generation: 1, reading: "awaiting" };
    expect(await waiting.pass(rows)).toMatchObject({ kind: "blocked", guard: "wait_one_response" });
    const session = microSession();
    session.guards = { ...NO_GUARDS, strikes: 1, newestSeq: 3 };
    await session.pass(rows);
    expect(session.guards).toEqual({ ...NO_GUARDS, strikes: 1, newestSeq: 3, generation: 1 });
  });

  it("a paused session makes no pass (G3)", async () => {
    const session = microSession();
    session.guards = { ...NO_GUARDS, strikes: 2 };
    expect(await session.pass(talk(4).rows)).toMatchObject({ kind: "blocked", guard: "effectiveness" });
  });
});
