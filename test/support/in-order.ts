/** Has statements on one session meet: all wait for its head, and then get it one after the other, each with the snapshot of when it came. */
import pg from "pg";
import type { SessionId } from "../../src/protocol/ids.ts";
import type { TestDatabase } from "./database.ts";

/**
 * Begins each piece of work while somebody else holds the session's head, the next once the one before waits for it (or has ended), and then
 * lets them go.
 * @returns what became of each
 */
export const meeting = async <T>(
  database: TestDatabase,
  sessionId: SessionId,
  works: readonly (() => Promise<T>)[],
): Promise<readonly PromiseSettledResult<T>[]> => {
  const holder = new pg.Client({ connectionString: database.connectionString });
  await holder.connect();
  try {
    await holder.query("begin");
    await holder.query("select 1 from session_heads where session_id = $1 for update", [sessionId]);
    const begun: Promise<T>[] = [];
    let ended = 0;
    for (const work of works) {
      const one = work();
      begun.push(one);
      one.then(
        () => ended++,
        () => ended++,
      );
      while ((await waiters(database)) + ended < begun.length);
    }
    await holder.query("commit");
    return await Promise.allSettled(begun);
  } finally {
    await holder.end();
  }
};

/** Sessions of this database that wait for a lock. */
const waiters = async (database: TestDatabase): Promise<number> => {
  const [row] = await database.sql(
    "select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
  );
  return Number(row?.["n"]);
};
