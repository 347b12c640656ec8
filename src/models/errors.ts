/** Every way a model call can fail. */

import type { Usage } from "../protocol/messages.ts";
import { redact } from "../protocol/redact.ts";
import type { Overflow } from "./overflow.ts";

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
  // Whole, before it is cut: a provider may quote the prompt, and half a secret is not recognised (S6).
  const line = redact(detail).text.replace(/\s+/g, " ").replace(CREDENTIALS, "[redacted]").trim();
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

/** A call that was answered and paid for, though its answer is none. */
export interface PaidCall {
  readonly model: string;
  readonly usage: Usage;
}

/** The request does not fit the model's window, proven by the provider (context.md section 8). */
export class ContextOverflowError extends ModelError {
  /** The most that fits, in tokens, where the provider said so. */
  readonly statedLimit: number | undefined;
  /** What was sent, in tokens, where the provider said so. */
  readonly statedSize: number | undefined;
  /** Where the provider began to answer and broke off for want of room; null where it refused the request. */
  readonly paid: PaidCall | null;

  constructor(overflow: Overflow = {}, source: FailureSource = {}, paid: PaidCall | null = null) {
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
    this.paid = paid;
  }
}

/** The caller aborted the call through its signal. */
export class CallAborted extends ModelError {
  constructor() {
    super({ kind: "aborted" });
    this.name = "CallAborted";
  }
}
