/** Sample deliveries: made and signed as the sender would, and taken through the same door. */
import type { DeliveryId } from "../protocol/ids.ts";
import { type OpenTrigger, validSecrets } from "../store/triggers.ts";
import type { Deps } from "../turns/deps.ts";
import { configOf } from "./event.ts";
import { type HookOutcome, type HookRequest, take } from "./receive.ts";
import { joined } from "./schemes/hmac.ts";
import { type SchemeName, schemeOf } from "./verification.ts";

export interface Sample {
  /** Default: an event as the sender's documentation shows it. */
  readonly payload?: Readonly<Record<string, unknown>> | undefined;
  /** Further headers, such as `X-GitHub-Event`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

interface SampleEvent {
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** An event of each sender, small and of the usual shape. @param id unique, so that no sample is the replay of another */
const sampleOf = (scheme: SchemeName, id: string, nowMs: number): SampleEvent => {
  switch (scheme) {
    case "github":
      return {
        headers: { "x-github-event": "issues", "user-agent": "GitHub-Hookshot/sample" },
        payload: {
          action: "opened",
          issue: { number: 1, title: "A sample issue", body: `Sent by hango's sample sender (${id}).`, state: "open" },
          repository: { full_name: "octocat/hello-world" },
          sender: { login: "octocat", type: "User" },
        },
      };
    case "slack":
      return {
        headers: {},
        payload: {
          type: "event_callback",
          event_id: id,
          event_time: Math.floor(nowMs / 1000),
          team_id: "T0SAMPLE",
          event: {
            type: "app_mention",
            user: "U0SAMPLE",
            channel: "C0SAMPLE",
            ts: `${Math.floor(nowMs / 1000)}.000100`,
            text: "A sample message.",
          },
        },
      };
    case "stripe":
      return {
        headers: {},
        payload: {
          id,
          object: "event",
          type: "payment_intent.succeeded",
          created: Math.floor(nowMs / 1000),
          data: { object: { id: "pi_sample", object: "payment_intent", amount: 2000, currency: "usd" } },
        },
      };
    case "linear":
      return {
        headers: { "linear-event": "Issue" },
        payload: {
          action: "create",
          type: "Issue",
          actor: { id: "sample", type: "user", name: "Sample" },
          data: { id, title: "A sample issue" },
          webhookTimestamp: nowMs,
        },
      };
    case "standard":
    case "hmac":
    case "bearer":
      return {
        headers: {},
        payload: { type: "sample", timestamp: new Date(nowMs).toISOString(), data: { id, text: "A sample event." } },
      };
    default:
      return scheme satisfies never;
  }
};

/** The request that a sender would make: the event, signed with the newest secret. */
const signed = async (
  { trigger, nowMs }: OpenTrigger,
  deliveryId: DeliveryId,
  sample: Sample,
): Promise<HookRequest> => {
  const { verification = { scheme: "bearer" } as const } = configOf(trigger);
  const usual = sampleOf(verification.scheme, deliveryId, nowMs);
  const given = sample.payload ?? usual.payload;
  // A time that Linear signs in the body belongs to the delivery, not to the event that somebody gives.
  const payload = verification.scheme === "linear" ? { ...given, webhookTimestamp: nowMs } : given;
  const body = joined(JSON.stringify(payload));
  const options = {
    secret: validSecrets(trigger.secrets, nowMs)[0] ?? "",
    nowSeconds: Math.floor(nowMs / 1000),
    eventId: deliveryId,
  };
  return {
    triggerId: trigger.id,
    headers: {
      ...usual.headers,
      ...Object.fromEntries(Object.entries(sample.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value])),
      "content-type": "application/json",
      ...(await schemeOf(verification).sign(body, options)),
    },
    body: async (limitBytes) => (body.byteLength > limitBytes ? null : body),
  };
};

/** Sends a sample to a trigger that was found for it. @throws StoreUnavailable */
export const sendSample = async (deps: Deps, open: OpenTrigger, sample: Sample): Promise<HookOutcome> =>
  take(deps, open, await signed(open, deps.newId("dlv"), sample));
