/** Stripe: `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=...]` over `<t>.<body>`. */
import { anySigned, hmac, joined, sha256, toHex } from "./hmac.ts";
import { refused, type Scheme, staleness } from "./scheme.ts";

/** Most parts of the header that are looked at. */
const MAX_PARTS = 20;

const signatureOf = async (secret: string, timestamp: string, body: Uint8Array): Promise<string> =>
  toHex(await hmac("sha256", secret, joined(`${timestamp}.`, body)));

export const stripe: Scheme = {
  verify: async ({ headers, body }, options) => {
    const header = headers["stripe-signature"];
    if (header === undefined || header === "") return refused("signature_missing");
    const parts = header
      .split(",")
      .slice(0, MAX_PARTS)
      .map((part) => part.trim());
    const valuesOf = (name: string) =>
      parts.filter((part) => part.startsWith(`${name}=`)).map((part) => part.slice(name.length + 1));
    const [timestamp] = valuesOf("t");
    // `v0` and other schemes are passed over: Stripe's own advice, against a downgrade.
    const given = valuesOf("v1").filter((each) => /^[0-9a-f]{64}$/.test(each));
    if (given.length === 0) return refused("signature_malformed");
    if (timestamp === undefined || timestamp === "") return refused("timestamp_missing");
    if (!(await anySigned(given, options.secrets, (secret) => signatureOf(secret, timestamp, body))))
      return refused("signature_wrong");
    const stale = staleness(timestamp, options);
    if (stale !== null) return refused(stale);
    // The event's own id stands in the signed body.
    return { kind: "verified", eventId: null, replayKey: await sha256(joined(`${timestamp}.`, body)) };
  },
  sign: async (body, { secret, nowSeconds }) => ({
    "stripe-signature": `t=${nowSeconds},v1=${await signatureOf(secret, String(nowSeconds), body)}`,
  }),
};
