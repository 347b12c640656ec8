import { beforeAll, describe, expect, it } from "vitest";
import { ADMIN_KEY, failure, type Harness, harness, type TestTenant } from "./harness.ts";

let api: Harness;
let tenant: TestTenant;
let other: TestTenant;

beforeAll(async () => {
  api = await harness();
  tenant = await api.tenant();
  other = await api.tenant();
});

const make = (json: unknown, key = ADMIN_KEY) => api.call("POST", "/v1/keys", { key, json });

describe("POST /v1/keys", () => {
  it("shows the secret once and stores only its SHA-256", async () => {
    const { status, json } = await make({ tenant_id: tenant.id, name: "production" });
    expect([status, json]).toEqual([
      201,
      {
        id: expect.stringMatching(/^key_[0-9A-Z]{26}$/),
        type: "key",
        tenant_id: tenant.id,
        name: "production",
        prefix: json.secret.slice(0, 10),
        scopes: ["read", "write", "content"],
        expires_at: null,
        revoked_at: null,
        created_at: expect.any(String),
        secret: expect.stringMatching(/^hango_[0-9A-Za-z]{40}$/),
      },
    ]);
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(json.secret));
    const [row] = await api.db.sql("select * from api_keys where id = $1", [json.id]);
    expect([row?.hash, JSON.stringify(row).includes(json.secret)]).toEqual([
      Buffer.from(digest).toString("hex"),
      false,
    ]);
    const listed = await api.call("GET", "/v1/keys", { key: ADMIN_KEY });
    expect(listed.text.includes(json.secret)).toBe(false);
  });

  it("makes secrets that differ and look random", async () => {
    const secrets = await Promise.all(
      Array.from({ length: 20 }, async () => (await make({ tenant_id: tenant.id })).json.secret),
    );
    expect(new Set(secrets).size).toBe(20);
    expect(new Set(secrets.join("").replaceAll("hango_", "")).size).toBeGreaterThan(55);
  });

  it("lets a tenant's admin make keys of its own tenant, with no scope beyond its own", async () => {
    const admin = await api.keyOf(tenant, ["admin", "read"]);
    expect((await make({ scopes: ["read"] }, admin)).json.tenant_id).toBe(tenant.id);
    expect(failure(await make({ scopes: ["read", "write"] }, admin))).toEqual({
      status: 403,
      code: "forbidden",
      param: "scopes",
    });
    expect(failure(await make({}, admin))).toEqual({ status: 403, code: "forbidden", param: "scopes" });
    expect(failure(await make({ tenant_id: other.id, scopes: ["read"] }, admin))).toEqual({
      status: 404,
      code: "not_found",
    });
  });

  it.each<[unknown, number, string | undefined]>([
    [{}, 400, "tenant_id"],
    [{ tenant_id: "tnt_none" }, 404, undefined],
    [{ tenant_id: `tnt_${"Z".repeat(26)}` }, 404, undefined],
    [{ tenant_id: 1 }, 400, "tenant_id"],
    [{ tenant_id: "x", scopes: [] }, 400, "scopes"],
    [{ tenant_id: "x", scopes: ["root"] }, 400, "scopes[0]"],
    [{ tenant_id: "x", expires_at: "2020-01-01T00:00:00Z" }, 400, "expires_at"],
    [{ tenant_id: "x", expires_at: "tomorrow" }, 400, "expires_at"],
    [{ tenant_id: "x", secret: "mine" }, 400, "secret"],
  ])("refuses %j", async (json, status, param) => {
    expect(failure(await make(json))).toMatchObject({ status, ...(param === undefined ? {} : { param }) });
  });
});

