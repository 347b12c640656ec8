import { type NeonDbError, type NeonQueryFunction, neon, neonConfig } from "@neondatabase/serverless";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startNeonEndpoint } from "../../../src/local/neon-endpoint.ts";
import { createPostgresBackend } from "../../../src/local/postgres-backend.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";

/** Leaves every value as the text that came over the wire. */
const rawTypes = { getTypeParser: () => (text: string) => text };

function connect(connectionString: string, url: string): NeonQueryFunction<false, false> {
  neonConfig.fetchEndpoint = url;
  return neon(connectionString);
}

async function refusal(work: Promise<unknown>): Promise<Record<string, unknown>> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof Error) || error.name !== "NeonDbError") throw new Error(`Not refused: ${String(error)}`);
  const { message, code, constraint, severity, table } = error as NeonDbError;
  return Object.fromEntries(
    Object.entries({ message, code, constraint, severity, table }).filter(([, value]) => value !== undefined),
  );
}

/** Type, and a literal with the text that PostgreSQL prints for it. */
const VALUES: readonly (readonly [type: string, text: string, oid: number, given?: string])[] = [
  ["json", '{"10":1.0,"2":12345678901234567890, "a":"\\u0000\\ud83d\\ude00","a":null}', 114],
  ["jsonb", '{"a": "\\\\ é 😀", "b": [1, 2.50]}', 3802, '{"b":[1,2.50],"a":"\\\\ é 😀"}'],
  ["text", "tab\there 'quote' \"double\" \\ back\nline 😀 \u2028", 25],
  ["text", "", 25],
  ["text", "null", 25],
  ["text[]", '{a,"b c","quo\\"te",NULL,"NULL",""}', 1009],
  ["int8[]", "{1,9007199254740993}", 1016],
  ["int4", "-2147483648", 23],
  ["int8", "9223372036854775807", 20],
  ["int8multirange", "{[1,4),[10,21)}", 4536, "{[1,3],(9,20]}"],
  ["timestamptz", "2026-11-30 12:34:56.789012+00", 1184, "2026-11-30T14:34:56.789012+02:00"],
  ["date", "2026-02-28", 1082],
  ["interval", "00:03:20", 1186, "200 seconds"],
  ["numeric", "123456789012345678901234567890.10", 1700],
  ["float8", "0.1", 701],
  ["bool", "t", 16, "true"],
  ["bytea", "\\x00ff5c", 17],
  ["uuid", "0198a7f0-0000-7000-8000-000000000001", 2950],
];

