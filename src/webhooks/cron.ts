/** What the cron door does for triggers: ticks that are due, and what got lost on its way through the queue. */
import { overdueDeliveries } from "../store/deliveries.ts";
import { dueReplies } from "../store/replies.ts";
import { storeTick } from "../store/ticks.ts";
import { dueTriggers, type OpenTrigger } from "../store/triggers.ts";
import type { Deps } from "../turns/deps.ts";
import type { MaintenanceTask } from "../turns/maintenance.ts";
import { sendAll } from "../turns/send-batch.ts";
import { configOf, eventView, sessionKeyOf } from "./event.ts";
import { sendReplies } from "./reply.ts";
import { nextTick } from "./schedule.ts";

/** Triggers, deliveries and replies that one tick of the cron door takes; the next takes the rest. A queue takes 100 messages a batch. */
const PER_TICK = 100;

/** How long a due delivery may wait before its message counts as lost, in s: longer than a queue takes on a bad day. */
const OVERDUE_SECONDS = 120;

/** Stores the tick of one trigger. Ticks that were missed while nobody looked are one tick. */
const tick = async (deps: Deps, { trigger, nowMs }: OpenTrigger): Promise<void> => {
  const config = configOf(trigger);
  if (config.schedule === undefined) return;
  const id = deps.newId("dlv");
  const payload = {
    ...config.payload,
    scheduled_at: trigger.nextAt,
    fired_at: new Date(nowMs).toISOString(),
  };
  const key = sessionKeyOf(config, eventView(trigger, id, {}, payload));
  const { tenantId } = trigger;
  const due = await storeTick(deps.db, trigger, {
    id,
    payload: JSON.stringify(payload),
    sessionKey: key.kind === "key" ? key.key : `${trigger.id}:${id}`,
    nextAt: nextTick(config.schedule, nowMs),
  });
  if (due) await deps.queue.send({ v: 1, type: "trigger_delivery", tenantId, deliveryId: id });
};

/**
 * Fires the cron triggers that are due by the database's clock, sends lost deliveries on, and the replies of runs that have ended.
 * @throws StoreUnavailable, or what the queue fails with; the next tick does it all again
 */
export const runDueTriggers = async (deps: Deps): Promise<void> => {
  for (const due of await dueTriggers(deps.db, PER_TICK)) {
    // One that fails, for whatever reason, stays due and keeps none of the others waiting.
    await tick(deps, due).catch((error: unknown) =>
      deps.log.error("a cron trigger could not be fired", {
        trigger_id: due.trigger.id,
        error: error instanceof Error ? error.name : typeof error,
      }),
    );
  }
  const overdue = await overdueDeliveries(deps.db, OVERDUE_SECONDS, PER_TICK);
  if (overdue.length > 0) {
    await sendAll(
      deps.queue,
      overdue.map((ref) => ({ v: 1, type: "trigger_delivery", ...ref })),
    );
    deps.log.info("sent overdue deliveries to the queue again", { deliveries: overdue.length });
  }
  await sendReplies(deps, await dueReplies(deps.db, PER_TICK));
};

/** The room's tasks of the cron trigger for what comes in. */
export const triggerTasks: readonly MaintenanceTask[] = [
  {
    name: "triggers",
    everySeconds: 0,
    run: async (deps) => {
      await runDueTriggers(deps);
      return "done";
    },
  },
];
