/** One matrix for every operation of the OpenAPI document: who is let in, and that another tenant's things are not there. */
import { beforeAll, describe, expect, it } from "vitest";
import { createApp } from "../../../src/api/app.ts";
import { describe as describeApi } from "../../../src/api/openapi.ts";
import { ADMIN_KEY, type Call, failure, type Harness, harness, type TestTenant } from "./harness.ts";

interface Listed {
  readonly method: string;
  readonly path: string;
  readonly secured: boolean;
  readonly description: string;
  readonly body: boolean;
}

/** Every operation, read from the document alone. */
const operations = (): readonly Listed[] => {
  const app = createApp({
    makeDeps: () => {
      throw new Error("nothing is called here");
    },
  });
  return Object.entries(describeApi(app, "https://hango.test").paths ?? {}).flatMap(([path, item]) =>
    (["get", "head", "post", "put", "patch", "delete"] as const).flatMap((method) => {
      const found = item[method];
      if (found === undefined) return [];
      const { security = [], description = "", requestBody } = found;
      return [
        {
          method: method.toUpperCase(),
          path,
          secured: security.length > 0,
          description,
          body: requestBody !== undefined,
        },
      ];
    }),
  );
};

const all = operations();
const secured = all.filter((operation) => operation.secured);
const name = ({ method, path }: Listed) => `${method} ${path}`;
const named = (list: readonly Listed[]) => list.map((operation): [string, Listed] => [name(operation), operation]);
const scopeOf = ({ description }: Listed): string | undefined => /the scope `(\w+)`/.exec(description)?.[1];
const isOperators = ({ description }: Listed): boolean => description.includes("Needs the operator's key.");

/** A body that passes validation, where the operation takes JSON. */
const BODIES: Readonly<Record<string, unknown>> = {
  "POST /v1/sessions": {},
  "PATCH /v1/sessions/{id}": { title: "x" },
  "POST /v1/sessions/{id}/turns": { input: "hi" },
  "POST /v1/sessions/{id}/compact": {},
  "POST /v1/runs/{id}/tool_results": { tool_results: [{ tool_use_id: "toolu_1", content: "" }] },
  "POST /v1/sessions/{id}/rewind": { turns: 1 },
  "POST /v1/sessions/{id}/retry": {},
  "POST /v1/sessions/{id}/fork": {},
  "POST /v1/sessions/{id}/import": { messages: [{ role: "user", content: "hi" }] },
  "POST /v1/webhook_endpoints": { url: "https://example.com/hango" },
  "PATCH /v1/webhook_endpoints/{id}": { description: "x" },
  "POST /v1/webhook_endpoints/{id}/rotate_secret": {},
  "POST /v1/triggers": { type: "webhook", verification: { scheme: "bearer" } },
  "PATCH /v1/triggers/{id}": { enabled: false },
  "POST /v1/triggers/{id}/secrets": {},
  "POST /v1/triggers/{id}/test": {},
  "POST /v1/keys": {},
  "POST /v1/tenants": { name: "x" },
  "PATCH /v1/tenants/{id}": { name: "x" },
};

let api: Harness;
let tenant: TestTenant;
let other: TestTenant;
let session: string;
let erased: string;
let keyId: string;
let endpointId: string;
let triggerId: string;
const webhookDeliveryId = "whd_ACCESS00000000000000000000";
const deliveryId = "dlv_ACCESS0000000000000000000";
const runId = "run_ACCESS0000000000000000000";

const fill = (operation: Listed): string =>
  operation.path
    .replace("/runs/{id}", `/runs/${runId}`)
    .replace("/webhook_endpoints/{id}", `/webhook_endpoints/${endpointId}`)
    .replace("/triggers/{id}", `/triggers/${triggerId}`)
    .replace("{delivery_id}", webhookDeliveryId)
    .replace("{delivery}", deliveryId)
    .replace("/keys/{id}", `/keys/${keyId}`)
    .replace("/tenants/{id}", `/tenants/${tenant.id}`)
    .replace("/sessions/{id}", `/sessions/${session}`)
    .replace("/erasures/{id}", `/erasures/${erased}`)
    .replace("{path}", "secret.md")
    .replace("{generation}", "1");

