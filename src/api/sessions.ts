/** Sessions: create, list, read, change, erase. */
import { z } from "@hono/zod-openapi";
import { eraseSession } from "../store/erasures.ts";
import { pageOf } from "../store/pages.ts";
import type { SessionRef } from "../store/session-ref.ts";
import { changeSession, createSession, findSession, listSessions } from "../store/sessions.ts";
import { writePendingFiles } from "../turns/pending-files.ts";
import { sendErasures } from "../turns/send-erasures.ts";
import { tenantOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, invalid, notFound, subagentSession } from "./errors.ts";
import { claimOf, idempotencyHeaders, idempotencyMismatch, markReplayed } from "./idempotency.ts";
import { cursors, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { checkModels } from "./session-models.ts";
import { KEY_NAME_CHARS, readSessionRef, sessionParam, sessionRefOf } from "./session-ref.ts";
import {
  changeSessionSchema,
  createSessionSchema,
  MAX_METADATA,
  newSessionOf,
  sessionChangeOf,
  sessionSchema,
  sessionStatus,
  showSession,
} from "./session-schema.ts";
import { checkSubagents, namesTools } from "./session-subagents.ts";
import { checkTools } from "./session-tools.ts";
import { boundedText, timestamp } from "./text.ts";

const tags = ["sessions"];
const LIST = "sessions";

const createdSchema = sessionSchema.extend({ created: z.boolean() }).openapi("CreatedSession");

const registerCreate = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/sessions",
      access: { tenant: "write" },
      tags,
      operationId: "createSession",
      summary: "Create a session",
      description:
        "With a `key` that exists: the same settings answer the existing session with `created: false`, other settings are a 409 `key_conflict`. Compared is the request as it was sent, not what the session was changed to since. `skills` are written as files under `/skills/` before the answer; an answer that was lost is had by the same request again.",
      request: { headers: idempotencyHeaders, body: jsonBody(createSessionSchema, false) },
      responses: {
        200: json(createdSchema, "The session existed."),
        201: json(createdSchema, "The session was made."),
      },
    },
    async (c) => {
      const { db, config, newId } = c.get("deps");
      const given = c.req.valid("json");
      checkTools(given.tools ?? [], config.allowPrivateUrls);
      checkModels(given, config);
      checkSubagents(given.subagents, given.tools ?? []);
      const tenantId = tenantOf(c);
      const session = await newSessionOf(newId("ses"), tenantId, given, config.defaultModel);
      const outcome = await createSession(db, session, await claimOf(c, tenantId, session.id));
      if (outcome.kind === "mismatch") throw idempotencyMismatch();
      if (outcome.kind === "gone") throw notFound("session");
      if (outcome.session.createdWith !== session.createdWith) {
        throw new ApiError("key_conflict", "A session with this key exists and was created with other settings.", {
          param: "key",
        });
      }
      // Also where the session is found: the request that made it may have died before it had written all.
      if (outcome.session.filesPending) await writePendingFiles(c.get("deps"), tenantId, outcome.session.id);
      if (outcome.replayed) markReplayed(c);
      return c.json({ ...showSession(outcome.session), created: outcome.created }, outcome.created ? 201 : 200);
    },
  );

const METADATA_FILTER = /^metadata\[(.+)\]$/;

/** The `metadata[k]` filters; any other parameter that the schema does not know is a mistake. */
const metadataFilter = (query: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(query)
      .filter(([name]) => !(name in listSessionsQuery.shape))
      .map(([name, value]): [string, string] => {
        const key = METADATA_FILTER.exec(name)?.[1];
        if (key === undefined || key.includes("\u0000") || typeof value !== "string")
          throw invalid(name, "unknown parameter");
        return [key, value];
      }),
  );

const listSessionsQuery = z
  .object({
    ...listQuery,
    user: boundedText(255, 1).optional(),
    key: boundedText(255, 1).optional(),
    status: sessionStatus.optional(),
    updated_after: timestamp.optional(),
    parent: boundedText(KEY_NAME_CHARS, 1).optional().openapi({
      description:
        "The subagents of this session: its id, or `key:` followed by its key. Without it, subagents are not listed.",
    }),
  })
  .catchall(boundedText(512));

/** @throws ApiError `invalid_request` for what cannot name a session */
const parentOf = (name: string): SessionRef => {
  const ref = readSessionRef(name);
  if (ref === undefined) throw invalid("parent", "expected a session's id, or `key:` followed by its key");
  return ref;
};

