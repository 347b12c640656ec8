/** From a stored delivery to a turn: the queue's work. */

import type { MessageId, RunId, SessionId, TenantId } from "../protocol/ids.ts";
import {
  claimDeliveries,
  type DeliveryRecord,
  failDelivery,
  type Settlement,
  settleDeliveries,
} from "../store/deliveries.ts";
import { createSession, type NewSession } from "../store/sessions.ts";
import type { TriggerRecord } from "../store/triggers.ts";
import type { Deps } from "../turns/deps.ts";
import type { EnqueueOutcome, QueuedTurn } from "../turns/enqueue.ts";
import type { TriggerDelivery } from "../turns/queue.ts";
import { newRow } from "../turns/rows.ts";
import { callOf, makeCall } from "./call.ts";
import { configOf, eventView, messageOf, promptOf } from "./event.ts";
import { joined, sha256 } from "./schemes/hmac.ts";
import type { Json, TriggerConfig } from "./trigger-config.ts";

/** What this room is given by those that it may not import. */
export interface DeliverPorts {
  /** The session that a trigger's `session` settings ask for, with this key. */
  readonly newSession: (id: SessionId, tenantId: TenantId, settings: Json, defaultModel: string) => Promise<NewSession>;
  readonly enqueueTurn: (deps: Deps, turn: QueuedTurn) => Promise<EnqueueOutcome>;
}

interface Batch {
  readonly trigger: TriggerRecord;
  readonly config: TriggerConfig;
  readonly runId: RunId;
  readonly deliveries: readonly DeliveryRecord[];
  readonly seen: ReadonlyMap<string, RunId>;
}

const viewOf = (trigger: TriggerRecord, delivery: DeliveryRecord) =>
  eventView(trigger, delivery.eventId ?? delivery.id, delivery.headers, JSON.parse(delivery.payload ?? "null"));

/** Senders that do not sign the id of an event: what they sign is the body. */
const signsNoId = ({ verification }: TriggerConfig): boolean =>
  verification?.scheme === "github" || verification?.scheme === "linear";

/** The events of a turn. A replay under another id, which nobody signed, is no event: not within the window, and not later. */
const distinct = ({ config, deliveries, seen }: Batch): readonly DeliveryRecord[] =>
  signsNoId(config)
    ? deliveries.filter(
        ({ id, payload }, at) => !seen.has(id) && deliveries.findIndex((each) => each.payload === payload) === at,
      )
    : deliveries;

/**
 * What makes two turns of a trigger the same. The sender's id of the event; but where the id is not signed (GitHub, Linear), the body
 * that is: a replay with another id finds the first one's run.
 */
const idempotencyKeyOf = async ({ trigger, config, deliveries }: Batch): Promise<string> => {
  const [first] = deliveries;
  // What was sent again on purpose has no id of an event, and is not a replay.
  const event =
    first === undefined || first.eventId === null
      ? (first?.id ?? "")
      : signsNoId(config) && first.payload !== null
        ? first.payload
        : first.eventId;
  return `hook:${await sha256(joined(trigger.id, "\n", event))}`;
};

/** The input's id follows from the run's, so that a message that comes twice brings one input. */
const messageIdOf = (runId: RunId): MessageId => `msg_${runId.slice("run_".length)}` as MessageId;

/** The run that was to be joined was just ending: nothing is stored, and the message is to be delivered again. */
export class RunChanging extends Error {
  override readonly name = "RunChanging";
}

const failed = (reason: string): Settlement => ({
  status: "failed",
  reason,
  sessionId: null,
  runId: null,
  reply: false,
});

const settlementOf = (outcome: EnqueueOutcome, { runId, config }: Batch, sessionId: SessionId): Settlement => {
  const accepted = (run: RunId): Settlement => ({
    status: "accepted",
    reason: null,
    sessionId,
    runId: run,
    reply: config.reply !== undefined,
  });
  switch (outcome.kind) {
    case "queued":
    case "joined":
      return accepted(outcome.runId);
    case "replay":
      // Our own run: the answer to an earlier attempt was lost. Another one: the event had one before.
      return outcome.runId === runId
        ? accepted(runId)
        : { status: "duplicate", reason: "event_seen", sessionId, runId: outcome.runId, reply: false };
    case "busy":
      return failed("session_busy");
    case "session_not_found":
      return failed("session_not_found");
    default:
      return outcome satisfies never;
  }
};

