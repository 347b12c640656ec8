/** What a run waits for. */
import { type SQL, sql } from "drizzle-orm";

/**
 * SQL over `runs r`: what the caller of a run that waits has to do and until when, as the event says it without its `status`; null for any other.
 * Cut out as text (V9): the operators of `json` read the strings inside, and fail at one that holds `\u0000`.
 */
export const REQUIRED_ACTION: SQL = sql`(select regexp_replace(e.data::text, '^{"status":"requires_action",', '{')::json
    from run_events e where r.status = 'requires_action' and e.session_id = r.session_id and e.run_id = r.id
    and e.type = 'run.requires_action' order by e.n desc limit 1)`;
