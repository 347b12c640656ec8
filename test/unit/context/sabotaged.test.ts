import { describe, expect, it } from "vitest";
import { END_MARK } from "../../../src/context/handoff.ts";
import type { Renderer, SizedView } from "../../../src/context/view.ts";
import type { ViewState } from "../../../src/context/view-state.ts";
import { seq } from "../../../src/protocol/ids.ts";
import type { LogRow, ViewMessage } from "../../../src/protocol/messages.ts";
import { checkSessions } from "../../support/check-sessions.ts";
import { SESSION_PROPERTIES } from "../../support/session-properties.ts";
import type { Sabotage } from "../../support/session-record.ts";

const RUNS = 40;

/** A renderer that shows something else. */
const showing =
  (change: (messages: readonly ViewMessage[], view: ViewState) => readonly ViewMessage[]) =>
  (real: Renderer): Renderer => ({
    row: real.row,
    messages: (rows, view) => change(real.messages(rows, view), view),
    measure: (rows, view): SizedView => {
      const size = real.measure(rows, view);
      return { ...size, messages: change(size.messages, view) };
    },
  });

/** A renderer that is given another view. */
const inView = (change: (view: ViewState) => ViewState) => (real: Renderer) => ({
  row: real.row,
  messages: (rows: readonly LogRow[], view: ViewState) => real.messages(rows, change(view)),
  measure: (rows: readonly LogRow[], view: ViewState) => real.measure(rows, change(view)),
});

/** Shows what is hidden, and counts as if it did not. */
const forgettingHidden = (real: Renderer): Renderer => {
  const all = (rows: readonly LogRow[], view: ViewState): readonly ViewMessage[] => [
    ...real.messages([], view),
    ...real.messages(rows, { ...view, hidden: [] }).filter((message) => message.handoff !== true),
  ];
  return {
    row: real.row,
    messages: all,
    measure: (rows, view) => ({ ...real.measure(rows, view), messages: all(rows, view) }),
  };
};

const withText = (message: ViewMessage, more: string): ViewMessage => ({
  ...message,
  content: JSON.stringify([...(JSON.parse(message.content) as readonly unknown[]), { type: "text", text: more }]),
});

/** Covers one row more than the cut did, whatever it belongs to. */
const coveringMore = (view: ViewState): ViewState => {
  const { generation } = view;
  const last = generation?.covered.at(-1);
  if (generation === null || last === undefined) return view;
  const covered = [...generation.covered.slice(0, -1), { from: last.from, to: seq(last.to + 1) }];
  return { ...view, generation: { ...generation, covered } };
};

let rendered = 0;

const SABOTAGES: readonly (readonly [string, Sabotage, RegExp])[] = [
  ["a cut that ignores batches", { renderer: inView(coveringMore) }, /provider takes \(C7/],
  ["a cut that ignores batches, for coverage", { renderer: inView(coveringMore) }, /covered, shown or hidden/],
  ["a view that forgets what is hidden", { renderer: forgettingHidden }, /covered, shown or hidden/],
  [
    "a handoff that restates its ask twice",
    {
      renderer: showing((messages, { generation }) =>
        messages.map((message) =>
          message.handoff === true && generation?.pinned != null ? withText(message, generation.pinned.text) : message,
        ),
      ),
    },
    /exactly once/,
  ],
  [
    "a second handoff",
    {
      renderer: showing((messages) => {
        const handoff = messages.find((message) => message.handoff === true);
        return handoff === undefined ? messages : [handoff, ...messages];
      }),
    },
    /at most one handoff|provider takes/,
  ],
  [
    "an end mark too many",
    { renderer: showing((messages) => messages.map((m) => (m.handoff === true ? withText(m, END_MARK) : m))) },
    /at most one handoff/,
  ],
  [
    "a view that is never the same twice",
    {
      renderer: showing((messages) => messages.map((m) => (m.role === "user" ? withText(m, `at ${rendered++}`) : m))),
    },
    /byte for byte/,
  ],
  [
    "a view that keeps thinking that is bound to other bytes",
    { renderer: inView((view) => ({ ...view, thinkingFloor: seq(1) })) },
    /provider takes/,
  ],
  [
    "a view that shows a part of a skill",
    {
      renderer: showing((messages) =>
        messages.map((m) => ({ ...m, content: m.content.split("then the payment. Check").join("then") })),
      ),
    },
    /never in part \(R5/,
  ],
  [
    "a handoff that forgets a skill",
    {
      renderer: showing((messages) =>
        messages.map((m) => (m.handoff === true ? { ...m, content: m.content.split("load_skill").join("a call") } : m)),
      ),
    },
    /named with that call \(R5/,
  ],
  [
    "a view that is not the one that was recorded",
    { committed: (view) => ({ ...view, clippedBefore: seq(view.clippedBefore + 1) }) },
    /byte for byte/,
  ],
];

describe("the properties of sessions can fail", () => {
  it.each(SABOTAGES)(
    "by %s",
    async (_name, sabotage, expected) => {
      const { broken } = await checkSessions(SESSION_PROPERTIES, { seed: 7, runs: RUNS, maxTurns: 4, sabotage });
      expect(broken.map(({ property }) => property)).toContainEqual(expect.stringMatching(expected));
    },
    120_000,
  );
});
