/** A run as the API shows it. */
import { z } from "@hono/zod-openapi";
import { RawJson, stringifyWith } from "../protocol/json-text.ts";
import type { RunRecord } from "../store/runs.ts";
import { usageJson } from "../turns/usage-json.ts";
import { ApiError, type ErrorCode, errorKinds } from "./errors.ts";

/** The `{id}` of a run in a path. */
export const runParam = z.object({
  id: z
    .string()
    .min(1)
    .max(100)
    .openapi({ param: { name: "id", in: "path" } }),
});

export const runStatus = z.enum(["queued", "running", "requires_action", "completed", "failed", "cancelled"]);

export const runSchema = z
  .object({
    id: z.string(),
    type: z.literal("run"),
    session_id: z.string(),
    status: runStatus,
    trigger: z.enum(["api", "trigger", "maintenance", "subagent"]).openapi({
      description:
        "What started it: a request for a turn, something that a trigger received, work on the session between turns, or a task that a run of the parent gave.",
    }),
    model: z.string(),
    input_seq: z.number().nullable().openapi({ description: "Position of the input in the log." }),
    output_text: z.string().nullable().openapi({ description: "The text of the last answer." }),
    stop_reason: z.string().nullable().openapi({
      description: "Why the turn ended: a stop reason of the Messages API, `max_steps`, or `budget_reached`.",
    }),
    steps: z.number().openapi({ description: "Model calls." }),
    usage: z
      .object({
        input_tokens: z.number(),
        output_tokens: z.number(),
        cache_read_input_tokens: z.number(),
        cache_creation_input_tokens: z.number(),
      })
      .openapi({ description: "Tokens over all calls; the prompt is the sum of the three input counts." }),
    cost_usd: z
      .number()
      .nullable()
      .openapi({ description: "List-price estimate; null for a model without a known price." }),
    error: z.object({ type: z.string(), code: z.string(), message: z.string(), retryable: z.boolean() }).nullable(),
    required_action: z
      .object({
        deadline: z.string().openapi({ description: "When the run fails unless it has its results." }),
        tool_calls: z.array(z.object({ id: z.string(), name: z.string(), input: z.unknown() })),
      })
      .nullable()
      .openapi({
        description:
          "Of a run with the status `requires_action`: the calls that `POST /v1/runs/{id}/tool_results` answers, also those that have a result already; else null.",
      }),
    db_round_trips: z
      .number()
      .nullable()
      .openapi({ description: "HTTP requests to the database that the turn took, authentication included." }),
    overhead_ms: z.number().nullable().openapi({
      description:
        "Time from the request's arrival to its last write that was not spent waiting for the provider; tools included.",
    }),
    attempts: z.number().openapi({ description: "Starts: more than one where a Worker died in the middle." }),
    cancel_requested_at: z.string().nullable(),
    created_at: z.string(),
    started_at: z.string().nullable().openapi({ description: "Null while it is queued." }),
    finished_at: z.string().nullable(),
  })
  .openapi("Run");

type RunJson = z.infer<typeof runSchema>;

/** What a run is shown as; to be made into text by `stringifyWith`, since the input of calls is put in as it was written (V9). */
export const showRun = (
  run: RunRecord,
): Omit<RunJson, "required_action"> & { readonly required_action: RawJson | null } => ({
  id: run.id,
  type: "run",
  session_id: run.sessionId,
  status: run.status,
  trigger: run.trigger,
  model: run.model,
  input_seq: run.inputSeq,
  output_text: run.outputText,
  stop_reason: run.stopReason,
  steps: run.steps,
  usage: usageJson(run.usage),
  cost_usd: run.costUsd,
  error: run.error,
  required_action: run.requiredAction === null ? null : new RawJson(run.requiredAction),
  db_round_trips: run.dbRoundTrips,
  overhead_ms: run.overheadMs,
  attempts: run.attempts,
  cancel_requested_at: run.cancelRequestedAt,
  created_at: run.createdAt,
  started_at: run.startedAt,
  finished_at: run.finishedAt,
});

export const JSON_TYPE = { "Content-Type": "application/json" } as const;

/** A run as the body of an answer. @param more further members */
export const runJson = (run: RunRecord, more: Readonly<Record<string, unknown>> = {}): string =>
  stringifyWith({ ...showRun(run), ...more });

const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(errorKinds, code);

/** An error as a run records it, for the caller, with the id under which the run can be read. */
export const errorOfRun = (
  { code, message }: Pick<NonNullable<RunRecord["error"]>, "code" | "message">,
  runId: string,
  headers: Readonly<Record<string, string>> = {},
): ApiError => new ApiError(isErrorCode(code) ? code : "internal", message, { runId, headers });

/** The error that a failed run is answered with: the run's own. */
export const runFailure = (run: RunRecord, headers: Readonly<Record<string, string>>): ApiError =>
  errorOfRun(run.error ?? { code: "internal", message: "The run failed." }, run.id, headers);
