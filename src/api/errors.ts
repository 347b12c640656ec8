/** Every error that a caller can get: one closed list, from which `docs/errors.md` is generated. */

export type ErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "billing_error"
  | "permission_error"
  | "not_found_error"
  | "conflict_error"
  | "request_too_large"
  | "rate_limit_error"
  | "overloaded_error"
  | "timeout_error"
  | "api_error";

export interface ErrorKind {
  readonly status: 400 | 401 | 402 | 403 | 404 | 405 | 409 | 412 | 413 | 415 | 416 | 422 | 429 | 500 | 502 | 503 | 504;
  readonly type: ErrorType;
  /** Whether the same request, sent again later, may succeed. */
  readonly retryable: boolean;
  /** For the documentation: when it happens and what to do. */
  readonly description: string;
}

/** By code. The order is the order of the documentation. */
export const errorKinds = {
  invalid_request: {
    status: 400,
    type: "invalid_request_error",
    retryable: false,
    description: "The request breaks a rule; `param` is the place in it and the message says what was expected.",
  },
  unauthenticated: {
    status: 401,
    type: "authentication_error",
    retryable: false,
    description: "There is no key, or it is unknown, revoked or expired. Send `Authorization: Bearer hango_...`.",
  },
  webhook_unverified: {
    status: 401,
    type: "authentication_error",
    retryable: false,
    description:
      "What was posted to a trigger's address is not its sender's, or is too old. The reason stands in the trigger's deliveries.",
  },
  budget_reached: {
    status: 402,
    type: "billing_error",
    retryable: false,
    description:
      "What the session has cost, by list prices, has reached its `budget`, or the turn's own leaves room for no model call. Raise it, or take it away.",
  },
  forbidden: {
    status: 403,
    type: "permission_error",
    retryable: false,
    description: "The key may not do this; the message names the scope or the kind of key that may.",
  },
  tenant_suspended: {
    status: 403,
    type: "permission_error",
    retryable: false,
    description: "The tenant that the key belongs to is suspended.",
  },
  read_only_path: {
    status: 403,
    type: "permission_error",
    retryable: false,
    description: "The file belongs to hango (offloaded history and results): it can be read but not written.",
  },
  not_found: {
    status: 404,
    type: "not_found_error",
    retryable: false,
    description: "There is nothing of that name, or it is another tenant's.",
  },
  method_not_allowed: {
    status: 405,
    type: "invalid_request_error",
    retryable: false,
    description: "The path exists, the method does not. `Allow` lists those that do.",
  },
  session_busy: {
    status: 409,
    type: "conflict_error",
    retryable: true,
    description: "A run holds the session. `run_id` names it, `Retry-After` says when to come back.",
  },
  subagent_session: {
    status: 409,
    type: "conflict_error",
    retryable: false,
    description:
      "The session is a subagent's. It can be read; its one turn is the task that its parent gave it, and it goes with its parent.",
  },
  run_not_waiting: {
    status: 409,
    type: "conflict_error",
    retryable: false,
    description: "Tool results were sent to a run that waits for none, or no longer. `run_id` names it.",
  },
  idempotency_mismatch: {
    status: 409,
    type: "conflict_error",
    retryable: false,
    description: "The `Idempotency-Key` was used in the last 24 hours for another request. Take a new key.",
  },
  key_conflict: {
    status: 409,
    type: "conflict_error",
    retryable: false,
    description: "A session with this `key` exists and was created with other settings.",
  },
  import_not_allowed: {
    status: 409,
    type: "conflict_error",
    retryable: false,
    description: "The session has had a turn; a transcript can only be imported before the first one.",
  },
  nothing_to_undo: {
    status: 409,
    type: "conflict_error",
    retryable: false,
    description: "The session has no turn that could be undone or run again.",
  },
  precondition_failed: {
    status: 412,
    type: "conflict_error",
    retryable: false,
    description: "The file is not in the state that `If-Match` or `If-None-Match` asks for. Read it again.",
  },
  payload_too_large: {
    status: 413,
    type: "request_too_large",
    retryable: false,
    description: "The body is larger than 4 MB (a file: 25 MB; what is posted to a trigger: 1 MB).",
  },
  unsupported_media_type: {
    status: 415,
    type: "invalid_request_error",
    retryable: false,
    description: "The body is of another content type than the operation takes; mostly `application/json` is missing.",
  },
  range_not_satisfiable: {
    status: 416,
    type: "invalid_request_error",
    retryable: false,
    description: "The `Range` lies outside the file. `Content-Range` states its size.",
  },
  context_cannot_fit: {
    status: 422,
    type: "invalid_request_error",
    retryable: false,
    description: "Even the smallest possible request does not fit the model's context window.",
  },
  rate_limited: {
    status: 429,
    type: "rate_limit_error",
    retryable: true,
    description: "The key sends, or the trigger gets, too many requests. `Retry-After` says when to come back.",
  },
  internal: {
    status: 500,
    type: "api_error",
    retryable: false,
    description: "A fault of hango. Quote the `request_id` when you report it.",
  },
  run_interrupted: {
    status: 500,
    type: "api_error",
    retryable: true,
    description: "The run stopped before it was finished, mostly because its machine did. The log is intact.",
  },
  provider_error: {
    status: 502,
    type: "api_error",
    retryable: true,
    description: "The model provider failed or could not be reached.",
  },
  provider_rejected: {
    status: 502,
    type: "api_error",
    retryable: false,
    description: "The model provider refuses the request, the model's name, or the deployment's account.",
  },
  provider_rate_limited: {
    status: 503,
    type: "overloaded_error",
    retryable: true,
    description: "The model provider's rate limit is reached. `Retry-After`, where present, is the provider's.",
  },
  provider_overloaded: {
    status: 503,
    type: "overloaded_error",
    retryable: true,
    description: "The model provider has no capacity at the moment.",
  },
  unavailable: {
    status: 503,
    type: "api_error",
    retryable: true,
    description: "The database or the file storage cannot be reached at the moment.",
  },
  timeout: {
    status: 504,
    type: "timeout_error",
    retryable: true,
    description: "The time allowed for a turn, or for the model provider's answer, is over.",
  },
  tool_results_overdue: {
    status: 504,
    type: "timeout_error",
    retryable: false,
    description: "The run waited for the results of tools that its caller runs until the deadline, and failed.",
  },
} as const satisfies Readonly<Record<string, ErrorKind>>;

