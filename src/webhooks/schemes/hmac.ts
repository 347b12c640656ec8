/** Keyed hashes, and comparing them in a time that does not depend on where they differ. */

export type HmacAlgorithm = "sha1" | "sha256" | "sha512";
export type SignatureEncoding = "hex" | "base64";

const WEB_CRYPTO = { sha1: "SHA-1", sha256: "SHA-256", sha512: "SHA-512" } as const;

const encoder = new TextEncoder();

/** The pieces one after the other; text as UTF-8. */
export const joined = (...parts: readonly (string | Uint8Array)[]): Uint8Array<ArrayBuffer> => {
  const pieces = parts.map((part) => (typeof part === "string" ? encoder.encode(part) : part));
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.byteLength;
  }
  return whole;
};

/** @param secret its UTF-8 is the key; not empty */
export const hmac = async (
  algorithm: HmacAlgorithm,
  secret: string,
  data: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> => {
  const params = { name: "HMAC", hash: WEB_CRYPTO[algorithm] };
  const key = await crypto.subtle.importKey("raw", encoder.encode(secret), params, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, data));
};

export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

export const encoded = (bytes: Uint8Array, encoding: SignatureEncoding): string =>
  encoding === "hex" ? toHex(bytes) : btoa(String.fromCharCode(...bytes));

/** SHA-256 in hex. */
export const sha256 = async (data: Uint8Array<ArrayBuffer>): Promise<string> =>
  toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", data)));

/** Longest signature that is looked at, in characters: base64 of a SHA-512 has 88. */
const MAX_SIGNATURE_CHARS = 200;

/** Whether two texts are equal, in a time that depends on the length of `given` alone. */
export const sameText = (given: string, expected: string): boolean => {
  let difference = given.length ^ expected.length;
  const chars = Math.min(given.length, MAX_SIGNATURE_CHARS);
  for (let at = 0; at < chars; at++)
    difference |= given.charCodeAt(at) ^ expected.charCodeAt(at % (expected.length || 1));
  return difference === 0;
};

/** Whether any of the signatures is one that any of the secrets makes. All are compared, whichever matches. */
export const anySigned = async (
  given: readonly string[],
  secrets: readonly string[],
  signature: (secret: string) => string | Promise<string>,
): Promise<boolean> => {
  let found = false;
  for (const secret of secrets) {
    const expected = await signature(secret);
    for (const each of given) found = sameText(each, expected) || found;
  }
  return found;
};
