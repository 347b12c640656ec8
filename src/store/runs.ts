/** Reading runs and their events. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { Usage } from "../protocol/messages.ts";
import type { Db, Row } from "./db.ts";
import type { RunError } from "./finish.ts";
import type { Page } from "./pages.ts";
import { REQUIRED_ACTION } from "./required-action.ts";
import { flag, number, numberOrNull, text, textOrNull, time, timeOrNull } from "./rows.ts";

export type RunStatus = "queued" | "running" | "requires_action" | "completed" | "failed" | "cancelled";

/** Whether a run has ended: nothing of it changes any more. */
export const isOver = (status: RunStatus): boolean =>
  status === "completed" || status === "failed" || status === "cancelled";

/** What started a run: a request for a turn, something that a trigger received, work between turns, or a call of another run. */
export type RunTrigger = "api" | "trigger" | "maintenance" | "subagent";

export interface RunRecord {
  readonly id: RunId;
  readonly sessionId: SessionId;
  readonly status: RunStatus;
  readonly trigger: RunTrigger;
  readonly model: string;
  readonly inputSeq: number | null;
  readonly stopReason: string | null;
  readonly outputText: string | null;
  readonly steps: number;
  readonly usage: Usage;
  readonly costUsd: number | null;
  readonly error: RunError | null;
  /** What its caller has to do, as JSON text: `deadline` and `tool_calls`, their input as the model wrote it (V9). Null unless it waits. */
  readonly requiredAction: string | null;
  readonly dbRoundTrips: number | null;
  readonly overheadMs: number | null;
  readonly attempts: number;
  /** Set once a hard cancel was asked for. */
  readonly cancelRequestedAt: string | null;
  readonly createdAt: string;
  /** Null while it is queued. */
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  /** Its events have been removed by age. */
  readonly eventsExpired: boolean;
}

const RUN_COLUMNS: SQL = sql`r.id, r.session_id, r.status, r.trigger, r.model, r.input_seq, r.stop_reason, r.output_text, r.steps, r.input_tokens,
    r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.cost_usd, r.error::text as error, ${REQUIRED_ACTION}::text as required_action,
    r.db_round_trips, r.overhead_ms, r.attempts, r.cancel_requested_at, r.created_at, r.started_at, r.finished_at, r.events_expired`;

/** Reads a row of `RUN_COLUMNS`. */
export const runRecord = (row: Row): RunRecord => {
  const error = textOrNull(row, "error");
  return {
    id: text(row, "id") as RunId,
    sessionId: text(row, "session_id") as SessionId,
    status: text(row, "status") as RunStatus,
    trigger: text(row, "trigger") as RunTrigger,
    model: text(row, "model"),
    inputSeq: numberOrNull(row, "input_seq"),
    stopReason: textOrNull(row, "stop_reason"),
    outputText: textOrNull(row, "output_text"),
    steps: number(row, "steps"),
    usage: {
      inputTokens: number(row, "input_tokens"),
      outputTokens: number(row, "output_tokens"),
      cacheReadTokens: number(row, "cache_read_tokens"),
      cacheWriteTokens: number(row, "cache_write_tokens"),
    },
    costUsd: numberOrNull(row, "cost_usd"),
    error: error === null ? null : JSON.parse(error),
    requiredAction: textOrNull(row, "required_action"),
    dbRoundTrips: numberOrNull(row, "db_round_trips"),
    overheadMs: numberOrNull(row, "overhead_ms"),
    attempts: number(row, "attempts"),
    cancelRequestedAt: timeOrNull(row, "cancel_requested_at"),
    createdAt: time(row, "created_at"),
    startedAt: timeOrNull(row, "started_at"),
    finishedAt: timeOrNull(row, "finished_at"),
    eventsExpired: flag(row, "events_expired"),
  };
};

/** SQL condition over `runs r`: its session is still the tenant's, and not being erased. */
const inSession: SQL = sql`exists (select 1 from sessions s where s.id = r.session_id and s.tenant_id = r.tenant_id)`;

export const findRunStatement = (tenantId: TenantId, id: string): SQL =>
  sql`select ${RUN_COLUMNS} from runs r where r.tenant_id = ${tenantId} and r.id = ${id} and ${inSession}`;

/** @returns undefined when the tenant has no such run @throws StoreUnavailable */
export const findRun = async (db: Db, tenantId: TenantId, id: string): Promise<RunRecord | undefined> => {
  const [rows] = await db.batch([findRunStatement(tenantId, id)], { name: "find run", repeatable: true });
  const row = rows?.[0];
  return row === undefined ? undefined : runRecord(row);
};

