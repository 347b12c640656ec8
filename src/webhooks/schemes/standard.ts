/** Standard Webhooks (https://www.standardwebhooks.com): `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,...`. */
import { Webhook } from "standardwebhooks";
import { anySigned } from "./hmac.ts";
import { refused, type Scheme, staleness } from "./scheme.ts";

/** Most signatures of a header that are looked at: a sender sends one per valid secret. */
const MAX_SIGNATURES = 10;

const VERSION = "v1,";

/**
 * The package's `verify` reads the clock itself, so its `sign` is used and the rest of what the specification asks for is done here.
 * The id is part of what is signed.
 */
const signatureOf = (secret: string, id: string, seconds: number, body: string): string =>
  new Webhook(secret).sign(id, new Date(seconds * 1000), body);

/** Whether the package can use it: `whsec_` (which may be missing) and base64. */
export const isStandardSecret = (secret: string): boolean => {
  try {
    new Webhook(secret);
    return true;
  } catch {
    return false;
  }
};

const text = (body: Uint8Array): string => new TextDecoder("utf-8", { fatal: false, ignoreBOM: true }).decode(body);

export const standard: Scheme = {
  verify: async ({ headers, body }, options) => {
    const id = headers["webhook-id"];
    const timestamp = headers["webhook-timestamp"];
    const signature = headers["webhook-signature"];
    if (signature === undefined || signature === "" || id === undefined || id === "")
      return refused("signature_missing");
    const given = signature
      .split(" ")
      .slice(0, MAX_SIGNATURES)
      .filter((each) => each.startsWith(VERSION));
    if (given.length === 0) return refused("signature_malformed");
    if (timestamp === undefined || timestamp === "") return refused("timestamp_missing");
    if (!/^\d{1,12}$/.test(timestamp)) return refused("timestamp_malformed");
    const signed = await anySigned(given, options.secrets, (secret) =>
      signatureOf(secret, id, Number(timestamp), text(body)),
    );
    if (!signed) return refused("signature_wrong");
    const stale = staleness(timestamp, options);
    return stale === null ? { kind: "verified", eventId: id, replayKey: null } : refused(stale);
  },
  sign: async (body, { secret, nowSeconds, eventId }) => ({
    "webhook-id": eventId,
    "webhook-timestamp": String(nowSeconds),
    "webhook-signature": signatureOf(secret, eventId, nowSeconds, text(body)),
  }),
};
