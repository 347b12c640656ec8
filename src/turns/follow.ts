/** Attaching to a stream from outside the run: what was missed, then what comes, read from the store, so that any isolate can do it. */
import { type RunEvent, withContent } from "../protocol/events.ts";
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import { arrayElements } from "../protocol/json-text.ts";
import { type Draft, type EventPage, findRun, readEvents, type StoredEvent } from "../store/runs.ts";
import type { Deps } from "./deps.ts";
import { runEndData } from "./run-end.ts";

/** How often the store is asked for news, in ms: what a reader of a stream does not notice and a database does not mind. */
const POLL_MS = 500;

export interface Following {
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
  /** Ends with this run; without it the stream is the session's and goes on until the client leaves. */
  readonly runId?: RunId;
  /** Number of the last event that the client has. */
  readonly after: number;
  readonly signal: AbortSignal;
}

/** The event with the content that it is about: the whole message, or of a tool's event its block. */
const joined = ({ type, data, content }: StoredEvent): string => {
  if (content === null) return data;
  if (type !== "tool.completed") return withContent(data, content);
  const { index }: { index?: number } = JSON.parse(data);
  const block = arrayElements(content)[index ?? -1];
  return block === undefined ? data : withContent(data, content.slice(block.start, block.end));
};

/** What a draft adds to what the client was told of the message under way. */
const draftEvents = (
  runId: RunId,
  draft: Draft,
  told: Draft | null,
  base: Omit<RunEvent, "type" | "data" | "runId">,
): readonly RunEvent[] => {
  const event = (type: string, data: object): RunEvent => ({ ...base, runId, type, data: JSON.stringify(data) });
  const { message_id, index, text } = draft;
  const same = told !== null && told.message_id === message_id;
  const offset = same && told.index === index ? told.text.length : 0;
  const started = same ? [] : [event("message.started", { message_id, role: "assistant" })];
  if (text.length <= offset) return started;
  return [...started, event("message.delta", { message_id, kind: "text", index, offset, text: text.slice(offset) })];
};

/** What says that a run has ended. */
const ENDS: ReadonlySet<string> = new Set(["run.completed", "run.failed", "run.cancelled", "session.idle"]);

/**
 * The end of a run of which no event is stored: its events were removed by age, or it was cancelled before it began, when another run was the
 * one to number the session's events. Nothing for any other: its end is stored, and the client has it already.
 */
async function* unstoredEnd(
  deps: Pick<Deps, "db">,
  {
    tenantId,
    runId,
    base,
  }: Pick<Following, "tenantId"> & { runId: RunId; base: Omit<RunEvent, "type" | "data" | "runId"> },
): AsyncGenerator<RunEvent> {
  const run = await findRun(deps.db, tenantId, runId);
  if (run === undefined) return;
  if (run.eventsExpired) yield { ...base, runId, type: `run.${run.status}`, data: JSON.stringify(runEndData(run)) };
  else if (run.status === "cancelled" && run.startedAt === null)
    yield { ...base, runId, type: "run.cancelled", data: '{"status":"cancelled"}' };
}

/**
 * The events of a run or of a session after a number, as they come.
 * @throws StoreUnavailable
 */
export async function* follow(
  deps: Pick<Deps, "db" | "now" | "sleep">,
  following: Following,
): AsyncGenerator<RunEvent> {
  const { tenantId, sessionId, runId, signal } = following;
  const scope = runId === undefined ? { sessionId } : { runId };
  let { after } = following;
  let told: Draft | null = null;
  let queuedTold: RunId | null = null;
  let endTold = false;
  while (!signal.aborted) {
    const page: EventPage = await readEvents(deps.db, tenantId, scope, after);
    for (const stored of page.events) {
      after = stored.n;
      endTold = ENDS.has(stored.type);
      yield {
        n: stored.n,
        type: stored.type,
        sessionId,
        runId: stored.runId,
        createdAt: stored.createdAt,
        data: joined(stored),
      };
    }
    if (page.full) continue;
    const { open } = page;
    const base = { n: null, sessionId, createdAt: new Date(deps.now()).toISOString() };
    if (page.gone) {
      // Erased, its events with it: whoever waits for the run's end is told what became of it.
      if (runId !== undefined) yield { ...base, runId, type: "run.cancelled", data: '{"status":"cancelled"}' };
      return;
    }
    if (open?.draft) {
      yield* draftEvents(open.runId, open.draft, told, base);
      told = open.draft;
    }
    if (open?.status === "queued" && open.runId !== queuedTold) {
      queuedTold = open.runId;
      yield { ...base, runId: open.runId, type: "run.queued", data: '{"status":"queued"}' };
    }
    if (runId !== undefined && open === null) {
      if (!endTold) yield* unstoredEnd(deps, { tenantId, runId, base });
      return;
    }
    await deps.sleep(POLL_MS);
  }
}
