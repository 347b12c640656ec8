/** Reading raw rows of a batch: PostgreSQL's text in, typed values out. */
import type { MessageId, RunId } from "../protocol/ids.ts";
import { seq } from "../protocol/ids.ts";
import type { LogRow, Origin, Role } from "../protocol/messages.ts";
import type { Row } from "./db.ts";

const wrong = (column: string, value: unknown): Error =>
  new Error(`column ${column}: unexpected ${value === null ? "null" : typeof value}`);

export const text = (row: Row, column: string): string => {
  const value = row[column];
  if (typeof value !== "string") throw wrong(column, value);
  return value;
};

export const textOrNull = (row: Row, column: string): string | null => (row[column] == null ? null : text(row, column));

/** A number; `int8` and `numeric` arrive as text, and are within the safe range here (seqs, tokens, sums of money). */
export const number = (row: Row, column: string): number => {
  const value = row[column];
  const read = typeof value === "string" ? Number(value) : value;
  if (typeof read !== "number" || Number.isNaN(read)) throw wrong(column, value);
  return read;
};

export const numberOrNull = (row: Row, column: string): number | null =>
  row[column] == null ? null : number(row, column);

export const flag = (row: Row, column: string): boolean => {
  const value = row[column];
  if (typeof value !== "boolean") throw wrong(column, value);
  return value;
};

export const texts = (row: Row, column: string): readonly string[] => {
  const value = row[column];
  if (!Array.isArray(value) || !value.every((item) => typeof item === "string")) throw wrong(column, value);
  return value;
};

/** A time as RFC 3339 in UTC, from PostgreSQL's `2026-10-01 10:00:00.123456+00`. */
export const time = (row: Row, column: string): string => new Date(text(row, column)).toISOString();

export const timeOrNull = (row: Row, column: string): string | null => (row[column] == null ? null : time(row, column));

/** The columns that `logRow` reads; content as text, because that is what it is (V9). */
export const LOG_COLUMNS =
  "m.id, m.seq, m.role, m.origin, m.content::text as content, m.media, m.calls, m.tokens, m.bytes, m.run_id, m.created_at";

export const logRow = (row: Row): LogRow => ({
  id: text(row, "id") as MessageId,
  seq: seq(number(row, "seq")),
  role: text(row, "role") as Role,
  origin: text(row, "origin") as Origin,
  content: text(row, "content"),
  media: texts(row, "media"),
  calls: texts(row, "calls"),
  tokens: number(row, "tokens"),
  bytes: number(row, "bytes"),
  runId: textOrNull(row, "run_id") as RunId | null,
  createdAt: time(row, "created_at"),
});
