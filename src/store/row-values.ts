/** A new row as SQL: the columns that it fills, and its values in their order. */
import { type SQL, sql } from "drizzle-orm";
import type { NewRow } from "../protocol/messages.ts";

/** Columns of `messages`. The run is no part of them: some statements know it from elsewhere. */
export const MESSAGE_COLUMNS: SQL = sql.raw("id, role, origin, content, media, calls, tokens, bytes");

export const messageValues = ({ id, role, origin, content, media, calls, tokens, bytes }: NewRow): SQL =>
  sql`${id}, ${role}, ${origin}, ${content}::json, ${sql.param([...media])}::text[], ${sql.param([...calls])}::text[], ${tokens}::int, ${bytes}::int`;

/** Columns of `inputs`. */
export const INPUT_COLUMNS: SQL = sql.raw("id, origin, content, media, tokens, bytes");

export const inputValues = ({ id, origin, content, media, tokens, bytes }: NewRow): SQL =>
  sql`${id}, ${origin}, ${content}::json, ${sql.param([...media])}::text[], ${tokens}::int, ${bytes}::int`;
