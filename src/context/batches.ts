/** Where a log may be parted: a batch, the answer that asks for tools and the results that follow it, is never torn (C2, C3). */
import type { LogRow } from "../protocol/messages.ts";
import { toolResults } from "./tool-blocks.ts";

/** Whether a row answers tool calls. */
const isResults = (row: LogRow): boolean => row.role === "user" && toolResults(row.content).length > 0;

/** The index of the first row of the batch that the row at `index` belongs to; the index itself for a row outside of all batches. */
export const batchStart = (rows: readonly LogRow[], index: number): number => {
  let at = index;
  for (let row = rows[at]; row !== undefined && isResults(row); row = rows[at]) at--;
  return at < index && (rows[at]?.calls.length ?? 0) > 0 ? at : index;
};

/** The index after the batch that begins at `start`; the next index for a row outside of all batches. */
export const batchEnd = (rows: readonly LogRow[], start: number): number => {
  let at = start + 1;
  if ((rows[start]?.calls.length ?? 0) === 0) return at;
  for (let row = rows[at]; row !== undefined && isResults(row); row = rows[at]) at++;
  return at;
};

/** Whether every call of the answer at `start` has its result in its batch; true where there is no call. */
export const isAnswered = (rows: readonly LogRow[], start: number): boolean => {
  const calls = rows[start]?.calls ?? [];
  if (calls.length === 0) return true;
  const results = rows.slice(start + 1, batchEnd(rows, start)).flatMap(({ content }) => toolResults(content));
  const answered = new Set(results.map(({ callId }) => callId));
  return calls.every((id) => answered.has(id));
};

/**
 * Where the batch in flight begins (C3): trailing calls that nobody has answered yet, or not all of them.
 * @returns an index, or the number of rows where nothing is in flight
 */
export const inFlightFrom = (rows: readonly LogRow[]): number => {
  if (rows.length === 0) return 0;
  const start = batchStart(rows, rows.length - 1);
  return isAnswered(rows, start) ? rows.length : start;
};
