/** Errors as the Messages API words them: a status, a type, and a message that names the path of what is wrong. */

/** Error types by HTTP status, as the API documents them. */
const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  504: "timeout_error",
  529: "overloaded_error",
};

/** The `error.type` that goes with a status; other 4xx and 5xx fall to the nearest general one. */
export const errorType = (status: number): string =>
  TYPES[status] ?? (status >= 500 ? "api_error" : "invalid_request_error");

/** A request that is answered with an error. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly type: string;
  /** Further members of the error in the answer of a chat completions server. */
  readonly more: Readonly<Record<string, unknown>>;

  constructor(
    status: number,
    message: string,
    type: string = errorType(status),
    more: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
    this.status = status;
    this.type = type;
    this.more = more;
  }
}

/** A 400 whose message begins with the path, `messages.3.content.0.text: ...`. */
export const invalid = (path: string, message: string): ApiError => new ApiError(400, `${path}: ${message}`);

/** The JSON of an error, as a body and as the data of an `error` event. */
export const errorBody = (type: string, message: string, requestId: string) => ({
  type: "error",
  error: { type, message },
  request_id: requestId,
});

/** The JSON of an error of a chat completions server. */
export const chatErrorBody = ({ message, type, more }: ApiError) => ({
  error: { message, type, param: null, code: null, ...more },
});
