/** `GET /v1/sessions/{id}/messages`: the raw log, its contents spliced in as stored (V9). */
import { z } from "@hono/zod-openapi";
import { RawJson, stringifyWith } from "../protocol/json-text.ts";
import { inlineMedia } from "../protocol/media-text.ts";
import { listMessages, type MessageRecord } from "../store/messages.ts";
import { pageOf } from "../store/pages.ts";
import { sessionMedia } from "../turns/session-files.ts";
import { tenantOf } from "./auth.ts";
import type { App } from "./env.ts";
import { notFound } from "./errors.ts";
import { cursorAfter, cursors, listOf, listQuery, readPage } from "./lists.ts";
import { json, operation } from "./operation.ts";
import { sessionParam, sessionRefOf } from "./session-ref.ts";

const LIST = "messages";

/** A page ends once its contents reach this: the answer is built in memory. */
const MAX_PAGE_BYTES = 8_000_000;

export const messageSchema = z
  .object({
    id: z.string(),
    type: z.literal("message"),
    session_id: z.string(),
    seq: z.int().openapi({ description: "Position in the log, from 1." }),
    role: z.enum(["user", "assistant"]),
    origin: z.enum(["user", "event", "assistant", "tool", "injected"]),
    content: z
      .array(z.looseObject({ type: z.string() }))
      .openapi({ description: "Content blocks of the Messages API." }),
    run_id: z.string().nullable(),
    rewound: z.boolean().openapi({ description: "Undone by a rewind or a retry: the model is not shown it any more." }),
    created_at: z.iso.datetime(),
  })
  .openapi("Message");

const showMessage = (sessionId: string, row: MessageRecord, content: string) => ({
  id: row.id,
  type: "message",
  session_id: sessionId,
  seq: row.seq,
  role: row.role,
  origin: row.origin,
  content: new RawJson(content),
  run_id: row.runId,
  rewound: row.rewound,
  created_at: row.createdAt,
});

export const registerMessages = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/sessions/{id}/messages",
      access: { tenant: "content" },
      tags: ["sessions"],
      operationId: "listMessages",
      summary: "Read the log of a session",
      description:
        "Every message, byte for byte as it was stored, whatever the model is sent today; those that were undone with `include_rewound=true` only. Large media are references (`hango:media/sha256-...`) unless `include_media=true`. A page may be shorter than `limit`: it ends after 8 MB.",
      request: {
        params: sessionParam,
        query: z.strictObject({
          ...listQuery,
          include_media: z
            .enum(["true", "false"])
            .default("false")
            .openapi({ description: "Put media back into the content." }),
          include_rewound: z
            .enum(["true", "false"])
            .default("false")
            .openapi({ description: "Show the messages that a rewind or a retry undid, too." }),
        }),
      },
      responses: { 200: json(listOf(messageSchema), "A page of messages.") },
    },
    async (c) => {
      const deps = c.get("deps");
      const query = c.req.valid("query");
      const tenantId = tenantOf(c);
      const page = pageOf(readPage(LIST, query, cursors.seq));
      const ref = sessionRefOf(c.req.valid("param").id);
      const withRewound = query.include_rewound === "true";
      const log = await listMessages(deps.db, tenantId, ref, page, MAX_PAGE_BYTES, withRewound);
      if (log === undefined) throw notFound("session");
      const media = sessionMedia(deps, tenantId, log.rootSessionId);
      const data: unknown[] = [];
      for (const row of log.rows) {
        const inlined = query.include_media === "true" && row.media.length > 0;
        const content = inlined ? await inlineMedia(row.content, row.media, media.get) : row.content;
        data.push(showMessage(log.sessionId, row, content));
      }
      const last = log.rows.at(-1);
      const nextPage = log.more && last !== undefined ? cursorAfter(LIST, query, last.seq) : null;
      return c.body(stringifyWith({ data, next_page: nextPage }), 200, { "Content-Type": "application/json" });
    },
  );
