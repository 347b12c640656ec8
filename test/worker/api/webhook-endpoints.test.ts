import { beforeAll, describe, expect, it } from "vitest";
import { newId } from "../../../src/protocol/ids.ts";
import { type Call, failure, type Harness, harness, type TestTenant } from "./harness.ts";

let api: Harness;
let tenant: TestTenant;
const PATH = "/v1/webhook_endpoints";
const URL = "https://example.com/hango";

beforeAll(async () => {
  api = await harness();
  tenant = await api.tenant();
});

const call = (method: string, path: string, json?: unknown, more: Call = {}) =>
  api.call(method, path, { key: tenant.key, ...(json === undefined ? {} : { json }), ...more });
const make = async (fields: object = {}) => (await call("POST", PATH, { url: URL, ...fields })).json;
const stored = async (id: string) => {
  const [row] = await api.db.sql("select secrets from webhook_endpoints where id = $1", [id]);
  return row?.secrets as { secret: string; expires_at: string | null }[];
};

describe("/v1/webhook_endpoints", () => {
  it("are made, with a secret that is shown once", async () => {
    const { status, json } = await call("POST", PATH, { url: URL, events: ["run.failed"], description: "alarms" });
    expect([status, json]).toEqual([
      201,
      {
        id: expect.stringMatching(/^whe_[0-9A-Z]{26}$/),
        type: "webhook_endpoint",
        url: URL,
        description: "alarms",
        enabled: true,
        events: ["run.failed"],
        signing_secrets: 1,
        created_at: expect.any(String),
        updated_at: json.created_at,
        secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      },
    ]);
    const { secret, ...rest } = json;
    expect((await call("GET", `${PATH}/${json.id}`)).json).toEqual(rest);
    expect((await call("GET", PATH)).text).not.toContain("whsec_");
    expect(api.logged.join()).not.toContain(secret);
  });

  it("are listed page by page, newest first", async () => {
    const [first, second] = [await make(), await make()];
    const page = await call("GET", `${PATH}?limit=1`);
    expect(page.json.data.map(({ id }: { id: string }) => id)).toEqual([second.id]);
    const next = await call("GET", `${PATH}?limit=1&page=${page.json.next_page}`);
    expect(next.json.data.map(({ id }: { id: string }) => id)).toEqual([first.id]);
  });

  it("are changed in part, and deleted with their deliveries", async () => {
    const { secret: _, ...made } = await make({ description: "old", events: ["run.failed"] });
    const path = `${PATH}/${made.id}`;
    const changed = await call("PATCH", path, { url: `${URL}/2`, enabled: false });
    expect(changed.json).toEqual({ ...made, url: `${URL}/2`, enabled: false, updated_at: expect.any(String) });
    expect((await call("PATCH", path, { events: [] })).json).toMatchObject({ description: "old", events: [] });
    await call("PATCH", path, { enabled: true });
    await call("POST", `${path}/test`);
    expect((await call("DELETE", path)).json).toEqual({ id: made.id, type: "webhook_endpoint", deleted: true });
    expect((await call("GET", path)).status).toBe(404);
    expect((await call("DELETE", path)).status).toBe(404);
    expect(await api.db.sql("select 1 from webhook_deliveries where endpoint_id = $1", [made.id])).toEqual([]);
  });

  it.each<[unknown, string]>([
    [{}, "url"],
    [{ url: "http://example.com" }, "url"],
    [{ url: "https://localhost/x" }, "url"],
    [{ url: "https://10.0.0.1/x" }, "url"],
    [{ url: "https://[::1]/x" }, "url"],
    [{ url: "https://169.254.169.254/latest/meta-data" }, "url"],
    [{ url: "https://0x7f.1/" }, "url"],
    [{ url: `https://example.com/${"x".repeat(2_048)}` }, "url"],
    [{ url: URL, events: ["run.exploded"] }, "events[0]"],
    [{ url: URL, events: ["run.failed", "run.failed"] }, "events"],
    [{ url: URL, secret: "whsec_mine" }, "secret"],
    [{ url: URL, enabled: "yes" }, "enabled"],
  ])("refuse %j", async (json, param) => {
    expect(failure(await call("POST", PATH, json))).toEqual({ status: 400, code: "invalid_request", param });
  });

  it("refuse a private address in a change as well", async () => {
    const { id } = await make();
    const answer = await call("PATCH", `${PATH}/${id}`, { url: "https://192.168.0.1/" });
    expect(failure(answer)).toEqual({ status: 400, code: "invalid_request", param: "url" });
  });

  it("are at most 20 a tenant", async () => {
    const crowded = await api.tenant();
    const post = () => api.call("POST", PATH, { key: crowded.key, json: { url: URL } });
    for (let n = 0; n < 20; n++) expect((await post()).status).toBe(201);
    expect(failure(await post())).toEqual({ status: 400, code: "invalid_request", param: "url" });
  });
});

