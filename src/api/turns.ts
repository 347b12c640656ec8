/** `POST /v1/sessions/{id}/turns`: a turn, answered as the finished run, as 202 when that takes too long, or as an event stream. */
import { z } from "@hono/zod-openapi";
import type { RunEvent } from "../protocol/events.ts";
import type { RunId, TenantId } from "../protocol/ids.ts";
import { LeaseLost } from "../store/errors.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import { findRun, isOver, type RunRecord } from "../store/runs.ts";
import { announce, begin } from "../turns/begin.ts";
import type { Deps } from "../turns/deps.ts";
import { follow } from "../turns/follow.ts";
import { InputFileError, turnInput } from "../turns/input.ts";
import { executeRun } from "../turns/run.ts";
import { denied, keyHashOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, invalid, notFound, subagentSession } from "./errors.ts";
import { idempotencyHeaders, idempotencyKeyOf, idempotencyMismatch, requestHashOf } from "./idempotency.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { runFailure, runJson, runSchema } from "./run-json.ts";
import { ensureSession } from "./session-create.ts";
import { sessionParam, sessionRefOf } from "./session-ref.ts";
import { budget } from "./session-schema.ts";
import { type EventStream, openEventStream } from "./sse.ts";
import { boundedText } from "./text.ts";
import { requireOutboundUrl } from "./webhook-schema.ts";

/** How long a turn is waited for unless the caller says otherwise, in s (api.md). */
const DEFAULT_WAIT_SECONDS = 60;
const MAX_WAIT_SECONDS = 300;

/** How often a run that another isolate executes is looked at, in ms. */
const REPLAY_POLL_MS = 500;

export const waitSeconds = z.number().min(0).max(MAX_WAIT_SECONDS).default(DEFAULT_WAIT_SECONDS).openapi({
  description: "Seconds to wait for the run before answering 202 with it as it is. It goes on either way.",
});

export const turnBody = z
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
    wait: waitSeconds,
    max_steps: z.int().min(1).max(100).optional().openapi({ description: "Most model calls of this turn." }),
    budget: budget.optional().openapi({ description: "Most that this turn may cost; the session's own holds too." }),
    on_busy: z
      .enum(["reject", "queue", "interrupt", "join"])
      .default("reject")
      .openapi({
        description:
          "When a run is on: `reject` answers 409; `queue` runs the turn after what waits already; `interrupt` cancels the run and goes first; " +
          "`join` gives the input to the run that is on, which takes it up at its next step.",
      }),
    background: z.boolean().default(false).openapi({
      description: "Answer 202 at once; the turn is run outside of this request, also where the session is idle.",
    }),
    callback_url: boundedText(2_048, 1).optional().openapi({
      description:
        "Told of the run's end by a signed POST (docs/webhooks.md): https, and no private address. Its secret: `GET /v1/webhook_endpoints/callback_secret`.",
    }),
    create: z.boolean().default(false).openapi({ description: "With `key:`, make the session if there is none." }),
  })
  .openapi("Turn");

type TurnBody = z.infer<typeof turnBody>;

/** How a turn is to be answered, whatever its input. */
export type Manner = Pick<TurnBody, "stream" | "wait">;

const wantsStream = (c: Ctx, body: Pick<TurnBody, "stream">): boolean =>
  body.stream || (c.req.header("Accept") ?? "").includes("text/event-stream");

const answerRun = (run: RunRecord, replayed: boolean): Response => {
  const headers = { "Hango-Run-Id": run.id, ...(replayed ? { "Idempotent-Replayed": "true" } : {}) };
  if (run.error !== null) throw runFailure(run, headers);
  return new Response(runJson(run), {
    status: isOver(run.status) || run.status === "requires_action" ? 200 : 202,
    headers: { "Content-Type": "application/json", ...headers },
  });
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
  requiredAction: null,
  dbRoundTrips: null,
  overheadMs: null,
  attempts: 1,
  cancelRequestedAt: null,
  createdAt: startedAt,
  startedAt,
  finishedAt: null,
  eventsExpired: false,
});

const streamHeaders = (c: Ctx, runId: RunId, replayed: boolean) => ({
  "X-Request-Id": c.get("requestId"),
  "Hango-Run-Id": runId,
  ...(replayed ? { "Idempotent-Replayed": "true" } : {}),
});

const open = (c: Ctx, headers: Readonly<Record<string, string>>): EventStream =>
  openEventStream({ signal: c.req.raw.signal, heartbeatMs: c.get("deps").config.sseHeartbeatMs, headers });

/** Runs the turn for a caller who waits for its end, and goes on without them after that. */
const runWaiting = async (c: Ctx, body: Manner, session: LoadedSession, startedAt: string): Promise<Response> => {
  const deps = c.get("deps");
  const answered = new AbortController();
  const run = {
    session,
    startedMs: Date.parse(startedAt),
    detached: AbortSignal.any([answered.signal, c.req.raw.signal]),
  };
  const work = executeRun(deps, { ...run, sink: () => undefined });
  deps.waitUntil(work.catch((error: unknown) => logUnrecorded(deps, session, error)));
  try {
    const ended = await waited(deps, work, body.wait);
    return answerRun(ended ?? runningRecord(session, startedAt), false);
  } catch (error) {
    if (!(error instanceof LeaseLost)) throw error;
    const found = await findRun(deps.db, session.tenantId, session.lease.holder);
    // Erased meanwhile.
    if (found === undefined) throw notFound("session");
    return answerRun(found, false);
  } finally {
    // The answer is on its way: nobody waits here any more.
    answered.abort();
  }
};

