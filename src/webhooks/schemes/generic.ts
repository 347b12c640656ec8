/** An HMAC of the body in a header, in the many ways in which services send one. */
import { anySigned, encoded, type HmacAlgorithm, hmac, joined, type SignatureEncoding, sha256 } from "./hmac.ts";
import { refused, type Scheme, staleness } from "./scheme.ts";

export interface HmacSettings {
  /** Lower case. */
  readonly header: string;
  readonly algorithm: HmacAlgorithm;
  readonly encoding: SignatureEncoding;
  /** What stands before the signature, `sha256=` for instance. */
  readonly prefix: string;
  /** A header with the time in whole seconds, lower case. It is signed too: `<time><separator><body>`. */
  readonly timestampHeader: string | null;
  readonly separator: string;
}

export const generic = (settings: HmacSettings): Scheme => {
  const { header, algorithm, encoding, prefix, timestampHeader, separator } = settings;
  const signed = (body: Uint8Array<ArrayBuffer>, timestamp: string | null): Uint8Array<ArrayBuffer> =>
    timestamp === null ? body : joined(`${timestamp}${separator}`, body);
  const signatureOf = async (secret: string, data: Uint8Array<ArrayBuffer>): Promise<string> =>
    encoded(await hmac(algorithm, secret, data), encoding);
  return {
    verify: async ({ headers, body }, options) => {
      const given = headers[header];
      if (given === undefined || given === "") return refused("signature_missing");
      if (!given.startsWith(prefix)) return refused("signature_malformed");
      const timestamp = timestampHeader === null ? null : headers[timestampHeader];
      if (timestamp === undefined || timestamp === "") return refused("timestamp_missing");
      const data = signed(body, timestamp);
      const bare = given.slice(prefix.length);
      // Hex is compared in lower case: some senders write it in upper case, and it is the same number.
      const signature = encoding === "hex" ? bare.toLowerCase() : bare;
      if (!(await anySigned([signature], options.secrets, (secret) => signatureOf(secret, data))))
        return refused("signature_wrong");
      const stale = timestamp === null ? null : staleness(timestamp, options);
      if (stale !== null) return refused(stale);
      return { kind: "verified", eventId: null, replayKey: await sha256(data) };
    },
    sign: async (body, { secret, nowSeconds }) => {
      const timestamp = timestampHeader === null ? null : String(nowSeconds);
      return {
        ...(timestampHeader === null ? {} : { [timestampHeader]: String(nowSeconds) }),
        [header]: `${prefix}${await signatureOf(secret, signed(body, timestamp))}`,
      };
    },
  };
};
