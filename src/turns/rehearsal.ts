/**
 * The next model call of a session, gone through without making it: everything is built as a run builds it and by the same code, but no
 * lease is taken, nothing is stored or written, and no model is asked. What would have gone out is kept for whoever wants to look.
 */

import { assembleRequest } from "../agent/loop.ts";
import { beginTurn, wrapModel } from "../agent/stack.ts";
import type { Turn } from "../agent/turn.ts";
import {
  CompactionAborted,
  type CompactionEvents,
  type CompactionOptions,
  ContextCannotFit,
  compaction,
  compactNow,
  InvalidView,
  type LiveView,
} from "../context/compact.ts";
import { defaultEstimator, estimateRequest, estimateRow } from "../context/estimate-request.ts";
import type { Climbed, LadderOutcome, Why } from "../context/ladder-input.ts";
import type { SummariserPort } from "../context/ports.ts";
import { historyPath } from "../files/history.ts";
import type { ModelRequest, Usage } from "../protocol/messages.ts";
import type { ModelCall } from "../protocol/middleware.ts";
import { type LoadedSession, newRunFacts } from "../store/loaded-session.ts";
import type { ReadSession } from "../store/reading.ts";
import { noTelemetry } from "../telemetry/none.ts";
import { noopSpan } from "../telemetry/tracer.ts";
import type { Deps } from "./deps.ts";
import { prepareRun } from "./prepare-run.ts";

/** The length of a summary that nobody has written, as a share of its input: what the prompt asks for at most (S5). */
export const ASKED_SHARE = 0.2;

/** One token of any tokenizer, with a space before it. */
const ASSUMED_WORD = " and";

export interface Rehearsal {
  readonly turn: Turn;
  readonly live: LiveView;
  readonly compaction: CompactionOptions;
  /** Whether the provider would be asked to count a request near the trigger (E5). */
  readonly canCount: boolean;
  /** The calls that a summary would take, their answers assumed. */
  readonly summaryCalls: readonly Usage[];
  /** What compaction did so far. */
  readonly compacted: readonly Climbed[];
  readonly refused: readonly Why[];
  /** As the next call would begin, before compaction looks at it. */
  readonly request: ModelRequest;
}

/** A summariser that answers with as many words as a summary is assumed to have. */
const assumedSummariser = (real: SummariserPort, calls: Usage[], share: number): SummariserPort => ({
  model: real.model,
  windowTokens: real.windowTokens,
  failureOf: () => "transient",
  call: async ({ system, prompt, maxTokens }) => {
    const scale = defaultEstimator.scale(real.model);
    const inputTokens = Math.ceil(scale * (defaultEstimator.text(system) + estimateRow(JSON.stringify(prompt))));
    const words = Math.max(1, Math.min(maxTokens, Math.ceil((share * inputTokens) / scale)));
    const usage = { inputTokens, outputTokens: Math.ceil(scale * words), cacheReadTokens: 0, cacheWriteTokens: 0 };
    calls.push(usage);
    return { text: ASSUMED_WORD.repeat(words), stopReason: "end_turn", usage, model: real.model };
  },
});

/**
 * @param summaryShare how long a summary is assumed to be, as a share of its input
 * @throws StoreUnavailable, BucketUnavailable
 */
