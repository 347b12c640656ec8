/** `GET /v1/usage`: tokens and list-price cost by day and group. */
import { z } from "@hono/zod-openapi";
import { DEFAULT_DAYS, readUsage, type UsageDimension, type UsageRow, usageDimensions } from "../store/usage.ts";
import { tenantOf } from "./auth.ts";
import type { App } from "./env.ts";
import { invalid } from "./errors.ts";
import { cursors, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { json, operation } from "./operation.ts";

/** Longest span of one query, in days: a leap year. */
const MAX_DAYS = 366;
const DAY_MS = 86_400_000;

const usageSchema = z
  .object({
    type: z.literal("usage"),
    day: z.iso.date(),
    model: z.string().optional(),
    purpose: z.string().optional(),
    session: z.string().optional().openapi({ description: "`erased` for sessions that were deleted." }),
    user: z.string().nullable().optional(),
    key: z.string().nullable().optional(),
    calls: z.int().openapi({ description: "Calls to the model provider." }),
    input_tokens: z.int(),
    output_tokens: z.int(),
    cache_read_input_tokens: z.int(),
    cache_creation_input_tokens: z.int(),
    cost_usd: z
      .number()
      .nullable()
      .openapi({ description: "An estimate by list prices; null where the model has none." }),
  })
  .openapi("Usage");

const day = z.iso.date().refine((text) => /^(19|2\d)\d\d/.test(text), "expected a year from 1900 to 2999");

const isDimension = (text: string): text is UsageDimension => usageDimensions.some((known) => known === text);

const groupByOf = (given: string | undefined): readonly UsageDimension[] => {
  const names = given === undefined ? [] : given.split(",");
  const known = names.filter(isDimension);
  if (known.length < names.length || new Set(names).size < names.length) {
    throw invalid("group_by", `expected some of ${usageDimensions.join(", ")}, separated by commas`);
  }
  return known;
};

const showUsage = (groupBy: readonly UsageDimension[]) => (row: UsageRow) => ({
  type: "usage",
  day: row.day,
  ...Object.fromEntries(groupBy.map((dimension, index) => [dimension, row.group[index] || null])),
  calls: row.calls,
  input_tokens: row.inputTokens,
  output_tokens: row.outputTokens,
  cache_read_input_tokens: row.cacheReadTokens,
  cache_creation_input_tokens: row.cacheWriteTokens,
  cost_usd: row.costUsd,
});

const isTexts = (value: unknown, length: number): value is readonly string[] =>
  Array.isArray(value) && value.length === length && value.every((item) => typeof item === "string");

const afterOf = (cursor: string | null, length: number): readonly string[] | null => {
  if (cursor === null) return null;
  let decoded: unknown;
  try {
    decoded = JSON.parse(cursor);
  } catch {
    decoded = undefined;
  }
  if (!isTexts(decoded, length) || decoded.some((text) => text.includes("\u0000"))) {
    throw invalid("page", "expected the `next_page` of the same query");
  }
  return decoded;
};

export const registerUsage = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/usage",
      access: { tenant: "read" },
      tags: ["usage"],
      operationId: "getUsage",
      summary: "Read what was used",
      description: "One row per day (UTC) and group, for days on which something was used.",
      request: {
        query: z.strictObject({
          ...listQuery,
          from: day
            .optional()
            .openapi({ description: `First day. Default: ${DEFAULT_DAYS - 1} days before the last.` }),
          to: day.optional().openapi({ description: "Last day. Default: today." }),
          group_by: z
            .string()
            .max(100)
            .optional()
            .openapi({
              description: `Some of ${usageDimensions.join(", ")}, separated by commas.`,
              example: "model,purpose",
            }),
        }),
      },
      responses: { 200: json(listOf(usageSchema), "A page of usage.") },
    },
    async (c) => {
      const query = c.req.valid("query");
      const { from = null, to = null } = query;
      const groupBy = groupByOf(query.group_by);
      if (from !== null) {
        const last = to === null ? c.get("deps").now() : Date.parse(to);
        if (Date.parse(from) > last) throw invalid("from", "expected a day that is not after `to`");
        if (last - Date.parse(from) > MAX_DAYS * DAY_MS)
          throw invalid("from", `expected a span of at most ${MAX_DAYS} days`);
      }
      const list = `usage:${groupBy.join(",")}`;
      const page = readPage(list, query, cursors.text);
      const after = afterOf(page.cursor, groupBy.length + 1);
      const { limit, order } = page;
      const rows = await readUsage(c.get("deps").db, tenantOf(c), { from, to, groupBy, order, after, limit });
      return c.json(listPage(list, query, rows, showUsage(groupBy), (row) => JSON.stringify([row.day, ...row.group])));
    },
  );
