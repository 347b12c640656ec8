/** Erasing a session: at once for everybody, in the background for what is large, and nothing left at the end. */
import { beforeAll, describe, expect, it } from "vitest";
import type { SessionId, TenantId } from "../../src/protocol/ids.ts";
import type { Db } from "../../src/store/db.ts";
import { ERASED_TABLES } from "../../src/store/erase-rows.ts";
import { SETTLE_SECONDS } from "../../src/store/erasures.ts";
import type { Deps } from "../../src/turns/deps.ts";
import { ErasureIncomplete, eraseObjects } from "../../src/turns/erase.ts";
import { maintain } from "../../src/turns/maintenance.ts";
import type { EraseObjects } from "../../src/turns/queue.ts";
import { turnTasks } from "../../src/turns/tasks.ts";
import { failure, type Harness, harness, type TestTenant } from "../worker/api/harness.ts";

const MANY = 100_000;

let api: Harness;
let tenant: TestTenant;

beforeAll(async () => {
  api = await harness({ kind: "postgres" });
  tenant = await api.tenant();
});

const create = async (json: object = {}): Promise<string> =>
  (await api.call("POST", "/v1/sessions", { key: tenant.key, json })).json.id;
const remove = (id: string) => api.call("DELETE", `/v1/sessions/${id}`, { key: tenant.key });
const get = (path: string) => api.call("GET", path, { key: tenant.key });
const statusOf = async (id: string) => (await get(`/v1/erasures/${id}`)).json?.status;
const messageFor = (id: string): EraseObjects => ({
  v: 1,
  type: "erase_objects",
  tenantId: tenant.id as TenantId,
  sessionId: id as SessionId,
});
const prefixOf = (id: string) => `tenants/${tenant.id}/sessions/${id}/`;
const objects = async (id: string) => (await api.bucket.list({ prefix: prefixOf(id) })).objects.length;

/** Rows of everything that a session can have, `n` of each. */
const fill = async (id: string, n: number): Promise<void> => {
  const write = (statement: string) => api.db.sql(statement, [id, tenant.id, n]);
  const series = "from (select $1::text as ses, $2::text as tnt) x, generate_series(1, $3::int) i";
  await write(`insert into runs (id, tenant_id, session_id, status, trigger, model, idempotency_key)
    select ses || '_run_' || i, tnt, ses, 'completed', 'api', 'm', case when i < 10 then ses || i end ${series}`);
  await write(`insert into messages (session_id, seq, id, role, origin, content, tokens, bytes, run_id)
    select ses, i, ses || '_msg_' || i, 'user', 'user', ('"' || repeat(md5(i::text), 30) || '"')::json, 300, 1000, ses || '_run_1' ${series} where tnt <> ''`);
  await write(
    `insert into run_events (session_id, n, run_id, type, data) select ses, i, ses || '_run_1', 'run.started', '{}' ${series} where tnt <> ''`,
  );
  await write(`insert into usage_records (id, tenant_id, session_id, run_id, user_id, purpose, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens)
    select ses || '_usg_' || i, tnt, ses, ses || '_run_1', 'somebody', 'turn', 'm', 1, 2, 0, 0 ${series} where i <= 2000`);
  const few = `${series} where i <= 1500`;
  await write(`insert into compactions (session_id, generation, base_generation, attempt_id, covered, covered_hash, reason, summary, sections, prompt_version,
      prefix_version, tokens_before, tokens_after, evicted) select ses, i, i - 1, ses || '_c_' || i, '{[1,2)}', 'h', 'trigger', 'secret', '{}', 1, 1, 2, 1, 1 ${few} and tnt <> ''`);
  await write(`insert into view_revisions (session_id, revision, attempt_id, generation, clipped_before, clip_tokens, thinking_floor, reason)
    select ses, i, ses || '_v_' || i, 0, 1, 500, 1, 'r' ${few} and tnt <> ''`);
  await write(
    `insert into inputs (id, session_id, origin, content, tokens, bytes) select ses || '_i_' || i, ses, 'user', '"secret"', 1, 1 ${few} and tnt <> ''`,
  );
  await write(
    `insert into tool_answers (run_id, tool_use_id, content) select ses || '_run_' || i, 't', '"secret"' ${few} and tnt <> ''`,
  );
  await write(
    `insert into triggers (id, tenant_id, name, type, config) select ses || '_trg', tnt, 't', 'webhook', '{}' ${series} where i = 1`,
  );
  await write(`insert into deliveries (id, tenant_id, trigger_id, event_id, status, payload, headers, session_key, session_id, run_id)
    select ses || '_d_' || i, tnt, ses || '_trg', 'evt' || i, case when i % 2 = 0 then 'completed' else 'waiting' end, 'secret', '{"a": "secret"}', 'k', ses, ses || '_run_1' ${few}`);
  await write(`insert into webhook_deliveries (id, tenant_id, session_id, run_id, url, event_type, payload, status)
    select ses || '_w_' || i, tnt, ses, ses || '_run_1', 'https://x', 'run.completed', 'secret', case when i % 2 = 0 then 'delivered' else 'pending' end ${few}`);
};

