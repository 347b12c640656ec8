/** The public door of a trigger: checked, stored, answered. What the event leads to is the queue's work. */
import type { DeliveryId } from "../protocol/ids.ts";
import { type NewDelivery, storeDelivery, storeRefusal } from "../store/deliveries.ts";
import { type OpenTrigger, openTrigger, type TriggerRecord, validSecrets } from "../store/triggers.ts";
import type { Deps } from "../turns/deps.ts";
import { configOf, eventView, sessionKeyOf } from "./event.ts";
import { isOwn, passes } from "./filters.ts";
import { scalarAt, valueAt } from "./paths.ts";
import { formOf, keptHeaders, MAX_HOOK_BYTES, type PayloadProblem, readPayload } from "./payload.ts";
import { joined, sha256 } from "./schemes/hmac.ts";
import type { Received } from "./schemes/scheme.ts";
import type { TriggerConfig, TriggerResponse } from "./trigger-config.ts";
import {
  DEFAULT_HMAC_HEADER,
  DEFAULT_TOLERANCE_SECONDS,
  eventIdSource,
  schemeOf,
  takesForms,
  type Verification,
} from "./verification.ts";

export interface HookRequest {
  readonly triggerId: string;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Reads the body; null when it has more than so many bytes. */
  readonly body: (limitBytes: number) => Promise<Uint8Array<ArrayBuffer> | null>;
}

export type HookOutcome =
  /** Unknown, disabled, no webhook, or of a suspended tenant: the sender is not told which. */
  | { readonly kind: "unknown" }
  | { readonly kind: "too_large" }
  | { readonly kind: "wrong_content_type" }
  | { readonly kind: "unverified" }
  | { readonly kind: "bad_payload"; readonly problem: PayloadProblem }
  /** The sender's question whether anybody is here. */
  | { readonly kind: "handshake"; readonly challenge: string | null; readonly deliveryId: DeliveryId }
  | {
      readonly kind: "taken";
      readonly deliveryId: DeliveryId;
      readonly state: "accepted" | "ignored" | "duplicate" | "failed";
      readonly response: TriggerResponse | undefined;
      readonly scheme: Verification["scheme"];
    };

/** Longest id of an event that is kept as it is, in characters. */
const MAX_EVENT_ID_CHARS = 200;

/** An id of any length and alphabet, as a column takes it. */
const boundedId = async (id: string): Promise<string> =>
  id.length <= MAX_EVENT_ID_CHARS && /^[\x21-\x7e]+$/.test(id) ? id : `sha256:${await sha256(joined(id))}`;

/** Names of headers that prove something and are not kept; most are known by their names already. */
const unkeptOf = (verification: Verification): readonly string[] =>
  verification.scheme === "hmac" ? [(verification.header ?? DEFAULT_HMAC_HEADER).toLowerCase()] : [];

/** The sender's question whether this address is ours, with its answer; undefined for an event. */
const handshakeOf = (
  { scheme }: Verification,
  headers: Received["headers"],
  payload: unknown,
): { readonly challenge: string | null } | undefined => {
  if (scheme === "slack" && valueAt(payload, "type") === "url_verification") {
    return { challenge: scalarAt(payload, "challenge") ?? "" };
  }
  return scheme === "github" && headers["x-github-event"] === "ping" ? { challenge: null } : undefined;
};

/** The id of the event: where the trigger says, where the scheme has it, or what the scheme says a replay repeats. */
const eventIdOf = async (
  verification: Verification,
  found: { readonly eventId: string | null; readonly replayKey: string | null },
  { headers, payload }: { readonly headers: Received["headers"]; readonly payload: unknown },
): Promise<string | null> => {
  const source = eventIdSource(verification);
  const named =
    source === undefined
      ? undefined
      : "header" in source
        ? headers[source.header.toLowerCase()]
        : scalarAt(payload, source.path.replace(/^payload\./, ""));
  const id = named ?? found.eventId ?? (found.replayKey === null ? null : `sha256:${found.replayKey}`);
  return id === null || id === "" ? null : boundedId(id);
};

