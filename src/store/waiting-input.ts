/** Input that does not begin a turn at once: it waits for the queue. What joins a run that is on is in `join.ts`. */
import { type SQL, sql } from "drizzle-orm";
import type { RunId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import type { BeginRun } from "./begin-request.ts";
import { runIsOn } from "./join.ts";
import { sessionBusy } from "./lease.ts";
import { INPUT_COLUMNS, inputValues } from "./row-values.ts";

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