describe("rotating a secret", () => {
  const rotate = (id: string, json: unknown) => call("POST", `${PATH}/${id}/rotate_secret`, json);

  it("keeps the old one signing for the overlap, by the database's clock", async () => {
    const made = await make();
    const rotated = await rotate(made.id, { overlap_seconds: 100 });
    expect(rotated.json.secret).not.toBe(made.secret);
    expect(rotated.json.signing_secrets).toBe(2);
    expect((await stored(made.id)).map(({ secret }) => secret)).toEqual([rotated.json.secret, made.secret]);
    await api.db.advanceClock(101);
    expect((await call("GET", `${PATH}/${made.id}`)).json.signing_secrets).toBe(1);
    // What has expired is forgotten by the next rotation.
    const again = await rotate(made.id, {});
    expect((await stored(made.id)).map(({ secret }) => secret)).toEqual([again.json.secret, rotated.json.secret]);
  });

  it("ends the old one at once without an overlap", async () => {
    const made = await make();
    expect((await rotate(made.id, { overlap_seconds: 0 })).json.signing_secrets).toBe(1);
  });

  it("never lengthens the life of an older one, and keeps at most five", async () => {
    const made = await make();
    await rotate(made.id, { overlap_seconds: 100 });
    const [, oldest] = await stored(made.id);
    await rotate(made.id, { overlap_seconds: 604_800 });
    expect((await stored(made.id)).at(-1)).toEqual(oldest);
    for (let n = 0; n < 5; n++) await rotate(made.id, {});
    expect((await call("GET", `${PATH}/${made.id}`)).json.signing_secrets).toBe(5);
  });

  it.each([[-1], [604_801], [1.5], ["1"]])("refuses an overlap of %j seconds", async (overlap_seconds) => {
    const { id } = await make();
    expect(failure(await rotate(id, { overlap_seconds }))).toEqual({
      status: 400,
      code: "invalid_request",
      param: "overlap_seconds",
    });
  });
});

describe("the callback secret", () => {
  it("is one a tenant, and always the same", async () => {
    const read = async (key: string) => (await api.call("GET", `${PATH}/callback_secret`, { key })).json.secret;
    const other = await api.tenant();
    const [mine, again, theirs] = [await read(tenant.key), await read(tenant.key), await read(other.key)];
    expect(mine).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(again).toBe(mine);
    expect(theirs).not.toBe(mine);
  });
});

describe("deliveries", () => {
  let inserted = 0;
  // Ids that sort as they were made: two that are made in one millisecond need not.
  const insert = async (endpointId: string | null, status = "failed") => {
    const id = `whd_${String(++inserted).padStart(26, "0")}`;
    await api.db.sql(
      "insert into webhook_deliveries (id, tenant_id, endpoint_id, session_id, url, event_type, payload, status, attempts, next_at, response_status, error) values ($1, $2, $3, 'ses_1', 'https://old.example/', 'run.failed', '{}', $4, 3, null, 500, 'the receiver answered 500')",
      [id, tenant.id, endpointId, status],
    );
    return id;
  };

  it("are listed by status, and redelivered: due now, sent for, their count of attempts kept", async () => {
    const { id } = await make();
    const [failed, delivered] = [await insert(id), await insert(id, "delivered")];
    const list = async (query = "") =>
      (await call("GET", `${PATH}/${id}/deliveries${query}`)).json.data.map((row: { id: string }) => row.id);
    expect([await list(), await list("?status=failed"), await list("?status=pending")]).toEqual([
      [delivered, failed],
      [failed],
      [],
    ]);
    api.sent.length = 0;
    const { status, json } = await call("POST", `${PATH}/${id}/deliveries/${failed}/redeliver`);
    expect([status, json]).toEqual([
      202,
      expect.objectContaining({ id: failed, status: "pending", attempts: 3, next_at: expect.any(String) }),
    ]);
    expect(api.sent).toEqual([{ v: 1, type: "webhook_delivery", tenantId: tenant.id, deliveryId: failed }]);
  });

  it("of another endpoint, of callbacks, or of nobody are not there", async () => {
    const [mine, other] = [await make(), await make()];
    const [theirs, callback] = [await insert(other.id), await insert(null)];
    for (const delivery of [theirs, callback, newId("whd"), "nothing"]) {
      expect((await call("POST", `${PATH}/${mine.id}/deliveries/${delivery}/redeliver`)).status).toBe(404);
    }
    expect((await call("POST", `${PATH}/callbacks/deliveries/${callback}/redeliver`)).status).toBe(202);
    expect((await call("GET", `${PATH}/callbacks/deliveries`)).json.data).toMatchObject([
      { id: callback, endpoint_id: null },
    ]);
    expect((await call("POST", `${PATH}/callbacks/test`)).status).toBe(404);
  });

  it("of callbacks are each tenant's own", async () => {
    await insert(null);
    const other = await api.tenant();
    expect((await api.call("GET", `${PATH}/callbacks/deliveries`, { key: other.key })).json.data).toEqual([]);
  });

  it("whose body was removed cannot be sent again", async () => {
    const { id } = await make();
    const delivery = await insert(id);
    await api.db.sql("update webhook_deliveries set payload = '', session_id = 'erased' where id = $1", [delivery]);
    expect((await call("GET", `${PATH}/${id}/deliveries`)).json.data).toMatchObject([{ session_id: null }]);
    expect(failure(await call("POST", `${PATH}/${id}/deliveries/${delivery}/redeliver`))).toEqual({
      status: 400,
      code: "invalid_request",
      param: "delivery_id",
    });
  });

  it("of a disabled endpoint are not sent again before it is enabled", async () => {
    const { id } = await make({ enabled: false });
    const delivery = await insert(id);
    const answer = await call("POST", `${PATH}/${id}/deliveries/${delivery}/redeliver`);
    expect(failure(answer)).toEqual({ status: 400, code: "invalid_request", param: "id" });
  });

  it("a test event is sent once per Idempotency-Key", async () => {
    const { id } = await make();
    const headers = { "Idempotency-Key": "test-1" };
    const [first, second] = [
      await call("POST", `${PATH}/${id}/test`, undefined, { headers }),
      await call("POST", `${PATH}/${id}/test`, undefined, { headers }),
    ];
    expect([first.status, second.json, second.headers.get("Idempotent-Replayed")]).toEqual([202, first.json, "true"]);
    expect((await call("GET", `${PATH}/${id}/deliveries`)).json.data).toHaveLength(1);
  });
});
