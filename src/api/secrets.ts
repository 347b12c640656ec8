/** API keys' secrets: made, hashed, compared. */

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** 62^40 is 238 bits. */
const SECRET_CHARS = 40;
const PREFIX = "hango_";
/** What is kept of a secret, for people to tell keys apart: the prefix and 4 characters. */
const SHOWN_CHARS = PREFIX.length + 4;

const randomText = (chars: number): string => {
  let text = "";
  while (text.length < chars) {
    for (const byte of crypto.getRandomValues(new Uint8Array(chars))) {
      // 248 is 4 x 62: taking the rest as well would prefer some characters.
      if (byte < 248 && text.length < chars) text += BASE62.charAt(byte % 62);
    }
  }
  return text;
};

/** A new secret and what may be shown of it. */
export const newSecret = (): { readonly secret: string; readonly prefix: string } => {
  const secret = PREFIX + randomText(SECRET_CHARS);
  return { secret, prefix: secret.slice(0, SHOWN_CHARS) };
};

/** `req_` and 24 random characters. */
export const newRequestId = (): string => `req_${randomText(24)}`;

/** Whether two texts of one length are equal, in a time that does not depend on where they differ. */
export const constantTimeEqual = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length;
  for (let at = 0; at < a.length; at++) difference |= a.charCodeAt(at) ^ b.charCodeAt(at % (b.length || 1));
  return difference === 0;
};