/** Every table that names sessions, read from the database itself, so that a table made later cannot be forgotten. */
const tablesWithSession = async (): Promise<readonly string[]> =>
  (
    await api.db.sql(
      "select table_name from information_schema.columns where table_schema = 'public' and column_name = 'session_id' order by 1",
    )
  ).map(({ table_name }) => String(table_name));

/** Rows that are left of a session anywhere, by table; the record of the erasure aside. */
const left = async (id: string): Promise<Readonly<Record<string, number>>> => {
  const counts: [string, number][] = [];
  for (const table of [...(await tablesWithSession()), "sessions", "tool_answers"]) {
    if (table === "erasures") continue;
    const where = { sessions: "id = $1", tool_answers: "run_id like $1 || '%'" }[table] ?? "session_id = $1";
    const [row] = await api.db.sql(`select count(*)::int as n from ${table} where ${where}`, [id]);
    if (Number(row?.n) > 0) counts.push([table, Number(row?.n)]);
  }
  return Object.fromEntries(counts);
};

/** The same work with a database that is lost at the batch after `batches`. */
const dyingAfter = (batches: number): Deps => {
  let done = 0;
  const db: Db = {
    ...api.deps.db,
    batch: (statements, options) => {
      if (options?.name === "erase rows" && done++ >= batches) throw new Error("killed");
      return api.deps.db.batch(statements, options);
    },
  };
  return { ...api.deps, db };
};

it("takes care of every table that has a session_id", async () => {
  expect(await tablesWithSession()).toEqual([...Object.keys(ERASED_TABLES), "erasures"].sort());
});

