/** What the provider says of models, kept for the turns to come (E7). */
import { sql } from "drizzle-orm";
import type { Db } from "./db.ts";
import { text } from "./rows.ts";

/** Models that were used within so many days are kept up to date. */
const USED_WITHIN_DAYS = 7;

/** A profile is asked for again after so many hours. */
const FRESH_HOURS = 24;

/** Sizes in tokens. */
export interface CachedProfile {
  readonly model: string;
  /** Null where the provider knows no model of that name. */
  readonly maxInputTokens: number | null;
  readonly maxOutputTokens: number | null;
}

/** Models that answered lately and whose profile is missing or old, in order of name. @throws StoreUnavailable */
export const staleModels = async (db: Db, limit: number): Promise<readonly string[]> => {
  const [rows] = await db.batch(
    [
      // Steps from name to name through the index, so that the cost grows with the models and not with their calls.
      sql`with recursive named as (
          (select u.model from usage_records u order by u.model limit 1)
          union all
          select (select u.model from usage_records u where u.model > named.model order by u.model limit 1) from named where named.model is not null)
        select named.model from named left join model_profiles p on p.model = named.model
        where named.model is not null
          and coalesce(p.fetched_at < hango_now() - make_interval(hours => ${sql.raw(String(FRESH_HOURS))}), true)
          and exists (select 1 from usage_records u where u.model = named.model
            and u.created_at > hango_now() - make_interval(days => ${sql.raw(String(USED_WITHIN_DAYS))}))
        order by named.model limit ${limit}`,
    ],
    { name: "stale models", repeatable: true },
  );
  return (rows ?? []).map((row) => text(row, "model"));
};

/** Keeps profiles, in place of older ones. @throws StoreUnavailable */
export const storeProfiles = async (db: Db, profiles: readonly CachedProfile[]): Promise<void> => {
  await db.batch(
    profiles.map(
      ({ model, maxInputTokens, maxOutputTokens }) =>
        sql`insert into model_profiles (model, max_input_tokens, max_output_tokens) values (${model}, ${maxInputTokens}::int, ${maxOutputTokens}::int)
          on conflict (model) do update set max_input_tokens = excluded.max_input_tokens, max_output_tokens = excluded.max_output_tokens,
            fetched_at = hango_now()`,
    ),
    { name: "store profiles", repeatable: true },
  );
};