/** What is to become of an event that is believed. */
const judge = (
  config: TriggerConfig,
  verification: Verification,
  view: ReturnType<typeof eventView>,
): Pick<NewDelivery, "status" | "reason" | "sessionKey"> => {
  const ignored = (reason: string) => ({ status: "ignored", reason, sessionKey: null }) as const;
  if (isOwn(verification.scheme, config.own_events, view)) return ignored("own_event");
  if (!passes(config.filters, view)) return ignored("filtered");
  const key = sessionKeyOf(config, view);
  if (key.kind === "problem") return { status: "failed", reason: key.reason, sessionKey: null };
  return { status: "waiting", reason: null, sessionKey: key.key };
};

export const handOver = async (
  deps: Deps,
  { tenantId }: TriggerRecord,
  deliveryId: DeliveryId,
  delaySeconds: number,
): Promise<void> => {
  // It is stored: should the queue not take the message, the sweeper sends another.
  await deps.queue.send({ v: 1, type: "trigger_delivery", tenantId, deliveryId }, { delaySeconds }).catch(() => {
    deps.log.warn("the queue did not take a delivery", { delivery_id: deliveryId });
  });
};

/** Reads, verifies and stores what came to an open trigger. */
export const take = async (deps: Deps, { trigger, nowMs }: OpenTrigger, request: HookRequest): Promise<HookOutcome> => {
  const config = configOf(trigger);
  const { verification } = config;
  if (verification === undefined) return { kind: "unknown" };
  const { headers } = request;
  const { tenantId, id: triggerId } = trigger;
  const deliveryId = deps.newId("dlv");
  const kept = keptHeaders(headers, unkeptOf(verification));
  const refuse = async <Outcome extends HookOutcome>(reason: string, outcome: Outcome): Promise<Outcome> => {
    await storeRefusal(deps.db, { id: deliveryId, tenantId, triggerId, headers: kept, reason });
    return outcome;
  };

  const form = formOf(headers["content-type"] ?? "", takesForms(verification.scheme));
  if (form === undefined) return refuse("wrong_content_type", { kind: "wrong_content_type" });
  const body = await request.body(MAX_HOOK_BYTES);
  if (body === null) return refuse("too_large", { kind: "too_large" });
  const verdict = await schemeOf(verification).verify(
    { headers, body },
    {
      secrets: validSecrets(trigger.secrets, nowMs),
      nowSeconds: Math.floor(nowMs / 1000),
      toleranceSeconds: verification.tolerance_seconds ?? DEFAULT_TOLERANCE_SECONDS,
    },
  );
  if (verdict.kind === "refused") return refuse(verdict.reason, { kind: "unverified" });
  const read = readPayload(body, form);
  if (read.kind === "problem") return refuse(read.problem, { kind: "bad_payload", problem: read.problem });

  const { payload, text } = read;
  const store = (d: Pick<NewDelivery, "status" | "reason" | "sessionKey" | "eventId">) =>
    storeDelivery(
      deps.db,
      {
        id: deliveryId,
        tenantId,
        triggerId,
        headers: kept,
        payload: text,
        debounceSeconds: config.debounce_seconds,
        ...d,
      },
      deps.newId("dlv"),
    );
  const handshake = handshakeOf(verification, headers, payload);
  if (handshake !== undefined) {
    await store({ status: "ignored", reason: "handshake", sessionKey: null, eventId: null });
    return { kind: "handshake", challenge: handshake.challenge, deliveryId };
  }
  const eventId = await eventIdOf(verification, verdict, { headers, payload });
  const view = eventView(trigger, eventId ?? deliveryId, kept, payload);
  const judged = judge(config, verification, view);
  const outcome = await store({ ...judged, eventId });
  const taken = {
    kind: "taken",
    deliveryId: outcome.id,
    response: config.response,
    scheme: verification.scheme,
  } as const;
  if (outcome.kind === "duplicate") return { ...taken, state: "duplicate" };
  if (judged.status !== "waiting") return { ...taken, state: judged.status };
  await handOver(deps, trigger, deliveryId, outcome.delaySeconds);
  return { ...taken, state: "accepted" };
};

/**
 * Takes what was posted to a trigger's address. Two round trips to the database, whatever the turn will take.
 * @throws StoreUnavailable: then nothing is stored, and the sender is to come again
 */
export const receive = async (deps: Deps, request: HookRequest): Promise<HookOutcome> => {
  const open = await openTrigger(deps.db, request.triggerId, "webhook");
  return open === undefined ? { kind: "unknown" } : take(deps, open, request);
};
