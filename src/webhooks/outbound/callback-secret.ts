/** The secret that a tenant's callbacks are signed with (docs/decisions/0008-webhooks.md). */
import type { TenantId } from "../../protocol/ids.ts";

const SECRET_PREFIX = "whsec_";

/** What the derived key is for: another purpose, or a later version, gets another key. */
const PURPOSE = "hango callback secret 1";

const base64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

/** A new secret: 32 random bytes (Standard Webhooks asks for 24 to 64). */
export const newWebhookSecret = (): string => SECRET_PREFIX + base64(crypto.getRandomValues(new Uint8Array(32)));

/**
 * The tenant's callback secret: HMAC-SHA256 over the tenant's id, keyed by the operator's key. Stored nowhere; another operator's key gives another.
 * @param adminKey `HANGO_ADMIN_KEY`
 */
export const callbackSecret = async (adminKey: string, tenantId: TenantId): Promise<string> => {
  const encoder = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", encoder.encode(adminKey), algorithm, false, ["sign"]);
  const mac = await crypto.subtle.sign("HMAC", key, encoder.encode(`${PURPOSE}\n${tenantId}`));
  return SECRET_PREFIX + base64(new Uint8Array(mac));
};

/** The secrets that callbacks are signed with: two while the operator's key is changed, so that a receiver may take its time to read the new one. */
export const callbackSecrets = (
  { adminKey, previousAdminKey }: { readonly adminKey: string; readonly previousAdminKey: string | undefined },
  tenantId: TenantId,
): Promise<readonly string[]> =>
  Promise.all(
    [adminKey, ...(previousAdminKey === undefined ? [] : [previousAdminKey])].map((key) =>
      callbackSecret(key, tenantId),
    ),
  );
