/** Random sessions with passes of micro-compaction between their turns (section 11): more of them than `npm test` has time for, and faults. */
import { describe, expect, it } from "vitest";
import type { RevisionChange } from "../../src/context/ports.ts";
import { contains, difference, rangesOf, type SeqRange, union } from "../../src/context/view-state.ts";
import { type Seq, seq } from "../../src/protocol/ids.ts";
import type { LogRow } from "../../src/protocol/messages.ts";
import { checkSessions } from "../support/check-sessions.ts";
import { MICRO_PROPERTIES } from "../support/micro-properties.ts";
import { SESSION_PROPERTIES } from "../support/session-properties.ts";
import type { Sabotage } from "../support/session-record.ts";
import { describeSessions } from "../support/session-suite.ts";

describeSessions({
  seed: 20_261_204,
  runs: 800,
  maxTurns: 6,
  limitMs: 600_000,
  micro: { everyNTurns: 1, defragTokens: 200 },
});

/** Sessions in which a fault must show. */
const RUNS = 60;

/** A pass of micro-compaction that covers other rows, on another base. */
const passing =
  (covers: (newly: readonly Seq[], base: readonly SeqRange[], rows: readonly LogRow[]) => readonly SeqRange[]) =>
  (change: RevisionChange, rows: readonly LogRow[]): RevisionChange => {
    const { compaction, view } = change;
    const generation = compaction?.generation;
    if (compaction === null || generation === undefined || compaction.receipt.evicted === 0) return change;
    const seqs = rows.map((row) => row.seq).filter((at) => contains(generation.covered, at));
    const base = difference(generation.covered, rangesOf(seqs));
    const sabotaged = { ...generation, covered: covers(seqs, base, rows) };
    return {
      ...change,
      view: { ...view, generation: sabotaged },
      compaction: { ...compaction, generation: sabotaged },
    };
  };

const after = (at: Seq | undefined): readonly Seq[] => (at === undefined ? [] : [seq(at + 1)]);

const MICRO_SABOTAGES: readonly (readonly [string, Sabotage, RegExp])[] = [
  [
    "a pass that takes the user's message behind the exchange with it",
    { passed: passing((newly, base) => union(base, rangesOf([...newly, ...after(newly.at(-1))]))) },
    /no message of a user/,
  ],
  [
    "a pass that supersedes the generation before it instead of merging it",
    { passed: passing((newly) => rangesOf(newly)) },
    /keeps all that it covers/,
  ],
  [
    "a pass that parts results from their calls",
    { passed: passing((newly, base) => union(base, rangesOf(newly.length > 1 ? newly.slice(1) : newly))) },
    /exactly one exchange|provider takes/,
  ],
  [
    "a pass that leaves thinking that is bound to other bytes",
    { passed: (change) => ({ ...change, view: { ...change.view, thinkingFloor: seq(1) } }) },
    /bound to other bytes/,
  ],
  [
    "a pass that has compactions at the trigger wait for it",
    { passed: (change) => ({ ...change, guards: { ...change.guards, reading: "awaiting" } }) },
    /keeps all that it covers/,
  ],
];

describe("the properties of sessions with passes between their turns can fail (section 11)", () => {
  it.each(MICRO_SABOTAGES)(
    "by %s",
    async (_name, sabotage, expected) => {
      const properties = [...SESSION_PROPERTIES, ...MICRO_PROPERTIES];
      const micro = { everyNTurns: 1, defragTokens: 200 };
      const { broken } = await checkSessions(properties, { seed: 7, runs: RUNS, maxTurns: 6, sabotage, micro });
      expect(broken.map(({ property }) => property)).toContainEqual(expect.stringMatching(expected));
    },
    120_000,
  );
});
