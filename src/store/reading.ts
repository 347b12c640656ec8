/** A session looked at without holding it: what its next request would be made of. Writes nothing and takes no lease. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, TenantId } from "../protocol/ids.ts";
import type { Db, Row } from "./db.ts";
import { leaseLive } from "./lease.ts";
import { type LoadLimits, loadedOf, readStatements } from "./loading.ts";
import { microStatements, type StoredMicro, storedMicro } from "./micro.ts";
import { flag, text } from "./rows.ts";
import type { SessionRef } from "./session-ref.ts";
import { refers } from "./session-ref.ts";
import { SESSION_COLUMNS, type SettledSession, settledSession } from "./settled-session.ts";

export interface ReadSession extends SettledSession {
  /** The run that holds the session; null while none does. */
  readonly heldBy: RunId | null;
}

interface Read {
  readonly session: ReadSession;
  /** What the further statements selected. */
  readonly also: readonly (readonly Row[])[];
}

const read = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  limits: LoadLimits | null,
  also: readonly SQL[],
): Promise<Read | undefined> => {
  const session = refers(tenantId, ref);
  const [heads, views, rows, ...rest] = await db.batch(
    [
      // The lock makes the statements see one moment: whoever changes the head waits for the end of this transaction.
      sql`select ${sql.raw(SESSION_COLUMNS)}, ${leaseLive} as held from sessions s join session_heads h on h.session_id = s.id
        where ${session} for share of h`,
      ...readStatements(session, limits),
      ...also,
    ],
    { name: "load for reading", repeatable: true },
  );
  const head = heads?.[0];
  const view = views?.[0];
  if (head === undefined || view === undefined) return undefined;
  return {
    session: {
      ...settledSession(head, tenantId, loadedOf(view, rows ?? [])),
      heldBy: flag(head, "held") ? (text(head, "lease_holder") as RunId) : null,
    },
    also: rest,
  };
};

/**
 * Loads a session as a turn loads it, from one moment. One round trip.
 * @param limits how far back rows are read; null for all of them
 * @returns undefined when the tenant has no such session
 * @throws StoreUnavailable
 */
export const loadForReading = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  limits: LoadLimits | null,
): Promise<ReadSession | undefined> => (await read(db, tenantId, ref, limits, []))?.session;

/** The same with what there is to report of its micro-compaction, in the same round trip. */
export const loadForReport = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  limits: LoadLimits | null,
): Promise<{ readonly session: ReadSession; readonly micro: StoredMicro } | undefined> => {
  const found = await read(db, tenantId, ref, limits, microStatements(refers(tenantId, ref)));
  const head = found?.also[0]?.[0];
  if (found === undefined || head === undefined) return undefined;
  return { session: found.session, micro: storedMicro(head, found.also[1] ?? []) };
};
