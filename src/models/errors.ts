/** Every way a model call can fail, and how a provider's error becomes one of them. */
import {
  AnthropicError,
  APIConnectionError,
  APIConnectionTimeoutError,
  APIError,
  APIUserAbortError,
} from "@anthropic-ai/sdk";
import { type Overflow, readOverflow } from "./overflow.ts";

/** What went wrong. A closed list: code that handles it switches over all of `kind`. */
export type Failure =
  /** The prompt, or prompt and answer, do not fit the window (context.md section 8). Tokens, where the provider stated them. */
  | { readonly kind: "context_overflow"; readonly statedLimit?: number; readonly statedSize?: number }
  /** Too many requests or tokens in a span of time. */
  | { readonly kind: "rate_limited"; readonly retryAfterMs?: number }
  /** The provider has no capacity at the moment. */
  | { readonly kind: "overloaded" }
  /** The key is missing, wrong or revoked. */
  | { readonly kind: "authentication" }
  /** The key may not do this. */
  | { readonly kind: "permission" }
  /** No credit, or a spending limit is reached. */
  | { readonly kind: "quota" }
  /** No such model or route. */
  | { readonly kind: "not_found" }
  /** The request breaks a rule of the API; sending it again unchanged cannot help. */
  | { readonly kind: "invalid_request" }
  /** A thinking block no longer belongs to what stands before it (V5). */
  | { readonly kind: "invalid_thinking_signature" }
  /** The body is over the 32 MB that the API takes; found before sending. Bytes. */
  | { readonly kind: "too_large"; readonly sizeBytes: number; readonly limitBytes: number }
  /** The provider could not be reached, or the connection broke before an answer began. */
  | { readonly kind: "network" }
  /** Nothing arrived for too long, or the turn's deadline passed. */
  | { readonly kind: "timeout"; readonly what: "idle" | "deadline" | "provider" }
  /** The stream ended without its end, or held what is no event. */
  | { readonly kind: "stream_cut" }
  /** Any other failure on the provider's side. */
  | { readonly kind: "server" }
  /** The caller aborted the call. */
  | { readonly kind: "aborted" };

export type FailureKind = Failure["kind"];

/** Where a failure was seen. */
export interface FailureSource {
  /** HTTP status; absent for an error inside a stream or without an answer. */
  readonly status?: number;
  /** The provider's own id of the request, for its support. */
  readonly requestId?: string;
  /** The provider's words, where they say more than the kind does. Cut and redacted before they are kept. */
  readonly detail?: string;
}

/** Whether the same request, sent again later, may succeed. */
const RETRYABLE: Readonly<Record<FailureKind, boolean>> = {
  context_overflow: false,
  rate_limited: true,
  overloaded: true,
  authentication: false,
  permission: false,
  quota: false,
  not_found: false,
  invalid_request: false,
  invalid_thinking_signature: false,
  too_large: false,
  network: true,
  timeout: true,
  stream_cut: true,
  server: true,
  aborted: false,
};

const WORDS: Readonly<Record<FailureKind, string>> = {
  context_overflow: "the request does not fit the model's context window",
  rate_limited: "the provider's rate limit is reached",
  overloaded: "the provider is overloaded",
  authentication: "the provider refused the API key",
  permission: "the provider does not allow this key to do that",
  quota: "the provider reports no credit or a spending limit",
  not_found: "the provider does not know this model or route",
  invalid_request: "the provider rejected the request",
  invalid_thinking_signature: "the provider rejected a thinking block's signature",
  too_large: "the request body is larger than the provider takes",
  network: "the provider could not be reached",
  timeout: "the provider did not answer in time",
  stream_cut: "the provider's answer broke off",
  server: "the provider failed",
  aborted: "the model call was aborted",
};

/** Longest part of a provider's words that is kept, in characters. */
const MAX_DETAIL_CHARS = 300;

/** Keys as providers write and echo them; nothing of the kind may reach a log or a caller. */
const CREDENTIALS = /\b(?:sk|pk|rk|key|gsk|xai)-[\w*.-]{4,}|\bBearer\s+\S+|\bAIza[\w-]{10,}/gi;

const safe = (detail: string): string => {
  const line = detail.replace(/\s+/g, " ").replace(CREDENTIALS, "[redacted]").trim();
  return line.length > MAX_DETAIL_CHARS ? `${line.slice(0, MAX_DETAIL_CHARS).toWellFormed()}...` : line;
};

