import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { endsTurn, isUserOriginated, openAsk } from "../../../src/context/ask.ts";
import { batchStart, inFlightFrom } from "../../../src/context/batches.ts";
import { type Cut, type CutInput, decideCut, type Keep } from "../../../src/context/cut.ts";
import { EMPTY_SECTIONS } from "../../../src/context/sections.ts";
import { planTruncation } from "../../../src/context/truncate.ts";
import { contains, type Generation, type SeqRange } from "../../../src/context/view-state.ts";
import type { Seq } from "../../../src/protocol/ids.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import { randomLog } from "../../support/random-log.ts";

const RUNS = 300;
const tokensOf = (row: LogRow): number => row.tokens;
const total = (rows: readonly LogRow[]): number => rows.reduce((sum, row) => sum + row.tokens, 0);

const keepOf: fc.Arbitrary<Keep> = fc.oneof(
  fc.record({ kind: fc.constant("fraction" as const), frac: fc.double({ min: 0.01, max: 0.6, noNaN: true }) }),
  fc.record({ kind: fc.constant("messages" as const), count: fc.integer({ min: 1, max: 10 }) }),
);
const windowOf = fc.oneof(fc.integer({ min: 500, max: 5_000 }), fc.integer({ min: 5_000, max: 200_000 }));

const generationOf = (cut: Cut, number: number): Generation => ({
  number,
  base: number - 1,
  covered: cut.covered,
  summary: "",
  sections: EMPTY_SECTIONS,
  pinned: cut.pinned,
  history: { kind: "api" },
  prefixVersion: 1,
});

/** Fails where a batch of the log lies on both sides. */
const expectWholeBatches = (log: readonly LogRow[], shown: ReadonlySet<Seq>): void => {
  for (const [at, row] of log.entries()) {
    const first = log[batchStart(log, at)];
    expect(shown.has(row.seq)).toBe(first !== undefined && shown.has(first.seq));
  }
};

/** Ranges as the database stores them: not empty, ascending, apart from each other (V3). */
const expectNormal = (ranges: readonly SeqRange[]): void => {
  for (const [at, { from, to }] of ranges.entries()) {
    expect(from).toBeLessThanOrEqual(to);
    expect(from).toBeGreaterThan((ranges[at - 1]?.to ?? -1) + 1);
  }
};

/** C1 to C3 for one cut. */
const expectBounds = ({ rows, windowTokens }: CutInput, cut: Cut): void => {
  const tail = cut.kept.filter((row) => row.seq >= cut.keptFrom);
  expect(cut.keepBudgetTokens).toBeLessThanOrEqual(0.25 * windowTokens);
  const last = rows.at(-1);
  const pending = rows.slice(inFlightFrom(rows));
  expect(tail).toEqual(expect.arrayContaining([...pending]));
  const isAskedByNobody = openAsk(rows) === undefined && cut.pinned === null && last !== undefined && !endsTurn(last);
  if (isAskedByNobody) expect(tail).toContain(last);
  const mustStay = pending.length > 0 || isAskedByNobody || (last !== undefined && isUserOriginated(last));
  // Nothing but what must stay whole goes beyond the budget, and then that is all that is kept.
  const newest = isAskedByNobody ? rows.slice(batchStart(rows, rows.length - 1)) : rows.slice(-1);
  const whole = total(pending.length > 0 ? pending : newest);
  const most = 1.5 * cut.keepBudgetTokens;
  expect(total(tail)).toBeLessThanOrEqual(mustStay ? Math.max(most, whole) : most);
  const ask = rows.find((row) => row.seq === cut.keptAsk);
  expect(ask?.tokens ?? 0).toBeLessThanOrEqual(most);
};

/** C4: the open ask is a kept row or pinned, never both; one that is over is not pinned. */
const expectAsk = (log: readonly LogRow[], cut: Cut): void => {
  const ask = openAsk(log);
  const shown =
    cut.kept.filter((row) => row === ask).length + (cut.pinned !== null && cut.pinned.seq === ask?.seq ? 1 : 0);
  expect(shown).toBe(ask === undefined ? 0 : 1);
  if (ask === undefined) expect(cut.pinned).toBeNull();
};