const logUnrecorded = (deps: Deps, session: LoadedSession, error: unknown): void =>
  deps.log.error("a run ended unrecorded", {
    run_id: session.lease.holder,
    error: error instanceof Error ? error.name : typeof error,
  });

/** Runs the turn and sends its events as they come; what another Worker goes on with is followed through the store. */
const runStreaming = (c: Ctx, session: LoadedSession, startedAt: string): Response => {
  const deps = c.get("deps");
  const { holder: runId } = session.lease;
  const stream = open(c, streamHeaders(c, runId, false));
  let last = 0;
  const send = (event: RunEvent): void => {
    last = event.n ?? last;
    stream.send(event);
  };
  announce(session, startedAt, send);
  const work = async (): Promise<void> => {
    const run = { session, startedMs: Date.parse(startedAt), detached: stream.gone };
    try {
      await executeRun(deps, { ...run, sink: send });
    } catch (error) {
      logUnrecorded(deps, session, error);
      if (stream.gone.aborted) return;
      const { tenantId, sessionId } = session;
      for await (const event of follow(deps, { tenantId, sessionId, runId, after: last, signal: stream.gone }))
        send(event);
    }
  };
  deps.waitUntil(
    work()
      .catch((error: unknown) => logUnrecorded(deps, session, error))
      .finally(stream.close),
  );
  return stream.response;
};

/** Runs a begun turn, and answers with it. */
export const start = (c: Ctx, body: Manner, session: LoadedSession, startedAt: string): Response | Promise<Response> =>
  wantsStream(c, body) ? runStreaming(c, session, startedAt) : runWaiting(c, body, session, startedAt);

/** What of a request decides how its run is answered. */
type Waiting = Pick<TurnBody, "stream" | "wait" | "background">;

/** Answers with a run that is executed elsewhere: its events from the start, or its end, as long as the caller waits. */
export const answerStored = async (
  c: Ctx,
  body: Waiting,
  { tenantId, runId, replayed }: { readonly tenantId: TenantId; readonly runId: RunId; readonly replayed: boolean },
): Promise<Response> => {
  const deps = c.get("deps");
  const until = deps.now() + (body.background ? 0 : body.wait * 1000);
  let run = await findRun(deps.db, tenantId, runId);
  if (run === undefined) throw notFound("run");
  if (wantsStream(c, body)) return attach(c, { tenantId, sessionId: run.sessionId, runId, after: 0 }, replayed);
  while (!isOver(run.status) && run.status !== "requires_action" && deps.now() < until) {
    await deps.sleep(REPLAY_POLL_MS);
    const found = await findRun(deps.db, tenantId, runId);
    if (found === undefined) throw notFound("session");
    run = found;
  }
  return answerRun(run, replayed);
};

interface Attachment {
  readonly tenantId: TenantId;
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

/** What a caller can do about a run that holds the session, by what it asked for. */
const busyMessage = (onBusy: TurnBody["on_busy"]): string =>
  onBusy === "join"
    ? "The run that holds this session cannot be joined just now: it is at its end, or no turn. Send the turn again, or with `on_busy`: `queue`."
    : "A run holds this session. Wait for it, follow it with GET /v1/runs/{id}/events, or send the turn with `on_busy`: `queue`, `join` or `interrupt`.";

const post = async (c: Ctx, id: string, body: TurnBody): Promise<Response> => {
  const deps = c.get("deps");
  if (body.callback_url !== undefined)
    requireOutboundUrl("callback_url", body.callback_url, deps.config.allowPrivateUrls);
  const request = {
    keyHash: await keyHashOf(deps, c.req.raw.headers),
    session: sessionRefOf(id),
    input: body.input,
    idempotencyKey: idempotencyKeyOf(c.req.raw.headers),
    requestHash: await requestHashOf(c),
    startedAt: new Date(deps.now()).toISOString(),
    onBusy: body.on_busy,
    background: body.background,
    options: {
      ...(body.max_steps === undefined ? {} : { maxSteps: body.max_steps }),
      ...(body.budget === undefined ? {} : { maxUsd: body.budget.max_usd }),
    },
    callbackUrl: body.callback_url ?? null,
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
    case "subagent":
      throw subagentSession();
    case "busy":
      throw new ApiError("session_busy", busyMessage(body.on_busy), {
        runId: outcome.runId,
        retryAfterSeconds: outcome.retryAfterSeconds,
      });
    case "replay":
      if (!outcome.sameRequest) throw idempotencyMismatch();
      return answerStored(c, body, { tenantId: outcome.tenantId, runId: outcome.runId, replayed: true });
    case "queued":
    case "joined":
      return answerStored(c, body, { tenantId: outcome.tenantId, runId: outcome.runId, replayed: false });
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
        202: json(runSchema, "The run waits for its turn, or is still under way after `wait` seconds."),
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
