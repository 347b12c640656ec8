/**
 * The outbox: what a tenant's receivers are to be told is stored in the transaction that makes it true, as one row per receiver, and sent from
 * there. Everything is read from the rows that the transaction has written, ids are derived from what is told, and an id that exists is passed over: the
 * statements can stand at every place where a run ends, may be sent twice, and tell each receiver once.
 */
import { type SQL, sql } from "drizzle-orm";
import type { RunId, TenantId, WebhookDeliveryId } from "../protocol/ids.ts";
import { TEST_EVENT } from "../protocol/webhook-events.ts";
import type { Row } from "./db.ts";
import { REQUIRED_ACTION } from "./required-action.ts";
import { text } from "./rows.ts";

/** SQL: a time as the API writes it. */
const rfc3339 = (time: SQL): SQL => sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** SQL over `runs r`: the run as the API shows it (`api/run-json.ts`; a test compares the two). */
const RUN_JSON: SQL = sql`json_build_object('id', r.id, 'type', 'run', 'session_id', r.session_id, 'status', r.status, 'trigger', r.trigger,
    'model', r.model, 'input_seq', r.input_seq, 'output_text', r.output_text, 'stop_reason', r.stop_reason, 'steps', r.steps,
    'usage', json_build_object('input_tokens', r.input_tokens, 'output_tokens', r.output_tokens,
      'cache_read_input_tokens', r.cache_read_tokens, 'cache_creation_input_tokens', r.cache_write_tokens),
    'cost_usd', r.cost_usd, 'error', r.error, 'required_action', ${REQUIRED_ACTION}, 'db_round_trips', r.db_round_trips, 'overhead_ms', r.overhead_ms,
    'attempts', r.attempts, 'cancel_requested_at', ${rfc3339(sql`r.cancel_requested_at`)},
    'created_at', ${rfc3339(sql`r.created_at`)}, 'started_at', ${rfc3339(sql`r.started_at`)}, 'finished_at', ${rfc3339(sql`r.finished_at`)})`;

/**
 * SQL: an id of 26 characters behind a prefix, as `newId` makes them, from an id and what is told of it: the same each time. It takes over the time
 * in that id, so that deliveries sort by the age of what they tell of.
 */
const derivedId = (prefix: "whd" | "evt", from: SQL, ...told: readonly SQL[]): SQL =>
  sql`${`${prefix}_`}::text || substr(${from}, 5, 10) || upper(substr(md5(concat_ws('.', ${sql.join([from, ...told], sql`, `)})), 1, 16))`;

/**
 * SQL: stores what `told` selects for every receiver that asked for it, and returns the deliveries' ids.
 * @param told selects `tenant_id`, `session_id`, `run_id`, `type`, `source` (the id that the event is about), `occasion` (which of several events of
 * this type about it), `callback_url` (null for none) and `data` (JSON)
 */
const insertDeliveries = (told: SQL): SQL =>
  sql`with told as (${told}),
    subscribed as (
      -- The lock: an endpoint that is being deleted is waited for and then passed over, instead of breaking the transaction by its foreign key.
      select t.*, e.id as endpoint_id, e.url from told t join webhook_endpoints e on e.tenant_id = t.tenant_id
      where e.enabled and (e.events = '{}' or t.type = any(e.events)) for key share of e),
    receivers as (
      select * from subscribed
      union all select t.*, null, t.callback_url from told t where t.callback_url is not null)
    insert into webhook_deliveries (id, tenant_id, endpoint_id, session_id, run_id, url, event_type, payload)
    select ${derivedId("whd", sql`source`, sql`type`, sql`occasion`, sql`coalesce(endpoint_id, 'callback')`)},
      tenant_id, endpoint_id, session_id, run_id, url, type,
      json_build_object('id', ${derivedId("evt", sql`source`, sql`type`, sql`occasion`)}, 'type', type,
        'created_at', ${rfc3339(sql`hango_now()`)}, 'data', data)::text
    from receivers
    on conflict (id) do update set status = webhook_deliveries.status where webhook_deliveries.attempts = 0
    returning id`;

