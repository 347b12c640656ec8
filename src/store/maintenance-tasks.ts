/** When the tasks of the cron trigger are due, kept in the database: ticks of two isolates at once do a task once. */
import { sql } from "drizzle-orm";
import type { Db } from "./db.ts";
import { text } from "./rows.ts";

export interface Cadence {
  readonly name: string;
  /** At least 1. */
  readonly everySeconds: number;
}

/** Takes the tasks that are due; each is due again after its time. @returns their names @throws StoreUnavailable */
export const takeDueTasks = async (db: Db, tasks: readonly Cadence[]): Promise<ReadonlySet<string>> => {
  if (tasks.length === 0) return new Set();
  const rows = tasks.map(
    ({ name, everySeconds }) => sql`(${name}, hango_now() + make_interval(secs => ${everySeconds}::int))`,
  );
  const [taken] = await db.batch(
    [
      sql`insert into maintenance_tasks as t (name, next_at) values ${sql.join(rows, sql`, `)}
        on conflict (name) do update set next_at = excluded.next_at where t.next_at <= hango_now() returning name`,
    ],
    { name: "due tasks" },
  );
  return new Set((taken ?? []).map((row) => text(row, "name")));
};

/** Makes a task due at the next tick: it failed, or has more to do. @throws StoreUnavailable */
export const makeTaskDue = async (db: Db, name: string): Promise<void> => {
  await db.batch([sql`update maintenance_tasks set next_at = hango_now() where name = ${name}`], {
    name: "make task due",
    repeatable: true,
  });
};
