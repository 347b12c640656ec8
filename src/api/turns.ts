/** `POST /v1/sessions/{id}/turns`: a turn, answered as the finished run, as 202 when that takes too long, or as an event stream. */
import { z } from "@hono/zod-openapi";
import type { RunEvent } from "../protocol/events.ts";
import type { RunId } from "../protocol/ids.ts";
import type { LoadedSession } from "../store/begin.ts";
import { LeaseLost } from "../store/errors.ts";
import { findRun, type RunRecord } from "../store/runs.ts";
import { announce, begin } from "../turns/begin.ts";
import type { Deps } from "../turns/deps.ts";
import { follow } from "../turns/follow.ts";
import { InputFileError, turnInput } from "../turns/input.ts";
import { executeRun } from "../turns/run.ts";
import { denied, keyHashOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, invalid, notFound } from "./errors.ts";
import { idempotencyHeaders, idempotencyKeyOf, idempotencyMismatch, requestHashOf } from "./idempotency.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { runFailure, runJson, runSchema } from "./run-json.ts";
import { ensureSession } from "./session-create.ts";
import { sessionParam, sessionRefOf } from "./session-ref.ts";
import { type EventStream, openEventStream } from "./sse.ts";

/** How long a turn is waited for unless the caller says otherwise, in s (api.md). */
const DEFAULT_WAIT_SECONDS = 60;
const MAX_WAIT_SECONDS = 300;

/** How often a run that another isolate executes is looked at, in ms. */
const REPLAY_POLL_MS = 500;

const turnBody = z
  .strictObject({
    input: turnInput.openapi({
      description:
        'Text, or content blocks: text, image, document, or `{type: "file", path}` for a file of the session.',
      example: "read /notes.md",
    }),
    stream: z
      .boolean()
      .default(false)
      .openapi({ description: "Answer with an event stream; so does `Accept: text/event-stream`." }),
    wait: z.number().min(0).max(MAX_WAIT_SECONDS).default(DEFAULT_WAIT_SECONDS).openapi({
      description: "Seconds to wait for the run before answering 202 with it as it is. It goes on either way.",
    }),
    max_steps: z.int().min(1).max(100).optional().openapi({ description: "Most model calls of this turn." }),
    create: z.boolean().default(false).openapi({ description: "With `key:`, make the session if there is none." }),
  })
  .openapi("Turn");

type TurnBody = z.infer<typeof turnBody>;

const wantsStream = (c: Ctx, body: TurnBody): boolean =>
  body.stream || (c.req.header("Accept") ?? "").includes("text/event-stream");

const answerRun = (run: RunRecord, replayed: boolean): Response => {
  const headers = { "Hango-Run-Id": run.id, ...(replayed ? { "Idempotent-Replayed": "true" } : {}) };
  if (run.error !== null) throw runFailure(run, headers);
  return Response.json(runJson(run), { status: run.status === "running" ? 202 : 200, headers });
};

const waited = async (deps: Deps, work: Promise<RunRecord>, seconds: number): Promise<RunRecord | null> =>
  seconds === 0 ? null : Promise.race([work, deps.sleep(seconds * 1000).then(() => null)]);

/** The run while it is under way, without asking the database for what is known. */
const runningRecord = (session: LoadedSession, startedAt: string): RunRecord => ({
  id: session.lease.holder,
  sessionId: session.sessionId,
  status: "running",
  trigger: "api",
  model: session.model,
  inputSeq: session.inputSeq,
  stopReason: null,
  outputText: null,
  steps: 0,
  usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
  costUsd: null,
  error: null,
  dbRoundTrips: null,
  overheadMs: null,
  createdAt: startedAt,
  finishedAt: null,
});

/** The end of a run whose end could not be recorded: the client is told, whatever the store says later. */
const lostEvent = (deps: Deps, session: LoadedSession): RunEvent => ({
  n: null,
  type: "run.failed",
  sessionId: session.sessionId,
  runId: session.lease.holder,
  createdAt: new Date(deps.now()).toISOString(),
  data: JSON.stringify({
    error: {
      type: "api_error",
      code: "run_interrupted",
      message: "The run could not be recorded to its end.",
      retryable: true,
    },
  }),
});

const streamHeaders = (c: Ctx, runId: RunId, replayed: boolean) => ({
  "X-Request-Id": c.get("requestId"),
  "Hango-Run-Id": runId,
  ...(replayed ? { "Idempotent-Replayed": "true" } : {}),
});

const open = (c: Ctx, headers: Readonly<Record<string, string>>): EventStream =>
  openEventStream({ signal: c.req.raw.signal, heartbeatMs: c.get("deps").config.sseHeartbeatMs, headers });