/**
 * A failed model call. The message holds neither headers nor keys, and a provider's words only for `invalid_request`,
 * `not_found`, `server` and `stream_cut`, shortened and redacted.
 */
export class ModelError extends Error {
  readonly failure: Failure;
  readonly status: number | undefined;
  readonly requestId: string | undefined;

  constructor(failure: Failure, source: FailureSource = {}) {
    super(source.detail ? `${WORDS[failure.kind]}: ${safe(source.detail)}` : WORDS[failure.kind]);
    this.name = "ModelError";
    this.failure = failure;
    this.status = source.status;
    this.requestId = source.requestId;
  }

  get kind(): FailureKind {
    return this.failure.kind;
  }

  /** Whether the same request, sent again later, may succeed. */
  get retryable(): boolean {
    return RETRYABLE[this.failure.kind];
  }
}

/** The request does not fit the model's window, proven by the provider (context.md section 8). */
export class ContextOverflowError extends ModelError {
  /** The most that fits, in tokens, where the provider said so. */
  readonly statedLimit: number | undefined;
  /** What was sent, in tokens, where the provider said so. */
  readonly statedSize: number | undefined;

  constructor(overflow: Overflow = {}, source: FailureSource = {}) {
    super(
      {
        kind: "context_overflow",
        ...(overflow.limit === undefined ? {} : { statedLimit: overflow.limit }),
        ...(overflow.size === undefined ? {} : { statedSize: overflow.size }),
      },
      source,
    );
    this.name = "ContextOverflowError";
    this.statedLimit = overflow.limit;
    this.statedSize = overflow.size;
  }
}

/** The caller aborted the call through its signal. */
export class CallAborted extends ModelError {
  constructor() {
    super({ kind: "aborted" });
    this.name = "CallAborted";
  }
}

/** An error as a provider states it, whatever transported it. */
export interface ProviderError {
  readonly status?: number;
  /** The Messages API's `error.type`; all that an error inside a stream has. */
  readonly type?: string;
  /** A code beside the type, as chat-completions servers send it (`context_length_exceeded`). */
  readonly code?: string;
  readonly message: string;
  readonly requestId?: string;
  readonly retryAfterMs?: number;
}

const BILLING = /credit balance|insufficient_quota|exceeded your current quota|spend(?:ing)? limit|billing/i;
const SIGNATURE = /invalid .?signature.? in .?thinking|thinking.? blocks?.{0,80}cannot be modified/i;

const byType = (type: string | undefined): FailureKind | undefined => {
  switch (type) {
    case "rate_limit_error":
      return "rate_limited";
    case "overloaded_error":
      return "overloaded";
    case "authentication_error":
      return "authentication";
    case "permission_error":
      return "permission";
    case "billing_error":
      return "quota";
    case "not_found_error":
      return "not_found";
    case "invalid_request_error":
      return "invalid_request";
    case "timeout_error":
      return "timeout";
    case "api_error":
      return "server";
    default:
      return undefined;
  }
};

const byStatus = (status: number): FailureKind => {
  switch (status) {
    case 401:
      return "authentication";
    case 402:
      return "quota";
    case 403:
      return "permission";
    case 404:
      return "not_found";
    case 408:
    case 504:
      return "timeout";
    case 429:
      return "rate_limited";
    case 503:
    case 529:
      return "overloaded";
    default:
      return status >= 400 && status < 500 && status !== 409 ? "invalid_request" : "server";
  }
};

/**
 * The typed failure behind a provider's error. Overflow texts and signatures are looked for first, since they hide behind
 * general types; then the status decides, and the type where there is none (an error inside a stream) or where a 400 or
 * 500 carries a more exact one.
 */
