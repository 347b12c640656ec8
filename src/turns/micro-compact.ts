/**
 * A pass of micro-compaction, in the queue, after a turn that ended normally (section 11; decisions/0016). It holds no lease while a model is asked,
 * so no turn is ever refused or delayed for it: a turn that comes meanwhile has the session, and the pass is discarded.
 */

import { assembleRequest } from "../agent/loop.ts";
import { beginTurn } from "../agent/stack.ts";
import { afterRevision } from "../context/calibration.ts";
import { MARKS_FOR_MESSAGES, measurer } from "../context/compact.ts";
import { type MicroOutcome, microPass, NO_SIZES } from "../context/micro.ts";
import { type MicroSettings, parseMicroState } from "../context/micro-state.ts";
import type { RevisionChange, SummariserPort } from "../context/ports.ts";
import { costUsd } from "../models/prices.ts";
import type { ModelProfile } from "../models/profiles.ts";
import { type LoadedSession, newRunFacts } from "../store/loaded-session.ts";
import {
  type ClaimedPass,
  claimMicroPass,
  commitMicroPass,
  type MicroTotals,
  storeMicroFailure,
} from "../store/micro.ts";
import { formatRanges } from "../store/ranges.ts";
import { loadForReading, type ReadSession } from "../store/reading.ts";
import { genai } from "../telemetry/genai.ts";
import type { Span } from "../telemetry/tracer.ts";
import { sessionProfile, summariserOf } from "./compaction.ts";
import type { Deps } from "./deps.ts";
import { loadLimits } from "./load-limits.ts";
import { isBaseReadable } from "./micro-base.ts";
import { type MicroPassFacts, tellOfPass } from "./micro-event.ts";
import { modelProvider, type ProviderOptions } from "./model-provider.ts";
import { type PreparedRun, prepareRun } from "./prepare-run.ts";
import type { MicroCompact } from "./queue.ts";
import { sendDeliveries } from "./send-deliveries.ts";
import { microSettingsOf, readSettings } from "./settings.ts";
import { guardRecordOf } from "./stored-guards.ts";
import { storedViewOf } from "./stored-view.ts";
import { summariserPort } from "./summariser-port.ts";
import { createTally, type Tally } from "./tally.ts";

interface Pass extends ClaimedPass {
  readonly session: ReadSession;
  readonly settings: MicroSettings;
  readonly attemptId: string;
  /** ms since the epoch. */
  readonly startedMs: number;
}

type Told = Omit<MicroPassFacts, "sessionId" | "attemptId" | "durationMs" | "model">;

const untold: Pick<Told, "why" | "sizes" | "generation" | "summariserModel" | "windowTokens" | "triggerTokens"> = {
  why: null,
  sizes: NO_SIZES,
  generation: null,
  summariserModel: null,
  windowTokens: null,
  triggerTokens: null,
};

/** The session as a run would have it, without one: nothing is written through it. */
const heldByNobody = (deps: Deps, session: ReadSession): LoadedSession => ({
  ...session,
  lease: { sessionId: session.sessionId, holder: deps.newId("run"), epoch: 0 },
  keyId: null,
  inputSeq: null,
  run: newRunFacts("maintenance", {}, new Date(0).toISOString()),
});

interface Prepared {
  readonly run: PreparedRun;
  readonly profile: ModelProfile;
  readonly summariser: ModelProfile;
  readonly tally: Tally;
}

const prepare = (deps: Deps, { session, startedMs }: Pass, span: Span): Prepared => {
  const request = { session: heldByNobody(deps, session), startedMs, sink: () => undefined };
  const run = prepareRun(deps, request, span);
  const settings = readSettings(session.settings);
  const profile = sessionProfile(deps, session, settings);
  const summariser = summariserOf({ deps, session, settings, profile });
  const totals = newRunFacts("maintenance", {}, "").totals;
  run.turn.rows.push(...session.rows);
  return { run, profile, summariser, tally: createTally(deps.newId, profile.prices, totals) };
};

/** Media are named to a summariser, never sent (S1). */
const NO_MEDIA: ProviderOptions = { resolveMedia: async (content) => content };

/** A pass is ended by its time alone, so that is what a call that was ended says. */
const endedByTime = (port: SummariserPort): SummariserPort => ({
  ...port,
  failureOf: (error) => port.failureOf(error) ?? "timeout",
});

const passOf = async (deps: Deps, pass: Pass, prepared: Prepared, span: Span): Promise<MicroOutcome> => {
  const { run, summariser, tally } = prepared;
  const { turn, live, compaction } = run;
  await beginTurn(turn.stack, turn.run);
  const { request } = await assembleRequest(turn);
  const { turnTimeoutMs } = deps.config;
  return microPass({
    sessionId: pass.session.sessionId,
    rows: turn.rows,
    view: live.view,
    guards: live.guards,
    state: parseMicroState(pass.state),
    settings: pass.settings,
    budgets: compaction.budgets,
    thinkingBound: compaction.thinkingBound,
    maxMarks: MARKS_FOR_MESSAGES,
    measure: measurer(compaction, request),
    estimateTokens: compaction.estimateTokens,
    rowTokens: (row, view) => compaction.renderer.row(row, view).tokens,
    attemptId: pass.attemptId,
    nextGeneration: live.nextGeneration,
    history: compaction.history,
    summariser: endedByTime(
      summariserPort({
        provider:
          summariser.model === pass.session.model ? turn.provider : modelProvider(deps, summariser.model, NO_MEDIA),
        model: summariser.model,
        profile: summariser,
        telemetry: deps,
        span,
        signal: AbortSignal.timeout(turnTimeoutMs),
        now: deps.now,
        deadlineMs: pass.startedMs + turnTimeoutMs,
        addApart: tally.addApart,
        onProviderTime: () => undefined,
        // There is no lease to keep.
        heartbeat: () => undefined,
      }),
    ),
  });
};

