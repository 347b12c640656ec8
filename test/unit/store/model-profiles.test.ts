import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newId } from "../../../src/protocol/ids.ts";
import type { Db } from "../../../src/store/db.ts";
import { staleModels, storeProfiles } from "../../../src/store/model-profiles.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";
import { connectTo } from "../../support/store.ts";

let database: TestDatabase;
let db: Db;

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
  db = connectTo(database);
});
afterAll(() => database.close());

const use = (model: string) =>
  database.sql(
    `insert into usage_records (id, tenant_id, session_id, purpose, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens)
     values ($1, 't', 's', 'turn', $2, 1, 1, 0, 0)`,
    [newId("usg"), model],
  );

describe("profiles from the Models API (E7)", () => {
  it("are asked for models used within a week, once in 24 hours, known or not", async () => {
    expect(await staleModels(db, 10)).toEqual([]);
    for (const model of ["b", "a", "b", "c"]) await use(model);
    expect(await staleModels(db, 10)).toEqual(["a", "b", "c"]);
    expect(await staleModels(db, 2)).toEqual(["a", "b"]);
    database.dropNextAnswer();
    await storeProfiles(db, [
      { model: "a", maxInputTokens: 5, maxOutputTokens: 2 },
      { model: "b", maxInputTokens: null, maxOutputTokens: null },
    ]);
    expect(await staleModels(db, 10)).toEqual(["c"]);
    await database.advanceClock(25 * 3600);
    expect(await staleModels(db, 10)).toEqual(["a", "b", "c"]);
    await storeProfiles(db, [{ model: "a", maxInputTokens: 6, maxOutputTokens: 2 }]);
    expect(await database.sql("select model, max_input_tokens from model_profiles order by model")).toEqual([
      { model: "a", max_input_tokens: 6 },
      { model: "b", max_input_tokens: null },
    ]);
    await database.advanceClock(7 * 86_400);
    expect(await staleModels(db, 10)).toEqual([]);
  });
});
