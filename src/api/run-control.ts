/** What a caller does to a run under way: cancel it, or send the results of the tools that the caller runs. */
import { z } from "@hono/zod-openapi";
import type { RunId } from "../protocol/ids.ts";
import { cancelRun } from "../store/cancel.ts";
import type { StoredAnswer } from "../store/loaded-session.ts";
import { type AnswerOutcome, answerCalls } from "../store/pause.ts";
import type { Deps } from "../turns/deps.ts";
import { type RunOf, sendForNext } from "../turns/next-run.ts";
import { sendDeliveries } from "../turns/send-deliveries.ts";
import { tenantOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, invalid, notFound } from "./errors.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { JSON_TYPE, runJson, runParam, runSchema } from "./run-json.ts";
import { answerStored, waitSeconds } from "./turns.ts";

/** Longest text of one result: as much as an HTTP tool may answer. */
const MAX_RESULT_CHARS = 1_048_576;

const resultText = z.string().max(MAX_RESULT_CHARS);
const imageType = z.enum(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const base64 = z.string().regex(/^[A-Za-z0-9+/]+={0,2}$/, "expected base64 without line breaks");

/** The blocks of a result that the Messages API takes back. */
const resultBlock = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text"), text: resultText }),
  z.strictObject({
    type: z.literal("image"),
    source: z.strictObject({ type: z.literal("base64"), media_type: imageType, data: base64 }),
  }),
  z.strictObject({
    type: z.literal("document"),
    source: z.strictObject({ type: z.literal("base64"), media_type: z.literal("application/pdf"), data: base64 }),
  }),
]);

const resultsBody = z
  .strictObject({
    tool_results: z
      .array(
        z.strictObject({
          tool_use_id: z.string().min(1).max(200).openapi({ description: "Id of the call that this answers." }),
          content: z.union([resultText, z.array(resultBlock).max(100)]).openapi({
            description: "Text, or content blocks as a `tool_result` of the Messages API has them.",
          }),
          is_error: z.boolean().default(false),
        }),
      )
      .min(1)
      .max(200),
    stream: z.boolean().default(false).openapi({ description: "Answer with the run's events, from its start." }),
    wait: waitSeconds,
  })
  .openapi("ToolResults", {
    example: { tool_results: [{ tool_use_id: "toolu_01A", content: "42 rows", is_error: false }] },
  });

type ResultsBody = z.infer<typeof resultsBody>;

const answersOf = ({ tool_results: given }: ResultsBody): ReadonlyMap<string, StoredAnswer> => {
  const answers = new Map<string, StoredAnswer>();
  given.forEach(({ tool_use_id: id, content, is_error: isError }, index) => {
    if (answers.has(id)) throw invalid(`tool_results[${index}].tool_use_id`, "is answered twice");
    answers.set(id, { content: JSON.stringify(content), isError });
  });
  return answers;
};

const refusal = (outcome: Exclude<AnswerOutcome, { kind: "accepted" }>): ApiError => {
  switch (outcome.kind) {
    case "not_found":
      return notFound("run");
    case "not_waiting":
      return new ApiError("run_not_waiting", `The run is ${outcome.run.status} and waits for no tool results.`, {
        runId: outcome.run.id,
      });
    case "overdue":
      return new ApiError("run_not_waiting", "The deadline for the run's tool results is over.", {
        runId: outcome.run.id,
      });
    case "unknown_calls":
      return invalid(
        "tool_results",
        `the run made no call ${outcome.unknown.join(", ")}; its open calls are ${outcome.open.join(", ")}`,
      );
    default:
      return outcome satisfies never;
  }
};

/**
 * What was asked for is stored: a message that is lost is sent again by the sweeper, and is no reason to refuse.
 * @returns whether the queue took the message
 */
const sendFor = async (deps: Deps, { tenantId, sessionId, id }: RunOf & { readonly id: RunId }): Promise<boolean> => {
  try {
    await sendForNext(deps, { tenantId, sessionId }, id);
    return true;
  } catch {
    deps.log.warn("a run is left to the sweeper", { run_id: id });
    return false;
  }
};

const answer = async (c: Ctx, id: string, body: ResultsBody): Promise<Response> => {
  const deps = c.get("deps");
  const tenantId = tenantOf(c);
  const runId = id as RunId;
  const outcome = await answerCalls(deps.db, tenantId, runId, answersOf(body));
  if (outcome.kind !== "accepted") throw refusal(outcome);
  if (outcome.missing.length > 0)
    return c.body(runJson(outcome.run, { missing_tool_results: outcome.missing }), 202, JSON_TYPE);
  const sent = outcome.run.status !== "running" || (await sendFor(deps, { tenantId, ...outcome.run }));
  // Nothing is worth waiting for that only the sweeper's next minute begins.
  return answerStored(c, { ...body, background: !sent }, { tenantId, runId, replayed: false });
};

const cancel = async (c: Ctx, id: string): Promise<Response> => {
  const deps = c.get("deps");
  const cancelled = await cancelRun(deps.db, tenantOf(c), id);
  if (cancelled === undefined) throw notFound("run");
  const { run, tenantId, needsWorker, deliveries } = cancelled;
  sendDeliveries(deps, tenantId, deliveries);
  if (needsWorker) await sendFor(deps, { tenantId, ...run });
  return c.body(runJson(run), needsWorker ? 202 : 200, JSON_TYPE);
};

export const registerRunControl = (app: App): void => {
  operation(
    app,
    {
      method: "post",
      path: "/v1/runs/{id}/cancel",
      tags: ["runs"],
      operationId: "cancelRun",
      summary: "Cancel a run",
      description:
        "Stops the run for good: its model call and its tools within 2 s, wherever it is executed. What was stored stays. A queued run never starts; " +
        "a run that has ended stays as it is. A new message is no cancel.",
      access: { tenant: "write" },
      request: { params: runParam },
      responses: {
        200: json(runSchema, "The run has ended: cancelled, or as it ended before."),
        202: json(runSchema, "The cancel is noted; the run ends soon."),
      },
    },
    (c) => cancel(c, c.req.valid("param").id),
  );

  operation(
    app,
    {
      method: "post",
      path: "/v1/runs/{id}/tool_results",
      tags: ["runs"],
      operationId: "answerToolCalls",
      summary: "Send the results of the caller's tools",
      description:
        "For a run with the status `requires_action`. Its calls stand in `required_action` of the run with the deadline, and in the event and the " +
        "webhook `run.requires_action`. Results may come one by one; the run goes on when the last one is there. The first result of a call " +
        "counts, so a request may be repeated.",
      access: { tenant: "write" },
      request: { params: runParam, body: jsonBody(resultsBody) },
      responses: {
        200: {
          ...json(runSchema, "The run at its end, or where it waits again; with `stream` its events."),
          content: { "application/json": { schema: runSchema }, "text/event-stream": { schema: z.string() } },
        },
        202: json(
          runSchema.extend({ missing_tool_results: z.array(z.string()).optional() }),
          "Results are missing still, or the run is under way after `wait` seconds.",
        ),
      },
    },
    (c) => answer(c, c.req.valid("param").id, c.req.valid("json")),
  );
};