describe(`a session with ${MANY} rows in its log`, () => {
  let id: string;
  let neighbour: string;
  let neighbours: Readonly<Record<string, number>>;

  beforeAll(async () => {
    [id, neighbour] = [await create({ key: "large", system: "secret", title: "secret" }), await create()];
    await fill(id, MANY);
    await fill(neighbour, 20);
    for (const session of [id, neighbour])
      await api.call("PUT", `/v1/sessions/${session}/files/notes.md`, { key: tenant.key, body: "secret" });
    neighbours = await left(neighbour);
  }, 120_000);

  it("is gone for everybody by one bounded transaction, its key free again and its runs not found", async () => {
    const startedMs = performance.now();
    const { status } = await remove(id);
    const tookMs = performance.now() - startedMs;
    const rows = (await left(id)).messages ?? 0;
    console.info(`DELETE of ${MANY} rows answered in ${Math.round(tookMs)} ms, ${rows} left to the queue`);
    expect([status, api.roundTrips(), rows]).toEqual([200, 2, MANY - 1_000]);
    const paths = ["", "/messages", "/runs", "/files", "/compactions", "/export"].map(
      (rest) => `/v1/sessions/${id}${rest}`,
    );
    for (const path of [...paths, "/v1/sessions/key:large", `/v1/runs/${id}_run_${MANY}`])
      expect([path, (await get(path)).status]).toEqual([path, 404]);
    expect(
      (await get(`/v1/runs?limit=100`)).json.data.map((run: { session_id: string }) => run.session_id),
    ).not.toContain(id);
    expect(await api.db.sql("select id from runs where session_id = $1 and idempotency_key is not null", [id])).toEqual(
      [],
    );
    expect(await api.db.sql("select tenant_id, key, system, title from sessions where id = $1", [id])).toEqual([
      { tenant_id: null, key: null, system: null, title: null },
    ]);
    expect(await statusOf(id)).toBe("erasing");
  });

  it("leaves a session that was made meanwhile with its key alone, and goes on where it was killed", async () => {
    const next = await create({ key: "large" });
    await fill(next, 3);
    expect(next).not.toBe(id);
    const before = (await left(id)).messages ?? 0;
    await expect(eraseObjects(dyingAfter(7), messageFor(id))).rejects.toThrow("killed");
    const between = (await left(id)).messages ?? 0;
    expect([before - between, await statusOf(id), await objects(id)]).toEqual([7_000, "erasing", 1]);
    const startedMs = performance.now();
    await eraseObjects(api.deps, messageFor(id));
    console.info(
      `${between} rows of the log and as many runs and events went in ${Math.round(performance.now() - startedMs)} ms`,
    );
    expect([await left(id), await objects(id), await statusOf(id)]).toEqual([{}, 0, "verifying"]);
    expect((await get("/v1/sessions/key:large")).json.id).toBe(next);
    expect((await left(next)).messages).toBe(3);
  }, 120_000);

  it("keeps what was used and what was delivered, without content and names", async () => {
    const rows = (statement: string) => api.db.sql(statement);
    expect(
      await rows(
        `select session_id, run_id, user_id, sum(output_tokens)::int as used from usage_records where id like '${id}%' group by 1, 2, 3`,
      ),
    ).toEqual([{ session_id: "erased", run_id: null, user_id: null, used: 4_000 }]);
    expect(
      await rows(
        `select status, reason, payload, headers, session_key, run_id, count(*)::int as n from deliveries where id like '${id}%' group by 1, 2, 3, 4, 5, 6 order by 1`,
      ),
    ).toEqual([
      { status: "completed", reason: null, payload: null, headers: {}, session_key: null, run_id: null, n: 750 },
      {
        status: "failed",
        reason: "session_erased",
        payload: null,
        headers: {},
        session_key: null,
        run_id: null,
        n: 750,
      },
    ]);
    expect(
      await rows(
        `select status, error, payload, session_id, run_id, next_at, count(*)::int as n from webhook_deliveries where id like '${id}%' group by 1, 2, 3, 4, 5, 6 order by 1`,
      ),
    ).toEqual([
      { status: "delivered", error: null, payload: "", session_id: "erased", run_id: null, next_at: null, n: 750 },
      {
        status: "failed",
        error: "session_erased",
        payload: "",
        session_id: "erased",
        run_id: null,
        next_at: null,
        n: 750,
      },
    ]);
  });

  it("is done only when nothing is left after nobody can write for it any more", async () => {
    // A run that lost its session was just about to write this file.
    await api.bucket.put(`${prefixOf(id)}files/late.md`, "late");
    api.sent.length = 0;
    await maintain(api.deps, turnTasks);
    expect([api.sent, await statusOf(id)]).toEqual([[], "verifying"]);
    await api.db.advanceClock(SETTLE_SECONDS);
    await maintain(api.deps, turnTasks);
    expect(api.sent).toEqual([messageFor(id)]);
    await eraseObjects(api.deps, messageFor(id));
    expect([await objects(id), await left(id), await statusOf(id)]).toEqual([0, {}, "done"]);
    api.sent.length = 0;
    await api.db.advanceClock(86_400);
    await maintain(api.deps, turnTasks);
    expect(api.sent).toEqual([]);
  });

  it("took nothing of its neighbour", async () => {
    expect([await left(neighbour), await objects(neighbour)]).toEqual([neighbours, 1]);
  });
});

