/** Input that does not begin a turn at once: it waits for the queue, or for the next step of the run that is on (M5). */
import { type SQL, sql } from "drizzle-orm";
import type { RunId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import type { BeginRun } from "./begin-request.ts";
import { sessionBusy } from "./lease.ts";
import { INPUT_COLUMNS, inputValues } from "./row-values.ts";

/** SQL condition over `session_heads h`: a turn is on that takes input up at its next step; work between turns would not answer it. */
const runIsOn: SQL = sql`(h.waiting_run_id is not null
  or exists (select 1 from runs o where o.id = h.lease_holder and o.trigger <> 'maintenance'))`;

/** SQL condition over `session_heads h`: the run is stored as queued, where it does not start at once; null for never. */
export const queuesWhere = ({ onBusy, background }: Pick<BeginRun, "onBusy" | "background">): SQL | null => {
  switch (onBusy) {
    case "queue":
    case "interrupt":
      return sql`true`;
    case "join":
      return sql`not ${runIsOn}`;
    case "reject":
      return background ? sql`not ${sessionBusy}` : null;
    default:
      return onBusy satisfies never;
  }
};

/** SQL: keeps the input of a run that was stored as queued. */
export const insertQueued = (runId: RunId, input: NewRow, from: SQL): SQL =>
  sql`insert into inputs (session_id, run_id, ${INPUT_COLUMNS}) select r.session_id, r.id, ${inputValues(input)}
    from runs r where r.id = ${runId} and r.status = 'queued' and exists (select 1 from ${from}) on conflict (id) do nothing`;

/** SQL: leaves input for the run that is on. The head is locked: a run that ends meanwhile is waited for, and then it is not on. */
export const insertJoining = (input: NewRow, from: SQL): SQL =>
  sql`insert into inputs (session_id, ${INPUT_COLUMNS}) select h.session_id, ${inputValues(input)}
    from (select h.session_id from session_heads h where h.session_id in (select s.id from ${from}) and ${runIsOn} for update) h
    on conflict (id) do nothing`;