/** SQL that finds the run of an idempotency key, and the reader of its row; for batches that look for more. */
export const findRunByKey = (tenantId: TenantId, key: string) => ({
  statement: sql`select r.id, r.request_hash from runs r where r.tenant_id = ${tenantId} and r.idempotency_key = ${key}`,
  read: (row: Row | undefined): { readonly runId: RunId; readonly requestHash: string | null } | undefined =>
    row === undefined ? undefined : { runId: text(row, "id") as RunId, requestHash: textOrNull(row, "request_hash") },
});

export interface RunFilter {
  readonly sessionId?: SessionId | undefined;
  readonly status?: RunStatus | undefined;
}

/** A page of a tenant's runs: of one session, or of all that callers talk to. @throws StoreUnavailable */
export const listRuns = async (
  db: Db,
  tenantId: TenantId,
  filter: RunFilter,
  page: Page,
): Promise<readonly RunRecord[]> => {
  const ofSession =
    filter.sessionId === undefined ? sql`r.trigger <> 'subagent'` : sql`r.session_id = ${filter.sessionId}`;
  const ofStatus = filter.status === undefined ? sql`true` : sql`r.status = ${filter.status}`;
  const [rows] = await db.batch(
    [
      sql`select ${RUN_COLUMNS} from runs r where r.tenant_id = ${tenantId} and ${ofSession} and ${ofStatus} and ${inSession}
        and ${page.after(sql`r.id`)} order by ${page.order(sql`r.id`)} limit ${page.limit}`,
    ],
    { name: "list runs", repeatable: true },
  );
  return (rows ?? []).map(runRecord);
};

export interface StoredEvent {
  readonly n: number;
  readonly runId: RunId;
  readonly type: string;
  readonly data: string;
  readonly createdAt: string;
  /** Content of the log row that the event is about. */
  readonly content: string | null;
}

/** The text of an answer under way, as last stored. */
export interface Draft {
  readonly message_id: string;
  readonly index: number;
  readonly text: string;
}

/** What a stream is about: one run, or everything in a session. */
export type EventScope = { readonly runId: RunId } | { readonly sessionId: SessionId };

export interface EventPage {
  readonly events: readonly StoredEvent[];
  /** Whether there may be more at once. */
  readonly full: boolean;
  /** The newest run of the scope that has not ended, if there is one. */
  readonly open: { readonly runId: RunId; readonly status: RunStatus; readonly draft: Draft | null } | null;
  /** The session is not the tenant's any more: it has been erased. */
  readonly gone: boolean;
}

/** Events of one page; each may bring a message's content with it. */
const EVENTS_A_PAGE = 100;

/**
 * Reads the events after a number, and how far the run under way has come.
 * @throws StoreUnavailable
 */
export const readEvents = async (db: Db, tenantId: TenantId, scope: EventScope, after: number): Promise<EventPage> => {
  const [inEvents, inRuns, inSessions]: [SQL, SQL, SQL] =
    "runId" in scope
      ? [
          sql`e.run_id = ${scope.runId}`,
          sql`r.id = ${scope.runId}`,
          sql`s.id = (select r.session_id from runs r where r.id = ${scope.runId})`,
        ]
      : [
          sql`e.session_id = ${scope.sessionId}`,
          sql`r.session_id = ${scope.sessionId}`,
          sql`s.id = ${scope.sessionId}`,
        ];
  // Runs first: a run seen as finished has stored its last event, which the second statement then finds.
  const [runs, events, sessions] = await db.batch(
    [
      sql`select r.id, r.status, r.draft from runs r where r.tenant_id = ${tenantId} and ${inRuns}
        and r.status in ('queued', 'running', 'requires_action') order by r.status = 'running' desc, r.position limit 1`,
      sql`select e.n, e.run_id, e.type, e.data::text as data, e.created_at, m.content::text as content
        from run_events e join sessions s on s.id = e.session_id and s.tenant_id = ${tenantId}
        left join messages m on m.session_id = e.session_id and m.seq = e.message_seq
        where ${inEvents} and e.n > ${after}::bigint order by e.n limit ${EVENTS_A_PAGE}`,
      sql`select s.id from sessions s where s.tenant_id = ${tenantId} and ${inSessions}`,
    ],
    { name: "read events", repeatable: true },
  );
  const open = runs?.[0];
  const draft = open === undefined ? null : textOrNull(open, "draft");
  const rows = events ?? [];
  return {
    events: rows.map((row) => ({
      n: number(row, "n"),
      runId: text(row, "run_id") as RunId,
      type: text(row, "type"),
      data: text(row, "data"),
      createdAt: time(row, "created_at"),
      content: textOrNull(row, "content"),
    })),
    full: rows.length === EVENTS_A_PAGE,
    gone: sessions?.length === 0,
    open:
      open === undefined
        ? null
        : {
            runId: text(open, "id") as RunId,
            status: text(open, "status") as RunStatus,
            draft: draft === null ? null : JSON.parse(draft),
          },
  };
};
