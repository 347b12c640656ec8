/** What the next model call of a session would send, and why (`GET /context`). Looks, and changes nothing. */
import { type Projection, project } from "../context/calibration.ts";
import type { GuardState } from "../context/guards/state.ts";
import { type GuardReport, reportGuards } from "../context/guards/words.ts";
import type { Step } from "../context/ladder-input.ts";
import { type MicroReport, microReport } from "../context/micro-report.ts";
import { type MicroSettings, type MicroState, parseMicroState } from "../context/micro-state.ts";
import { type Budgets, decideTrigger, type Trigger } from "../context/trigger.ts";
import type { ViewState } from "../context/view-state.ts";
import type { Provider } from "../models/provider.ts";
import { requestBody } from "../models/providers.ts";
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import { inlineMedia } from "../protocol/media-text.ts";
import type { ModelRequest } from "../protocol/messages.ts";
import type { SkillsFound } from "../protocol/middleware.ts";
import type { StoredMicro } from "../store/micro.ts";
import { loadForReport, type ReadSession } from "../store/reading.ts";
import type { SessionRef } from "../store/session-ref.ts";
import type { Deps } from "./deps.ts";
import { loadLimits } from "./load-limits.ts";
import { type Rehearsal, type RequestSize, rehearse, rehearseCall, sizeOf } from "./rehearsal.ts";
import { sessionMedia } from "./session-files.ts";
import { microSettingsOf, readSettings } from "./settings.ts";

/** What the next call would do before it is sent. */
export type NextAction =
  /** Send the request as it is. */
  | "send"
  /** Ask the provider to count it first: it is too near to the trigger to tell (E5). */
  | "count"
  /** Shorten what is shown, without a summary. */
  | "shorten"
  | "compact"
  /** Nothing would make it fit. */
  | "fail";

export interface NextStep {
  readonly action: NextAction;
  /** What changes the view; with `count`, what would if the provider's count is as projected. */
  readonly steps: readonly Step[];
  readonly reason: string;
}

export interface ReportedGuards {
  /** What holds automatic compaction back, the first that counts before the others; empty while it is on. */
  readonly on: readonly GuardReport[];
  readonly state: GuardState;
  /** What the turn that holds the session has tried (M4); null between two turns. */
  readonly turn: { readonly compactions: number; readonly attempts: number } | null;
}

export interface ReportedMicro {
  /** Null where it is off. */
  readonly settings: MicroSettings | null;
  /** Turns since the last pass was begun. */
  readonly turns: number;
  readonly state: MicroState;
  /** Size of the summary in view, in tokens. */
  readonly summaryTokens: number;
  readonly report: MicroReport;
}

export interface ContextReport {
  readonly sessionId: SessionId;
  readonly model: string;
  readonly summariserModel: string;
  readonly heldBy: RunId | null;
  readonly view: ViewState;
  readonly budgets: Budgets;
  readonly size: RequestSize;
  readonly projection: Projection;
  /** The provider's tokens per token of ours, as learned (E4). */
  readonly factor: number;
  /** The newest reading that still holds for the view; null without one. */
  readonly reading: { readonly tokens: number; readonly estimate: number; readonly revision: number } | null;
  readonly guards: ReportedGuards;
  readonly skills: SkillsFound;
  /** A compaction that was asked for and waits for the next call: its focus, empty for none. */
  readonly requested: string | null;
  readonly next: NextStep;
  /** How the session is compacted between turns, and what that has brought (section 11). */
  readonly micro: ReportedMicro;
  /** The body of the request as JSON text, and what differs from the call to come; null unless asked for. */
  readonly request: { readonly body: string; readonly note: string | null } | null;
}

const triggerWords = (
  trigger: Trigger,
  { size, projection, budgets }: Pick<ContextReport, "size" | "projection" | "budgets">,
  maxBytes: number,
): string => {
  const tokens = `${projection.tokens} projected tokens`;
  switch (trigger.kind) {
    case "under":
      return `${tokens} are under the trigger of ${budgets.triggerTokens}`;
    case "close":
      return projection.basis === "estimate"
        ? `${tokens} are an estimate without a reading, near or over the trigger of ${budgets.triggerTokens}: the provider counts first`
        : `${tokens} are near the trigger of ${budgets.triggerTokens}: the provider counts first`;
    case "over":
      if (trigger.budget === "bytes") return `${size.bytes} bytes are over the limit of ${maxBytes}`;
      if (trigger.budget === "media")
        return `${size.mediaItems} images and pages are over the limit of ${budgets.maxMediaItems}`;
      return `${tokens} are at or over the trigger of ${budgets.triggerTokens}`;
    default:
      return trigger satisfies never;
  }
};

