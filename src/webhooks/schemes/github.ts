/** GitHub: `X-Hub-Signature-256: sha256=<hex>` over the body. It signs no time, and not the id of the delivery. */
import { anySigned, hmac, sha256, toHex } from "./hmac.ts";
import { refused, type Scheme } from "./scheme.ts";

const PREFIX = "sha256=";

export const github: Scheme = {
  verify: async ({ headers, body }, { secrets }) => {
    const signature = headers["x-hub-signature-256"];
    if (signature === undefined || signature === "") return refused("signature_missing");
    if (!/^sha256=[0-9a-f]{64}$/.test(signature)) return refused("signature_malformed");
    const signed = await anySigned(
      [signature],
      secrets,
      async (secret) => PREFIX + toHex(await hmac("sha256", secret, body)),
    );
    if (!signed) return refused("signature_wrong");
    return { kind: "verified", eventId: headers["x-github-delivery"] ?? null, replayKey: await sha256(body) };
  },
  sign: async (body, { secret, eventId }) => ({
    "x-github-delivery": eventId,
    "x-hub-signature-256": PREFIX + toHex(await hmac("sha256", secret, body)),
  }),
};
