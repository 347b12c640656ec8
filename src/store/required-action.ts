/** What a run waits for. */
import { type SQL, sql } from "drizzle-orm";

/** SQL over `runs r`: what the caller of a run that waits has to do and until when, as the event says it; null for any other. */
export const REQUIRED_ACTION: SQL = sql`(select json_build_object('deadline', e.data->'deadline', 'tool_calls', e.data->'tool_calls')
    from run_events e where r.status = 'requires_action' and e.session_id = r.session_id and e.run_id = r.id
    and e.type = 'run.requires_action' order by e.n desc limit 1)`;