/**
 * SQL: tells of runs that this transaction has ended, or that now wait for their caller. A run that has neither ended nor waits is passed over, and so
 * are work between turns and subagents.
 * @param which condition over `runs r`
 */
export const tellOfRuns = (which: SQL): SQL =>
  insertDeliveries(sql`select r.tenant_id, r.session_id, r.id as run_id, 'run.' || r.status as type, r.id as source,
      case when r.status = 'requires_action' then r.steps else 0 end as occasion,
      case when r.status <> 'requires_action' then r.callback_url end as callback_url,
      case when r.status = 'requires_action'
        then json_build_object('session_id', r.session_id, 'session_key', s.key, 'run', ${RUN_JSON}, 'required_action', ${REQUIRED_ACTION})
        else json_build_object('session_id', r.session_id, 'session_key', s.key, 'run', ${RUN_JSON}) end as data
    from runs r join sessions s on s.id = r.session_id
    where ${which} and r.trigger not in ('maintenance', 'subagent') and r.status in ('completed', 'failed', 'cancelled', 'requires_action')`);

/** SQL: tells of a run, if it has ended or waits. */
export const tellOfRun = (tenantId: TenantId, runId: RunId): SQL =>
  tellOfRuns(sql`r.id = ${runId} and r.tenant_id = ${tenantId}`);

/** SQL: tells of a run that this very transaction has ended, and of none that had ended before. */
export const tellOfRunEndedNow = (tenantId: TenantId, runId: RunId): SQL =>
  tellOfRuns(sql`r.id = ${runId} and r.tenant_id = ${tenantId} and r.finished_at = hango_now()`);

/** SQL: tells of the generation that this attempt has committed, if it has. Sizes, and no content. */
export const tellOfCompaction = (tenantId: TenantId, attemptId: string): SQL =>
  insertDeliveries(sql`select s.tenant_id, s.id as session_id, c.run_id, 'session.compacted' as type, c.attempt_id as source, 0 as occasion,
      null::text as callback_url,
      json_build_object('session_id', s.id, 'session_key', s.key, 'run_id', c.run_id, 'generation', c.generation,
        'base_generation', c.base_generation, 'reason', c.reason, 'tokens_before', c.tokens_before, 'tokens_after', c.tokens_after,
        'evicted', c.evicted, 'created_at', ${rfc3339(sql`c.created_at`)}) as data
    from compactions c join sessions s on s.id = c.session_id where c.attempt_id = ${attemptId} and s.tenant_id = ${tenantId} and s.depth = 0`);

/** Stands in `session_id` of a delivery that is about no session. */
export const NO_SESSION = "";

/** SQL: stores a test event for one endpoint, whatever it subscribes to. @param id chosen by the Worker: sent twice, it is one */
export const insertTestDelivery = (tenantId: TenantId, endpointId: string, id: WebhookDeliveryId): SQL =>
  sql`insert into webhook_deliveries (id, tenant_id, endpoint_id, session_id, url, event_type, payload)
    select ${id}, e.tenant_id, e.id, ${NO_SESSION}, e.url, ${TEST_EVENT},
      json_build_object('id', ${id.replace(/^whd/, "evt")}::text, 'type', ${TEST_EVENT}::text, 'created_at', ${rfc3339(sql`hango_now()`)},
        'data', json_build_object('endpoint_id', e.id))::text
    from webhook_endpoints e where e.tenant_id = ${tenantId} and e.id = ${endpointId} on conflict (id) do nothing`;

/** Reads the rows of a statement of this file. */
export const toldIds = (rows: readonly Row[] | undefined): readonly WebhookDeliveryId[] =>
  (rows ?? []).map((row) => text(row, "id") as WebhookDeliveryId);
