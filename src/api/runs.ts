/** Runs: read one, list them, attach to their events, and the session's stream across runs. */
import { z } from "@hono/zod-openapi";
import type { RunId } from "../protocol/ids.ts";
import { stringifyWith } from "../protocol/json-text.ts";
import { pageOf } from "../store/pages.ts";
import { findRun, listRuns, type RunFilter, type RunRecord } from "../store/runs.ts";
import { resolveSession } from "../store/session-scope.ts";
import { tenantOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { invalid, notFound } from "./errors.ts";
import { cursors, type ListQuery, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { json, operation } from "./operation.ts";
import { JSON_TYPE, runJson, runParam, runSchema, runStatus, showRun } from "./run-json.ts";
import { sessionParam, sessionRefOf } from "./session-ref.ts";
import { attach } from "./turns.ts";

const eventsHeaders = z.object({
  "last-event-id": z
    .string()
    .optional()
    .openapi({ description: "The `id` of the last event received; what came after it is sent first." }),
});

const eventsResponse = {
  200: { description: "Server-sent events.", content: { "text/event-stream": { schema: z.string() } } },
} as const;

/** The number in `Last-Event-ID`. @throws ApiError `invalid_request` for anything but a number that an event can have */
const lastEventIdOf = (c: Ctx): number | null => {
  const given = c.req.header("Last-Event-ID");
  if (given === undefined || given === "") return null;
  if (!/^\d{1,15}$/.test(given)) throw invalid("Last-Event-ID", "expected the `id` of an event of this stream");
  return Number(given);
};

const ownRun = async (c: Ctx, id: string): Promise<RunRecord> => {
  const run = await findRun(c.get("deps").db, tenantOf(c), id);
  if (run === undefined) throw notFound("run");
  return run;
};

const ownSession = async (c: Ctx, id: string) => {
  const session = await resolveSession(c.get("deps").db, tenantOf(c), sessionRefOf(id));
  if (session === undefined) throw notFound("session");
  return session;
};

const list = async (c: Ctx, name: string, query: ListQuery, filter: RunFilter): Promise<Response> => {
  const page = pageOf(readPage(name, query, cursors.id));
  const runs = await listRuns(c.get("deps").db, tenantOf(c), filter, page);
  return c.body(stringifyWith(listPage(name, query, runs, showRun, (run) => run.id)), 200, JSON_TYPE);
};

export const registerRuns = (app: App): void => {
  const status = runStatus.optional();

  operation(
    app,
    {
      method: "get",
      path: "/v1/runs",
      tags: ["runs"],
      operationId: "listRuns",
      summary: "List runs",
      access: { tenant: "read" },
      request: { query: z.object({ ...listQuery, status }) },
      responses: { 200: json(listOf(runSchema), "A page of the tenant's runs.") },
    },
    (c) => list(c, "runs", c.req.valid("query"), { status: c.req.valid("query").status }),
  );

  operation(
    app,
    {
      method: "get",
      path: "/v1/sessions/{id}/runs",
      tags: ["runs"],
      operationId: "listSessionRuns",
      summary: "List the runs of a session",
      access: { tenant: "read" },
      request: { params: sessionParam, query: z.object({ ...listQuery, status }) },
      responses: { 200: json(listOf(runSchema), "A page of the session's runs.") },
    },
    async (c) => {
      const { sessionId } = await ownSession(c, c.req.valid("param").id);
      return list(c, "session runs", c.req.valid("query"), { sessionId, status: c.req.valid("query").status });
    },
  );

  operation(
    app,
    {
      method: "get",
      path: "/v1/runs/{id}",
      tags: ["runs"],
      operationId: "getRun",
      summary: "Read a run",
      access: { tenant: "read" },
      request: { params: runParam },
      responses: { 200: json(runSchema, "The run.") },
    },
    async (c) => c.body(runJson(await ownRun(c, c.req.valid("param").id)), 200, JSON_TYPE),
  );

  operation(
    app,
    {
      method: "get",
      path: "/v1/runs/{id}/events",
      tags: ["runs"],
      operationId: "followRun",
      summary: "Attach to a run",
      description: "Sends the run's events from the start, or from after `Last-Event-ID`, through its end.",
      access: { tenant: "content" },
      request: { params: runParam, headers: eventsHeaders },
      responses: eventsResponse,
    },
    async (c) => {
      const after = lastEventIdOf(c) ?? 0;
      const run = await ownRun(c, c.req.valid("param").id);
      return attach(c, { tenantId: tenantOf(c), sessionId: run.sessionId, runId: run.id as RunId, after });
    },
  );

  operation(
    app,
    {
      method: "get",
      path: "/v1/sessions/{id}/events",
      tags: ["sessions"],
      operationId: "followSession",
      summary: "Follow a session",
      description:
        "The events of all runs of the session, from now on or from after `Last-Event-ID`, until the client leaves.",
      access: { tenant: "content" },
      request: { params: sessionParam, headers: eventsHeaders },
      responses: eventsResponse,
    },
    async (c) => {
      const given = lastEventIdOf(c);
      const { sessionId, lastEvent } = await ownSession(c, c.req.valid("param").id);
      return attach(c, { tenantId: tenantOf(c), sessionId, after: given ?? lastEvent });
    },
  );
};
