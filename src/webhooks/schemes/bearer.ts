/** A shared secret as it is: `Authorization: Bearer <secret>`. It proves who sends, and nothing about the body or the time. */
import { joined, sameText, sha256 } from "./hmac.ts";
import { refused, type Scheme } from "./scheme.ts";

export const bearer: Scheme = {
  verify: async ({ headers }, { secrets }) => {
    const authorization = headers["authorization"];
    if (authorization === undefined || authorization === "") return refused("signature_missing");
    const token = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
    if (token === undefined) return refused("signature_malformed");
    // Hashes are compared, so that a secret's length shows no more than its characters.
    const given = await sha256(joined(token));
    let found = false;
    for (const secret of secrets) found = sameText(given, await sha256(joined(secret))) || found;
    if (!found) return refused("signature_wrong");
    return { kind: "verified", eventId: headers["idempotency-key"] ?? null, replayKey: null };
  },
  sign: async (_body, { secret, eventId }) => ({ authorization: `Bearer ${secret}`, "idempotency-key": eventId }),
};
