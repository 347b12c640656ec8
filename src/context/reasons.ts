/** Why a compaction is made, and why one is not. */

/** Why a compaction was made (telemetry.md). */
export type CompactionReason = "threshold" | "overflow" | "tool" | "manual" | "truncate" | "maintenance" | "micro";

/** Why there is no summary (S5, G1, G2). */
export type SummaryFailure =
  | "timeout"
  | "truncated"
  | "malformed"
  | "empty"
  | "refused"
  | "transient"
  | "configuration"
  | "authentication"
  | "quota"
  | "network"
  | "overloaded"
  | "too_long"
  | "would_grow"
  | "invalid_view";
