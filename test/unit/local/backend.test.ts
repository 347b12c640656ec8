import { expect, test } from "vitest";
import { leavesState, type QueryResult } from "../../../src/local/backend.ts";

const selected: QueryResult = { fields: [], rows: [], rowCount: 0, command: "SELECT" };
const leaves = (query: string): boolean => leavesState([{ query, params: [] }], [selected]);

test("a setting that ends with its transaction leaves nothing in a connection", () => {
  expect(
    [
      "select set_config('a.b', $1, true)",
      "select f(set_config('a.b', (select g((1 + 2)::text, 'x'))::text, true)), h(1)",
      "select set_config('a.b', 'x', TRUE ), set_config('a.c', 'y', true)",
    ].map(leaves),
  ).toEqual([false, false, false]);
});

test("any other setting does, and so does an advisory lock", () => {
  expect(
    [
      "select set_config('a.b', $1, false)",
      "select set_config('a.b', 'x', true), set_config('a.c', 'y', false)",
      "select set_config($1, $2, $3)",
      "select set_config('a.b', 'true', false), true",
      "select pg_advisory_lock(1)",
    ].map(leaves),
  ).toEqual([true, true, true, true, true]);
});
