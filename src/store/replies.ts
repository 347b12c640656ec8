/** Replies that senders are owed when the run of their delivery has ended, and that the runs of deliveries have ended. */
import { type SQL, sql } from "drizzle-orm";
import type { DeliveryId, RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import type { DeliveryRef } from "./deliveries.ts";
import { number, text, textOrNull, timeOrNull } from "./rows.ts";
import { TRIGGER_COLUMNS, type TriggerRecord, triggerRecord } from "./triggers.ts";

const ENDED = sql.raw("('completed', 'failed', 'cancelled')");

/**
 * SQL, for the batch that ends a run: its deliveries are complete. Also alone; the sweeper does the same for all runs.
 */
export const completeDeliveries = (tenantId: TenantId, runId: RunId): SQL =>
  sql`update deliveries d set status = 'completed', updated_at = hango_now()
    from runs r where r.id = ${runId} and r.tenant_id = ${tenantId} and r.status in ${ENDED}
      and d.run_id = r.id and d.tenant_id = r.tenant_id and d.status = 'accepted'`;

/** Marks a run's deliveries complete and says which of them are owed a reply. @throws StoreUnavailable */
export const repliesOfRun = async (db: Db, tenantId: TenantId, runId: RunId): Promise<readonly DeliveryRef[]> => {
  const results = await db.batch(
    [
      completeDeliveries(tenantId, runId),
      sql`select d.id from deliveries d join runs r on r.id = d.run_id and r.tenant_id = d.tenant_id
        where d.tenant_id = ${tenantId} and d.run_id = ${runId} and d.reply_status = 'pending' and r.status in ${ENDED}`,
    ],
    { name: "replies of run", repeatable: true },
  );
  return (results[1] ?? []).map((row) => ({ tenantId, deliveryId: text(row, "id") as DeliveryId }));
};

/** The same for every run that has ended, of all tenants: the sweeper asks. @throws StoreUnavailable */
export const dueReplies = async (db: Db, limit: number): Promise<readonly DeliveryRef[]> => {
  const results = await db.batch(
    [
      sql`update deliveries d set status = 'completed', updated_at = hango_now()
        from runs r where d.status = 'accepted' and r.id = d.run_id and r.tenant_id = d.tenant_id and r.status in ${ENDED}`,
      sql`select d.tenant_id, d.id from deliveries d join runs r on r.id = d.run_id and r.tenant_id = d.tenant_id
        where d.reply_status = 'pending' and d.due_at <= hango_now() and r.status in ${ENDED} order by d.due_at limit ${limit}`,
    ],
    { name: "due replies", repeatable: true },
  );
  return (results[1] ?? []).map((row) => ({
    tenantId: text(row, "tenant_id") as TenantId,
    deliveryId: text(row, "id") as DeliveryId,
  }));
};

/** What a reply is made of. */
export interface ReplyTask {
  readonly trigger: TriggerRecord;
  readonly deliveryId: DeliveryId;
  readonly eventId: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: string | null;
  readonly sessionId: SessionId | null;
  readonly run: {
    readonly id: RunId;
    readonly status: string;
    readonly outputText: string | null;
    readonly stopReason: string | null;
    readonly error: { readonly code: string; readonly message: string } | null;
    readonly finishedAt: string | null;
  };
  /** Attempts, this one included. */
  readonly attempt: number;
}

/**
 * Takes a reply for one attempt: it is not due again before this one has had its time.
 * @param attempts by number of the attempt, the wait in s until the next one
 * @returns undefined when no reply is owed, the run has not ended, or another attempt is under way
 * @throws StoreUnavailable
 */
export const takeReply = async (
  db: Db,
  { tenantId, deliveryId }: DeliveryRef,
  waitSeconds: { readonly first: number; readonly longest: number },
): Promise<ReplyTask | undefined> => {
  const results = await db.batch(
    [
      sql`update deliveries d set reply_attempts = d.reply_attempts + 1, updated_at = hango_now(),
          due_at = hango_now() + make_interval(secs => least(${waitSeconds.longest}::int, ${waitSeconds.first}::int * (2 ^ d.reply_attempts)))
        from runs r where d.id = ${deliveryId} and d.tenant_id = ${tenantId} and d.reply_status = 'pending' and d.due_at <= hango_now()
          and r.id = d.run_id and r.tenant_id = d.tenant_id and r.status in ${ENDED}
        returning d.event_id, d.headers::text as headers, d.payload, d.session_id, d.reply_attempts, r.id as run_id, r.status, r.output_text,
          r.stop_reason, r.error::text as error, r.finished_at`,
      sql`select ${TRIGGER_COLUMNS} from triggers t join deliveries d on d.trigger_id = t.id and d.tenant_id = t.tenant_id
        where d.id = ${deliveryId} and d.tenant_id = ${tenantId}`,
    ],
    { name: "take reply" },
  );
  const row = results[0]?.[0];
  const trigger = results[1]?.[0];
  if (row === undefined || trigger === undefined) return undefined;
  const error = textOrNull(row, "error");
  return {
    trigger: triggerRecord(trigger),
    deliveryId,
    eventId: textOrNull(row, "event_id"),
    headers: JSON.parse(text(row, "headers")),
    payload: textOrNull(row, "payload"),
    sessionId: textOrNull(row, "session_id") as SessionId | null,
    run: {
      id: text(row, "run_id") as RunId,
      status: text(row, "status"),
      outputText: textOrNull(row, "output_text"),
      stopReason: textOrNull(row, "stop_reason"),
      error: error === null ? null : JSON.parse(error),
      finishedAt: timeOrNull(row, "finished_at"),
    },
    attempt: number(row, "reply_attempts"),
  };
};

/** Records how a reply went. @throws StoreUnavailable */
export const settleReply = async (
  db: Db,
  { tenantId, deliveryId }: DeliveryRef,
  status: "delivered" | "failed",
): Promise<void> => {
  await db.batch(
    [
      sql`update deliveries d set reply_status = ${status}, updated_at = hango_now()
        where d.id = ${deliveryId} and d.tenant_id = ${tenantId} and d.reply_status = 'pending'`,
    ],
    { name: "settle reply", repeatable: true },
  );
};
