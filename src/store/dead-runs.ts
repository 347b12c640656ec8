/** What a run used whose Worker died, and that nobody goes on with: its own finish would have counted it in the session. */
import { type SQL, sql } from "drizzle-orm";

/** SQL: the columns of `runs r` that `countDead` needs of the runs that a statement has just ended. */
export const DEAD_COLUMNS: SQL = sql`r.session_id, r.id, r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.cost_usd`;

/** SQL: an update that counts the runs of the query `dead` in their sessions, for a `with` beside it: the runs are ended once, and so counted once. */
export const countDead: SQL = sql`update sessions s set input_tokens = s.input_tokens + used.input_tokens, output_tokens = s.output_tokens + used.output_tokens,
    cache_read_tokens = s.cache_read_tokens + used.cache_read_tokens, cache_write_tokens = s.cache_write_tokens + used.cache_write_tokens,
    cost_usd = s.cost_usd + used.cost_usd, compactions = s.compactions + used.compactions
  from (select dead.session_id, sum(dead.input_tokens) as input_tokens, sum(dead.output_tokens) as output_tokens,
      sum(dead.cache_read_tokens) as cache_read_tokens, sum(dead.cache_write_tokens) as cache_write_tokens, sum(coalesce(dead.cost_usd, 0)) as cost_usd,
      sum((select count(*) from compactions c where c.session_id = dead.session_id and c.run_id = dead.id)) as compactions
    from dead group by dead.session_id) used
  where s.id = used.session_id`;
