/** How a provider's error, or whatever the SDK threw, becomes a typed failure. */

import * as anthropic from "@anthropic-ai/sdk";
import * as openai from "openai/error";
import { isRecord } from "../protocol/is-record.ts";
import type { AbortedBy } from "./call-watch.ts";
import { CallAborted, ContextOverflowError, type FailureKind, ModelError } from "./errors.ts";
import { readOverflow } from "./overflow.ts";

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
/** A chat template that gave up on the order of the messages, as vLLM, llama.cpp and others pass it on, mostly as a 500 (R8). */
const TEMPLATE =
  /roles must alternate|alternate user\/assistant|jinja.{0,20}exception|raise_exception|tool call ids should be/i;
/** An error text is a sentence or two; what follows may be an echo of the prompt. */
const MAX_TEMPLATE_TEXT_CHARS = 4_000;
const SIGNATURE = /invalid .?signature.? in .?thinking|thinking.? blocks?.{0,80}cannot be modified/i;

/** Whether an error's text speaks of missing credit or a spending limit, which no retry mends. */
export const isBillingText = (text: string): boolean => BILLING.test(text);

/** Whether a server's chat template refused the messages: the same request would be refused again, whatever the status says (R8). */
export const isTemplateText = (text: string): boolean => TEMPLATE.test(text.slice(0, MAX_TEMPLATE_TEXT_CHARS));

/** What helps where a template wants strictly alternating roles. */
const TEMPLATE_HINT = "the model's chat template refused the messages; set `context.strict_alternation`";

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
    case "server_error":
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
  if ((rejected || status >= 500) && isTemplateText(words))
    return new ModelError({ kind: "invalid_request" }, { ...source, detail: `${TEMPLATE_HINT}: ${message}` });
  const mayBeBilling = rejected || status === 403 || status === 429;
  if (mayBeBilling && isBillingText(words)) return new ModelError({ kind: "quota" }, source);

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
  readonly abortedBy?: AbortedBy;
  /** Whether an answer had begun. */
  readonly began: boolean;
  readonly nowMs: number;
  /** The provider's id of the request, from the answer's headers. */
  readonly requestId?: string;
}

/** What both SDKs tell of a rejected call. */
interface SdkError {
  readonly status: number | undefined;
  readonly type: string | null | undefined;
  readonly requestID: string | null | undefined;
  readonly headers: Headers | undefined;
  /** The body, or what of it the SDK calls the error. */
  readonly error: unknown;
  readonly message: string;
  readonly apiMessage?: unknown;
}

/** The object that says what went wrong: Anthropic's SDK keeps the body, OpenAI's the `error` in it. */
const detailOf = (body: unknown): Readonly<Record<string, unknown>> | undefined => {
  if (!isRecord(body)) return undefined;
  return isRecord(body.error) ? body.error : body;
};

const textOf = (error: SdkError): string => {
  if (typeof error.apiMessage === "string") return error.apiMessage;
  if (typeof error.error === "string") return error.error;
  const message = detailOf(error.error)?.message;
  if (typeof message === "string" && message !== "") return message;
  return error.error === undefined || error.error === null ? error.message : JSON.stringify(error.error);
};

/** Servers without an HTTP status to give, in a stream, put it into `code`. */
const statusIn = (code: unknown): number | undefined => {
  const status = Number(code);
  return Number.isInteger(status) && status >= 400 && status < 600 ? status : undefined;
};

const fromSdkError = (error: SdkError, state: CallState): ModelError => {
  const requestId = error.requestID ?? state.requestId;
  const code = detailOf(error.error)?.code;
  const status = error.status ?? statusIn(code);
  const retryAfterMs = error.headers ? readRetryAfterMs(error.headers, state.nowMs) : undefined;
  return fromProviderError({
    ...(status === undefined ? {} : { status }),
    ...(typeof error.type === "string" ? { type: error.type } : {}),
    ...(typeof code === "string" ? { code } : {}),
    message: textOf(error),
    ...(requestId === undefined ? {} : { requestId }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
};

const isUserAbort = (error: unknown): boolean =>
  error instanceof anthropic.APIUserAbortError || error instanceof openai.APIUserAbortError;
const isConnectionTimeout = (error: unknown): boolean =>
  error instanceof anthropic.APIConnectionTimeoutError || error instanceof openai.APIConnectionTimeoutError;
const isConnectionError = (error: unknown): boolean =>
  error instanceof anthropic.APIConnectionError || error instanceof openai.APIConnectionError;
const isSdkError = (error: unknown): error is anthropic.AnthropicError | openai.OpenAIError =>
  error instanceof anthropic.AnthropicError || error instanceof openai.OpenAIError;

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
  if (isUserAbort(error)) return new CallAborted();
  if (isConnectionTimeout(error)) return new ModelError({ kind: "timeout", what: "provider" }, source);
  if (isConnectionError(error)) return new ModelError({ kind: "network" }, source);
  if (error instanceof anthropic.APIError || error instanceof openai.APIError) return fromSdkError(error, state);
  // Everything else that breaks while an answer is read: a closed connection, an event that is no JSON. With a cause the
  // message may quote the answer; without one it is the SDK's own words.
  const detail = isSdkError(error) && error.cause === undefined ? { detail: error.message } : {};
  return new ModelError({ kind: state.began ? "stream_cut" : "network" }, { ...source, ...detail });
};