const registerList = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/sessions",
      access: { tenant: "read" },
      tags,
      operationId: "listSessions",
      summary: "List sessions",
      description: "`metadata[name]=value` (any number of them) keeps the sessions whose metadata has these entries.",
      request: { query: listSessionsQuery },
      responses: { 200: json(listOf(sessionSchema), "A page of sessions.") },
    },
    async (c) => {
      const query = c.req.valid("query");
      const filter = {
        user: query.user,
        key: query.key,
        status: query.status,
        updatedAfter: query.updated_after,
        parent: query.parent === undefined ? undefined : parentOf(query.parent),
        metadata: metadataFilter(query),
      };
      const page = pageOf(readPage(LIST, query, cursors.id));
      const rows = await listSessions(c.get("deps").db, tenantOf(c), filter, page);
      return c.json(listPage(LIST, query, rows, showSession, ({ id }) => id));
    },
  );

/** Why a session cannot be changed that was not found among those that callers talk to. */
export const missingSession = async (c: Ctx, id: string): Promise<ApiError> => {
  const session = await findSession(c.get("deps").db, tenantOf(c), sessionRefOf(id));
  return session === undefined || session.subagent === null ? notFound("session") : subagentSession();
};

/** The session that a path names. @throws ApiError `not_found` */
export const requireSession = async (c: Ctx, id: string) => {
  const session = await findSession(c.get("deps").db, tenantOf(c), sessionRefOf(id));
  if (session === undefined) throw notFound("session");
  return session;
};

const registerRead = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/sessions/{id}",
      access: { tenant: "read" },
      tags,
      operationId: "getSession",
      summary: "Read a session",
      request: { params: sessionParam },
      responses: { 200: json(sessionSchema, "The session.") },
    },
    async (c) => c.json(showSession(await requireSession(c, c.req.valid("param").id))),
  );

const registerChange = (app: App): void =>
  operation(
    app,
    {
      method: "patch",
      path: "/v1/sessions/{id}",
      access: { tenant: "write" },
      tags,
      operationId: "changeSession",
      summary: "Change a session",
      description:
        "Allowed while a run is on: the run goes on with what it began with, the next turn takes the change.",
      request: { params: sessionParam, body: jsonBody(changeSessionSchema) },
      responses: { 200: json(sessionSchema, "The session after the change.") },
    },
    async (c) => {
      const { db, config } = c.get("deps");
      const given = c.req.valid("json");
      checkTools(given.tools ?? [], config.allowPrivateUrls);
      checkModels(given, config);
      const { id } = c.req.valid("param");
      const ref = sessionRefOf(id);
      // Only a name of a tool needs to know what tools there are.
      const tools = given.tools ?? (namesTools(given.subagents) ? (await requireSession(c, id)).tools : []);
      checkSubagents(given.subagents, tools);
      const outcome = await changeSession(db, tenantOf(c), ref, sessionChangeOf(given), MAX_METADATA);
      if (outcome.kind === "not_found") throw await missingSession(c, id);
      if (outcome.kind === "too_much_metadata") throw invalid("metadata", `at most ${MAX_METADATA} entries`);
      return c.json(showSession(outcome.session));
    },
  );

const registerErase = (app: App): void =>
  operation(
    app,
    {
      method: "delete",
      path: "/v1/sessions/{id}",
      access: { tenant: "write" },
      tags,
      operationId: "deleteSession",
      summary: "Erase a session",
      description:
        "Also while a run is on: the run is cancelled and stores nothing more. From the answer on the session is not found, and its key may be used again. Log, runs, events, history, files, offloads, its subagents' sessions and what its webhooks carried are removed, in the background when they are many; `GET /v1/erasures/{id}` says when nothing is left. What was used stays in `/v1/usage`, without session and user.",
      request: { params: sessionParam },
      responses: {
        200: json(
          z.object({ id: z.string(), type: z.literal("session"), deleted: z.literal(true) }).openapi("DeletedSession"),
          "The session is gone.",
        ),
      },
    },
    async (c) => {
      const { db, queue, log } = c.get("deps");
      const tenantId = tenantOf(c);
      const { id } = c.req.valid("param");
      const erased = await eraseSession(db, tenantId, sessionRefOf(id));
      if (erased === undefined) throw await missingSession(c, id);
      const { sessionId } = erased;
      // The erasure is recorded: should the queue not take the messages, the cron door sends them again.
      await sendErasures(queue, tenantId, erased).catch(() => {
        log.warn("the queue did not take an erasure", { session_id: sessionId });
      });
      return c.json({ id: sessionId, type: "session", deleted: true });
    },
  );

export const registerSessions = (app: App): void => {
  registerCreate(app);
  registerList(app);
  registerRead(app);
  registerChange(app);
  registerErase(app);
};
