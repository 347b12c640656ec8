/** A turn begun in the place of one that is undone with it. */
import { sql } from "drizzle-orm";
import type { KeyId, TenantId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import { begin } from "./begin.ts";
import type { BeginOutcome, BeginRun } from "./begin-request.ts";
import type { Db } from "./db.ts";
import { type Undoing, undoStatements } from "./rewind.ts";
import { asLookedAt } from "./undoing.ts";

/** A turn that takes the place of turns which are undone with its begin. */
export interface ReplacingTurn
  extends Pick<BeginRun, "session" | "runId" | "idempotencyKey" | "startedAt" | "limits" | "options"> {
  readonly tenantId: TenantId;
  readonly keyId: KeyId | null;
  readonly requestHash: string;
  readonly input: NewRow;
  readonly undoing: Undoing;
}

/**
 * Begins a turn and undoes what it replaces, in one transaction: both or neither.
 * @returns `busy` also where the session is not as it was looked at
 * @throws StoreUnavailable
 */
export const beginReplacing = async (db: Db, turn: ReplacingTurn): Promise<BeginOutcome> => {
  const { tenantId, keyId, undoing, ...rest } = turn;
  const held = sql`(select h.session_id from session_heads h join runs r on r.id = h.lease_holder and r.session_id = h.session_id
    where r.id = ${turn.runId} and r.tenant_id = ${tenantId} and h.session_id = ${undoing.at.sessionId})`;
  const alone = { onBusy: "reject", background: false, callbackUrl: null, triggerId: null, deliveryId: null } as const;
  const changes = { only: asLookedAt(undoing.at), also: undoStatements(held, undoing) };
  return begin(db, { ...rest, ...alone, ...changes, caller: { tenantId, keyId }, trigger: "api" });
};