/** What compaction did in a rehearsed call, in the words of the report. */
const nextOf = ({ compacted, refused }: Rehearsal, because: string): NextStep => {
  const climbed = compacted.at(-1);
  if (climbed !== undefined) {
    const action = climbed.compaction === null ? "shorten" : "compact";
    const { why } = climbed;
    const reason = why.kind === "fits" ? because : `${because}, and no summary is made: ${why.words}`;
    return { action, steps: climbed.steps, reason };
  }
  const why = refused.at(-1);
  if (why === undefined) return { action: "send", steps: [], reason: because };
  const words = why.kind === "fits" ? "nothing has to be shortened" : why.words;
  return { action: "send", steps: [], reason: `${because}, but ${words}` };
};

/** The request as the view stands, where the rehearsed call has changed it. */
const unchangedRequest = async (deps: Deps, session: ReadSession): Promise<ModelRequest> => {
  const call = await rehearseCall(await rehearse(deps, session), { compacting: false });
  if (call.kind !== "sent") throw new Error("a call that passes compaction by always reaches the door");
  return call.request;
};

/** Media are put back one message at a time, as for a call (V10). */
const bodyOf = (deps: Deps, session: ReadSession, request: ModelRequest, provider: Provider): Promise<string> => {
  const media = sessionMedia(deps, session.tenantId, session.rootSessionId);
  return requestBody(request, provider, deps.config, session.user, (content, hashes) =>
    inlineMedia(content, hashes, media.get),
  );
};

const noteOf = (next: NextStep, session: ReadSession): string | null => {
  if (session.heldBy !== null) return "A run holds the session: its next call is made from what the log has by then.";
  if (session.openBatchSeq !== null)
    return "A run died before it stored the results of its calls; the next one says so in their place before anything else.";
  if (next.action === "send" || next.action === "count") return null;
  return "The view would be changed before the call, as `next` says: this is the request without that change.";
};

const microOf = (
  { live, compaction: { budgets, estimateTokens } }: Rehearsal,
  settings: MicroSettings | null,
  stored: StoredMicro,
  tokensNow: number,
): ReportedMicro => ({
  settings,
  turns: stored.turns,
  state: parseMicroState(stored.state),
  summaryTokens: estimateTokens(live.view.generation?.summary ?? ""),
  // Of an unknown model the trigger is only assumed (E7).
  report: microReport(stored.generations, tokensNow, budgets.keep.kind === "share" ? budgets.triggerTokens : null),
});

/**
 * Reports on a session's context. One round trip, and the session's memory and skills; no lease, no call to the provider.
 * @param withRequest whether to add the exact body: content, up to the largest request in size
 * @returns undefined when the tenant has no such session
 * @throws StoreUnavailable, BucketUnavailable; ModelError `too_large` for a log that no request can hold
 */
export const reportContext = async (
  deps: Deps,
  tenantId: TenantId,
  ref: SessionRef,
  withRequest: boolean,
): Promise<ContextReport | undefined> => {
  const loaded = await loadForReport(deps.db, tenantId, ref, loadLimits(deps.config));
  if (loaded === undefined) return undefined;
  const { session } = loaded;
  const rehearsal = await rehearse(deps, session);
  const { live, compaction } = rehearsal;
  const { budgets, maxBytes } = compaction;
  const { view, guards, calibration } = live;
  const size = sizeOf(rehearsal);
  const projection = project(calibration, { model: session.model, revision: view.revision, estimate: size.tokens });
  const microNow = microOf(
    rehearsal,
    microSettingsOf(readSettings(session.settings), deps.config),
    loaded.micro,
    size.tokens,
  );
  const trigger = decideTrigger({ ...size, projection, budgets, maxBytes, canCount: rehearsal.canCount });
  const known = calibration?.model === session.model ? calibration : null;
  const requested = session.forceCompaction;
  const because =
    requested === null ? triggerWords(trigger, { size, projection, budgets }, maxBytes) : "it was asked for";
  const call = await rehearseCall(rehearsal, { compacting: true });
  const next: NextStep =
    call.kind === "cannot_fit"
      ? { action: "fail", steps: [], reason: `${because}, and even the smallest view does not fit: ${call.what}` }
      : requested === null && trigger.kind === "close"
        ? { action: "count", steps: rehearsal.compacted.at(-1)?.steps ?? [], reason: because }
        : nextOf(rehearsal, because);
  const exact = call.kind === "sent" && rehearsal.compacted.length === 0 ? call.request : null;
  const { provider } = rehearsal.turn;
  const body = withRequest
    ? await bodyOf(deps, session, exact ?? (await unchangedRequest(deps, session)), provider)
    : null;
  return {
    sessionId: session.sessionId,
    model: session.model,
    summariserModel: compaction.summariser.model,
    heldBy: session.heldBy,
    view,
    budgets,
    size,
    projection,
    factor: known?.factor ?? 1,
    reading:
      known?.baseline == null
        ? null
        : { tokens: known.baseline.reading, estimate: known.baseline.estimate, revision: known.baseline.revision },
    guards: {
      on: reportGuards(guards),
      state: guards,
      turn: session.heldBy !== null && session.guards.budget?.runId === session.heldBy ? session.guards.budget : null,
    },
    skills: rehearsal.turn.run.state.private.skills,
    requested,
    next,
    micro: microNow,
    request: body === null ? null : { body, note: noteOf(next, session) },
  };
};