const call = (operation: Listed, key: string | undefined, path = fill(operation)) => {
  const json = BODIES[name(operation)];
  const request: Call = {
    ...(key === undefined ? {} : { key }),
    ...(operation.body ? (json === undefined ? { body: "x" } : { json }) : {}),
  };
  return api.call(operation.method, path, request);
};

beforeAll(async () => {
  api = await harness();
  tenant = await api.tenant();
  other = await api.tenant();
  session = (await api.call("POST", "/v1/sessions", { key: tenant.key, json: { key: "shared name" } })).json.id;
  erased = (await api.call("POST", "/v1/sessions", { key: tenant.key, json: {} })).json.id;
  await api.call("DELETE", `/v1/sessions/${erased}`, { key: tenant.key });
  await api.call("PUT", `/v1/sessions/${session}/files/secret.md`, { key: tenant.key, body: "secret" });
  await api.db.sql(
    "insert into runs (id, tenant_id, session_id, status, trigger, model, finished_at) values ($1, $2, $3, 'completed', 'api', 'm', hango_now())",
    [runId, tenant.id, session],
  );
  const trigger = { type: "webhook", verification: { scheme: "bearer" } };
  triggerId = (await api.call("POST", "/v1/triggers", { key: tenant.key, json: trigger })).json.id;
  await api.db.sql(
    "insert into deliveries (id, tenant_id, trigger_id, status, payload) values ($1, $2, $3, 'ignored', '{}')",
    [deliveryId, tenant.id, triggerId],
  );
  const { json } = await api.call("GET", "/v1/keys", { key: tenant.key });
  keyId = json.data[0].id;
  const endpoint = { url: "https://example.com/hango" };
  endpointId = (await api.call("POST", "/v1/webhook_endpoints", { key: tenant.key, json: endpoint })).json.id;
  await api.db.sql(
    "insert into webhook_deliveries (id, tenant_id, endpoint_id, session_id, url, event_type, payload) values ($1, $2, $3, $4, $5, 'run.completed', '{}')",
    [webhookDeliveryId, tenant.id, endpointId, session, endpoint.url],
  );
});

