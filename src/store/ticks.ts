/** Ticks of cron triggers: each moment that was due becomes one delivery, whoever notices it and however often. */
import { sql } from "drizzle-orm";
import type { DeliveryId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import type { TriggerRecord } from "./triggers.ts";

export interface NewTick {
  readonly id: DeliveryId;
  /** JSON text. */
  readonly payload: string;
  readonly sessionKey: string;
  /** When the trigger is due next, RFC 3339; null for never. */
  readonly nextAt: string | null;
}

/**
 * Stores the tick that a trigger is due for and sets its next time. While the run of an earlier tick is not finished, the tick is
 * recorded as ignored: runs of a cron trigger never overlap.
 * @returns whether there is a turn to make; false also when somebody else stored the tick
 * @throws StoreUnavailable
 */
export const storeTick = async (db: Db, trigger: TriggerRecord, tick: NewTick): Promise<boolean> => {
  const { id, tenantId, nextAt } = trigger;
  const results = await db.batch(
    [
      sql`with busy as (select exists (select 1 from deliveries d left join runs r on r.id = d.run_id
            where d.trigger_id = ${id} and d.tenant_id = ${tenantId}
              and (d.status = 'waiting' or (d.status = 'accepted' and r.status in ('queued', 'running', 'requires_action')))) as it_is)
        insert into deliveries (id, tenant_id, trigger_id, event_id, status, reason, payload, session_key, due_at)
        select ${tick.id}, t.tenant_id, t.id, ${`cron:${nextAt ?? ""}`}, case when busy.it_is then 'ignored' else 'waiting' end,
          case when busy.it_is then 'overlap' end, ${tick.payload}, ${tick.sessionKey}, hango_now()
        from triggers t, busy where t.id = ${id} and t.tenant_id = ${tenantId} and t.enabled and t.next_at = ${nextAt}::timestamptz
        on conflict do nothing`,
      sql`update triggers t set next_at = ${tick.nextAt}::timestamptz
        where t.id = ${id} and t.tenant_id = ${tenantId} and t.next_at = ${nextAt}::timestamptz`,
      sql`select 1 from deliveries d where d.id = ${tick.id} and d.tenant_id = ${tenantId} and d.status = 'waiting'`,
    ],
    { name: "store tick", repeatable: true },
  );
  return (results[2] ?? []).length > 0;
};
