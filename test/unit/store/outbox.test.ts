/** The outbox: what is told is stored with what makes it true, once for every receiver. */

import { sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { newId, type TenantId } from "../../../src/protocol/ids.ts";
import type { Db } from "../../../src/store/db.ts";
import { storeFinish } from "../../../src/store/finish.ts";
import type { LoadedSession } from "../../../src/store/loaded-session.ts";
import { tellOfRun, tellOfRuns, toldIds } from "../../../src/store/outbox.ts";
import { createEndpoint } from "../../../src/store/webhook-endpoints.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";
import { connectTo, finishOf, makeSession, start } from "../../support/store.ts";

let database: TestDatabase;
let db: Db;
let session: LoadedSession;

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
  db = connectTo(database);
});
afterAll(() => database.close());

const endpoint = async (tenantId: TenantId, events: readonly "run.completed"[] = []) => {
  const id = newId("whe");
  const settings = { url: "https://example.com/", description: "", enabled: true, events };
  await createEndpoint(db, tenantId, id, "whsec_x", settings);
  return id;
};
const outbox = () =>
  database.sql(
    "select id, endpoint_id, url, event_type, payload from webhook_deliveries where session_id = $1 order by id",
    [session.sessionId],
  );

beforeEach(async () => {
  const fixture = await makeSession(database);
  session = await start(db, fixture, { callbackUrl: "https://example.com/callback" });
});

describe("the outbox", () => {
  it("holds one row for every receiver that asked, and the finish returns their ids", async () => {
    const [all, some] = [await endpoint(session.tenantId), await endpoint(session.tenantId, ["run.completed"])];
    await endpoint(session.tenantId, ["run.completed"]);
    const outcome = await storeFinish(db, session, finishOf(session));
    const rows = await outbox();
    expect(rows.map(({ endpoint_id }) => endpoint_id)).toEqual(expect.arrayContaining([all, some, null]));
    expect(rows).toHaveLength(4);
    expect(outcome).toMatchObject({ kind: "finished" });
    if (outcome.kind === "finished") expect([...outcome.deliveries].sort()).toEqual(rows.map(({ id }) => id));
    expect(new Set(rows.map(({ payload }) => JSON.parse(String(payload)).id)).size).toBe(1);
  });

  it("holds nothing twice when the answer to the finish is lost and it is sent again (M3)", async () => {
    await endpoint(session.tenantId);
    database.dropNextAnswer();
    const outcome = await storeFinish(db, session, finishOf(session));
    const rows = await outbox();
    expect(rows).toHaveLength(2);
    if (outcome.kind === "finished") expect([...outcome.deliveries].sort()).toEqual(rows.map(({ id }) => id));
  });

  it("holds nothing of a turn that goes on with input that was waiting (M5)", async () => {
    await endpoint(session.tenantId);
    await database.sql(
      "insert into inputs (id, session_id, origin, content, tokens, bytes) values ($1, $2, 'user', '[]', 1, 2)",
      [newId("msg"), session.sessionId],
    );
    expect((await storeFinish(db, session, finishOf(session))).kind).toBe("more_input");
    expect(await outbox()).toEqual([]);
  });

  it("is not filled by a run that has lost its session (M2)", async () => {
    await endpoint(session.tenantId);
    await database.advanceClock(200);
    await expect(storeFinish(db, session, finishOf(session))).rejects.toThrow();
    expect(await outbox()).toEqual([]);
  });

  it("tells of waiting each time that a run waits, endpoints alone, and of its end once", async () => {
    await endpoint(session.tenantId);
    const runId = session.lease.holder;
    const tell = async (status: string, steps: number) => {
      await database.sql("update runs set status = $1, steps = $2 where id = $3", [status, steps, runId]);
      const [rows] = await db.batch([tellOfRun(session.tenantId, runId)]);
      return toldIds(rows).length;
    };
    expect([await tell("requires_action", 1), await tell("running", 1), await tell("requires_action", 2)]).toEqual([
      1, 0, 1,
    ]);
    expect([await tell("cancelled", 2), await tell("cancelled", 3)]).toEqual([2, 2]);
    expect((await outbox()).map(({ event_type }) => event_type).sort()).toEqual([
      "run.cancelled",
      "run.cancelled",
      "run.requires_action",
      "run.requires_action",
    ]);
  });

  it("tells nothing of work between turns", async () => {
    await endpoint(session.tenantId);
    await database.sql("update runs set trigger = 'maintenance', status = 'completed' where id = $1", [
      session.lease.holder,
    ]);
    await db.batch([tellOfRuns(sql`r.session_id = ${session.sessionId}`)]);
    expect(await outbox()).toEqual([]);
  });

  it("does not name a delivery again that was sent already", async () => {
    await endpoint(session.tenantId);
    await storeFinish(db, session, finishOf(session));
    await database.sql("update webhook_deliveries set attempts = 1 where session_id = $1", [session.sessionId]);
    const [rows] = await db.batch([tellOfRun(session.tenantId, session.lease.holder)]);
    expect(toldIds(rows)).toEqual([]);
  });

  it("lets a turn end while an endpoint is deleted", async () => {
    const ids = [];
    for (let n = 0; n < 8; n++) ids.push(await endpoint(session.tenantId));
    const [outcome] = await Promise.all([
      storeFinish(db, session, finishOf(session)),
      ...ids.map((id) => database.sql("delete from webhook_endpoints where id = $1", [id])),
    ]);
    expect(outcome.kind).toBe("finished");
    expect((await outbox()).map(({ endpoint_id }) => endpoint_id)).toEqual([null]);
  });
});
