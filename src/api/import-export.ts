/** `/v1/sessions/{id}/import` and `/export`: a session comes in and goes out whole, every message with its bytes (V9). */
import { z } from "@hono/zod-openapi";
import { exportSession } from "../turns/export.ts";
import { type ImportOutcome, type ImportResult, importPage } from "../turns/import.ts";
import { writePendingFiles } from "../turns/pending-files.ts";
import { TranscriptError } from "../turns/transcript/draft.ts";
import { tenantOf } from "./auth.ts";
import { showCompaction } from "./compaction-json.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, invalid, notFound } from "./errors.ts";
import { claimOf, idempotencyHeaders, idempotencyMismatch, markReplayed } from "./idempotency.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { sessionParam, sessionRefOf } from "./session-ref.ts";
import { showSession } from "./session-schema.ts";
import { requireSession } from "./sessions.ts";
import { tarStream } from "./tar.ts";

const tags = ["sessions"];

const importSchema = z
  .object({
    type: z.literal("import"),
    session_id: z.string(),
    imported: z.number().int().openapi({ description: "Rows that were appended." }),
    first_seq: z.number().int(),
    last_seq: z.number().int(),
    unanswered_calls: z.array(z.object({ seq: z.number().int(), id: z.string(), name: z.string() })).openapi({
      description:
        "Tool calls of this page without a result in it. The next page may begin with the results of the last message's.",
    }),
    injected: z
      .array(z.number().int())
      .openapi({ description: "Seqs of handoffs that another system wrote; they never count as a user's words." }),
    repaired: z.number().int().openapi({ description: "Messages in which lone surrogates became U+FFFD." }),
  })
  .openapi("Import");

/** Shown, not used to validate: `turns/transcript` checks the text itself, which a parsed copy does not hold. */
const pageSchema = z.unknown().openapi({
  type: "object",
  required: ["messages"],
  additionalProperties: false,
  properties: {
    format: { type: "string", enum: ["messages", "chat_completions"], default: "messages" },
    messages: {
      type: "array",
      minItems: 1,
      items: { type: "object", required: ["role"], additionalProperties: true },
      description:
        "Messages of the Messages API (`role` and `content`) or of chat completions, oldest first. Their other fields are passed over.",
    },
  },
});

const render = (result: ImportResult): string =>
  JSON.stringify({
    type: "import",
    session_id: result.sessionId,
    imported: result.imported,
    first_seq: result.firstSeq,
    last_seq: result.lastSeq,
    unanswered_calls: [...result.unanswered],
    injected: [...result.injected],
    repaired: result.repaired,
  } satisfies z.infer<typeof importSchema>);

const answer = (c: Ctx, outcome: ImportOutcome): Response => {
  switch (outcome.kind) {
    case "imported":
      if (outcome.replayed) markReplayed(c);
      return c.body(outcome.response, 200, { "Content-Type": "application/json" });
    case "session_not_found":
      throw notFound("session");
    case "had_turn":
      throw new ApiError(
        "import_not_allowed",
        "A session that has had a turn cannot be imported into; fork it or create a new one.",
      );
    case "overtaken":
      throw new ApiError(
        "session_busy",
        "Another import changed the session meanwhile; nothing of this page was stored.",
        {
          retryAfterSeconds: 1,
        },
      );
    case "idempotency_mismatch":
      throw idempotencyMismatch();
    default:
      return outcome satisfies never;
  }
};

const importOperation = async (c: Ctx, id: string): Promise<Response> => {
  const deps = c.get("deps");
  const tenantId = tenantOf(c);
  const firstId = deps.newId("msg");
  const claim = await claimOf(c, tenantId, firstId);
  const body = c.get("unrepairedBody") ?? (await c.req.text());
  try {
    return answer(c, await importPage(deps, { tenantId, session: sessionRefOf(id), body, firstId, claim, render }));
  } catch (error) {
    if (error instanceof TranscriptError) throw invalid(error.path, error.message);
    throw error;
  }
};

const exportOperation = async (c: Ctx, id: string): Promise<Response> => {
  const deps = c.get("deps");
  const session = await requireSession(c, id);
  if (session.filesPending) await writePendingFiles(c.get("deps"), tenantOf(c), session.id);
  const json = `${JSON.stringify(showSession(session), undefined, 2)}\n`;
  const entries = await exportSession(deps, {
    tenantId: tenantOf(c),
    sessionId: session.id,
    rootSessionId: session.subagent?.rootSessionId ?? session.id,
    json,
    showCompaction,
  });
  if (entries === undefined) throw notFound("session");
  const stream = tarStream(entries, (error) =>
    deps.log.error("an export failed", {
      session_id: session.id,
      error: error instanceof Error ? error.name : typeof error,
    }),
  );
  return c.body(stream, 200, {
    "Content-Type": "application/x-tar",
    "Content-Disposition": `attachment; filename="${session.id}.tar"`,
  });
};

export const registerImportExport = (app: App): void => {
  operation(
    app,
    {
      method: "post",
      path: "/v1/sessions/{id}/import",
      access: { tenant: "write" },
      tags,
      operationId: "importMessages",
      summary: "Append an existing transcript",
      description:
        "Appends one page (at most 4 MB) of a transcript to a session that has had no turn. Order, ids and pairing are checked; a page is stored whole or not at all. Messages keep their bytes.",
      request: { params: sessionParam, headers: idempotencyHeaders, body: jsonBody(pageSchema) },
      responses: { 200: json(importSchema, "The page is in the log.") },
    },
    (c) => importOperation(c, c.req.valid("param").id),
  );
  operation(
    app,
    {
      method: "get",
      path: "/v1/sessions/{id}/export",
      access: { tenant: "content" },
      tags,
      operationId: "exportSession",
      summary: "Export everything of a session",
      description:
        "A tar stream: `session.json`, `messages.jsonl` (one line a row, `content` as stored; line breaks between its tokens become spaces), `compactions.jsonl` (one line a generation: its receipt, summary and sections) and `files/`. Subagents' sessions are exported by themselves, without files, which are their parent's. A failure on the way breaks the stream off: an archive that ends cleanly is whole.",
      request: { params: sessionParam },
      responses: {
        200: {
          description: "The archive.",
          content: { "application/x-tar": { schema: z.string().openapi({ format: "binary" }) } },
        },
      },
    },
    (c) => exportOperation(c, c.req.valid("param").id),
  );
};
