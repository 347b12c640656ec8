/** A database for the tests of one file, and for each test a connection and a session of its own. Bindings that follow, as in `own-session.ts`. */
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { Db } from "../../src/store/db.ts";
import { type TestDatabase, testDatabase } from "./database.ts";
import { connectTo, type Fixture, makeSession } from "./store.ts";

export let database: TestDatabase;
export let db: Db;
export let fixture: Fixture;

/** A further session takes the place of the test's own. */
export const nextSession = async (): Promise<void> => {
  fixture = await makeSession(database);
};

/** To be called once, at the top of the file. */
export const useOwnStore = (): void => {
  beforeAll(async () => {
    database = await testDatabase({ kind: "postgres" });
  });
  afterAll(() => database.close());
  beforeEach(async () => {
    db = connectTo(database);
    await nextSession();
  });
};
