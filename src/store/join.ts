/**
 * Input for a turn that is on (M5): kept until the run takes it up. It has no run of its own that could keep its request's idempotency key, so
 * a claim does.
 */
import { type SQL, sql } from "drizzle-orm";
import type { NewRow } from "../protocol/messages.ts";
import type { Row } from "./db.ts";
import { IDEMPOTENCY_HOURS } from "./idempotency.ts";
import { INPUT_COLUMNS, inputValues } from "./row-values.ts";
import { text, textOrNull } from "./rows.ts";

/** SQL condition over `session_heads h`: a turn is on that takes input up at its next step; work between turns would not answer it. */
export const runIsOn: SQL = sql`(h.waiting_run_id is not null
  or exists (select 1 from runs o where o.id = h.lease_holder and o.trigger <> 'maintenance'))`;

/** A request's key, and the input that it brings. */
export interface Joining {
  readonly idempotencyKey: string | null;
  readonly requestHash: string | null;
  readonly input: NewRow;
}

/** Other requests' keys are claimed as they are: those of turns are a space of their own, as in `runs`. */
const keyOf = (idempotencyKey: string): string => `turn:${idempotencyKey}`;

/** SQL condition: another request with this key has joined a run. @param tenantId SQL expression */
export const joinedBefore = ({ idempotencyKey, input }: Joining, tenantId: SQL): SQL =>
  idempotencyKey === null
    ? sql`false`
    : sql`exists (select 1 from idempotency_keys i where i.tenant_id = ${tenantId} and i.key = ${keyOf(idempotencyKey)}
        and i.resource_id <> ${input.id} and i.created_at > hango_now() - make_interval(hours => ${sql.raw(String(IDEMPOTENCY_HOURS))}))`;

const claim = ({ idempotencyKey, requestHash, input }: Joining, from: SQL): readonly SQL[] =>
  idempotencyKey === null
    ? []
    : [
        // Waits for an equal request under way.
        sql`insert into idempotency_keys (tenant_id, key, request_hash, resource_id, response)
          select s.tenant_id, ${keyOf(idempotencyKey)}, ${requestHash}, ${input.id}, coalesce(h.lease_holder, h.waiting_run_id)
          from ${from} and ${runIsOn}
            and not exists (select 1 from runs r where r.tenant_id = s.tenant_id and r.idempotency_key = ${idempotencyKey})
          on conflict (tenant_id, key) do update set request_hash = excluded.request_hash, resource_id = excluded.resource_id,
            response = excluded.response, created_at = hango_now()
            where idempotency_keys.created_at <= hango_now() - make_interval(hours => ${sql.raw(String(IDEMPOTENCY_HOURS))})`,
      ];

/**
 * SQL: leaves input for the run that is on. The head is locked: a run that ends meanwhile is waited for, and then it is not on.
 * @param from finds the session, as `begin` does
 */
export const joinStatements = (joining: Joining, from: SQL): readonly SQL[] => {
  const { idempotencyKey, input } = joining;
  const ours =
    idempotencyKey === null
      ? sql`true`
      : sql`exists (select 1 from idempotency_keys i where i.tenant_id = s.tenant_id and i.key = ${keyOf(idempotencyKey)} and i.resource_id = ${input.id})`;
  return [
    ...claim(joining, from),
    sql`insert into inputs (session_id, ${INPUT_COLUMNS}) select h.session_id, ${inputValues(input)}
      from (select h.session_id from session_heads h where h.session_id in (select s.id from ${from} and ${ours}) and ${runIsOn} for update) h
      where not exists (select 1 from messages m where m.id = ${input.id}) on conflict (id) do nothing`,
    ...(idempotencyKey === null
      ? []
      : [
          sql`delete from idempotency_keys i where i.tenant_id in (select s.tenant_id from ${from})
            and i.key = ${keyOf(idempotencyKey)} and i.resource_id = ${input.id} and not ${isJoined(input)}`,
        ]),
  ];
};

/** SQL condition: the input has been left for a run, or is in the log. */
export const isJoined = ({ id }: NewRow): SQL =>
  sql`(exists (select 1 from inputs i where i.id = ${id}) or exists (select 1 from messages m where m.id = ${id}))`;

/** SQL over `api_keys k`: the run that another request with this key has joined, and the request, as JSON; null for none. */
export const joinColumn = (joining: Joining | null): SQL =>
  joining === null || joining.idempotencyKey === null
    ? sql`null::text`
    : sql`(select json_build_object('run', i.response, 'hash', i.request_hash)::text from idempotency_keys i where i.tenant_id = k.tenant_id
        and i.key = ${keyOf(joining.idempotencyKey)} and i.resource_id <> ${joining.input.id})`;

/** Reads `joinColumn` under this name. */
export const joinOf = (row: Row, name: string): { readonly runId: string; readonly requestHash: string } | null => {
  const found = textOrNull(row, name);
  if (found === null) return null;
  const claimed: Row = JSON.parse(found);
  return { runId: text(claimed, "run"), requestHash: text(claimed, "hash") };
};
