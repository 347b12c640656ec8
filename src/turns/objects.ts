/** Where a session's objects are in R2. */
import type { SessionId, TenantId } from "../protocol/ids.ts";

/** The prefix of everything that a session keeps in R2, without a slash at the end. The tenant is part of every key. */
export const sessionRoot = (tenantId: TenantId, sessionId: SessionId): string =>
  `tenants/${tenantId}/sessions/${sessionId}`;
