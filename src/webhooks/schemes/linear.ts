/** Linear: `Linear-Signature: <hex>` over the body, whose `webhookTimestamp` (ms) says when it was sent. */
import { anySigned, hmac, sha256, toHex } from "./hmac.ts";
import { refused, type Scheme, staleness } from "./scheme.ts";

/** The time in the body, as text in whole seconds; undefined where there is none. */
const sentAt = (body: Uint8Array): string | undefined => {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(body));
    const ms: unknown =
      typeof value === "object" && value !== null ? Reflect.get(value, "webhookTimestamp") : undefined;
    return typeof ms === "number" ? String(Math.floor(ms / 1000)) : undefined;
  } catch {
    return undefined;
  }
};

export const linear: Scheme = {
  verify: async ({ headers, body }, options) => {
    const signature = headers["linear-signature"];
    if (signature === undefined || signature === "") return refused("signature_missing");
    if (!/^[0-9a-f]{64}$/.test(signature)) return refused("signature_malformed");
    // The signature is checked first: nobody's body is parsed before it is known whose it is.
    if (!(await anySigned([signature], options.secrets, async (secret) => toHex(await hmac("sha256", secret, body)))))
      return refused("signature_wrong");
    const stale = staleness(sentAt(body), options);
    if (stale !== null) return refused(stale);
    return { kind: "verified", eventId: headers["linear-delivery"] ?? null, replayKey: await sha256(body) };
  },
  sign: async (body, { secret, eventId }) => ({
    "linear-delivery": eventId,
    "linear-signature": toHex(await hmac("sha256", secret, body)),
  }),
};
