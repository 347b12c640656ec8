/** What went wrong with a run, in the words of the API's closed list of errors. */
import { BudgetReached } from "../agent/loop.ts";
import { CompactionAborted, ContextCannotFit, InvalidView } from "../context/compact.ts";
import { BucketUnavailable } from "../files/bucket-error.ts";
import { type FailureKind, ModelError } from "../models/errors.ts";
import { redact } from "../protocol/redact.ts";
import { LeaseLost, StoreUnavailable } from "../store/errors.ts";
import type { RunError } from "../store/finish.ts";

/** The turn's time is over. The reason that its signal is aborted with. */
export class TurnTimedOut extends Error {
  override readonly name = "TurnTimedOut";
  constructor(timeoutMs: number) {
    super(`the turn took longer than ${timeoutMs / 1000} s`);
  }
}

/** Somebody asked for the end of the run. The reason that its signal is aborted with. */
export class RunCancelled extends Error {
  override readonly name = "RunCancelled";
  constructor() {
    super("the run was cancelled");
  }
}

/** Another Worker is to go on with the run. The reason that its signal is aborted with. */
export class HandedOver extends Error {
  override readonly name = "HandedOver";
  constructor() {
    super("the run is left to another worker");
  }
}

/** The run's Worker died each time. */
export class RunStopped extends Error {
  override readonly name = "RunStopped";
  constructor(attempts: number) {
    super(`the run was stopped in the middle ${attempts} times and is not tried again`);
  }
}

/** The caller did not send the results of its tools in time. */
export class CallerTooLate extends Error {
  override readonly name = "CallerTooLate";
  constructor() {
    super("the results of the caller's tools did not come before the deadline");
  }
}

interface Words {
  readonly type: string;
  readonly code: string;
  readonly retryable: boolean;
}

const overloaded = (code: string): Words => ({ type: "overloaded_error", code, retryable: true });
const provider: Words = { type: "api_error", code: "provider_error", retryable: true };
const rejected: Words = { type: "api_error", code: "provider_rejected", retryable: false };
const unavailable: Words = { type: "api_error", code: "unavailable", retryable: true };
const cannotFit: Words = { type: "invalid_request_error", code: "context_cannot_fit", retryable: false };

const overdue: Words = { type: "timeout_error", code: "tool_results_overdue", retryable: false };

const BY_KIND: Readonly<Record<FailureKind, Words>> = {
  context_overflow: cannotFit,
  too_large: cannotFit,
  rate_limited: overloaded("provider_rate_limited"),
  overloaded: overloaded("provider_overloaded"),
  authentication: rejected,
  permission: rejected,
  quota: rejected,
  not_found: rejected,
  invalid_request: rejected,
  invalid_thinking_signature: rejected,
  network: provider,
  stream_cut: provider,
  server: provider,
  timeout: { type: "timeout_error", code: "timeout", retryable: true },
  aborted: { type: "api_error", code: "run_interrupted", retryable: true },
};

const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

const abortedWords = (failure: CompactionAborted["failure"]): Words => {
  if (failure === "overloaded") return overloaded("provider_overloaded");
  return failure === "network" ? provider : rejected;
};

/**
 * The error that a run is recorded and answered with, and that receivers of webhooks are told: without secrets (S6).
 * @returns what the caller is told; an unexpected error tells nothing of the inside
 */
export const runErrorOf = (error: unknown): RunError => {
  const told = inWords(error);
  return { ...told, message: redact(told.message).text };
};

const inWords = (error: unknown): RunError => {
  if (error instanceof ModelError) return { ...BY_KIND[error.kind], message: sentence(error.message) };
  if (error instanceof ContextCannotFit) {
    return { ...cannotFit, message: `The session does not fit the model's context window: ${error.message}.` };
  }
  if (error instanceof CompactionAborted) return { ...abortedWords(error.failure), message: sentence(error.message) };
  if (error instanceof InvalidView) {
    return { ...rejected, message: `The session's messages break a rule of the provider: ${error.message}.` };
  }
  if (error instanceof BudgetReached)
    return { type: "billing_error", code: "budget_reached", retryable: false, message: sentence(error.message) };
  if (error instanceof TurnTimedOut) return { ...BY_KIND.timeout, message: sentence(error.message) };
  if (error instanceof RunStopped) return { ...BY_KIND.aborted, retryable: false, message: sentence(error.message) };
  if (error instanceof CallerTooLate) return { ...overdue, message: sentence(error.message) };
  if (error instanceof LeaseLost) return { ...BY_KIND.aborted, message: sentence(error.message) };
  if (error instanceof StoreUnavailable) return { ...unavailable, message: sentence(error.message) };
  if (error instanceof BucketUnavailable)
    return { ...unavailable, message: "The session's files cannot be reached at the moment." };
  return {
    type: "api_error",
    code: "internal",
    retryable: false,
    message: "The run failed for a reason inside hango.",
  };
};

/** Whether an error of a request, not of a run, is the bucket's and passes by itself. */
export const isBucketUnavailable = (error: unknown): boolean => error instanceof BucketUnavailable;
