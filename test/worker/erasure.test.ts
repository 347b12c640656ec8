/** Erasing a session that a run holds, with the built Worker, its queue and R2 in workerd, on a real PostgreSQL. */
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type Call,
  callerOf,
  makeTenant,
  openTurn,
  readEvents,
  startTestPlatform,
  type Tenant,
  type TestPlatform,
} from "../support/platform.ts";

let platform: TestPlatform;
let tenant: Tenant;
let call: Call;

beforeAll(async () => {
  platform = await startTestPlatform();
  tenant = await makeTenant(platform.database);
  call = callerOf(platform.url, tenant);
}, 120_000);
afterAll(() => platform.close());

/** Asks until the answer is right: the queue works on its own time, and the test's limit bounds the wait. */
const until = async (right: () => Promise<boolean>): Promise<void> => {
  while (!(await right())) await new Promise((resolve) => setImmediate(resolve));
};

it("ends the run that holds it: nothing more is stored, its stream ends, its key makes another session, nothing is left", async () => {
  const { id } = (await call("POST", "/v1/sessions", { key: "mine" })).body;
  await call("PUT", `/v1/sessions/${id}/files/notes.md`, "secret");
  platform.simulator.enqueue({ hold: "gate", reply: { content: "Too late." } });
  const stream = await openTurn(platform.url, tenant, id, { input: "go" }, { "Idempotency-Key": "turn-1" });
  const events = readEvents(stream);
  await platform.simulator.reached("gate");
  expect((await call("DELETE", `/v1/sessions/${id}`)).body).toEqual({ id, type: "session", deleted: true });
  expect((await call("GET", `/v1/sessions/${id}`)).status).toBe(404);
  expect((await call("POST", `/v1/sessions/${id}/turns`, { input: "again" })).status).toBe(404);
  const again = await call("POST", "/v1/sessions", { key: "mine" });
  expect([again.status, again.body.id === id]).toEqual([201, false]);
  platform.simulator.release("gate");
  expect((await events).at(-1)).toMatchObject({ event: "run.cancelled", id: null });
  await until(async () => (await call("GET", `/v1/erasures/${id}`)).body.status === "verifying");
  const bucket = await platform.host.miniflare.getR2Bucket("FILES");
  expect((await bucket.list({ prefix: `tenants/${tenant.id}/sessions/${id}/` })).objects).toEqual([]);
  for (const table of ["messages", "runs", "run_events", "session_heads"])
    expect(await platform.database.sql(`select 1 from ${table} where session_id = $1`, [id])).toEqual([]);
  // The idempotency key of the run that is gone stands for a new one.
  platform.simulator.enqueue({ reply: { content: "Fresh." } });
  const fresh = await call("POST", "/v1/sessions/key:mine/turns", { input: "go" }, { "Idempotency-Key": "turn-1" });
  expect([fresh.status, fresh.body.output_text]).toEqual([200, "Fresh."]);
});

it("the cron trigger's last look makes it done", async () => {
  const { id } = (await call("POST", "/v1/sessions", {})).body;
  await call("DELETE", `/v1/sessions/${id}`);
  await until(async () => (await call("GET", `/v1/erasures/${id}`)).body.status === "verifying");
  await platform.database.advanceClock(901);
  await platform.host.tick();
  await until(async () => (await call("GET", `/v1/erasures/${id}`)).body.status === "done");
  expect(platform.host.crons).toEqual(["* * * * *"]);
});

it("turns that begin while their sessions are erased end in some way, and none leaves a row behind", async () => {
  platform.simulator.reset();
  const ids: string[] = [];
  for (let n = 0; n < 20; n++) ids.push((await call("POST", "/v1/sessions", {})).body.id);
  const outcomes = await Promise.all(
    ids.map(async (id, n) => {
      const erase = async (): Promise<number> => {
        // Some come before the turn, some while it begins, runs or ends.
        for (let wait = 0; wait < n; wait++) await call("GET", "/healthz");
        return (await call("DELETE", `/v1/sessions/${id}`)).status;
      };
      const [turn, erased] = await Promise.all([call("POST", `/v1/sessions/${id}/turns`, { input: "go" }), erase()]);
      return { erased, turn: turn.status === 200 ? "completed" : (turn.body.error?.code ?? turn.status) };
    }),
  );
  expect(outcomes.filter(({ erased }) => erased !== 200)).toEqual([]);
  expect(outcomes.filter(({ turn }) => turn !== "completed" && turn !== "not_found")).toEqual([]);
  for (const table of ["messages", "runs", "run_events", "session_heads"])
    expect(
      await platform.database.sql(`select 1 from ${table} where session_id = any($1::text[])`, [`{${ids.join(",")}}`]),
    ).toEqual([]);
}, 60_000);
