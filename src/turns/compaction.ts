/** The compaction of a run: its rules from `context/`, wired to the store, the history file, the provider and the event stream. */
import { parseCalibration } from "../context/calibration.ts";
import type { CompactionOptions, LiveView } from "../context/compact.ts";
import { defaultEstimator, estimateRow } from "../context/estimate-request.ts";
import { type LearnedWith, PROBATION_SECONDS } from "../context/guards/state.ts";
import type { CommitPort, HistoryPort, RevisionChange } from "../context/ports.ts";
import { budgets } from "../context/trigger.ts";
import { createRenderer } from "../context/view.ts";
import { EMPTY_VIEW, union } from "../context/view-state.ts";
import type { FileSystem } from "../files/filesystem.ts";
import { rebuildHistory } from "../files/history.ts";
import { costUsd } from "../models/prices.ts";
import { type ModelProfile, profileFor } from "../models/profiles.ts";
import type { Provider } from "../models/provider.ts";
import { seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { RunContext } from "../protocol/middleware.ts";
import { providerOf } from "../protocol/model-name.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import { rowsBetween, timesBetween } from "../store/log-range.ts";
import { armProbation, takeProbe } from "../store/probation.ts";
import { commitRevision, recordSummaryFailure } from "../store/revisions.ts";
import type { StepRecord } from "../store/statements.ts";
import { compactedData, compactionEvents } from "./compaction-events.ts";
import type { Deps } from "./deps.ts";
import { historyPort } from "./history-port.ts";
import type { RunJournal } from "./journal.ts";
import { sendDeliveries } from "./send-deliveries.ts";
import type { SessionSettings } from "./settings.ts";
import { guardRecordOf, guardsOf, guardsToStore } from "./stored-guards.ts";
import { storedViewOf, viewStateOf } from "./stored-view.ts";
import { summariserPort } from "./summariser-port.ts";

/** Longest wait for the provider's own count (E5). */
const COUNT_TIMEOUT_MS = 2_000;

/** The profile of a session's model: the session's own word first, then the configuration's, the provider's, the table's (E7). */
export const sessionProfile = (
  deps: Pick<Deps, "config">,
  session: Pick<LoadedSession, "model" | "modelLimits">,
  settings: SessionSettings,
): ModelProfile => {
  const { modelProfiles } = deps.config;
  const own = settings.context.max_input_tokens;
  const said = {
    ...providersWord(session.modelLimits),
    ...modelProfiles.get(session.model),
    ...(own === undefined ? {} : { maxInputTokens: own }),
  };
  return profileFor(session.model, new Map([[session.model, said]]));
};

const providersWord = (limits: LoadedSession["modelLimits"]) =>
  limits === null
    ? undefined
    : {
        maxInputTokens: limits.maxInputTokens,
        ...(limits.maxOutputTokens === null ? {} : { maxOutputTokens: limits.maxOutputTokens }),
      };

/** The model that writes the session's summaries. */
const summariserModelOf = (
  deps: Pick<Deps, "config">,
  session: Pick<LoadedSession, "model">,
  { context }: SessionSettings,
): string => context.summarizer_model ?? deps.config.context.summarizerModel ?? session.model;

/** What the guards of this session learn with (G10). */
export const learnedWithOf = (
  deps: Pick<Deps, "config">,
  session: Pick<LoadedSession, "model">,
  settings: SessionSettings,
): LearnedWith => ({
  model: session.model,
  provider: providerOf(session.model, deps.config.modelProfiles),
  summariser: summariserModelOf(deps, session, settings),
});

/**
 * Where the view stands when a run begins. Rows that were not loaded are hidden until they are compacted (V7), and to another model what was
 * clipped is shown whole again (G10): changes of the view like any other, and recorded with the next revision.
 */
export const liveViewOf = (session: LoadedSession, clipTokens: number, now: LearnedWith): LiveView => {
  const stored = viewStateOf(session, clipTokens);
  const { guards, isNewModel } = guardsOf(session.guards, session.lease.holder, stored.generation?.number ?? 0, now);
  const unclipped = isNewModel && stored.clippedBefore > 1 ? { clippedBefore: seq(1), clipTokens } : {};
  return {
    view: { ...stored, ...unclipped, hidden: union(stored.hidden, session.unloaded) },
    stored: stored.revision === 0 ? { ...EMPTY_VIEW, clipTokens } : stored,
    calibration: parseCalibration(session.calibration),
    guards,
    reading: null,
    compactions: 0,
    nextGeneration: session.nextGeneration,
  };
};

export interface CompactionWiring {
  readonly deps: Deps;
  readonly session: LoadedSession;
  readonly settings: SessionSettings;
  readonly profile: ModelProfile;
  readonly maxTokens: number;
  readonly rows: readonly LogRow[];
  readonly live: LiveView;
  readonly journal: RunJournal;
  readonly provider: Provider;
  /** The provider of another model: the summariser may have another than the session. */
  readonly providerOf: (model: string) => Provider;
  readonly files: FileSystem;
  readonly run: RunContext;
  readonly deadlineMs: number;
  readonly onProviderTime: (durationMs: number) => void;
}

const commitPort = ({ deps, session, live, journal }: CompactionWiring, summariser: ModelProfile): CommitPort => {
  const record = (
    change: Pick<RevisionChange, "guards">,
    thinkingFloor: number,
  ): { record: StepRecord; publish: () => void } => {
    const taken = journal.take();
    return { ...taken, record: { ...taken.record, guards: guardRecordOf(change.guards), thinkingFloor } };
  };
  return {
    commit: async (change) => {
      const { view, reason, compaction } = change;
      if (change.trigger !== null) journal.note("context.compacted", compactedData(change));
      const taken = record(change, view.thinkingFloor);
      const stored = await commitRevision(
        deps.db,
        session,
        {
          attemptId: compaction?.receipt.attemptId ?? deps.newId("cmp"),
          base: { revision: live.stored.revision, generation: live.stored.generation?.number ?? 0 },
          view: storedViewOf(view),
          reason,
          compaction:
            compaction === null
              ? null
              : {
                  ...compaction.receipt,
                  costUsd:
                    compaction.receipt.usage === null ? null : costUsd(summariser.prices, compaction.receipt.usage),
                },
          record: taken.record,
        },
        (deliveries) => sendDeliveries(deps, session.tenantId, deliveries),
      );
      if (!stored) {
        // A hard cancel came first: the run is closed with what the summary used. Whoever lost the session writes nothing more.
        journal.putBack(taken.record.usage);
        return false;
      }
      live.stored = view;
      taken.publish();
      return true;
    },
    recordFailure: async (failure, guards, cooldownSeconds) => {
      const taken = record(
        { guards: guardsToStore(guards, live, session.guards.learnedWith) },
        live.view.thinkingFloor,
      );
      await recordSummaryFailure(deps.db, session, {
        reason: failure,
        cooldownSeconds: cooldownSeconds === 0 ? null : cooldownSeconds,
        record: taken.record,
      });
      taken.publish();
    },
    armProbation: () => armProbation(deps.db, session, PROBATION_SECONDS),
    takeProbe: (attemptId) => takeProbe(deps.db, session, attemptId, PROBATION_SECONDS),
  };
};

/**
 * The history file, which mends itself: with each new section, those that an earlier compaction could not write are made from the log (M1).
 * A repair that fails is tried again with the next section.
 */
const repairingHistory = ({ deps, session, live, files }: CompactionWiring): HistoryPort => {
  const { sessionId } = session;
  const port = historyPort({
    files,
    sessionId,
    loadTimes: ({ from, to }) => timesBetween(deps.db, sessionId, from, to),
  });
  return {
    append: async (rows) => {
      const written = await port.append(rows);
      const missing = (live.view.generation?.covered ?? []).map(({ from, to }) => ({ first: from, last: to }));
      await rebuildHistory(files, sessionId, missing, (first, last) =>
        rowsBetween(deps.db, sessionId, first, last),
      ).catch((error: unknown) => {
        deps.log.warn("the history file could not be repaired", {
          session_id: sessionId,
          error: error instanceof Error ? error.name : typeof error,
        });
      });
      return written;
    },
  };
};

/** Who writes the summaries of a session. */
export const summariserOf = ({
  deps,
  session,
  settings,
  profile,
}: Pick<CompactionWiring, "deps" | "settings" | "profile"> & {
  readonly session: Pick<LoadedSession, "model">;
}): ModelProfile => {
  const model = summariserModelOf(deps, session, settings);
  return model === session.model ? profile : profileFor(model, deps.config.modelProfiles);
};

/** Everything that compaction needs for this run. */
export const compactionOptions = (wiring: CompactionWiring): CompactionOptions => {
  const { deps, session, settings, profile, live, provider, run, journal } = wiring;
  const { config } = deps;
  const { context } = settings;
  const summariser = summariserOf(wiring);
  const scale = defaultEstimator.scale(session.model);
  const { strictAlternation } = provider.capabilities;
  const budget = budgets(profile, {
    triggerFrac: context.trigger_frac ?? config.context.triggerFrac,
    keepFrac: context.keep_frac ?? config.context.keepFrac,
    maxTokens: wiring.maxTokens,
  });
  let summaryTime = { ms: 0, calls: 0 };
  return {
    live,
    rows: wiring.rows,
    renderer: createRenderer({
      sessionId: session.sessionId,
      estimateTokens: defaultEstimator.text,
      messageTokens: (message, rowTokens) => Math.ceil(scale * (rowTokens ?? estimateRow(message.content))),
      strictAlternation,
      thinking: provider.capabilities.thinking,
    }),
    budgets: budget,
    maxBytes: config.requestMaxBytes,
    thinkingBound: profile.thinkingBound,
    strictAlternation,
    minTailUserMessages: context.min_tail_user_messages ?? 1,
    estimateTokens: defaultEstimator.text,
    newAttemptId: () => deps.newId("cmp"),
    history: repairingHistory(wiring),
    summariser: summariserPort({
      provider: summariser.model === session.model ? provider : wiring.providerOf(summariser.model),
      model: summariser.model,
      profile: summariser,
      telemetry: deps,
      span: run.span,
      signal: run.signal,
      now: deps.now,
      deadlineMs: wiring.deadlineMs,
      addApart: journal.addApart,
      onProviderTime: (durationMs) => {
        summaryTime = { ms: summaryTime.ms + durationMs, calls: summaryTime.calls + 1 };
        wiring.onProviderTime(durationMs);
      },
      heartbeat: journal.heartbeat,
    }),
    commit: commitPort(wiring, summariser),
    countTokens: provider.capabilities.tokenCounting
      ? async (request) => {
          const signal = AbortSignal.any([run.signal, AbortSignal.timeout(COUNT_TIMEOUT_MS)]);
          const deadlineMs = Math.min(wiring.deadlineMs, deps.now() + COUNT_TIMEOUT_MS);
          return provider.countTokens(request, { signal, deadlineMs }).catch(() => undefined);
        }
      : undefined,
    events: compactionEvents({
      journal,
      run,
      deps,
      summariserModel: summariser.model,
      budgets: budget,
      summaryTime: () => summaryTime,
    }),
  };
};