describe("GET and DELETE /v1/keys", () => {
  it("list and revoke a tenant's own keys", async () => {
    const owner = await api.tenant();
    const { json: made } = await make({ scopes: ["read"] }, owner.key);
    const revoked = await api.call("DELETE", `/v1/keys/${made.id}`, { key: owner.key });
    expect([revoked.status, revoked.json]).toEqual([
      200,
      { ...made, secret: undefined, revoked_at: expect.any(String) },
    ]);
    await api.db.advanceClock(5);
    expect((await api.call("DELETE", `/v1/keys/${made.id}`, { key: owner.key })).json).toEqual(revoked.json);
    const { json: list } = await api.call("GET", "/v1/keys", { key: owner.key });
    expect([list.data.length, list.data.find(({ id }: { id: string }) => id === made.id)]).toEqual([2, revoked.json]);
  });

  it("let the operator see all keys, or those of one tenant", async () => {
    const list = async (query: string, key = ADMIN_KEY) =>
      (await api.call("GET", `/v1/keys?limit=100${query}`, { key })).json;
    const tenants = new Set((await list("")).data.map((key: { tenant_id: string }) => key.tenant_id));
    expect([tenants.has(tenant.id), tenants.has(other.id)]).toEqual([true, true]);
    const one = (await list(`&tenant_id=${other.id}`)).data.map((key: { tenant_id: string }) => key.tenant_id);
    expect(new Set(one)).toEqual(new Set([other.id]));
    expect((await list(`&tenant_id=${other.id}`, tenant.key)).error.code).toBe("not_found");
  });

  it("do not revoke another tenant's key", async () => {
    const { json } = await make({ tenant_id: other.id });
    expect(failure(await api.call("DELETE", `/v1/keys/${json.id}`, { key: tenant.key }))).toEqual({
      status: 404,
      code: "not_found",
    });
    expect((await api.call("GET", "/v1/sessions", { key: json.secret })).status).toBe(200);
  });

  it("answer 404 for what is no key's id", async () => {
    for (const id of ["x", "%00", `key_${"Z".repeat(26)}`]) {
      expect(failure(await api.call("DELETE", `/v1/keys/${id}`, { key: ADMIN_KEY }))).toEqual({
        status: 404,
        code: "not_found",
      });
    }
  });
});

describe("/v1/tenants", () => {
  it("are made, read, changed and listed by the operator", async () => {
    const made = await api.call("POST", "/v1/tenants", { key: ADMIN_KEY, json: { name: "acme" } });
    expect([made.status, made.json]).toEqual([
      201,
      {
        id: expect.stringMatching(/^tnt_/),
        type: "tenant",
        name: "acme",
        status: "active",
        created_at: expect.any(String),
      },
    ]);
    const path = `/v1/tenants/${made.json.id}`;
    const changed = await api.call("PATCH", path, { key: ADMIN_KEY, json: { name: "acme inc" } });
    expect(changed.json).toEqual({ ...made.json, name: "acme inc" });
    expect((await api.call("GET", path, { key: ADMIN_KEY })).json).toEqual(changed.json);
    expect((await api.call("GET", "/v1/tenants?limit=1", { key: ADMIN_KEY })).json).toEqual({
      data: [changed.json],
      next_page: expect.any(String),
    });
  });

  it("are made once per Idempotency-Key", async () => {
    const post = (name: string) =>
      api.call("POST", "/v1/tenants", { key: ADMIN_KEY, json: { name }, headers: { "Idempotency-Key": "tenant-1" } });
    const [first, second, third] = [await post("once"), await post("once"), await post("twice")];
    expect([second.json, second.headers.get("Idempotent-Replayed"), failure(third).code]).toEqual([
      first.json,
      "true",
      "idempotency_mismatch",
    ]);
  });

  it.each<[unknown, string]>([
    [{}, "name"],
    [{ name: "" }, "name"],
    [{ name: "a\u0000" }, "name"],
    [{ name: "a", id: "tnt_1" }, "id"],
  ])("refuse %j", async (json, param) => {
    expect(failure(await api.call("POST", "/v1/tenants", { key: ADMIN_KEY, json }))).toEqual({
      status: 400,
      code: "invalid_request",
      param,
    });
  });
});

describe("the operator's key, while it is changed", () => {
  const BEFORE = "operator-key-before-this-one";

  it("is the new one or the one before, and nothing else; afterwards the new one alone", async () => {
    const changing = await harness({ env: { HANGO_ADMIN_KEY_PREVIOUS: BEFORE } });
    const statuses = (of: Harness) =>
      Promise.all(
        [ADMIN_KEY, BEFORE, BEFORE.slice(0, -1), `${BEFORE}x`].map(
          async (key) => (await of.call("GET", "/v1/tenants", { key })).status,
        ),
      );
    expect(await statuses(changing)).toEqual([200, 200, 401, 401]);
    expect(await statuses(api)).toEqual([200, 401, 401, 401]);
  });
});
