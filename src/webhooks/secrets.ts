/** Secrets that triggers verify with: made here, or given by the sender's own settings. */
import { isStandardSecret } from "./schemes/standard.ts";
import type { SchemeName } from "./verification.ts";

/** Bytes of a secret that is made here; the Standard Webhooks specification asks for 24 to 64. */
const SECRET_BYTES = 32;

/** Schemes whose secret the sender makes: there is nothing to make up here. */
export const givenBySender = (scheme: SchemeName): boolean => scheme === "slack" || scheme === "stripe";

/** A new secret in the form that the scheme wants. Must be called inside a request. */
export const makeSecret = (scheme: SchemeName): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  const base64 = btoa(String.fromCharCode(...bytes));
  return scheme === "standard"
    ? `whsec_${base64}`
    : base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
};

/** Why a secret cannot be used with a scheme; null when it can. */
export const secretProblem = (scheme: SchemeName, secret: string): string | null => {
  if (scheme === "standard" && !isStandardSecret(secret)) return "expected `whsec_` and base64";
  return scheme === "bearer" && !/^[\x21-\x7e]+$/.test(secret) ? "expected visible ASCII characters" : null;
};
