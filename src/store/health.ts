/** Whether the database answers. */
import { sql } from "drizzle-orm";
import type { Db } from "./db.ts";

/** Asks the database for nothing but an answer. @throws StoreUnavailable */
export const ping = async (db: Db): Promise<void> => {
  await db.batch([sql`select 1`], { name: "ping" });
};
