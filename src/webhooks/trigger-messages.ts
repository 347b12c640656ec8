/** The queue messages of triggers, for the Worker's queue door. */
import type { Deps } from "../turns/deps.ts";
import type { QueueHandlers } from "../turns/queue.ts";
import { type DeliverPorts, giveUpDelivery, triggerDelivery } from "./deliver.ts";
import { giveUpReply, triggerReply } from "./reply.ts";

export const triggerMessages = (ports: DeliverPorts) =>
  ({
    trigger_delivery: triggerDelivery(ports),
    trigger_reply: triggerReply,
  }) satisfies Partial<QueueHandlers<Deps>>;

export const givenUpTriggerMessages = {
  trigger_delivery: giveUpDelivery,
  trigger_reply: giveUpReply,
} satisfies Partial<QueueHandlers<Deps>>;