const commit = async (
  deps: Deps,
  pass: Pass,
  { run, summariser, tally }: Prepared,
  change: RevisionChange,
  state: object,
): Promise<MicroTotals | null> => {
  const { compaction, guards, view, reason, sizes } = change;
  if (compaction === null) throw new Error("a pass without a generation");
  const { receipt } = compaction;
  return commitMicroPass(
    deps.db,
    pass.claim,
    {
      change: { attemptId: receipt.attemptId, view: storedViewOf(view), reason },
      receipt: {
        ...receipt,
        costUsd: receipt.usage === null ? null : costUsd(summariser.prices, receipt.usage),
      },
      guards: guardRecordOf(guards),
      calibration: afterRevision(run.live.calibration, { revision: view.revision, ...sizes }),
      state,
      usage: tally.take(),
    },
    (deliveries) => sendDeliveries(deps, pass.session.tenantId, deliveries),
  );
};

/** Stores what became of a pass, and says what is to be told of it. */
const settle = async (
  deps: Deps,
  pass: Pass,
  prepared: Prepared,
  outcome: MicroOutcome,
): Promise<Pick<Told, "outcome" | "why" | "sizes" | "generation" | "totals">> => {
  const { totals } = pass;
  const { sizes } = outcome;
  switch (outcome.kind) {
    case "nothing":
      return { outcome: "nothing", why: outcome.why, sizes, generation: null, totals };
    case "blocked":
      return { outcome: "blocked", why: outcome.guard, sizes, generation: null, totals };
    case "failed": {
      const { failure, cooldownSeconds, guards, state } = outcome;
      const stored = await storeMicroFailure(deps.db, pass.claim, {
        reason: failure,
        cooldownSeconds: cooldownSeconds === 0 ? null : cooldownSeconds,
        guards: guardRecordOf(guards),
        state,
        usage: prepared.tally.take(),
      });
      return { outcome: stored ? "failed" : "discarded_late", why: failure, sizes, generation: null, totals };
    }
    case "made": {
      const made = await commit(deps, pass, prepared, outcome.change, outcome.state);
      if (made === null) return { outcome: "discarded_late", why: null, sizes, generation: null, totals };
      const generation = outcome.change.compaction?.generation.number ?? null;
      return { outcome: "committed", why: null, sizes, generation, totals: made };
    }
    default:
      return outcome satisfies never;
  }
};

const passInSpan = async (deps: Deps, pass: Pass, span: Span): Promise<Told> => {
  const { session, totals } = pass;
  if (!isBaseReadable(session)) return { ...untold, outcome: "base_unreadable", totals };
  const prepared = prepare(deps, pass, span);
  const { run, profile, summariser } = prepared;
  const { budgets } = run.compaction;
  const known = {
    summariserModel: summariser.model,
    windowTokens: profile.known ? budgets.windowTokens : null,
    triggerTokens: profile.known ? budgets.triggerTokens : null,
  };
  const nothing = (why: string): Told => ({ ...untold, ...known, outcome: "nothing", why, totals });
  // Rows that no turn could load are the backlog's to compact (V7).
  if (session.unloaded.length > 0) return nothing("backlog");
  // Another model is shown whole what was clipped for the one before (G10): the next turn records that first.
  if (run.live.view.clippedBefore !== run.live.stored.clippedBefore) return nothing("model_changed");
  if (!run.turn.settings.withinBudget()) return nothing("budget");
  const outcome = await passOf(deps, pass, prepared, span);
  return { ...known, ...(await settle(deps, pass, prepared, outcome)) };
};

/**
 * Makes the pass that is due, if one is. A message that comes twice, or too late, does nothing: the next turn asks again.
 * @throws StoreUnavailable, BucketUnavailable: the message is then delivered again, and finds that its turn was taken
 */
export const microCompact = async (deps: Deps, { tenantId, sessionId }: MicroCompact): Promise<void> => {
  const startedMs = deps.now();
  const session = await loadForReading(deps.db, tenantId, { id: sessionId }, loadLimits(deps.config));
  if (session === undefined || session.heldBy !== null || session.openBatchSeq !== null) return;
  const settings = microSettingsOf(readSettings(session.settings), deps.config);
  if (settings === null) return;
  const at = {
    sessionId,
    nextSeq: session.nextSeq,
    revision: session.view?.revision ?? 0,
    rewound: formatRanges(session.rewound),
  };
  const claimed = await claimMicroPass(deps.db, { tenantId, at, user: session.user }, settings.everyNTurns);
  if (claimed === null) return;
  const pass: Pass = { ...claimed, session, settings, attemptId: deps.newId("cmp"), startedMs };
  await deps.tracer.span("micro_compact", { attributes: { [genai.conversationId]: sessionId } }, async (span) => {
    const told = await passInSpan(deps, pass, span);
    const durationMs = Math.max(0, deps.now() - startedMs);
    const facts = { ...told, sessionId, attemptId: pass.attemptId, durationMs, model: session.model };
    tellOfPass(deps, span, facts);
  });
};
