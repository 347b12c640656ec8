/** What several requests at once may not do; on PostgreSQL, because PGlite has one connection. */
import { beforeAll, describe, expect, it } from "vitest";
import { type Harness, harness, type TestTenant } from "./harness.ts";

const REQUESTS = 20;

let api: Harness;
let tenant: TestTenant;

beforeAll(async () => {
  api = await harness({ kind: "postgres" });
  tenant = await api.tenant();
});

const at = async <T>(once: (n: number) => Promise<T>): Promise<readonly T[]> =>
  Promise.all(Array.from({ length: REQUESTS }, (_, n) => once(n)));
const sessions = async () => Number((await api.db.sql("select count(*)::int as n from sessions"))[0]?.n);

describe("at once", () => {
  it("creates with one Idempotency-Key make one session", async () => {
    const before = await sessions();
    const answers = await at(() =>
      api.call("POST", "/v1/sessions", {
        key: tenant.key,
        json: { title: "x" },
        headers: { "Idempotency-Key": "race" },
      }),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers.get("Idempotent-Replayed") !== "true").length).toBe(1);
    expect(await sessions()).toBe(before + 1);
  });

  it("creates with one session key make one session", async () => {
    const before = await sessions();
    const answers = await at(() => api.call("POST", "/v1/sessions", { key: tenant.key, json: { key: "race" } }));
    expect(answers.filter(({ json }) => json.created === true).length).toBe(1);
    expect([new Set(answers.map(({ json }) => json.id)).size, await sessions()]).toEqual([1, before + 1]);
  });

  it("creates with one session key and different Idempotency-Keys make one session, and every key stands for it", async () => {
    const before = await sessions();
    const post = (n: number) =>
      api.call("POST", "/v1/sessions", {
        key: tenant.key,
        json: { key: "race 2" },
        headers: { "Idempotency-Key": `race-${n}` },
      });
    const [first, second] = [await at(post), await at(post)];
    expect(new Set([...first, ...second].map(({ json }) => json.id)).size).toBe(1);
    expect(second.map(({ json }) => json.created)).toEqual(first.map(({ json }) => json.created));
    expect([first.filter(({ json }) => json.created === true).length, await sessions()]).toEqual([1, before + 1]);
  });

  it("erasures and a lease taken meanwhile do not cross: the session is gone, and nobody holds it", async () => {
    const made = await at(
      async () => (await api.call("POST", "/v1/sessions", { key: tenant.key, json: {} })).json.id as string,
    );
    const outcomes = await Promise.all(
      made.map(async (id) => {
        const [erased] = await Promise.all([
          api.call("DELETE", `/v1/sessions/${id}`, { key: tenant.key }),
          api.hold(id),
        ]);
        const heads = (await api.db.sql("select lease_holder from session_heads where session_id = $1", [id])).length;
        return [erased.status, heads];
      }),
    );
    expect(outcomes.filter(([status, heads]) => status !== 200 || heads !== 0)).toEqual([]);
  });
});