describe("the document", () => {
  it("lists what may be called without a key", () => {
    expect(all.filter((operation) => !operation.secured).map(name)).toEqual(["POST /hooks/{id}", "GET /healthz"]);
  });

  it("gives every other operation the operator's key or one scope", () => {
    expect(
      Object.fromEntries(
        secured.map((operation) => [name(operation), isOperators(operation) ? "operator" : scopeOf(operation)]),
      ),
    ).toEqual({
      "POST /v1/sessions": "write",
      "GET /v1/sessions": "read",
      "GET /v1/sessions/{id}": "read",
      "PATCH /v1/sessions/{id}": "write",
      "DELETE /v1/sessions/{id}": "write",
      "GET /v1/erasures/{id}": "admin",
      "POST /v1/sessions/{id}/turns": "write",
      "GET /v1/runs": "read",
      "GET /v1/sessions/{id}/runs": "read",
      "GET /v1/runs/{id}": "read",
      "GET /v1/runs/{id}/events": "content",
      "POST /v1/runs/{id}/cancel": "write",
      "POST /v1/runs/{id}/tool_results": "write",
      "GET /v1/sessions/{id}/events": "content",
      "GET /v1/sessions/{id}/messages": "content",
      "POST /v1/sessions/{id}/rewind": "write",
      "POST /v1/sessions/{id}/retry": "write",
      "POST /v1/sessions/{id}/fork": "write",
      "GET /v1/sessions/{id}/context": "read",
      "POST /v1/sessions/{id}/compact": "write",
      "GET /v1/sessions/{id}/compactions": "read",
      "POST /v1/sessions/{id}/compactions/{generation}/void": "write",
      "GET /v1/sessions/{id}/files": "content",
      "GET /v1/sessions/{id}/files/{path}": "content",
      "HEAD /v1/sessions/{id}/files/{path}": "content",
      "PUT /v1/sessions/{id}/files/{path}": "write",
      "DELETE /v1/sessions/{id}/files/{path}": "write",
      "POST /v1/sessions/{id}/import": "write",
      "GET /v1/sessions/{id}/export": "content",
      "POST /v1/triggers": "write",
      "GET /v1/triggers": "read",
      "GET /v1/triggers/{id}": "read",
      "PATCH /v1/triggers/{id}": "write",
      "DELETE /v1/triggers/{id}": "write",
      "POST /v1/triggers/{id}/secrets": "write",
      "GET /v1/triggers/{id}/deliveries": "read",
      "GET /v1/triggers/{id}/deliveries/{delivery}": "content",
      "POST /v1/triggers/{id}/deliveries/{delivery}/redeliver": "write",
      "POST /v1/triggers/{id}/test": "write",
      "GET /v1/usage": "read",
      "POST /v1/webhook_endpoints": "admin",
      "GET /v1/webhook_endpoints": "admin",
      "GET /v1/webhook_endpoints/callback_secret": "admin",
      "GET /v1/webhook_endpoints/{id}": "admin",
      "PATCH /v1/webhook_endpoints/{id}": "admin",
      "DELETE /v1/webhook_endpoints/{id}": "admin",
      "POST /v1/webhook_endpoints/{id}/rotate_secret": "admin",
      "GET /v1/webhook_endpoints/{id}/deliveries": "admin",
      "POST /v1/webhook_endpoints/{id}/deliveries/{delivery_id}/redeliver": "admin",
      "POST /v1/webhook_endpoints/{id}/test": "admin",
      "POST /v1/keys": "admin",
      "GET /v1/keys": "admin",
      "DELETE /v1/keys/{id}": "admin",
      "POST /v1/tenants": "operator",
      "GET /v1/tenants": "operator",
      "GET /v1/tenants/{id}": "operator",
      "PATCH /v1/tenants/{id}": "operator",
      "GET /v1/doctor": "operator",
    });
  });
});

const refused = (status: number, code: string, answer: Awaited<ReturnType<typeof call>>) =>
  expect([answer.status, answer.json?.error?.code ?? code]).toEqual([status, code]);

