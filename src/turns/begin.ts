/** From a request for a turn to a begun one: the input made into a row, then one round trip. */
import { r2MediaStore } from "../files/media.ts";
import { r2FileSystem } from "../files/r2.ts";
import { type EventSink, withContent } from "../protocol/events.ts";
import { beginTurn, findOwnSession } from "../store/begin.ts";
import type { BeginOutcome, OnBusy } from "../store/begin-request.ts";
import type { LoadedSession, RunOptions } from "../store/loaded-session.ts";
import type { SessionRef } from "../store/session-ref.ts";
import type { Deps } from "./deps.ts";
import { type InputStorage, inputRow, needsStorage, type TurnInput } from "./input.ts";
import { loadLimits } from "./load-limits.ts";
import { sendForNext } from "./next-run.ts";
import { sessionRoot } from "./objects.ts";

export interface TurnRequest {
  /** SHA-256 of the API key's secret. */
  readonly keyHash: string;
  readonly session: SessionRef;
  readonly input: TurnInput;
  readonly idempotencyKey: string | null;
  /** SHA-256 of what the idempotency key stands for. */
  readonly requestHash: string;
  readonly onBusy: OnBusy;
  /** Run by the queue, also where the session is idle. */
  readonly background: boolean;
  readonly options: RunOptions;
  readonly callbackUrl: string | null;
  /** When the request arrived, RFC 3339. */
  readonly startedAt: string;
}

/** The storage of the session, found by the same rules as `begin` finds it; null when the begin will refuse anyhow, and says why. */
const storageFor = async (deps: Deps, request: TurnRequest): Promise<InputStorage | null> => {
  const found = await findOwnSession(deps.db, request.keyHash, request.session);
  if (found === undefined) return null;
  const root = sessionRoot(found.tenantId, found.sessionId);
  return {
    files: r2FileSystem(deps.bucket, root, deps.sleep),
    putMedia: r2MediaStore(deps.bucket, root, deps.sleep).put,
  };
};

/** Names no session: ids are never empty. */
const NO_SESSION: SessionRef = { id: "" };

/**
 * Begins a turn. Costs one round trip, and one more when the input brings media or names files: those are stored before the row that
 * refers to them.
 * @throws InputFileError, StoreUnavailable
 */
export const begin = async (deps: Deps, request: TurnRequest): Promise<BeginOutcome> => {
  const runId = deps.newId("run");
  const needed = needsStorage(request.input);
  const storage = needed ? await storageFor(deps, request) : null;
  // Whoever has no such session is told so by a begin that can find none; nothing of the input is stored.
  const refused = needed && storage === null;
  const outcome = await beginTurn(deps.db, {
    keyHash: request.keyHash,
    session: refused ? NO_SESSION : request.session,
    runId,
    idempotencyKey: request.idempotencyKey,
    requestHash: request.requestHash,
    input: await inputRow(refused ? "refused" : request.input, deps.newId("msg"), runId, storage),
    startedAt: request.startedAt,
    limits: loadLimits(deps.config),
    trigger: "api",
    onBusy: request.onBusy,
    background: request.background,
    options: request.options,
    callbackUrl: request.callbackUrl,
    triggerId: null,
    deliveryId: null,
  });
  // A message that is lost is sent again by the sweeper, and by whoever asks for the session next.
  if (outcome.kind === "queued") await sendForNext(deps, outcome, outcome.runId).catch(() => undefined);
  if (outcome.kind === "busy" && outcome.stranded !== null)
    await sendForNext(deps, outcome.stranded, outcome.runId).catch(() => undefined);
  return outcome;
};

/** Tells clients that the run has begun, with the input that it is about. The event itself was stored by the begin. */
export const announce = (session: LoadedSession, startedAt: string, sink: EventSink): void => {
  const input = session.rows.find((row) => row.seq === session.inputSeq);
  sink({
    n: session.nextEvent - 1,
    type: "run.started",
    sessionId: session.sessionId,
    runId: session.lease.holder,
    createdAt: startedAt,
    data: input === undefined ? "{}" : withContent("{}", input.content),
  });
};
