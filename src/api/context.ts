/** A session's context: what the next call sends and why, compacting, receipts, and taking a compaction back. */
import { z } from "@hono/zod-openapi";
import { stringifyWith } from "../protocol/json-text.ts";
import { voidCompaction } from "../store/compactions.ts";
import { pageOf } from "../store/pages.ts";
import { listCompactions } from "../store/receipts.ts";
import { resolveSession } from "../store/session-scope.ts";
import { compactOnRequest } from "../turns/compact-on-request.ts";
import { reportContext } from "../turns/context-report.ts";
import { planCompaction } from "../turns/plan-compaction.ts";
import { principalOf, requireScope, tenantOf } from "./auth.ts";
import {
  compactionPlanSchema,
  compactionSchema,
  compactRequestedSchema,
  compactResultSchema,
  showCompaction,
  showPlan,
  showResult,
} from "./compaction-json.ts";
import { contextSchema, showContext } from "./context-json.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, notFound } from "./errors.ts";
import { idempotencyHeaders } from "./idempotency.ts";
import { cursors, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { type OnceAnswer, once } from "./once.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { errorOfRun } from "./run-json.ts";
import { sessionParam, sessionRefOf } from "./session-ref.ts";
import { boundedText } from "./text.ts";

const tags = ["context"];
const LIST = "compactions";

const busy = (runId: string, retryAfterSeconds: number): ApiError =>
  new ApiError("session_busy", "A run holds the session.", { runId, retryAfterSeconds });

const registerContext = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/sessions/{id}/context",
      access: { tenant: "read" },
      tags,
      operationId: "getContext",
      summary: "See what the model is shown, and why",
      description:
        "What the next call would send: its size by part, where it stands against the window, what hango would do before the call, and why. Asks no model and changes nothing. `view=full` adds the request itself and needs the scope content as well.",
      request: {
        params: sessionParam,
        query: z.strictObject({ view: z.enum(["summary", "full"]).default("summary") }),
      },
      responses: { 200: json(contextSchema, "The context.") },
    },
    async (c) => {
      const full = c.req.valid("query").view === "full";
      if (full) requireScope(principalOf(c), "content");
      const ref = sessionRefOf(c.req.valid("param").id);
      const report = await reportContext(c.get("deps"), tenantOf(c), ref, full);
      if (report === undefined) throw notFound("session");
      return c.body(stringifyWith(showContext(report)), 200, { "Content-Type": "application/json" });
    },
  );

const compactBody = z
  .strictObject({
    focus: boundedText(2_000, 1).optional().openapi({ description: "What the summary should keep in most detail." }),
    dry_run: z.boolean().default(false).openapi({ description: "Say what would happen; change nothing." }),
  })
  .openapi("Compact", { example: { focus: "the open questions about the invoice" } });

/** Compacts, to the answer that a repeated request gets too. */
const compact = async (c: Ctx, id: string, focus: string | null, startedMs: number): Promise<Response> => {
  const deps = c.get("deps");
  const { tenantId, keyId } = requireScope(principalOf(c), "write");
  const runId = deps.newId("run");
  const request = { tenantId, keyId, session: sessionRefOf(id), focus, runId, startedMs };
  const work = async (): Promise<OnceAnswer> => {
    const outcome = await compactOnRequest(deps, request);
    switch (outcome.kind) {
      case "done":
        return { status: 200, body: JSON.stringify(showResult(outcome)) };
      case "left_to_run":
        return {
          status: 202,
          body: JSON.stringify({ type: "compaction_request", run_id: outcome.runId, status: "requested" }),
        };
      case "failed":
        throw errorOfRun(outcome.error, outcome.runId);
      case "not_found":
        throw notFound("session");
      case "busy":
        throw busy(outcome.runId, outcome.retryAfterSeconds);
      default:
        return outcome satisfies never;
    }
  };
  // A client that goes away does not end it.
  const done = once(c, tenantId, runId, work);
  deps.waitUntil(done.catch(() => undefined));
  return done;
};

