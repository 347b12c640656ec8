/** Whether a failed call says that the prompt was too long (context.md section 8). */
import { ContextOverflowError, ModelError } from "../models/errors.ts";
import { isOverflowByEstimate } from "../models/overflow.ts";

export interface ProvenOverflow {
  /** The most that fits and what was sent, in tokens, where the provider said so. */
  readonly statedLimit?: number | undefined;
  readonly statedSize?: number | undefined;
}

export interface OverflowFacts {
  /** Our estimate of the request; null when there is none. */
  readonly estimateTokens: number | null;
  readonly windowTokens: number;
}

/**
 * Reads an overflow from an error: one that the provider named, or any 400 to a request that by our own estimate fills the window. Other
 * 400s are none, are not retried, and say nothing about the provider's health.
 */
export const overflowOf = (
  error: unknown,
  { estimateTokens, windowTokens }: OverflowFacts,
): ProvenOverflow | undefined => {
  if (error instanceof ContextOverflowError) return { statedLimit: error.statedLimit, statedSize: error.statedSize };
  if (!(error instanceof ModelError) || error.kind !== "invalid_request") return undefined;
  return estimateTokens !== null && isOverflowByEstimate(error.status, estimateTokens, windowTokens) ? {} : undefined;
};
