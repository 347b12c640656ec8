/** The queue messages of triggers, for the Worker's queue door. */
import type { Deps } from "../turns/deps.ts";
import type { QueueHandlers, RunTurn } from "../turns/queue.ts";
import { type DeliverPorts, giveUpDelivery, triggerDelivery } from "./deliver.ts";
import { giveUpReply, onRunEnded, triggerReply } from "./reply.ts";

export const triggerMessages = (ports: DeliverPorts) =>
  ({
    trigger_delivery: triggerDelivery(ports),
    trigger_reply: triggerReply,
  }) satisfies Partial<QueueHandlers<Deps>>;

export const givenUpTriggerMessages = {
  trigger_delivery: giveUpDelivery,
  trigger_reply: giveUpReply,
} satisfies Partial<QueueHandlers<Deps>>;

/** Around the handler of `run_turn`: when the run has ended, its senders get their replies at once instead of with the next minute's tick. */
export const withReplies =
  (runTurn: QueueHandlers<Deps>["run_turn"]) =>
  async (deps: Deps, message: RunTurn): Promise<void> => {
    await runTurn(deps, message);
    // The run is done, whatever becomes of this: the sweeper finds what is owed.
    await onRunEnded(deps, message).catch(() =>
      deps.log.warn("replies are left to the sweeper", { run_id: message.runId }),
    );
  };