describe.each(named(secured))("%s", (_, operation) => {
  it.each<[string, () => string | undefined]>([
    ["no key", () => undefined],
    ["an unknown key", () => `hango_${"0".repeat(40)}`],
    ["a key that is cut short", () => tenant.key.slice(0, -1)],
    ["a key with another case", () => tenant.key.toUpperCase()],
    ["a part of the operator's key", () => ADMIN_KEY.slice(0, -1)],
    ["the hash of a key", () => "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
    ["an SQL injection", () => "'or'1'='1"],
  ])("refuses %s", async (__, key) => {
    const answer = await call(operation, key());
    refused(401, "unauthenticated", answer);
    expect(answer.headers.get("WWW-Authenticate")).toBe('Bearer realm="hango"');
  });

  it("refuses a key that was revoked", async () => {
    const { json } = await api.call("POST", "/v1/keys", {
      key: ADMIN_KEY,
      json: { tenant_id: tenant.id, scopes: ["read", "write", "content", "admin"] },
    });
    await api.call("DELETE", `/v1/keys/${json.id}`, { key: ADMIN_KEY });
    refused(401, "unauthenticated", await call(operation, json.secret));
  });

  it("refuses a tenant's key that lacks the scope", async () => {
    const scope = scopeOf(operation);
    const key = await api.keyOf(
      tenant,
      ["read", "write", "content", "admin"].filter((each) => each !== scope),
    );
    refused(403, "forbidden", await call(operation, isOperators(operation) ? tenant.key : key));
  });

  it("refuses the operator's key where a tenant is meant", async () => {
    const both = operation.description.includes("Needs the operator's key");
    const answer = both ? undefined : await call(operation, ADMIN_KEY);
    if (answer !== undefined) refused(403, "forbidden", answer);
  });
});

const withIds = secured.filter(({ path }) => path.includes("{id}"));

describe.each(named(withIds.filter((operation) => !isOperators(operation))))("another tenant's %s", (_, operation) => {
  it("is not there", async () => {
    refused(404, "not_found", await call(operation, other.key));
  });

  it("is not there by its key either", async () => {
    const path = fill(operation).replace(`/sessions/${session}`, "/sessions/key:shared%20name");
    if (path.includes("key:")) refused(404, "not_found", await call(operation, other.key, path));
  });

  it("answers as for an id that nobody has", async () => {
    const path = fill(operation).replaceAll(
      /(ses|run|key|trg|dlv|whe|whd)_[0-9A-Z]{26}|run_ACCESS\d+/g,
      (id) => `${id.slice(0, 4)}${"Z".repeat(26)}`,
    );
    const [theirs, nobodys] = [await call(operation, other.key), await call(operation, other.key, path)];
    expect(theirs.json?.error).toEqual(nobodys.json?.error);
  });
});

describe.each(named(withIds.filter(isOperators)))("%s of a tenant that does not exist", (_, operation) => {
  it("is not there", async () => {
    refused(
      404,
      "not_found",
      await call(operation, ADMIN_KEY, operation.path.replace("{id}", `tnt_${"Z".repeat(26)}`)),
    );
  });
});

describe("keys", () => {
  it("nothing of the tenant was changed by all this", async () => {
    const read = await api.call("GET", `/v1/sessions/${session}`, { key: tenant.key });
    const file = await api.call("GET", `/v1/sessions/${session}/files/secret.md`, { key: tenant.key });
    const endpoint = await api.call("GET", `/v1/webhook_endpoints/${endpointId}`, { key: tenant.key });
    expect([read.status, read.json.title, file.text]).toEqual([200, null, "secret"]);
    expect([endpoint.status, endpoint.json.description]).toEqual([200, ""]);
  });

  it("end when they expire, by the database's clock", async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const { json } = await api.call("POST", "/v1/keys", {
      key: ADMIN_KEY,
      json: { tenant_id: tenant.id, expires_at: expiresAt },
    });
    const read = () => api.call("GET", "/v1/sessions", { key: json.secret });
    expect((await read()).status).toBe(200);
    await api.db.advanceClock(3_601);
    expect(failure(await read())).toEqual({ status: 401, code: "unauthenticated" });
  });

  it("of a suspended tenant are refused until it is active again", async () => {
    const suspended = await api.tenant();
    const set = (status: string) =>
      api.call("PATCH", `/v1/tenants/${suspended.id}`, { key: ADMIN_KEY, json: { status } });
    const read = () => api.call("GET", "/v1/sessions", { key: suspended.key });
    await set("suspended");
    expect(failure(await read())).toEqual({ status: 403, code: "tenant_suspended" });
    await set("active");
    expect((await read()).status).toBe(200);
  });

  it("may come as x-api-key; Authorization goes first", async () => {
    const read = (headers: Readonly<Record<string, string>>) => api.call("GET", "/v1/sessions", { headers });
    expect((await read({ "x-api-key": tenant.key })).status).toBe(200);
    expect((await read({ "x-api-key": tenant.key, Authorization: "Bearer wrong" })).status).toBe(401);
    expect((await read({ Authorization: `bearer  ${tenant.key} ` })).status).toBe(200);
  });

  it.each(["Basic aGFuZ286eA==", "Bearer", "Bearer ", "Bearer a b", `Bearer ${"x".repeat(600)}`])(
    "are not read from Authorization: %s",
    async (value) => {
      expect(failure(await api.call("GET", "/v1/sessions", { headers: { Authorization: value } }))).toEqual({
        status: 401,
        code: "unauthenticated",
      });
    },
  );
});
