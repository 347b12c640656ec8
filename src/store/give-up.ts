/** The end of a run that nobody could run: its message came back too often. One round trip. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import type { RunError } from "./finish.ts";
import { busyRun, leaseLive, RELEASED, unclaimed } from "./lease.ts";
import { tellOfRunEndedNow } from "./outbox.ts";
import { text, textOrNull } from "./rows.ts";
import { addSubagentUse, endSubagents } from "./subagent-ends.ts";

const GIVEN_UP: RunError = {
  type: "api_error",
  code: "run_interrupted",
  message: "The run could not be run, and was given up after several attempts. Its input is in the session.",
  retryable: true,
};

/** SQL over `runs r`: one of two texts: of a run whose cancel nobody lived to record, and of any other. */
const how = (cancelled: string | null, failed: string): SQL =>
  sql`case when r.cancel_requested_at is null then ${failed} else ${cancelled} end`;

/** SQL: the session whose run this transaction gives up; empty when there is nothing to give up. */
const GIVING_UP: SQL = sql`current_setting('hango.giving_up')`;

/** SQL condition: it is this run that the transaction gives up. */
const givenUp = (runId: RunId): SQL =>
  sql`exists (select 1 from runs g where g.id = ${runId} and g.session_id = ${GIVING_UP})`;

/** SQL condition over `inputs i`: what the run would have taken up: its own input, and what was brought to it while it was on. */
const ITS_INPUTS = (runId: RunId): SQL =>
  sql`i.session_id = ${GIVING_UP} and (i.run_id = ${runId} or i.run_id is null)`;

/**
 * Fails a run, or ends one that was cancelled, that no Worker is at work on, or only the one that asks, and releases its session. The input of a run that never started goes into the log, unanswered, as that
 * of any failed run. A run that has ended, is at work, or waits behind others stays as it is.
 * @param token of the take by which the asking Worker holds the run; null for none
 * @returns the run that may have the session now, if there is one
 * @throws StoreUnavailable
 */
export const failGivenUp = async (
  db: Db,
  tenantId: TenantId,
  runId: RunId,
  token: string | null,
): Promise<{ readonly tenantId: TenantId; readonly sessionId: SessionId; readonly runId: RunId } | null> => {
  const results = await db.batch(
    [
      sql`select set_config('hango.giving_up', coalesce((select h.session_id from runs r join session_heads h on h.session_id = r.session_id
        where r.id = ${runId} and r.tenant_id = ${tenantId} and r.status in ('queued', 'running') and (h.lease_token = ${token} or (not coalesce(${leaseLive}, false)
          and (h.lease_holder = r.id or ${unclaimed}))) for update of h), ''), true)`,
      sql`update session_heads h set ${RELEASED}, next_event = h.next_event + 2,
          next_seq = h.next_seq + (select count(*) from inputs i where ${ITS_INPUTS(runId)}) where h.session_id = ${GIVING_UP}`,
      sql`with moved as (delete from inputs i where ${ITS_INPUTS(runId)}
          returning i.session_id, i.id, i.origin, i.content, i.media, i.tokens, i.bytes, i.position)
        insert into messages (session_id, seq, id, role, origin, content, media, tokens, bytes, run_id)
        select m.session_id, h.next_seq - row_number() over (order by m.position desc), m.id, 'user', m.origin, m.content, m.media, m.tokens,
          m.bytes, ${runId}
        from moved m join session_heads h on h.session_id = m.session_id on conflict (id) do nothing`,
      endSubagents(runId, givenUp(runId)),
      addSubagentUse(runId, givenUp(runId)),
      sql`update sessions s set turns = s.turns + 1, input_tokens = s.input_tokens + r.input_tokens, output_tokens = s.output_tokens + r.output_tokens,
          cache_read_tokens = s.cache_read_tokens + r.cache_read_tokens, cache_write_tokens = s.cache_write_tokens + r.cache_write_tokens,
          cost_usd = s.cost_usd + coalesce(r.cost_usd, 0), last_run_id = r.id, updated_at = hango_now(),
          compactions = s.compactions + (select count(*) from compactions c where c.session_id = s.id and c.run_id = r.id)
        from runs r where r.id = ${runId} and r.session_id = s.id and s.id = ${GIVING_UP}`,
      sql`update runs r set status = ${how("cancelled", "failed")}, error = ${how(null, JSON.stringify(GIVEN_UP))}::jsonb, draft = null, finished_at = hango_now(),
          input_seq = coalesce(r.input_seq, (select m.seq from messages m where m.session_id = r.session_id and m.run_id = r.id order by m.seq limit 1))
        where r.id = ${runId} and r.session_id = ${GIVING_UP}`,
      sql`insert into run_events (session_id, n, run_id, type, data)
        select h.session_id, h.next_event - 2 + e.at, ${runId}, e.type, e.data::json from session_heads h join runs r on r.id = ${runId},
          lateral (values (0, 'run.' || r.status, ${how(JSON.stringify({ status: "cancelled" }), JSON.stringify({ status: "failed", error: GIVEN_UP }))}),
            (1, 'session.idle', '{}')) as e (at, type, data)
        where h.session_id = ${GIVING_UP} on conflict do nothing`,
      // Nobody waits for these: the cron door sends them.
      tellOfRunEndedNow(tenantId, runId),
      sql`select h.session_id, ${busyRun} as next from session_heads h where h.session_id = ${GIVING_UP}`,
    ],
    { name: "give up run", repeatable: true },
  );
  const row = results.at(-1)?.[0];
  const next = row === undefined ? null : textOrNull(row, "next");
  return row === undefined || next === null
    ? null
    : { tenantId, sessionId: text(row, "session_id") as SessionId, runId: next as RunId };
};
