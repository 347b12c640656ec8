/**
 * An answer that broke off in its middle is asked for again. The SDK tries again only until an answer has begun (platform.md, "Anthropic
 * SDK in workerd"); nothing of a broken one is stored and none of its tools has run, so the same request may go out once more.
 */
import { type FailureKind, ModelError } from "../models/errors.ts";

/** Failures that the provider reports inside of a stream, where they have no status. */
const IN_STREAM: ReadonlySet<FailureKind> = new Set(["overloaded", "server", "rate_limited"]);

/** Wait before the first, second and every further attempt, in ms. */
const WAITS_MS = [500, 2_000] as const;

/** Whether a call failed after its answer had begun, for a reason that may pass. */
export const isBrokenOff = (error: unknown): boolean =>
  error instanceof ModelError &&
  (error.kind === "stream_cut" || (error.status === undefined && IN_STREAM.has(error.kind)));

/** How long to wait before an attempt, in ms. @param attempt 0 for the first after the one that broke off */
export const waitBeforeMs = (attempt: number): number => WAITS_MS[Math.min(attempt, WAITS_MS.length - 1)] ?? 0;
