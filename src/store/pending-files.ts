/**
 * Files that a session is created with. R2 takes part in no transaction, so they are kept in the session's row until they are written: whoever
 * comes first, the request that made the session, its repeat, or its first turn, writes what is left. A crash in between loses none.
 */
import { sql } from "drizzle-orm";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import { textOrNull } from "./rows.ts";

export interface SessionFile {
  /** Checked. */
  readonly path: string;
  readonly text: string;
}

/** What a session's row keeps; null for no files. */
export const pendingFiles = (files: readonly SessionFile[]): string | null =>
  files.length === 0 ? null : JSON.stringify(files);

/** The files that are still to be written; none where they are, or the tenant has no such session. @throws StoreUnavailable */
export const loadPendingFiles = async (
  db: Db,
  tenantId: TenantId,
  sessionId: SessionId,
): Promise<readonly SessionFile[]> => {
  const [rows] = await db.batch(
    [
      sql`select s.pending_files::text as pending_files from sessions s where s.id = ${sessionId} and s.tenant_id = ${tenantId}`,
    ],
    { name: "load pending files", repeatable: true },
  );
  const row = rows?.[0];
  const pending = row === undefined ? null : textOrNull(row, "pending_files");
  return pending === null ? [] : (JSON.parse(pending) as readonly SessionFile[]);
};

/** Notes that they are written. @throws StoreUnavailable */
export const clearPendingFiles = async (db: Db, tenantId: TenantId, sessionId: SessionId): Promise<void> => {
  await db.batch(
    [sql`update sessions s set pending_files = null where s.id = ${sessionId} and s.tenant_id = ${tenantId}`],
    { name: "clear pending files", repeatable: true },
  );
};