export type ErrorCode = keyof typeof errorKinds;

export const errorCodes = Object.keys(errorKinds) as readonly ErrorCode[];

export interface ErrorDetails {
  /** Where in the request: a JSON path, a parameter or a header. */
  readonly param?: string;
  /** The run that holds the session. */
  readonly runId?: string;
  readonly retryAfterSeconds?: number;
  /** Further headers of the answer. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** An error for the caller. Its message is shown: it names no internals and no other tenant's data. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.details = details;
  }
}

/** The JSON that an error is answered with, also inside an event stream. */
export interface ErrorBody {
  readonly type: "error";
  readonly error: {
    readonly type: ErrorType;
    readonly message: string;
    readonly code: ErrorCode;
    readonly param?: string;
    readonly run_id?: string;
    readonly retryable: boolean;
  };
  readonly request_id: string;
}

/** The envelope of an error. */
export const errorBody = (error: ApiError, requestId: string): ErrorBody => {
  const { type, retryable } = errorKinds[error.code];
  const { param, runId } = error.details;
  return {
    type: "error",
    error: {
      type,
      message: error.message,
      code: error.code,
      ...(param === undefined ? {} : { param }),
      ...(runId === undefined ? {} : { run_id: runId }),
      retryable,
    },
    request_id: requestId,
  };
};

/** The same for whoever asks: whether a thing of another tenant exists is not told. */
export const notFound = (what: string): ApiError => new ApiError("not_found", `There is no such ${what}.`);

/** What only a session that callers talk to can be asked. */
export const subagentSession = (): ApiError =>
  new ApiError(
    "subagent_session",
    "This session is a subagent's: it can be read, and goes with its parent. Send turns and changes to the parent.",
  );

export const invalid = (param: string, message: string): ApiError =>
  new ApiError("invalid_request", `${param}: ${message}`, { param });
