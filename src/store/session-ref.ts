/** How a session is named from outside, and the SQL that finds it by that name. */
import { type SQL, sql } from "drizzle-orm";
import type { TenantId } from "../protocol/ids.ts";

/** How a caller names a session: our id, or their own key. */
export type SessionRef = { readonly id: string } | { readonly key: string };

/** SQL condition over `sessions s`: a session of this name, of any tenant; the caller binds the tenant. */
export const sessionNamed = (ref: SessionRef): SQL => ("id" in ref ? sql`s.id = ${ref.id}` : sql`s.key = ${ref.key}`);

/** SQL condition over `sessions s`: this session of this tenant. */
export const refers = (tenantId: TenantId, ref: SessionRef): SQL =>
  sql`s.tenant_id = ${tenantId} and ${sessionNamed(ref)}`;
