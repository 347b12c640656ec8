/** `POST /v1/sessions/{id}/fork`: a session of its own that begins as a copy of another. */

import { sha256Hex } from "../protocol/sha256.ts";
import { fork } from "../turns/fork.ts";
import { principalOf, requireScope } from "./auth.ts";
import type { App } from "./env.ts";
import { ApiError, invalid, notFound } from "./errors.ts";
import { overtaken, undoError } from "./history.ts";
import { claimOf, idempotencyHeaders, idempotencyMismatch, markReplayed } from "./idempotency.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { sessionParam, sessionRefOf } from "./session-ref.ts";
import { forkSchema, sessionSchema, showSession } from "./session-schema.ts";
import { missingSession } from "./sessions.ts";

export const registerFork = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/sessions/{id}/fork",
      access: { tenant: "write" },
      tags: ["history"],
      operationId: "forkSession",
      summary: "Fork a session",
      description:
        "Makes a new session with the settings, the log up to `at_seq`, the compactions within it, the todos and the files of this one. The two share nothing from then on; either may be erased. Usage begins at zero. While many files are being copied the fork is `running` and a turn on it is a 409 `session_busy`. 409 `session_busy`, too, while a run of the original has not ended.",
      request: { params: sessionParam, headers: idempotencyHeaders, body: jsonBody(forkSchema, false) },
      responses: { 201: json(sessionSchema, "The fork.") },
    },
    async (c) => {
      const { newId } = c.get("deps");
      const { tenantId, keyId } = requireScope(principalOf(c), "write");
      const { at_seq, key = null, ...fields } = c.req.valid("json");
      const forkId = newId("ses");
      const result = await fork(c.get("deps"), {
        tenantId,
        keyId,
        session: sessionRefOf(c.req.valid("param").id),
        atSeq: at_seq,
        forkId,
        copyRunId: newId("run"),
        fields: { key, ...fields },
        createdWith: await sha256Hex(`fork ${forkId}`),
        claim: await claimOf(c, tenantId, forkId),
      });
      if (result.kind === "not_found") throw await missingSession(c, c.req.valid("param").id);
      switch (result.kind) {
        case "forked":
          if (result.replayed) markReplayed(c);
          return c.json(showSession(result.session), 201);
        case "mismatch":
          throw idempotencyMismatch();
        case "gone":
          throw notFound("session");
        case "key_taken":
          throw new ApiError("key_conflict", "A session with this key exists.", { param: "key" });
        case "overtaken":
          throw overtaken();
        case "beyond_end":
          throw invalid("at_seq", `the last message is ${result.lastSeq}`);
        case "busy":
        case "no_boundary":
          throw undoError(result, "at_seq");
        default:
          return result satisfies never;
      }
    },
  );
