/** Rewinding a session, and running its last turn again (R2, R3). Nothing is deleted; files stay as they are. */
import { z } from "@hono/zod-openapi";
import { beginRetry } from "../turns/retry.ts";
import { rewind, type UndoRefusal } from "../turns/rewind.ts";
import { principalOf, requireScope, tenantOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, invalid, notFound } from "./errors.ts";
import {
  claimOf,
  idempotencyHeaders,
  idempotencyKeyOf,
  idempotencyMismatch,
  markReplayed,
  requestHashOf,
} from "./idempotency.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { runSchema } from "./run-json.ts";
import { sessionParam, sessionRefOf } from "./session-ref.ts";
import { missingSession } from "./sessions.ts";
import { answerStored, start, turnBody } from "./turns.ts";

const tags = ["history"];

const rewindBody = z
  .strictObject({
    turns: z.int().min(1).max(1_000_000).optional().openapi({ description: "How many of the newest turns to undo." }),
    to_seq: z
      .int()
      .min(0)
      .optional()
      .openapi({ description: "The last message to keep, 0 for none. A turn must begin right after it." }),
  })
  .refine(
    ({ turns, to_seq }) => (turns === undefined) !== (to_seq === undefined),
    "expected either `turns` or `to_seq`",
  )
  .openapi("Rewind", { example: { turns: 1 } });

const FILES_NOTE = "Files are as the undone turns left them.";

const rewoundSchema = z
  .object({
    type: z.literal("rewind"),
    session_id: z.string(),
    undone: z.object({
      first_seq: z.int(),
      last_seq: z.int(),
      messages: z.int(),
      turns: z.int().openapi({ description: "Messages of a user or an event among them." }),
    }),
    last_seq: z.int().openapi({ description: "The last message that is left; 0 for none." }),
    generation: z.int().openapi({ description: "The compaction that the model is shown now; 0 for none." }),
    revision: z.int().openapi({ description: "The revision that the session has now." }),
    files_rewound: z.literal(false),
    note: z.string(),
  })
  .openapi("Rewound");

/** Says why turns cannot be undone. */
export const undoError = (refusal: UndoRefusal, param: string): ApiError => {
  switch (refusal.kind) {
    case "not_found":
      return notFound("session");
    case "busy": {
      const { runId, retryAfterSeconds } = refusal;
      return new ApiError("session_busy", "A run of this session has not ended. Wait for it, or cancel it.", {
        runId,
        retryAfterSeconds,
      });
    }
    case "too_few":
      return refusal.turns === 0
        ? new ApiError("nothing_to_undo", "The session has no turn.")
        : invalid(
            param,
            `the session has ${refusal.turns} ${refusal.turns === 1 ? "turn" : "turns"} to undo; expected at most ${refusal.turns}`,
          );
    case "no_boundary": {
      const nearest = [refusal.before, refusal.after].filter((at) => at !== null).join(" and ");
      return invalid(param, `a turn must begin right after it; the nearest after which one does: ${nearest}`);
    }
    case "at_end": {
      const nearest = refusal.before === null ? "" : `; the nearest before it: ${refusal.before}`;
      return invalid(param, `nothing stands after it, the last message is ${refusal.lastSeq}${nearest}`);
    }
    default:
      return refusal satisfies never;
  }
};

/** The session changed each time it was looked at. */
export const overtaken = (): ApiError =>
  new ApiError("session_busy", "The session is being changed. Try again.", { retryAfterSeconds: 1 });

const registerRewind = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/sessions/{id}/rewind",
      access: { tenant: "write" },
      tags,
      operationId: "rewindSession",
      summary: "Undo turns",
      description:
        "Takes the newest turns out of the model's sight for good; the log keeps them (`include_rewound`). A turn is a message of a user or an event with all that follows it. Compactions that cover or restate an undone message are out of force. Files do not rewind. 409 `session_busy` while a run of the session has not ended.",
      request: { params: sessionParam, headers: idempotencyHeaders, body: jsonBody(rewindBody) },
      responses: { 200: json(rewoundSchema, "What was undone, and what is in force now.") },
    },
    async (c) => {
      const deps = c.get("deps");
      const tenantId = tenantOf(c);
      const { turns, to_seq } = c.req.valid("json");
      const attemptId = deps.newId("cmp");
      const result = await rewind(
        deps,
        {
          tenantId,
          session: sessionRefOf(c.req.valid("param").id),
          target: to_seq === undefined ? { turns: turns ?? 1 } : { toSeq: to_seq },
          attemptId,
          claim: await claimOf(c, tenantId, attemptId),
        },
        ({ at, keptTo }, undone) => ({
          type: "rewind",
          session_id: at.sessionId,
          undone: {
            first_seq: undone.start,
            last_seq: undone.lastSeq,
            messages: undone.messages,
            turns: undone.turns,
          },
          last_seq: keptTo,
          files_rewound: false,
          note: FILES_NOTE,
        }),
      );
      if (result.kind === "mismatch") throw idempotencyMismatch();
      if (result.kind === "overtaken") throw overtaken();
      if (result.kind === "not_found") throw await missingSession(c, c.req.valid("param").id);
      if (result.kind !== "rewound") throw undoError(result, to_seq === undefined ? "turns" : "to_seq");
      if (result.replayed) markReplayed(c);
      return c.body(result.body, 200, { "Content-Type": "application/json" });
    },
  );

const retryBody = turnBody.pick({ stream: true, wait: true, max_steps: true }).openapi("Retry", { example: {} });

const retry = async (c: Ctx, id: string, body: z.infer<typeof retryBody>): Promise<Response> => {
  const deps = c.get("deps");
  const { tenantId, keyId } = requireScope(principalOf(c), "write");
  const startedAt = new Date(deps.now()).toISOString();
  const outcome = await beginRetry(deps, {
    tenantId,
    keyId,
    session: sessionRefOf(id),
    idempotencyKey: idempotencyKeyOf(c.req.raw.headers),
    requestHash: await requestHashOf(c),
    options: body.max_steps === undefined ? {} : { maxSteps: body.max_steps },
    startedAt,
  });
  if (outcome.kind === "started") return start(c, body, outcome.session, startedAt);
  if (outcome.kind === "overtaken") throw overtaken();
  if (outcome.kind === "not_found") throw await missingSession(c, id);
  if (outcome.kind !== "replay") throw undoError(outcome, "body");
  if (!outcome.sameRequest) throw idempotencyMismatch();
  return answerStored(c, { ...body, background: false }, { tenantId, runId: outcome.runId, replayed: true });
};

const registerRetry = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/sessions/{id}/retry",
      access: { tenant: "write" },
      tags,
      operationId: "retryTurn",
      summary: "Run the last turn again",
      description:
        "Undoes the last turn as a rewind does, and begins a new one with the same input, both or neither. Works for a turn that failed, too. Answered like `POST /v1/sessions/{id}/turns`.",
      request: { params: sessionParam, headers: idempotencyHeaders, body: jsonBody(retryBody, false) },
      responses: {
        200: {
          ...json(runSchema, "The finished run, or with `stream` its events."),
          content: { "application/json": { schema: runSchema }, "text/event-stream": { schema: z.string() } },
        },
        202: json(runSchema, "The run is still under way after `wait` seconds."),
      },
    },
    (c) => retry(c, c.req.valid("param").id, c.req.valid("json")),
  );

export const registerHistory = (app: App): void => {
  registerRewind(app);
  registerRetry(app);
};
