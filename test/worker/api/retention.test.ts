/** What is removed by age, by the database's clock; the log is not. */
import { beforeAll, describe, expect, it } from "vitest";
import type { RunEvent } from "../../../src/protocol/events.ts";
import type { RunId, SessionId, TenantId } from "../../../src/protocol/ids.ts";
import { follow } from "../../../src/turns/follow.ts";
import { maintain } from "../../../src/turns/maintenance.ts";
import { turnTasks } from "../../../src/turns/tasks.ts";
import { type Harness, harness, type TestTenant } from "./harness.ts";

const DAY = 86_400;
const HOUR = 3_600;

let api: Harness;
let tenant: TestTenant;

const create = async (json: object = {}): Promise<string> =>
  (await api.call("POST", "/v1/sessions", { key: tenant.key, json })).json.id;
const statusOf = async (id: string) => (await api.call("GET", `/v1/sessions/${id}`, { key: tenant.key })).status;
const tick = () => maintain(api.deps, turnTasks);
const erasing = () => api.sent.filter(({ type }) => type === "erase_objects");
const insertRun = (id: string, session: string, status: string, finished: boolean) =>
  api.db.sql(
    `insert into runs (id, tenant_id, session_id, status, trigger, model, finished_at) values ($1, $2, $3, $4, 'api', 'm', ${finished ? "hango_now()" : "null"})`,
    [id, tenant.id, session, status],
  );

describe("sessions", () => {
  beforeAll(async () => {
    api = await harness({ kind: "postgres", env: { HANGO_RETENTION_DAYS: "30" } });
    tenant = await api.tenant();
  });

  it("that nobody used for HANGO_RETENTION_DAYS are erased; one that was changed, runs or has a queued turn stays", async () => {
    const [unused, changed, held, queued] = [await create(), await create(), await create(), await create()];
    await insertRun("run_queued", queued, "queued", false);
    await api.db.advanceClock(29 * DAY);
    await tick();
    expect([await statusOf(unused), erasing()]).toEqual([200, []]);
    await api.call("PATCH", `/v1/sessions/${changed}`, { key: tenant.key, json: { title: "used" } });
    await api.db.advanceClock(2 * DAY);
    await api.hold(held);
    await tick();
    expect([await statusOf(unused), await statusOf(changed), await statusOf(held), await statusOf(queued)]).toEqual([
      404, 200, 200, 200,
    ]);
    expect(erasing()).toEqual([{ v: 1, type: "erase_objects", tenantId: tenant.id, sessionId: unused }]);
    expect(await api.db.sql("select session_id from erasures")).toEqual([{ session_id: unused }]);
  });

  it("go 50 a tick, the oldest first, until none is left", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 60; n++) ids.push(await create());
    await api.db.sql(
      "update sessions set updated_at = hango_now() - interval '40 days' - (array_position($1::text[], id) || ' s')::interval where id = any($1::text[])",
      [`{${ids.toReversed().join(",")}}`],
    );
    const left = async () =>
      (
        await api.db.sql("select count(*)::int as n from sessions where id = any($1::text[])", [`{${ids.join(",")}}`])
      )[0]?.n;
    await api.db.advanceClock(HOUR);
    await tick();
    expect([await left(), await statusOf(ids[0] ?? "")]).toEqual([10, 404]);
    await tick();
    expect(await left()).toBe(0);
  });
});

