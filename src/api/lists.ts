/** Lists: `{data, next_page}`, read page by page with an opaque cursor. */
import { z } from "@hono/zod-openapi";
import type { PageRequest } from "../store/pages.ts";
import { invalid } from "./errors.ts";

const MAX_LIMIT = 100;
const DEFAULT_LIMIT = 20;

/** The query parameters of every list. */
export const listQuery = {
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(MAX_LIMIT)
    .default(DEFAULT_LIMIT)
    .openapi({ description: "Most items of a page." }),
  page: z
    .string()
    .max(500)
    .optional()
    .openapi({ description: "`next_page` of the page before; absent for the first." }),
  order: z.enum(["asc", "desc"]).default("desc").openapi({ description: "By age; `desc` is newest first." }),
};

export interface ListQuery {
  readonly limit: number;
  readonly page?: string | undefined;
  readonly order: "asc" | "desc";
}

/** The schema of a list's answer. */
export const listOf = <S extends z.ZodType>(item: S) =>
  z.object({
    data: z.array(item),
    next_page: z.string().nullable().openapi({ description: "Null on the last page." }),
  });

const encode = (text: string): string =>
  btoa(String.fromCharCode(...new TextEncoder().encode(text)))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

const decode = (text: string): unknown => {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (unit) => unit.charCodeAt(0));
  return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
};

const badPage = () => invalid("page", "expected the `next_page` of the same list with the same order");

/** Reads a cursor of this list; a cursor of another list, another order, or none at all is refused. */
const readCursor = <T extends string | number>(
  list: string,
  query: ListQuery,
  isCursor: (value: unknown) => value is T,
): T => {
  let decoded: unknown;
  try {
    decoded = decode(query.page ?? "");
  } catch {
    throw badPage();
  }
  if (!Array.isArray(decoded) || decoded.length !== 3) throw badPage();
  const [name, order, value]: readonly unknown[] = decoded;
  if (name !== list || order !== query.order || !isCursor(value)) throw badPage();
  return value;
};

/** What kind of value a list goes on from. */
export const cursors = {
  /** Ids: any text of their alphabet; whether one exists does not matter. */
  id: (value: unknown): value is string => typeof value === "string" && /^[A-Za-z0-9_-]{1,100}$/.test(value),
  seq: (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0,
  /** Text without NUL and lone surrogates, such as a path. */
  text: (value: unknown): value is string =>
    typeof value === "string" && value.length <= 4_000 && !value.includes("\u0000") && value.isWellFormed(),
} as const;

/**
 * The page that a query asks for, one item longer than shown, so that `listPage` sees whether there is more.
 * @param list name of the list, which its cursors carry
 * @throws ApiError `invalid_request` for a cursor that is none of this list
 */
export const readPage = <T extends string | number>(
  list: string,
  query: ListQuery,
  isCursor: (value: unknown) => value is T,
): PageRequest & { readonly cursor: T | null } => ({
  limit: query.limit + 1,
  order: query.order,
  cursor: query.page === undefined ? null : readCursor(list, query, isCursor),
});

/** The cursor that continues a list after this value. */
export const cursorAfter = (list: string, query: ListQuery, value: string | number): string =>
  encode(JSON.stringify([list, query.order, value]));

/**
 * The answer for rows read with `readPage`.
 * @param cursorOf the value that the list is ordered by
 */
export const listPage = <Row, Item>(
  list: string,
  query: ListQuery,
  rows: readonly Row[],
  show: (row: Row) => Item,
  cursorOf: (row: Row) => string | number,
): { readonly data: readonly Item[]; readonly next_page: string | null } => {
  const shown = rows.slice(0, query.limit);
  const last = shown.at(-1);
  const more = rows.length > query.limit && last !== undefined;
  return { data: shown.map(show), next_page: more ? cursorAfter(list, query, cursorOf(last)) : null };
};