const registerCompact = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/sessions/{id}/compact",
      access: { tenant: "write" },
      tags,
      operationId: "compactSession",
      summary: "Compact a session",
      description:
        "Puts a summary in the place of earlier messages, whatever the session's size. The log stays as it is. An idle session is compacted at once and answered with what was done, or with the reason why nothing was. During a run the run is asked to do it at its next step (the next turn, where there is none), and the answer is 202.",
      request: { params: sessionParam, headers: idempotencyHeaders, body: jsonBody(compactBody, false) },
      responses: {
        200: json(
          z.union([compactResultSchema, compactionPlanSchema]),
          "What was done, or with `dry_run` what would be.",
        ),
        202: json(compactRequestedSchema, "A run holds the session and will compact."),
      },
    },
    async (c) => {
      const deps = c.get("deps");
      const startedMs = deps.now();
      const { id } = c.req.valid("param");
      const { focus = null, dry_run } = c.req.valid("json");
      if (!dry_run) return compact(c, id, focus, startedMs);
      const plan = await planCompaction(deps, tenantOf(c), sessionRefOf(id), focus);
      if (plan === undefined) throw notFound("session");
      return c.json(showPlan(plan));
    },
  );

const registerReceipts = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/sessions/{id}/compactions",
      access: { tenant: "read" },
      tags,
      operationId: "listCompactions",
      summary: "List the compactions of a session",
      description:
        "Receipts, voided ones included: what each took out of the model's sight, what it cost, where it can be read.",
      request: { params: sessionParam, query: z.strictObject(listQuery) },
      responses: { 200: json(listOf(compactionSchema), "A page of receipts.") },
    },
    async (c) => {
      const { db } = c.get("deps");
      const query = c.req.valid("query");
      const page = pageOf(readPage(LIST, query, cursors.seq));
      const tenantId = tenantOf(c);
      const session = await resolveSession(db, tenantId, sessionRefOf(c.req.valid("param").id));
      if (session === undefined) throw notFound("session");
      const records = await listCompactions(db, tenantId, { id: session.sessionId }, page);
      return c.json(listPage(LIST, query, records, showCompaction, (record) => record.generation));
    },
  );

const voidedSchema = z
  .object({
    type: z.literal("voided_compaction"),
    generations: z.array(z.int()).openapi({ description: "The generation, and those that were made from it." }),
    revision: z.int().openapi({ description: "The revision that the session has now." }),
  })
  .openapi("VoidedCompaction");

const registerVoid = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/sessions/{id}/compactions/{generation}/void",
      access: { tenant: "write" },
      tags,
      operationId: "voidCompaction",
      summary: "Take a compaction back",
      description:
        "Voids a generation and those that were made from it; the model is shown what it was shown before. What is too large then is compacted anew by the next turn. 409 `session_busy` while a run is on.",
      request: {
        params: sessionParam.extend({
          generation: z.coerce
            .number()
            .int()
            .min(1)
            .max(Number.MAX_SAFE_INTEGER)
            .openapi({ param: { name: "generation", in: "path" } }),
        }),
        headers: idempotencyHeaders,
      },
      responses: { 200: json(voidedSchema, "The generation is void.") },
    },
    (c) => {
      const { db, newId } = c.get("deps");
      const tenantId = tenantOf(c);
      const { id, generation } = c.req.valid("param");
      const attemptId = newId("cmp");
      return once(c, tenantId, attemptId, async () => {
        const outcome = await voidCompaction(db, tenantId, sessionRefOf(id), generation, attemptId);
        if (outcome.kind === "not_found") throw notFound("compaction");
        if (outcome.kind === "busy") throw busy(outcome.runId, outcome.retryAfterSeconds);
        const { generations, revision } = outcome;
        return { status: 200, body: JSON.stringify({ type: "voided_compaction", generations, revision }) };
      });
    },
  );

export const registerContextRoutes = (app: App): void => {
  registerContext(app);
  registerCompact(app);
  registerReceipts(app);
  registerVoid(app);
};