export const fromProviderError = (error: ProviderError): ModelError => {
  const { status, type, message } = error;
  const source = {
    ...(status === undefined ? {} : { status }),
    ...(error.requestId === undefined ? {} : { requestId: error.requestId }),
  };
  const words = error.code === undefined ? message : `${message} ${error.code}`;
  const overflow = readOverflow(type === "request_too_large" ? 413 : status, words);
  if (overflow) return new ContextOverflowError(overflow, source);
  const rejected = status === undefined || status === 400 || status === 422;
  if (rejected && SIGNATURE.test(message)) return new ModelError({ kind: "invalid_thinking_signature" }, source);
  const mayBeBilling = rejected || status === 403 || status === 429;
  if (mayBeBilling && BILLING.test(words)) return new ModelError({ kind: "quota" }, source);

  const typed = byType(type);
  const exact = status === undefined || status === 400 || status >= 500 ? typed : undefined;
  const kind = exact ?? (status === undefined ? "server" : byStatus(status));
  switch (kind) {
    case "rate_limited":
      return new ModelError(
        { kind, ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }) },
        source,
      );
    case "timeout":
      return new ModelError({ kind, what: "provider" }, source);
    case "invalid_request":
    case "not_found":
    case "server":
      return new ModelError({ kind }, { ...source, detail: message });
    case "context_overflow":
      return new ContextOverflowError({}, source);
    case "too_large":
    case "aborted":
      return new ModelError({ kind: "server" }, source);
    case "overloaded":
    case "authentication":
    case "permission":
    case "quota":
    case "invalid_thinking_signature":
    case "network":
    case "stream_cut":
      return new ModelError({ kind }, source);
    default: {
      const unhandled: never = kind;
      return unhandled;
    }
  }
};

/**
 * The wait that an answer's headers ask for: `retry-after-ms`, or `retry-after` in seconds or as a date.
 * @returns ms from now, at least 0; undefined when nothing readable stands there
 */
export const readRetryAfterMs = (headers: Headers, nowMs: number): number | undefined => {
  const ms = headers.get("retry-after-ms");
  if (ms !== null && Number.isFinite(Number.parseFloat(ms))) return Math.max(0, Number.parseFloat(ms));
  const value = headers.get("retry-after");
  if (value === null) return undefined;
  const seconds = Number(value);
  if (value.trim() !== "" && Number.isFinite(seconds)) return Math.max(0, seconds * 1_000);
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs);
};

/** What a call knew when it failed, for the cases where the SDK's error alone does not tell. */
export interface CallState {
  /** Why the call was aborted from our side, if it was. */
  readonly abortedBy?: "caller" | "idle" | "deadline";
  /** Whether an answer had begun. */
  readonly began: boolean;
  readonly nowMs: number;
  /** The provider's id of the request, from the answer's headers. */
  readonly requestId?: string;
}

const textOf = (error: APIError): string => {
  if (typeof error.apiMessage === "string") return error.apiMessage;
  if (typeof error.error === "string") return error.error;
  return error.error === undefined ? error.message : JSON.stringify(error.error);
};

const codeOf = (body: unknown): string | undefined => {
  if (typeof body !== "object" || body === null || !("error" in body)) return undefined;
  const { error } = body;
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
};

/**
 * The typed failure behind whatever the SDK threw.
 * @param error as caught; a `ModelError` passes through. It is never kept as a cause: it holds headers and the answer's text
 */
export const toModelError = (error: unknown, state: CallState): ModelError => {
  const source = state.requestId === undefined ? {} : { requestId: state.requestId };
  if (error instanceof ModelError) return error;
  // Our own abort reaches us as APIUserAbortError or as a broken connection, whichever the SDK noticed first.
  switch (state.abortedBy) {
    case "caller":
      return new CallAborted();
    case "idle":
    case "deadline":
      return new ModelError({ kind: "timeout", what: state.abortedBy }, source);
    case undefined:
      break;
    default: {
      const unhandled: never = state.abortedBy;
      return unhandled;
    }
  }
  if (error instanceof APIUserAbortError) return new CallAborted();
  if (error instanceof APIConnectionTimeoutError) return new ModelError({ kind: "timeout", what: "provider" }, source);
  if (error instanceof APIConnectionError) return new ModelError({ kind: "network" }, source);
  if (error instanceof APIError) {
    const requestId = error.requestID ?? state.requestId;
    const code = codeOf(error.error);
    const retryAfterMs = error.headers ? readRetryAfterMs(error.headers, state.nowMs) : undefined;
    return fromProviderError({
      ...(error.status === undefined ? {} : { status: error.status }),
      ...(error.type === null ? {} : { type: error.type }),
      ...(code === undefined ? {} : { code }),
      message: textOf(error),
      ...(requestId === undefined || requestId === null ? {} : { requestId }),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    });
  }
  // Everything else that breaks while an answer is read: a closed connection, an event that is no JSON. With a cause the
  // message may quote the answer; without one it is the SDK's own words.
  const detail = error instanceof AnthropicError && error.cause === undefined ? { detail: error.message } : {};
  return new ModelError({ kind: state.began ? "stream_cut" : "network" }, { ...source, ...detail });
};
