import { describe, expect, it } from "vitest";
import { rowsBetween, timesBetween } from "../../../src/store/log-range.ts";
import { database, db, fixture, nextSession, useOwnStore } from "../../support/own-store.ts";

useOwnStore();

/** Rows with these seqs, each a second after the one before, their text padded to a size. */
const fill = (to: number, chars: number, missing = 0) =>
  database.sql(
    `insert into messages (session_id, seq, id, role, origin, content, media, tokens, bytes, created_at)
     select $1, n, $1 || '.' || n, 'user', 'user', ('[{"type":"text","text":"' || n || repeat('x', $3::int) || '"}]')::json, '{}', 1, 1,
       timestamptz '2026-01-01 00:00:00Z' + n * interval '1 second'
     from generate_series(1, $2::int) n where n <> $4::int`,
    [fixture.sessionId, to, chars, missing],
  );
const seqs = async (first: number, last: number) => {
  const read: number[] = [];
  for await (const row of rowsBetween(db, fixture.sessionId, first, last)) read.push(row.seq);
  return read;
};
const count = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

describe("a range of the log", () => {
  it("is read with content and time, both ends included, and seqs that are empty left out (M1)", async () => {
    await fill(6, 1, 4);
    const rows = [];
    for await (const row of rowsBetween(db, fixture.sessionId, 3, 5)) rows.push([row.seq, row.content, row.createdAt]);
    expect(rows).toEqual([
      [3, '[{"type":"text","text":"3x"}]', "2026-01-01T00:00:03.000Z"],
      [5, '[{"type":"text","text":"5x"}]', "2026-01-01T00:00:05.000Z"],
    ]);
    expect([await seqs(7, 9), await seqs(5, 4)]).toEqual([[], []]);
  });

  it.each([
    ["by number", 1_203, 1],
    ["by size, one row at least", 5, 5_000_000],
  ])("is read in pages %s", async (_, to, chars) => {
    await fill(to, chars);
    const before = database.requests();
    expect(await seqs(2, to - 1)).toEqual(count(2, to - 1));
    expect(database.requests() - before).toBe(3);
  });

  it("has its times in one round trip, and nothing of other sessions", async () => {
    await fill(3, 1);
    await nextSession();
    await fill(4, 1, 2);
    const before = database.requests();
    expect([...(await timesBetween(db, fixture.sessionId, 1, 3))]).toEqual([
      [1, "2026-01-01T00:00:01.000Z"],
      [3, "2026-01-01T00:00:03.000Z"],
    ]);
    expect([database.requests() - before, await seqs(1, 9)]).toEqual([1, [1, 3, 4]]);
  });
});
