/** Who a request comes from. */
import type { KeyId, TenantId } from "../protocol/ids.ts";
import type { Scope } from "../store/keys.ts";

export interface TenantPrincipal {
  readonly kind: "tenant";
  readonly tenantId: TenantId;
  readonly keyId: KeyId;
  readonly scopes: readonly Scope[];
}

/** Whoever holds `HANGO_ADMIN_KEY`: manages tenants and keys, and sees no tenant's data. */
export interface OperatorPrincipal {
  readonly kind: "operator";
}

export type Principal = TenantPrincipal | OperatorPrincipal;