for (const kind of ["pglite", "postgres"] as const) {
  describe(`Neon's SQL over HTTP, on ${kind}`, () => {
    let database: TestDatabase;
    let sql: NeonQueryFunction<false, false>;

    beforeAll(async () => {
      database = await testDatabase({ kind, empty: true });
      sql = connect(database.connectionString, database.url);
      await sql`CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL CONSTRAINT item_name_short CHECK (length(name) < 20))`;
    });
    afterAll(() => database.close());

    test("answers a statement with typed rows", async () => {
      const rows = await sql`SELECT ${7}::int AS n, ${"seven"} AS name, ${true}::bool AS yes, ${null}::text AS nothing`;
      expect(rows).toEqual([{ n: 7, name: "seven", yes: true, nothing: null }]);
    });

    test("tells the command, its count and the types of the columns", async () => {
      const full = { fullResults: true, types: rawTypes } as const;
      const insert = await sql.query("INSERT INTO item VALUES (1, 'a'), (2, 'b') RETURNING id", [], full);
      expect({ ...insert, _types: 0, _parsers: 0 }).toEqual({
        command: "INSERT",
        rowCount: 2,
        fields: [{ name: "id", dataTypeID: 23 }],
        rows: [{ id: "1" }, { id: "2" }],
        rowAsArray: false,
        viaNeonFetch: true,
        _types: 0,
        _parsers: 0,
      });
      const update = await sql.query("UPDATE item SET name = 'c' WHERE id > $1", [99], full);
      expect([update.command, update.rowCount, update.rows]).toEqual(["UPDATE", 0, []]);
      const create = await sql.query("CREATE TABLE other (id int)", [], full);
      expect([create.command, create.rowCount, create.fields]).toEqual(["CREATE", null, []]);
    });

    test.each(VALUES)("passes %s through as text: %s", async (type, text, oid, given = text) => {
      const options = { fullResults: true, types: rawTypes } as const;
      const result = await sql.query(`SELECT $1::${type} AS value`, [given], options);
      expect([result.fields, result.rows]).toEqual([[{ name: "value", dataTypeID: oid }], [{ value: text }]]);
    });

    test("takes arrays, dates, objects and bytes as the driver writes them", async () => {
      const given = [["a", 'b"c', null], new Date(0), { k: [1] }, Buffer.from([0, 255])];
      const rows = await sql.query(
        "SELECT $1::text[] AS list, $2::timestamptz AS at, $3::json AS doc, $4::bytea AS bytes",
        given,
      );
      expect(rows).toEqual([
        { list: ["a", 'b"c', null], at: new Date(0), doc: { k: [1] }, bytes: Buffer.from([0, 255]) },
      ]);
    });

    test("keeps two columns of one name apart", async () => {
      expect(await sql.query("SELECT 1 AS x, 2 AS x", [], { arrayMode: true })).toEqual([[1, 2]]);
    });

    test("carries a statement of several megabytes both ways", async () => {
      const text = "é".repeat(2_000_000);
      const [row] = await sql`SELECT ${text}::text AS text`;
      expect(row?.text === text).toBe(true);
    });

    test("runs a batch in one transaction and answers each statement", async () => {
      const results = await sql.transaction([
        sql`INSERT INTO item VALUES (10, 'ten')`,
        sql`SELECT name FROM item WHERE id = ${10}`,
        sql`SELECT pg_current_xact_id() = pg_current_xact_id_if_assigned() AS one`,
      ]);
      expect(results).toEqual([[], [{ name: "ten" }], [{ one: true }]]);
    });

    test("keeps nothing of a batch whose last statement fails", async () => {
      const batch = sql.transaction([sql`INSERT INTO item VALUES (20, 'kept?')`, sql`SELECT 1 / 0`]);
      expect(await refusal(batch)).toEqual({ message: "division by zero", code: "22012", severity: "ERROR" });
      expect(await sql`SELECT id FROM item WHERE id = 20`).toEqual([]);
    });

    test("keeps nothing of a batch whose commit fails", async () => {
      await sql`CREATE TABLE late (id int CONSTRAINT late_once UNIQUE DEFERRABLE INITIALLY DEFERRED)`;
      const batch = sql.transaction([sql`INSERT INTO late VALUES (1)`, sql`INSERT INTO late VALUES (1)`]);
      expect(await refusal(batch)).toMatchObject({ code: "23505", constraint: "late_once" });
      expect(await sql`SELECT count(*)::int AS n FROM late`).toEqual([{ n: 0 }]);
    });

    test("reports the code, the constraint and the table of an error", async () => {
      await sql`INSERT INTO item VALUES (30, 'x')`;
      expect(await refusal(sql`INSERT INTO item VALUES (30, 'y')`.then())).toEqual({
        message: 'duplicate key value violates unique constraint "item_pkey"',
        code: "23505",
        severity: "ERROR",
        constraint: "item_pkey",
        table: "item",
      });
      const long = "a name beyond the limit";
      expect(await refusal(sql`INSERT INTO item VALUES (31, ${long})`.then())).toMatchObject({
        code: "23514",
        constraint: "item_name_short",
      });
    });

    test.each([
      ["a syntax error", "SELEC 1", [], "42601"],
      ["two statements in one", "SELECT 1; SELECT 2", [], "42601"],
      ["a missing parameter", "SELECT $1::int", [], "08P01"],
      ["text that is no number", "SELECT $1::int", ["x"], "22P02"],
      ["a NUL in a text parameter", "SELECT $1::text", ["a\0b"], "22021"],
      ["a NUL in a statement", "SELECT 'a\0b'", [], "22021"],
      ["a NUL escape in jsonb", "SELECT $1::jsonb", ['"\\u0000"'], "22P05"],
    ])("refuses %s", async (_what, text, params, code) => {
      expect((await refusal(sql.query(text, params).then())).code).toBe(code);
      expect(await sql`SELECT 1 AS n`).toEqual([{ n: 1 }]);
    });

    test.each([
      ["ReadCommitted", "read committed"],
      ["RepeatableRead", "repeatable read"],
      ["Serializable", "serializable"],
    ] as const)("opens a batch at isolation level %s", async (isolationLevel, expected) => {
      const show = sql`SELECT current_setting('transaction_isolation') AS level`;
      expect(await sql.transaction([show], { isolationLevel })).toEqual([[{ level: expected }]]);
    });

    test("refuses a write in a read-only batch, and does not leave read-only behind", async () => {
      const write = () => sql.transaction([sql`INSERT INTO item VALUES (40, 'z')`], { readOnly: true });
      expect(await refusal(write())).toMatchObject({ code: "25006" });
      const options = { readOnly: true, deferrable: true, isolationLevel: "Serializable" } as const;
      const show = sql`SELECT current_setting('transaction_deferrable') AS d`;
      expect(await sql.transaction([show], options)).toEqual([[{ d: "on" }]]);
      expect(await sql`SELECT current_setting('transaction_read_only') AS r`).toEqual([{ r: "off" }]);
    });

    test("hands no setting, open transaction or lock on to the next request", async () => {
      await sql`SET TIME ZONE 'Asia/Tokyo'`;
      await sql`SELECT set_config('hango.test', 'left', false)`;
      await sql`BEGIN`;
      await sql`INSERT INTO item VALUES (50, 'after begin')`;
      await sql`SELECT pg_advisory_lock(5)`;
      const rows =
        await sql`SELECT current_setting('TimeZone') AS zone, coalesce(current_setting('hango.test', true), '') AS test,
        (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory') AS locks, (SELECT name FROM item WHERE id = 50) AS name`;
      expect(rows).toEqual([{ zone: "UTC", test: "", locks: 0, name: "after begin" }]);
    });

    test.each([
      ["another password", (url: URL) => (url.password = "wrong"), "28P01"],
      ["another user", (url: URL) => (url.username = "someone"), "28P01"],
      ["another database", (url: URL) => (url.pathname = "/elsewhere"), "3D000"],
    ])("refuses %s", async (_what, change, code) => {
      const url = URL.parse(database.connectionString);
      if (url === null) throw new Error("not a URL");
      change(url);
      const requests = neon(url.href)`SELECT 1`.then();
      const refused = await refusal(requests);
      expect(refused.code).toBe(code);
      expect(JSON.stringify(refused)).not.toContain("wrong");
    });

    test("refuses what is not the driver's protocol", async () => {
      const headers = {
        "neon-connection-string": database.connectionString,
        "neon-raw-text-output": "true",
        "neon-array-mode": "true",
      };
      const post = async (body: string, extra: Record<string, string> = {}) =>
        (await fetch(database.url, { method: "POST", body, headers: { ...headers, ...extra } })).status;
      const query = JSON.stringify({ query: "SELECT 1", params: [] });
      expect(await post(query)).toBe(200);
      expect(await post("{")).toBe(400);
      expect(await post("[]")).toBe(400);
      expect(await post(query, { "neon-array-mode": "false" })).toBe(400);
      expect(await post(query, { "neon-batch-isolation-level": "Chaos" })).toBe(400);
      expect(await post(query, { authorization: "Bearer x" })).toBe(400);
      expect((await fetch(database.url)).status).toBe(405);
      expect((await fetch(database.url.replace("/sql", "/"), { method: "POST" })).status).toBe(404);
    });

    test("shows an advanced clock to every later request, sums included", async () => {
      const read = () => sql`SELECT coalesce(current_setting('hango.clock_offset', true), '') AS clock`;
      await Promise.all([read(), read(), read()]);
      await database.advanceClock(200);
      expect(await Promise.all([read(), read(), read()])).toEqual(Array(3).fill([{ clock: "200 seconds" }]));
      await sql`SET hango.clock_offset = '1 second'`;
      await database.advanceClock(100);
      expect(await Promise.all([read(), read()])).toEqual(Array(2).fill([{ clock: "300 seconds" }]));
    });

    test("counts requests, and can lose the answer to one that was done", async () => {
      const before = database.requests();
      database.dropNextAnswer();
      const lost = await refusal(sql.transaction([sql`INSERT INTO item VALUES (60, 'lost')`]));
      expect(lost.message).toContain("Error connecting to database");
      expect(await sql`SELECT name FROM item WHERE id = 60`).toEqual([{ name: "lost" }]);
      expect(database.requests() - before).toBe(2);
    });

    test("reads and writes through the test's own connection with parsed values", async () => {
      expect(await database.sql("SELECT $1::int AS n, $2::text AS t, null AS x", [3, "a"])).toEqual([
        { n: 3, t: "a", x: null },
      ]);
    });
  });
}

