/** A delivery taken through once more, on purpose. */
import type { DeliveryId } from "../protocol/ids.ts";
import { type DeliveryRecord, storeDelivery } from "../store/deliveries.ts";
import type { TriggerRecord } from "../store/triggers.ts";
import type { Deps } from "../turns/deps.ts";
import { configOf, eventView, sessionKeyOf } from "./event.ts";
import { handOver } from "./receive.ts";

export type RedeliverOutcome =
  | { readonly kind: "stored"; readonly deliveryId: DeliveryId }
  /** It was refused, or its payload is gone. */
  | { readonly kind: "no_payload" };

/**
 * Makes a new delivery of what an old one brought. It was verified then and is not filtered again: whoever asks for it wants it. It has no
 * id of an event, so that it is no duplicate.
 * @throws StoreUnavailable
 */
export const redeliver = async (deps: Deps, trigger: TriggerRecord, old: DeliveryRecord): Promise<RedeliverOutcome> => {
  if (old.payload === null) return { kind: "no_payload" };
  const id = deps.newId("dlv");
  const view = eventView(trigger, old.eventId ?? id, old.headers, JSON.parse(old.payload));
  const key = sessionKeyOf(configOf(trigger), view);
  await storeDelivery(
    deps.db,
    {
      id,
      tenantId: trigger.tenantId,
      triggerId: trigger.id,
      eventId: null,
      headers: { ...old.headers, "hango-redelivery-of": old.id },
      payload: old.payload,
      sessionKey: key.kind === "key" ? key.key : null,
      status: key.kind === "key" ? "waiting" : "failed",
      reason: key.kind === "key" ? null : key.reason,
      debounceSeconds: 0,
    },
    deps.newId("dlv"),
  );
  if (key.kind === "key") await handOver(deps, trigger, id, 0);
  return { kind: "stored", deliveryId: id };
};
