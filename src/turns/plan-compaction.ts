/** What a compaction would do, without doing any of it (`POST /compact` with `dry_run`). */
import type { Step } from "../context/ladder-input.ts";
import type { SummaryFailure } from "../context/ports.ts";
import { contains, difference, type SeqRange, union } from "../context/view-state.ts";
import { costUsd } from "../models/prices.ts";
import { profileFor } from "../models/profiles.ts";
import type { Seq, SessionId, TenantId } from "../protocol/ids.ts";
import { seq } from "../protocol/ids.ts";
import type { LogRow, Usage } from "../protocol/messages.ts";
import { loadForReading, type ReadSession } from "../store/reading.ts";
import type { DroppedByKind } from "../store/receipts.ts";
import type { SessionRef } from "../store/session-ref.ts";
import type { SessionCompacted } from "./compact-session.ts";
import { sessionProfile } from "./compaction.ts";
import type { Deps } from "./deps.ts";
import { loadLimits } from "./load-limits.ts";
import { ASKED_SHARE, type Rehearsal, rehearse, rehearseCompaction, sizeOf } from "./rehearsal.ts";
import { readSettings } from "./settings.ts";

/** Why there would be, or is, no new generation. */
export interface NotCompacted {
  readonly reason: string;
  readonly failure: SummaryFailure | null;
  /** How long no automatic compaction is tried after the failure, in seconds. */
  readonly cooldownSeconds: number | null;
}

export interface SummaryEstimate {
  readonly model: string;
  readonly calls: number;
  readonly usage: Usage;
  /** List-price estimate; null for a model without a known price. */
  readonly costUsd: number | null;
}

export interface CompactionPlan {
  readonly sessionId: SessionId;
  readonly compacts: boolean;
  readonly why: NotCompacted | null;
  readonly steps: readonly Step[];
  /** The first message that stays as it is; null where none is cut off. */
  readonly boundary: Seq | null;
  readonly added: readonly SeqRange[];
  readonly dropped: DroppedByKind;
  readonly evicted: number;
  /** Of the whole request, in tokens, by our estimate; the summary's length is assumed. */
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  /** The call that would be made; null where none would. */
  readonly summary: SummaryEstimate | null;
}

const ONLY_SHORTENED = "only older tool calls and results were shortened; no summary was made";

/** Why an outcome brought no generation; null where it did. */
export const notCompacted = (outcome: SessionCompacted): NotCompacted | null => {
  switch (outcome.kind) {
    case "changed": {
      if (outcome.compaction !== null) return null;
      const failure = outcome.why.kind === "failed" ? outcome.why.failure : null;
      return { reason: ONLY_SHORTENED, failure, cooldownSeconds: null };
    }
    case "unchanged": {
      const { why } = outcome;
      const nothing = { failure: null, cooldownSeconds: null };
      if (why.kind === "fits") return { reason: "there is nothing to do", ...nothing };
      if (why.kind !== "failed") return { reason: why.words, ...nothing };
      return { reason: why.words, failure: why.failure, cooldownSeconds: why.cooldownSeconds };
    }
    case "cannot_fit":
      return {
        reason: `the session does not fit the model's window: ${outcome.what}`,
        failure: null,
        cooldownSeconds: null,
      };
    case "aborted":
      return {
        reason: "no summary could be made, and nothing is left out without one",
        failure: outcome.failure,
        cooldownSeconds: null,
      };
    case "cancelled":
      return { reason: "it was cancelled", failure: null, cooldownSeconds: null };
    case "late":
      return { reason: "another run took the session over", failure: null, cooldownSeconds: null };
    default:
      return outcome satisfies never;
  }
};

const countKinds = (rows: readonly LogRow[]): DroppedByKind => ({
  messages: {
    user: rows.filter((row) => row.origin === "user").length,
    event: rows.filter((row) => row.origin === "event").length,
    assistant: rows.filter((row) => row.origin === "assistant").length,
    tool: rows.filter((row) => row.origin === "tool").length,
    injected: rows.filter((row) => row.origin === "injected").length,
  },
  toolCalls: rows.reduce((sum, row) => sum + row.calls.length, 0),
  media: rows.reduce((sum, row) => sum + row.media.length, 0),
});

const sum = (calls: readonly Usage[], read: (usage: Usage) => number): number =>
  calls.reduce((total, usage) => total + read(usage), 0);

/** What the calls of a rehearsed summary would cost; null when there were none. */
const summaryEstimate = (deps: Deps, session: ReadSession, rehearsal: Rehearsal): SummaryEstimate | null => {
  const { summaryCalls } = rehearsal;
  if (summaryCalls.length === 0) return null;
  const { model } = rehearsal.compaction.summariser;
  const profile =
    model === session.model
      ? sessionProfile(deps, session, readSettings(session.settings))
      : profileFor(model, deps.config.modelProfiles);
  const costs = summaryCalls.map((usage) => costUsd(profile.prices, usage));
  return {
    model,
    calls: summaryCalls.length,
    usage: {
      inputTokens: sum(summaryCalls, (usage) => usage.inputTokens),
      outputTokens: sum(summaryCalls, (usage) => usage.outputTokens),
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
    },
    costUsd: costs.includes(null) ? null : costs.reduce<number>((total, cost) => total + (cost ?? 0), 0),
  };
};

/** A summary is mostly shorter than it may be: this much of its input at the least. */
const SHORT_SHARE = 0.05;

const DEPENDS = "at the length that is asked for the summary would gain nothing: only a shorter one is taken";

const planWith = async (
  deps: Deps,
  session: ReadSession,
  focus: string | null,
  summaryShare: number,
): Promise<CompactionPlan> => {
  const rehearsal = await rehearse(deps, session, summaryShare);
  const base = rehearsal.live.view.generation;
  const { tokens } = sizeOf(rehearsal);
  const outcome = await rehearseCompaction(rehearsal, focus);
  const generation = outcome.kind === "changed" ? (outcome.compaction?.generation ?? null) : null;
  const added = generation === null ? [] : difference(union(generation.covered), base?.covered ?? []);
  const rows = session.rows.filter((row) => contains(added, row.seq));
  const last = added.at(-1);
  return {
    sessionId: session.sessionId,
    compacts: generation !== null,
    why: notCompacted(outcome),
    steps: outcome.kind === "changed" ? outcome.steps : [],
    boundary: last === undefined ? null : seq(last.to + 1),
    added,
    dropped: countKinds(rows),
    evicted: rows.length,
    tokensBefore: tokens,
    tokensAfter: outcome.kind === "changed" ? outcome.tokensAfter : tokens,
    summary: summaryEstimate(deps, session, rehearsal),
  };
};

/**
 * Goes through a compaction of the session. Takes no lease, stores nothing, asks no model; works during a run too.
 * @returns undefined when the tenant has no such session
 * @throws StoreUnavailable, BucketUnavailable
 */
export const planCompaction = async (
  deps: Deps,
  tenantId: TenantId,
  ref: SessionRef,
  focus: string | null,
): Promise<CompactionPlan | undefined> => {
  const session = await loadForReading(deps.db, tenantId, ref, loadLimits(deps.config));
  if (session === undefined) return undefined;
  const asked = await planWith(deps, session, focus, ASKED_SHARE);
  if (asked.why?.failure !== "would_grow") return asked;
  const short = await planWith(deps, session, focus, SHORT_SHARE);
  return short.compacts ? { ...short, why: { reason: DEPENDS, failure: null, cooldownSeconds: null } } : asked;
};
