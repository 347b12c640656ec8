/** Slack: `X-Slack-Signature: v0=<hex>` over `v0:<X-Slack-Request-Timestamp>:<body>`. */
import { anySigned, hmac, joined, sha256, toHex } from "./hmac.ts";
import { refused, type Scheme, staleness } from "./scheme.ts";

const signatureOf = async (secret: string, timestamp: string, body: Uint8Array): Promise<string> =>
  `v0=${toHex(await hmac("sha256", secret, joined(`v0:${timestamp}:`, body)))}`;

export const slack: Scheme = {
  verify: async ({ headers, body }, options) => {
    const signature = headers["x-slack-signature"];
    const timestamp = headers["x-slack-request-timestamp"];
    if (signature === undefined || signature === "") return refused("signature_missing");
    if (!/^v0=[0-9a-f]{64}$/.test(signature)) return refused("signature_malformed");
    if (timestamp === undefined || timestamp === "") return refused("timestamp_missing");
    if (!(await anySigned([signature], options.secrets, (secret) => signatureOf(secret, timestamp, body))))
      return refused("signature_wrong");
    const stale = staleness(timestamp, options);
    if (stale !== null) return refused(stale);
    // Events have their id in the body (`event_id`); commands and interactions have none, but a signature that is theirs alone.
    return { kind: "verified", eventId: null, replayKey: await sha256(joined(signature)) };
  },
  sign: async (body, { secret, nowSeconds }) => ({
    "x-slack-request-timestamp": String(nowSeconds),
    "x-slack-signature": await signatureOf(secret, String(nowSeconds), body),
  }),
};