describe("what runs and deliveries leave", () => {
  const events = async (run: string) =>
    (await api.db.sql("select count(*)::int as n from run_events where run_id = $1", [run]))[0]?.n;

  beforeAll(async () => {
    api = await harness({ kind: "postgres", env: { HANGO_EVENT_RETENTION_DAYS: "7" } });
    tenant = await api.tenant();
  });

  it("the events of a finished run go after HANGO_EVENT_RETENTION_DAYS; the log, newer and unfinished runs stay", async () => {
    const session = await create();
    await api.db.sql(
      "insert into messages (session_id, seq, id, role, origin, content, tokens, bytes, run_id) values ($1, 1, 'msg_1', 'user', 'user', '[{\"type\":\"text\",\"text\":\"hi\"}]', 1, 1, 'run_1')",
      [session],
    );
    await insertRun("run_1", session, "completed", true);
    await insertRun("run_2", session, "running", false);
    for (let n = 3; n < 250; n++) await insertRun(`run_${n}`, session, "completed", true);
    await api.db.sql(
      "insert into run_events (session_id, n, run_id, type, data, message_seq) select $1, i, 'run_' || (i % 249 + 1), 'run.started', '{}', 1 from generate_series(1, 1000) i",
      [session],
    );
    await api.db.advanceClock(6 * DAY);
    await insertRun("run_new", session, "completed", true);
    await api.db.sql(
      "insert into run_events (session_id, n, run_id, type, data) values ($1, 2000, 'run_new', 'run.started', '{}')",
      [session],
    );
    await tick();
    expect(await events("run_1")).toBeGreaterThan(0);
    await api.db.advanceClock(DAY + HOUR);
    await tick();
    expect(await api.db.sql("select distinct run_id from run_events order by 1")).toEqual([
      { run_id: "run_2" },
      { run_id: "run_new" },
    ]);
    expect((await api.call("GET", `/v1/sessions/${session}/messages`, { key: tenant.key })).json.data).toHaveLength(1);
    expect((await api.call("GET", "/v1/runs/run_1", { key: tenant.key })).json.status).toBe("completed");
    // Who attaches to it is told how it ended, whatever was told of it before.
    for (const after of [0, 900]) {
      const told: RunEvent[] = [];
      const scope = { tenantId: tenant.id as TenantId, sessionId: session as SessionId, runId: "run_1" as RunId };
      const { signal } = new AbortController();
      for await (const event of follow(api.deps, { ...scope, after, signal })) told.push(event);
      expect(told).toMatchObject([{ n: null, type: "run.completed" }]);
      expect(JSON.parse(told[0]?.data ?? "")).toMatchObject({ status: "completed", steps: 0, output_text: null });
    }
  });

  it("what finished deliveries carried goes too, their rows stay, and what is still to be done keeps it", async () => {
    await api.db.sql("insert into triggers (id, tenant_id, type, config) values ('trg_1', $1, 'webhook', '{}')", [
      tenant.id,
    ]);
    for (const status of ["completed", "refused", "waiting", "accepted"])
      await api.db.sql(
        "insert into deliveries (id, tenant_id, trigger_id, event_id, status, payload, headers) values ($1, $2, 'trg_1', $1, $3, 'secret', '{\"a\": \"b\"}')",
        [`d_${status}`, tenant.id, status],
      );
    for (const status of ["delivered", "failed", "pending"])
      await api.db.sql(
        "insert into webhook_deliveries (id, tenant_id, session_id, url, event_type, payload, status) values ($1, $2, 'ses', 'https://x', 'run.completed', 'secret', $3)",
        [`w_${status}`, tenant.id, status],
      );
    await api.db.advanceClock(7 * DAY + HOUR);
    await tick();
    expect(await api.db.sql("select id, payload from deliveries order by id")).toEqual([
      { id: "d_accepted", payload: "secret" },
      { id: "d_completed", payload: null },
      { id: "d_refused", payload: null },
      { id: "d_waiting", payload: "secret" },
    ]);
    expect(await api.db.sql("select id, payload from webhook_deliveries order by id")).toEqual([
      { id: "w_delivered", payload: "" },
      { id: "w_failed", payload: "" },
      { id: "w_pending", payload: "secret" },
    ]);
  });

  it("without HANGO_RETENTION_DAYS no session ever goes", async () => {
    const id = await create();
    await api.db.advanceClock(4_000 * DAY);
    await tick();
    expect(await statusOf(id)).toBe(200);
  });
});