describe("Neon's SQL over HTTP, on a real server only", () => {
  let database: TestDatabase;
  let sql: NeonQueryFunction<false, false>;
  beforeAll(async () => {
    database = await testDatabase({ kind: "postgres", empty: true });
    sql = connect(database.connectionString, database.url);
  });
  afterAll(() => database.close());

  /** A statement that ends once two batches have come to it: a sequence shows its value across transactions. */
  async function meeting(sequence: string) {
    await sql.query(`CREATE SEQUENCE ${sequence}`);
    const wait = `WHILE (SELECT last_value FROM ${sequence}) < 2 LOOP PERFORM pg_sleep(0.01); END LOOP;`;
    return () => sql.query(`DO $$ BEGIN PERFORM nextval('${sequence}'); ${wait} END $$`);
  }

  test("runs two batches at once: each waits for the other's lock, and one is refused for the deadlock", async () => {
    await sql`CREATE TABLE pair (id int PRIMARY KEY, n int NOT NULL)`;
    await sql`INSERT INTO pair VALUES (1, 0), (2, 0)`;
    const meet = await meeting("pair_arrivals");
    const batch = (first: number, second: number) =>
      sql.transaction([
        sql`UPDATE pair SET n = n + 1 WHERE id = ${first}`,
        meet(),
        sql`UPDATE pair SET n = n + 1 WHERE id = ${second}`,
      ]);
    const outcomes = await Promise.allSettled([batch(1, 2), batch(2, 1)]);
    expect(outcomes.map((outcome) => outcome.status).sort()).toEqual(["fulfilled", "rejected"]);
    const rejected = outcomes.find((outcome) => outcome.status === "rejected");
    expect(rejected?.reason).toMatchObject({ code: "40P01" });
    expect(await sql`SELECT n FROM pair ORDER BY id`).toEqual([{ n: 1 }, { n: 1 }]);
  });

  test("refuses one of two serialisable batches that read what the other writes", async () => {
    await sql`CREATE TABLE total (n int NOT NULL)`;
    const meet = await meeting("total_arrivals");
    const batch = () =>
      sql.transaction([sql`INSERT INTO total SELECT count(*) FROM total`, meet()], { isolationLevel: "Serializable" });
    const outcomes = await Promise.allSettled([batch(), batch()]);
    const rejected = outcomes.find((outcome) => outcome.status === "rejected");
    expect(rejected?.reason).toMatchObject({ code: "40001" });
    expect(await sql`SELECT n FROM total`).toEqual([{ n: 0 }]);
  });

  test("serves more requests at once than there are connections", async () => {
    const rows = await Promise.all(Array.from({ length: 60 }, (_, n) => sql`SELECT ${n}::int AS n`));
    expect(rows.flat()).toEqual(Array.from({ length: 60 }, (_, n) => ({ n })));
  });

  test("lives on when the server ends its connections", async () => {
    await sql`SELECT 1`;
    const end =
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()";
    await database.sql(end);
    await Promise.allSettled([sql`SELECT 1`, sql`SELECT 1`, sql`SELECT 1`]);
    expect(await sql`SELECT 1 AS n`).toEqual([{ n: 1 }]);
  });

  test("says so when the server cannot be reached, without the password", async () => {
    const credentials = { user: "u", password: "hidden-word", database: "d" };
    const backend = createPostgresBackend({ connectionString: "postgres://u:hidden-word@127.0.0.1:1/d" });
    const endpoint = await startNeonEndpoint({ backend, credentials });
    try {
      const refused = await refusal(connect(endpoint.connectionString, endpoint.url)`SELECT 1`.then());
      expect(refused.message).toMatch(/HTTP status 502.*cannot be reached/);
      expect(refused.message).not.toContain("hidden-word");
    } finally {
      neonConfig.fetchEndpoint = database.url;
      await endpoint.close();
      await backend.close();
    }
  });
});