export const rehearse = async (deps: Deps, session: ReadSession, summaryShare = ASKED_SHARE): Promise<Rehearsal> => {
  // The run that is prepared holds nothing: its lease is a name without a session behind it.
  const lease = { sessionId: session.sessionId, holder: deps.newId("run"), epoch: 0 };
  const held: LoadedSession = {
    ...session,
    lease,
    keyId: null,
    inputSeq: null,
    run: newRunFacts("maintenance", {}, new Date(0).toISOString()),
  };
  const startedMs = deps.now();
  const prepared = prepareRun(
    { ...deps, ...noTelemetry },
    { session: held, startedMs, sink: () => undefined },
    noopSpan,
  );
  const { turn, live } = prepared;
  const summaryCalls: Usage[] = [];
  const compacted: Climbed[] = [];
  const refused: Why[] = [];
  const events: CompactionEvents = {
    compacting: () => undefined,
    attempted: () => undefined,
    compacted: (facts) => compacted.push(facts),
    refused: ({ why }) => refused.push(why),
    usage: () => undefined,
    invalid: () => undefined,
  };
  const pointer = { kind: "file", path: historyPath(session.sessionId) } as const;
  const options: CompactionOptions = {
    ...prepared.compaction,
    history: { append: async () => ({ pointer, sizeBytes: 0, sha256: "" }) },
    summariser: assumedSummariser(prepared.compaction.summariser, summaryCalls, summaryShare),
    commit: {
      commit: async ({ view }) => {
        live.stored = view;
        return true;
      },
      recordFailure: async () => undefined,
      // Looked at only: a probation that is not set stays so, and a probe that may be had is not spent.
      armProbation: async () => null,
      takeProbe: async () => ({ isGranted: true, probation: live.guards.probation ?? { at: "", due: true } }),
    },
    countTokens: undefined,
    events,
  };
  const stack = turn.stack.map((middleware) => (middleware.name === "Compaction" ? compaction(options) : middleware));
  const rehearsed: Turn = { ...turn, stack };
  rehearsed.rows.push(...session.rows);
  await beginTurn(stack, turn.run);
  const { request } = await assembleRequest(rehearsed);
  return {
    turn: rehearsed,
    live,
    compaction: options,
    canCount: prepared.compaction.countTokens !== undefined,
    summaryCalls,
    compacted,
    refused,
    request,
  };
};

/** What a request is made of, in tokens by our estimate, and what it weighs. */
export interface RequestSize {
  /** With the envelope of the request. */
  readonly system: number;
  readonly tools: number;
  readonly handoff: number;
  /** The messages that are shown, without the handoff. */
  readonly kept: number;
  /** The whole request: the sum of the parts. */
  readonly tokens: number;
  readonly bytes: number;
  readonly mediaItems: number;
  readonly messages: number;
}

/** Measures the request with the view as it stands. */
export const sizeOf = ({ compaction: { renderer, rows }, live, request }: Rehearsal): RequestSize => {
  const fixed = estimateRequest({ ...request, messages: [] });
  const shown = renderer.measure(rows, live.view);
  const handoff = renderer.measure([], live.view);
  return {
    system: fixed.tokens - fixed.toolsTokens,
    tools: fixed.toolsTokens,
    handoff: handoff.tokens,
    kept: shown.tokens - handoff.tokens,
    tokens: fixed.tokens + shown.tokens,
    bytes: shown.bytes,
    mediaItems: shown.mediaItems,
    messages: shown.messages.length,
  };
};

/** Ends a rehearsed call where the real one would leave the house. */
class NotSent extends Error {
  override readonly name = "NotSent";
}

export type RehearsedCall =
  | { readonly kind: "sent"; readonly request: ModelRequest }
  /** Nothing would make it fit, or no summary could be made where one is needed. */
  | { readonly kind: "cannot_fit"; readonly what: string }
  /** As it stands it would not be sent (C7): mostly because the session waits for an input. */
  | { readonly kind: "incomplete" };

/**
 * Takes the request through the stack, as far as the provider's door.
 * @param compacting false to pass compaction by: the request with the view as it is
 */
export const rehearseCall = async (
  { turn, request }: Rehearsal,
  { compacting }: { readonly compacting: boolean },
): Promise<RehearsedCall> => {
  let sent: ModelRequest | undefined;
  const door: ModelCall = async (outgoing) => {
    sent = outgoing;
    throw new NotSent();
  };
  const stack = compacting ? turn.stack : turn.stack.filter(({ name }) => name !== "Compaction");
  try {
    await wrapModel(stack, door, turn.run)(request);
  } catch (error) {
    if (error instanceof ContextCannotFit) return { kind: "cannot_fit", what: error.message };
    if (error instanceof CompactionAborted) return { kind: "cannot_fit", what: error.message };
    if (error instanceof InvalidView) return { kind: "incomplete" };
    if (!(error instanceof NotSent)) throw error;
  }
  if (sent === undefined) throw new Error("the stack ended the call before the provider");
  return { kind: "sent", request: sent };
};

/** Goes through a compaction that is asked for (G9). */
export const rehearseCompaction = (
  { compaction: options, turn, request }: Rehearsal,
  focus: string | null,
): Promise<LadderOutcome> =>
  compactNow(options, turn.run, request, {
    kind: "climb",
    reason: "manual",
    forced: { reason: "manual", focus: focus ?? undefined },
  });