it("what cannot be removed is logged as an error and tried again", async () => {
  const id = await create();
  await api.call("PUT", `/v1/sessions/${id}/files/notes.md`, { key: tenant.key, body: "secret" });
  await remove(id);
  let lists = 0;
  // The first list finds nothing to delete; the look afterwards finds an object.
  const bucket = {
    ...{ delete: (keys: string[]) => api.bucket.delete(keys) },
    list: async (options: R2ListOptions) =>
      lists++ === 0 ? { objects: [], truncated: false } : api.bucket.list(options),
  } as unknown as R2Bucket;
  await expect(eraseObjects({ ...api.deps, bucket }, messageFor(id))).rejects.toThrow(ErasureIncomplete);
  expect(api.logged.at(-1)).toContain("something is left of an erased session");
  expect(await statusOf(id)).toBe("erasing");
  api.sent.length = 0;
  await api.db.advanceClock(601);
  await maintain(api.deps, turnTasks);
  expect(api.sent).toEqual([messageFor(id)]);
  await eraseObjects(api.deps, messageFor(id));
  expect([await objects(id), await statusOf(id)]).toEqual([0, "verifying"]);
});

it("more objects than a page are removed page by page", async () => {
  const id = await create();
  for (let n = 0; n < 1_050; n += 50)
    await Promise.all(Array.from({ length: 50 }, (_, i) => api.bucket.put(`${prefixOf(id)}files/${n + i}`, "x")));
  await remove(id);
  await eraseObjects(api.deps, messageFor(id));
  expect([await objects(id), await statusOf(id)]).toEqual([0, "verifying"]);
}, 60_000);

it("two consumers at once on one erasure remove each row once, and both come to the end", async () => {
  const id = await create();
  await fill(id, 6_000);
  await remove(id);
  await Promise.all([1, 2, 3].map(() => eraseObjects(api.deps, messageFor(id))));
  expect([await left(id), await statusOf(id)]).toEqual([{}, "verifying"]);
});

it("ends runs that were queued, running or waiting", async () => {
  const id = await create();
  await fill(id, 1_200);
  await api.db.sql(
    "update runs set status = case when id like '%1' then 'queued' when id like '%2' then 'running' else 'requires_action' end where session_id = $1",
    [id],
  );
  await api.hold(id, `${id}_run_2`);
  expect((await remove(id)).status).toBe(200);
  expect(await api.db.sql("select distinct status, draft from runs where session_id = $1", [id])).toEqual([
    { status: "cancelled", draft: null },
  ]);
});

describe("the log", () => {
  it.each(["messages", "compactions", "view_revisions"])(
    "refuses a delete from %s outside an erasure, also while others are erased",
    async (table) => {
      const [kept, erased] = [await create(), await create()];
      await fill(kept, 3);
      await fill(erased, 1_600);
      await remove(erased);
      await expect(api.db.sql(`delete from ${table} where session_id = $1`, [kept])).rejects.toThrow(/append-only/);
      await expect(api.db.sql(`delete from ${table} where session_id = $1`, [erased])).rejects.toThrow(/append-only/);
    },
  );

  it("is not touched by a message for a session that is not marked, nor by another tenant's", async () => {
    const id = await create();
    await fill(id, 3);
    const before = await left(id);
    await eraseObjects(api.deps, messageFor(id));
    expect(await left(id)).toEqual(before);
    const large = await create();
    await fill(large, 1_600);
    await remove(large);
    const marked = await left(large);
    await eraseObjects(api.deps, { ...messageFor(large), tenantId: "tnt_other" as TenantId });
    expect(await left(large)).toEqual(marked);
  });
});

it("an erasure is seen by its tenant's admin alone, and only where there is one", async () => {
  const id = await create();
  expect(failure(await get(`/v1/erasures/${id}`))).toEqual({ status: 404, code: "not_found" });
  await remove(id);
  const { json } = await get(`/v1/erasures/${id}`);
  expect([json.id, json.type, json.status, json.done_at]).toEqual([id, "erasure", "erasing", null]);
  const other = await api.tenant();
  expect(failure(await api.call("GET", `/v1/erasures/${id}`, { key: other.key }))).toEqual({
    status: 404,
    code: "not_found",
  });
});
