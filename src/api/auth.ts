/** Who asks, and what they may do. Secrets are compared by their SHA-256 and never stored, logged or echoed. */
import type { TenantId } from "../protocol/ids.ts";
import { sha256Hex } from "../protocol/sha256.ts";
import { findKeyOwner, type Scope } from "../store/keys.ts";
import type { Deps } from "../turns/deps.ts";
import type { Ctx } from "./env.ts";
import { ApiError } from "./errors.ts";
import type { OperatorPrincipal, Principal, TenantPrincipal } from "./principal.ts";
import { constantTimeEqual } from "./secrets.ts";

/** What a request shows, before the database was asked. */
export type Credential = { readonly kind: "key"; readonly hash: string } | OperatorPrincipal;

const unauthenticated = (message: string): ApiError => new ApiError("unauthenticated", message);

/** Longest key that is looked at; `HANGO_ADMIN_KEY` has no length limit of its own, but a header has. */
const MAX_SECRET_CHARS = 512;

const secretOf = (headers: Headers): string => {
  const authorization = headers.get("Authorization");
  const secret = authorization === null ? headers.get("x-api-key") : /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
  if (secret === null) throw unauthenticated("There is no key. Send `Authorization: Bearer hango_...`.");
  if (secret === undefined || secret === "" || secret.length > MAX_SECRET_CHARS) {
    throw unauthenticated("The Authorization header must read `Bearer` and a key.");
  }
  return secret;
};

/**
 * Reads the key of a request: its hash, or that it is the operator's. Asks no database.
 * @throws ApiError `unauthenticated` when there is none
 */
export const credentialOf = async (deps: Deps, headers: Headers): Promise<Credential> => {
  const { adminKey, previousAdminKey = adminKey } = deps.config;
  const [hash, ...adminHashes] = await Promise.all([secretOf(headers), adminKey, previousAdminKey].map(sha256Hex));
  if (hash === undefined) throw new Error("as many hashes as texts");
  // Both are compared, whichever is the right one.
  const isOperators = adminHashes.map((adminHash) => constantTimeEqual(hash, adminHash)).includes(true);
  return isOperators ? { kind: "operator" } : { kind: "key", hash };
};

const OPERATOR_HAS_NO_TENANT =
  "The operator's key belongs to no tenant. Make a key with POST /v1/keys (with `tenant_id`) and use that one.";

/**
 * The hash of a tenant's key, for an operation that authenticates inside its own round trip.
 * @throws ApiError `unauthenticated`, or `forbidden` for the operator's key
 */
export const keyHashOf = async (deps: Deps, headers: Headers): Promise<string> => {
  const credential = await credentialOf(deps, headers);
  if (credential.kind === "operator") throw new ApiError("forbidden", OPERATOR_HAS_NO_TENANT);
  return credential.hash;
};

/** Words for `beginTurn`'s answers too, so that both ways of authenticating sound alike. */
export const denied = {
  unknownKey: () => unauthenticated("The key is unknown, revoked or expired."),
  suspended: () => new ApiError("tenant_suspended", "The tenant of this key is suspended."),
  scope: (scope: Scope) => new ApiError("forbidden", `The key lacks the scope \`${scope}\`.`),
} as const;

/**
 * Finds out who asks. At most one round trip.
 * @throws ApiError `unauthenticated`, `tenant_suspended`; StoreUnavailable
 */
export const authenticate = async (deps: Deps, headers: Headers): Promise<Principal> => {
  const credential = await credentialOf(deps, headers);
  if (credential.kind === "operator") return credential;
  const owner = await findKeyOwner(deps.db, credential.hash);
  if (owner === undefined) throw denied.unknownKey();
  if (!owner.tenantActive) throw denied.suspended();
  return { kind: "tenant", tenantId: owner.tenantId, keyId: owner.keyId, scopes: owner.scopes };
};

/** @throws ApiError `forbidden` when the principal is no tenant's key with this scope */
export const requireScope = (principal: Principal, scope: Scope): TenantPrincipal => {
  if (principal.kind === "operator") throw new ApiError("forbidden", OPERATOR_HAS_NO_TENANT);
  if (!principal.scopes.includes(scope)) throw denied.scope(scope);
  return principal;
};

/** @throws ApiError `forbidden` for a tenant's key */
export const requireOperator = (principal: Principal): OperatorPrincipal => {
  if (principal.kind === "operator") return principal;
  throw new ApiError("forbidden", "Only the operator's key (HANGO_ADMIN_KEY) may do this.");
};

/** The principal of an operation that authenticates. */
export const principalOf = (c: Ctx): Principal => {
  const principal = c.get("principal");
  if (principal === undefined) throw new Error("the operation did not authenticate");
  return principal;
};

/** The tenant on whose behalf an operation runs. */
export const tenantOf = (c: Ctx): TenantId => {
  const principal = principalOf(c);
  if (principal.kind === "operator") throw new ApiError("forbidden", OPERATOR_HAS_NO_TENANT);
  return principal.tenantId;
};
