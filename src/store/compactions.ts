/** Asking for a generation while a run is on, and taking one back (R4). What is known of them is in `receipts.ts`. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, TenantId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import { busyRun, retryAfter, unclaimed } from "./lease.ts";
import { number, text } from "./rows.ts";
import type { SessionRef } from "./session-ref.ts";
import { refers } from "./session-ref.ts";

/**
 * Asks the run that holds a session for a compaction at its next step (G9).
 * @param focus what the summary should keep above all; empty for nothing in particular
 * @returns false when no run holds it: then the caller may take the lease and compact itself
 * @throws StoreUnavailable
 */
export const requestCompaction = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  focus: string,
): Promise<boolean> => {
  const [rows] = await db.batch(
    [
      sql`update session_heads h set force_compaction = ${focus} from sessions s
        where s.id = h.session_id and ${refers(tenantId, ref)} and not ${unclaimed} returning h.session_id`,
    ],
    { name: "request compaction", repeatable: true },
  );
  return rows !== undefined && rows.length > 0;
};

export type VoidOutcome =
  /** The generation and those based on it, ascending, voided now or before; and the revision that the session has now. */
  | { readonly kind: "voided"; readonly generations: readonly number[]; readonly revision: number }
  | { readonly kind: "busy"; readonly runId: RunId; readonly retryAfterSeconds: number }
  | { readonly kind: "not_found" };

/** SQL: the session whose generation this transaction voids; empty when there is none. */
const voiding: SQL = sql`current_setting('hango.voiding')`;

/**
 * Voids a generation and those based on it; a view that showed one of them falls back to the base of the first (R4). What changes
 * before thinking blocks unbinds them, so the floor goes to the end of the log (V5). One round trip, unless a run holds the session.
 * @param attemptId chosen by the Worker, once for a request (M3)
 * @throws StoreUnavailable
 */
export const voidCompaction = async (
  db: Db,
  tenantId: TenantId,
  ref: SessionRef,
  generation: number,
  attemptId: string,
): Promise<VoidOutcome> => {
  const chain = sql`chain as (
      select c.generation, c.base_generation from compactions c where c.session_id = ${voiding} and c.generation = ${generation}::bigint
      union all select c.generation, c.base_generation from compactions c join chain on c.base_generation = chain.generation
        where c.session_id = ${voiding})`;
  const results = await db.batch(
    [
      // The lock keeps a turn from beginning until the view has changed.
      sql`select set_config('hango.voiding', coalesce((select h.session_id from sessions s join session_heads h on h.session_id = s.id
        where ${refers(tenantId, ref)} and ${unclaimed} for update of h), ''), true)`,
      sql`with recursive ${chain} update compactions c set voided_at = hango_now()
        where c.session_id = ${voiding} and c.generation in (select generation from chain) and c.voided_at is null`,
      sql`with recursive ${chain}
        insert into view_revisions (session_id, revision, attempt_id, generation, clipped_before, clip_tokens, thinking_floor, demoted, skills, hidden,
          volatile_hash, reason)
        select h.session_id, h.revision + 1, ${attemptId}, voided.base_generation, v.clipped_before, v.clip_tokens, h.next_seq, v.demoted,
          v.skills, v.hidden, v.volatile_hash, 'void'
        from session_heads h join view_revisions v on v.session_id = h.session_id and v.revision = h.revision
          join chain voided on voided.generation = ${generation}::bigint
        where h.session_id = ${voiding} and v.generation in (select generation from chain) on conflict (attempt_id) do nothing`,
      sql`update session_heads h set revision = v.revision, thinking_floor = greatest(h.thinking_floor, v.thinking_floor)
        from view_revisions v where h.session_id = ${voiding} and v.session_id = h.session_id and v.attempt_id = ${attemptId}
          and v.revision = h.revision + 1`,
      sql`with recursive ${chain} select generation from chain order by generation`,
      sql`select h.revision, ${busyRun} as busy_run, not ${unclaimed} as busy, ${retryAfter} as retry_after
        from sessions s join session_heads h on h.session_id = s.id where ${refers(tenantId, ref)}`,
    ],
    { name: "void compaction", repeatable: true },
  );
  const head = results.at(-1)?.[0];
  if (head === undefined) return { kind: "not_found" };
  if (head.busy === true) {
    return { kind: "busy", runId: text(head, "busy_run") as RunId, retryAfterSeconds: number(head, "retry_after") };
  }
  const generations = (results.at(-2) ?? []).map((row) => number(row, "generation"));
  if (generations.length === 0) return { kind: "not_found" };
  return { kind: "voided", generations, revision: number(head, "revision") };
};