describe("a cut of any log", () => {
  it("keeps batches whole, the live ask once, the bounds, and covers the rest (C1 to C6, V3)", () => {
    fc.assert(
      fc.property(
        fc.record({ rows: randomLog({ orphans: true }), keep: keepOf, windowTokens: windowOf }),
        ({ rows, keep, windowTokens }) => {
          const input: CutInput = { rows, base: null, keep, windowTokens, tokensOf };
          const cut = decideCut(input);
          if (cut.kind === "nothing") return;
          expect(cut.newlyCovered.length).toBeGreaterThan(0);
          expectNormal(cut.covered);
          expect([...cut.newlyCovered, ...cut.kept].sort((a, b) => a.seq - b.seq)).toEqual(rows);
          expect(cut.newlyCovered.map((row) => row.seq)).toEqual(
            rows.map((row) => row.seq).filter((at) => contains(cut.covered, at)),
          );
          expectWholeBatches(rows, new Set(cut.kept.map((row) => row.seq)));
          expectBounds(input, cut);
          expectAsk(rows, cut);
        },
      ),
      { numRuns: RUNS },
    );
  });

  it("covers or keeps every row through up to ten generations, and loses no tail (V3, C4)", () => {
    const pieces = fc.array(
      fc.record({ steps: randomLog({ maxSteps: 8, inFlight: false, maxChars: 4_000, from: 1 }), keep: keepOf }),
      {
        minLength: 1,
        maxLength: 10,
      },
    );
    fc.assert(
      fc.property(pieces, windowOf, (parts, windowTokens) => {
        let base: Generation | null = null;
        const log: LogRow[] = [];
        for (const [nth, { steps, keep }] of parts.entries()) {
          const offset = log.at(-1)?.seq ?? 0;
          log.push(...steps.map((row) => ({ ...row, seq: (row.seq + offset) as Seq })));
          const covered: readonly SeqRange[] = base?.covered ?? [];
          const rows: readonly LogRow[] = log.filter((row) => !contains(covered, row.seq));
          const input: CutInput = { rows, base, keep, windowTokens, tokensOf };
          const cut = decideCut(input);
          if (cut.kind === "nothing") continue;
          expectNormal(cut.covered);
          const kept = new Set(cut.kept.map((row) => row.seq));
          for (const row of log) expect(contains(cut.covered, row.seq)).toBe(!kept.has(row.seq));
          for (const { from, to } of covered) {
            expect(contains(cut.covered, from) && contains(cut.covered, to)).toBe(true);
          }
          expectBounds(input, cut);
          expectAsk(log, cut);
          base = generationOf(cut, nth + 1);
        }
      }),
      { numRuns: RUNS },
    );
  });
});

describe("a truncation of any log", () => {
  it("hides whole batches, never an open request nor what is in flight, and frees what it must (ladder step 5)", () => {
    fc.assert(
      fc.property(randomLog({ orphans: true }), fc.double({ min: 0, max: 1.2, noNaN: true }), (rows, share) => {
        const tokensToFree = Math.ceil(total(rows) * share);
        const ask = openAsk(rows);
        const pending = rows.slice(inFlightFrom(rows));
        const newest = rows.slice(batchStart(rows, rows.length - 1));
        const last = rows.at(-1);
        const isNewestAll = ask === undefined && pending.length === 0 && last !== undefined && !endsTurn(last);
        const mustStay = rows.filter(
          (row) => row === ask || pending.includes(row) || (isNewestAll && newest.includes(row)),
        );
        const plan = planTruncation({ rows, hidden: [], tokensToFree, tokensOf });
        if (plan.kind === "cannot_fit") {
          expect(total(rows) - total(mustStay)).toBeLessThan(Math.max(tokensToFree, 1));
          return;
        }
        expectNormal(plan.hidden);
        expect(plan.newlyHidden.length).toBeGreaterThan(0);
        expect(plan.freedTokens).toBe(total(plan.newlyHidden));
        expect(plan.freedTokens).toBeGreaterThanOrEqual(tokensToFree);
        const shown = rows.filter((row) => !contains(plan.hidden, row.seq));
        expect(total(shown)).toBe(total(rows) - plan.freedTokens);
        expect(shown).toEqual(expect.arrayContaining(mustStay));
        expectWholeBatches(rows, new Set(shown.map((row) => row.seq)));
      }),
      { numRuns: RUNS },
    );
  });
});