const enqueue = async (
  deps: Deps,
  ports: DeliverPorts,
  batch: Batch,
  key: string,
  text: string,
): Promise<Settlement> => {
  const { trigger, config, runId, deliveries } = batch;
  const { tenantId } = trigger;
  const settings = { ...config.session, key };
  const wanted = await ports.newSession(deps.newId("ses"), tenantId, settings, deps.config.defaultModel);
  const made = await createSession(deps.db, wanted, null);
  if (made.kind !== "session") return failed("session_not_found");
  const content = JSON.stringify([{ type: "text", text }]);
  const sessionId = made.session.id;
  const outcome = await ports.enqueueTurn(deps, {
    tenantId,
    keyId: null,
    session: { id: sessionId },
    runId,
    trigger: "trigger",
    input: newRow({ id: messageIdOf(runId), origin: "event", content, runId }),
    onBusy: config.on_busy,
    idempotencyKey: await idempotencyKeyOf(batch),
    requestHash: await sha256(joined(content)),
    options: config.budget === undefined ? {} : { maxUsd: config.budget.max_usd },
    callbackUrl: null,
    triggerId: trigger.id,
    deliveryId: deliveries[0]?.id ?? null,
  });
  if (outcome.kind === "busy" && config.on_busy !== "reject") throw new RunChanging();
  return settlementOf(outcome, batch, sessionId);
};

/** Tells the sender at once that somebody is at it: best effort, once, for the newest of the events. */
const acknowledge = async (deps: Deps, { trigger, config, deliveries }: Batch, runId: RunId | null): Promise<void> => {
  const newest = deliveries.at(-1);
  if (config.ack === undefined || newest === undefined) return;
  try {
    const view = { ...viewOf(trigger, newest), run: { id: runId ?? "" } };
    const report = { delivery_id: newest.id, event_id: newest.eventId, run_id: runId, status: "accepted" };
    const call = callOf(config.ack, view, report, deps.config.allowPrivateUrls);
    const outcome = call === null ? null : await makeCall(deps.fetch, call, `${newest.id}-ack`);
    if (outcome?.kind !== "ok") deps.log.warn("an acknowledgement was not taken", { delivery_id: newest.id });
  } catch {
    deps.log.warn("an acknowledgement could not be made", { delivery_id: newest.id });
  }
};

const run = async (deps: Deps, ports: DeliverPorts, batch: Batch): Promise<void> => {
  const { trigger, config, runId, deliveries } = batch;
  const settle = (settlement: Settlement) => settleDeliveries(deps.db, trigger.tenantId, runId, settlement);
  const key = deliveries[0]?.sessionKey ?? null;
  if (key === null) return void (await settle(failed("session_key_invalid")));
  const events = distinct(batch);
  if (events.length === 0) {
    const [seenRunId = null] = batch.seen.values();
    return void (await settle({ ...failed("event_seen"), status: "duplicate", runId: seenRunId }));
  }
  let text: string;
  try {
    text = messageOf(events.map((delivery) => promptOf(config, viewOf(trigger, delivery))));
  } catch {
    return void (await settle(failed("template_failed")));
  }
  const settlement = await enqueue(deps, ports, batch, key, text);
  const settled = await settle(settlement);
  // Of several messages for the same deliveries one settles them, and that one tells the sender.
  if (settlement.status === "accepted" && settled.length > 0) await acknowledge(deps, batch, settlement.runId);
};

/**
 * The queue's message: makes the delivery's session if it is not there, and stores its turn. Safe to do twice.
 * @throws StoreUnavailable; the message then comes again
 */
export const triggerDelivery =
  (ports: DeliverPorts) =>
  async (deps: Deps, { tenantId, deliveryId }: TriggerDelivery): Promise<void> => {
    const claim = await claimDeliveries(deps.db, tenantId, deliveryId, deps.newId("run"));
    switch (claim.kind) {
      case "settled":
        return;
      case "not_due":
        await deps.queue.send(
          { v: 1, type: "trigger_delivery", tenantId, deliveryId },
          { delaySeconds: claim.delaySeconds },
        );
        return;
      case "claimed":
        return run(deps, ports, { ...claim, config: configOf(claim.trigger) });
      default:
        return claim satisfies never;
    }
  };

/** A delivery whose message failed too often. */
export const giveUpDelivery = (deps: Deps, { tenantId, deliveryId }: TriggerDelivery): Promise<void> =>
  failDelivery(deps.db, tenantId, deliveryId, "gave_up");
