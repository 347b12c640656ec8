/** What becomes of a run's subagents when it ends, and what they used. SQL, for the batches that end runs. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId } from "../protocol/ids.ts";
import { RELEASED } from "./lease.ts";

/**
 * SQL: a `with` clause that names the sessions of subagents `below`, at every depth.
 * @param first condition over `sessions s` for those at the top of them
 */
const withBelow = (first: SQL): SQL =>
  sql`with recursive below (id) as (select s.id from sessions s where ${first}
    union select s.id from sessions s join below b on s.parent_session_id = b.id)`;

/** SQL condition over `sessions s`: a subagent of this run. */
const subagentOf = (runId: RunId): SQL => sql`s.parent_run_id = ${runId}`;

const endBelow = (first: SQL, condition: SQL): SQL =>
  sql`${withBelow(first)},
    ended as (update runs r set status = 'cancelled', draft = null, finished_at = hango_now() from below b
      where r.session_id = b.id and r.trigger = 'subagent' and r.status in ('queued', 'running', 'requires_action') and ${condition}
      returning r.session_id, r.id, r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.cost_usd),
    counted as (update sessions s set turns = s.turns + 1, input_tokens = s.input_tokens + e.input_tokens,
        output_tokens = s.output_tokens + e.output_tokens, cache_read_tokens = s.cache_read_tokens + e.cache_read_tokens,
        cache_write_tokens = s.cache_write_tokens + e.cache_write_tokens, cost_usd = s.cost_usd + coalesce(e.cost_usd, 0),
        last_run_id = e.id, updated_at = hango_now()
      from ended e where s.id = e.session_id),
    freed as (update session_heads h set ${RELEASED}, next_event = h.next_event + 2 from ended e where h.session_id = e.session_id
      returning h.session_id, h.next_event, e.id)
    insert into run_events (session_id, n, run_id, type, data)
    select f.session_id, f.next_event - 2 + v.at, f.id, v.type, v.data::json from freed f,
      (values (0, 'run.cancelled', '{"status":"cancelled"}'), (1, 'session.idle', '{}')) as v (at, type, data) on conflict do nothing`;

/**
 * SQL: ends what is left of a run's subagents when the run ends, as cancelled: nobody else goes on with them, and a Worker that still does stores
 * nothing more.
 * @param condition under which the run ends; it must hold when the statement runs
 */
export const endSubagents = (runId: RunId, condition: SQL): SQL => endBelow(subagentOf(runId), condition);

/** SQL: the same for whatever was left without its parent: the sweeper's look. */
export const endOrphans: SQL = endBelow(
  sql`s.id in (select c.session_id from runs c where c.trigger = 'subagent' and c.status in ('queued', 'running', 'requires_action'))
    and not exists (select 1 from runs p where p.id = s.parent_run_id and p.status in ('queued', 'running', 'requires_action'))`,
  sql`true`,
);

/** SQL: what the subagents `below` used, one row. It is summed from the records of the calls, so that it is exact whoever died when. */
const usedBelow: SQL = sql`select coalesce(sum(u.input_tokens), 0) as input_tokens, coalesce(sum(u.output_tokens), 0) as output_tokens,
  coalesce(sum(u.cache_read_tokens), 0) as cache_read_tokens, coalesce(sum(u.cache_write_tokens), 0) as cache_write_tokens,
  sum(u.cost_usd) as cost_usd from usage_records u join below b on b.id = u.session_id`;

/**
 * SQL: adds what its subagents used to a run's own totals, once: when it ends.
 * @param condition under which it ends
 */
export const addSubagentUse = (runId: RunId, condition: SQL): SQL =>
  sql`${withBelow(subagentOf(runId))}, used as (${usedBelow})
    update runs r set input_tokens = r.input_tokens + used.input_tokens, output_tokens = r.output_tokens + used.output_tokens,
      cache_read_tokens = r.cache_read_tokens + used.cache_read_tokens, cache_write_tokens = r.cache_write_tokens + used.cache_write_tokens,
      cost_usd = case when used.cost_usd is null then r.cost_usd else coalesce(r.cost_usd, 0) + used.cost_usd end
    from used where r.id = ${runId} and ${condition}`;

/** SQL: the same as one value for the run that is taken up, JSON; null where it has no subagents. */
export const subagentUse = (runId: RunId): SQL =>
  sql`(${withBelow(subagentOf(runId))}, used as (${usedBelow})
    select json_build_array(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens, used.cost_usd)::text
    from used where exists (select 1 from below))`;