const start = async (c: Ctx, body: TurnBody, session: LoadedSession, startedAt: string): Promise<Response> => {
  const deps = c.get("deps");
  const run = { session, maxSteps: body.max_steps, startedMs: Date.parse(startedAt) };
  if (!wantsStream(c, body)) {
    const work = executeRun(deps, { ...run, sink: () => undefined });
    deps.waitUntil(work.catch(() => undefined));
    let ended: RunRecord | null | undefined;
    try {
      ended = await waited(deps, work, body.wait);
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      ended = await findRun(deps.db, session.tenantId, session.lease.holder);
    }
    return answerRun(ended ?? runningRecord(session, startedAt), false);
  }
  const stream = open(c, streamHeaders(c, session.lease.holder, false));
  announce(session, startedAt, stream.send);
  const work = executeRun(deps, { ...run, sink: stream.send })
    .catch((error: unknown) => {
      deps.log.error("a run ended unrecorded", {
        run_id: session.lease.holder,
        error: error instanceof Error ? error.name : typeof error,
      });
      stream.send(lostEvent(deps, session));
    })
    .finally(stream.close);
  deps.waitUntil(work);
  return stream.response;
};

/** Answers a repeated request with the run of the first: its events from the start, or its end. */
const replay = async (c: Ctx, body: TurnBody, tenantId: RunRecordOwner, runId: RunId): Promise<Response> => {
  const deps = c.get("deps");
  const until = deps.now() + body.wait * 1000;
  let run = await findRun(deps.db, tenantId, runId);
  if (run === undefined) throw notFound("run");
  if (wantsStream(c, body)) return attach(c, { tenantId, sessionId: run.sessionId, runId, after: 0 }, true);
  while (run.status === "running" && deps.now() < until) {
    await deps.sleep(REPLAY_POLL_MS);
    run = (await findRun(deps.db, tenantId, runId)) ?? run;
  }
  return answerRun(run, true);
};

type RunRecordOwner = LoadedSession["tenantId"];

interface Attachment {
  readonly tenantId: RunRecordOwner;
  readonly sessionId: LoadedSession["sessionId"];
  readonly runId?: RunId;
  readonly after: number;
}

/** Streams the events of a run or a session to a client that was not there from the start. */
export const attach = (c: Ctx, attachment: Attachment, replayed = false): Response => {
  const deps = c.get("deps");
  const headers =
    attachment.runId === undefined
      ? { "X-Request-Id": c.get("requestId") }
      : streamHeaders(c, attachment.runId, replayed);
  const stream = open(c, headers);
  const pass = async (): Promise<void> => {
    try {
      for await (const event of follow(deps, { ...attachment, signal: stream.gone })) stream.send(event);
    } catch (error) {
      deps.log.error("a stream ended early", { error: error instanceof Error ? error.name : typeof error });
    } finally {
      await stream.close();
    }
  };
  deps.waitUntil(pass());
  return stream.response;
};

const post = async (c: Ctx, id: string, body: TurnBody): Promise<Response> => {
  const deps = c.get("deps");
  const request = {
    keyHash: await keyHashOf(deps, c.req.raw.headers),
    session: sessionRefOf(id),
    input: body.input,
    idempotencyKey: idempotencyKeyOf(c.req.raw.headers),
    requestHash: await requestHashOf(c),
    startedAt: new Date(deps.now()).toISOString(),
  };
  let outcome = await begin(deps, request);
  if (outcome.kind === "session_not_found" && body.create) {
    if (!("key" in request.session))
      throw invalid("create", "a session can only be made here when it is addressed as `key:...`");
    await ensureSession(c, request.session.key);
    outcome = await begin(deps, request);
  }
  switch (outcome.kind) {
    case "started":
      return start(c, body, outcome.session, request.startedAt);
    case "unauthenticated":
      throw denied.unknownKey();
    case "forbidden":
      throw outcome.reason === "scope" ? denied.scope("write") : denied.suspended();
    case "session_not_found":
      throw notFound("session");
    case "busy":
      throw new ApiError(
        "session_busy",
        "A run holds this session. Wait for it, or follow it with GET /v1/runs/{id}/events.",
        {
          runId: outcome.runId,
          retryAfterSeconds: outcome.retryAfterSeconds,
        },
      );
    case "replay":
      if (!outcome.sameRequest) throw idempotencyMismatch();
      return replay(c, body, outcome.tenantId, outcome.runId);
    default:
      return outcome satisfies never;
  }
};

export const registerTurns = (app: App): void => {
  operation(
    app,
    {
      method: "post",
      path: "/v1/sessions/{id}/turns",
      tags: ["turns"],
      operationId: "runTurn",
      summary: "Run a turn",
      description:
        "Appends the input to the session and runs the agent until it has answered. A client that goes away does not end the run; " +
        "`GET /v1/runs/{id}/events` attaches to it again.",
      access: { inside: "write" },
      request: { params: sessionParam, headers: idempotencyHeaders, body: jsonBody(turnBody) },
      responses: {
        200: {
          ...json(runSchema, "The finished run, or with `stream` its events."),
          content: { "application/json": { schema: runSchema }, "text/event-stream": { schema: z.string() } },
        },
        202: json(runSchema, "The run is still under way after `wait` seconds."),
      },
    },
    async (c) => {
      try {
        return await post(c, c.req.valid("param").id, c.req.valid("json"));
      } catch (error) {
        if (error instanceof InputFileError) throw invalid(`input[${error.index}].path`, error.message);
        throw error;
      }
    },
  );
};
