/** What is forgotten by age. */
import { sql } from "drizzle-orm";
import type { Db } from "./db.ts";
import { IDEMPOTENCY_HOURS } from "./idempotency.ts";

/** Forgets idempotency keys that are older than 24 hours, a turn's too. @throws StoreUnavailable */
export const expireIdempotencyKeys = async (db: Db): Promise<void> => {
  const oldest = sql`hango_now() - make_interval(hours => ${sql.raw(String(IDEMPOTENCY_HOURS))})`;
  await db.batch(
    [
      sql`delete from idempotency_keys where created_at <= ${oldest}`,
      sql`update runs set idempotency_key = null where idempotency_key is not null and created_at <= ${oldest}`,
    ],
    { name: "expire idempotency keys", repeatable: true },
  );
};
