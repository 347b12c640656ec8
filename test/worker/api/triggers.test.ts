/** Triggers as a resource: what is taken, what is shown, and that secrets are shown once. */
import { beforeAll, describe, expect, it } from "vitest";
import { failure, type Harness, harness, type TestTenant } from "./harness.ts";

let api: Harness;
let tenant: TestTenant;

beforeAll(async () => {
  api = await harness({ kind: "postgres" });
  tenant = await api.tenant();
});

const call = (method: string, path: string, json?: unknown, headers: Readonly<Record<string, string>> = {}) =>
  api.call(method, path, { key: tenant.key, headers, ...(json === undefined ? {} : { json }) });
const create = (json: object, headers: Readonly<Record<string, string>> = {}) =>
  call("POST", "/v1/triggers", { type: "webhook", verification: { scheme: "github" }, ...json }, headers);

describe("a trigger", () => {
  it("is made with defaults, and its secret is shown once", async () => {
    const { status, json } = await create({ name: "triage" });
    expect([status, json]).toEqual([
      201,
      {
        id: expect.stringMatching(/^trg_/),
        type: "webhook",
        name: "triage",
        enabled: true,
        url: `https://hango.test/hooks/${json.id}`,
        session: {},
        budget: null,
        session_key: null,
        prompt: null,
        on_busy: "queue",
        filters: [],
        own_events: {},
        debounce_seconds: 0,
        verification: { scheme: "github" },
        response: null,
        ack: null,
        reply: null,
        schedule: null,
        payload: null,
        secrets: [{ id: expect.stringMatching(/^sec_/), created_at: expect.any(String), expires_at: null }],
        next_at: null,
        created_at: expect.any(String),
        updated_at: expect.any(String),
        secret: expect.stringMatching(/^[\w-]{43}$/),
      },
    ]);
    const { secret, ...shown } = json;
    const read = await call("GET", `/v1/triggers/${json.id}`);
    expect(read.json).toEqual(shown);
    const listed = await call("GET", "/v1/triggers");
    expect(listed.json.data[0]).toEqual(shown);
    expect(read.text + listed.text).not.toContain(secret);
    expect(api.logged.join("")).not.toContain(secret);
  });

  it("made twice with one Idempotency-Key is one, and the secret is not shown again", async () => {
    const headers = { "Idempotency-Key": "trigger-1" };
    const [first, second] = [await create({ name: "once" }, headers), await create({ name: "once" }, headers)];
    expect([second.status, second.json.id, second.json.secret, second.headers.get("Idempotent-Replayed")]).toEqual([
      201,
      first.json.id,
      null,
      "true",
    ]);
    expect(failure(await create({ name: "other" }, headers)).code).toBe("idempotency_mismatch");
  });

  it("keeps the headers of its calls and tools to itself", async () => {
    const { json, text } = await create({
      session: {
        tools: [
          {
            type: "http",
            name: "t",
            description: "d",
            input_schema: { type: "object" },
            url: "https://example.com/",
            headers: { "X-Key": "tool-secret" },
          },
        ],
      },
      reply: { url: "https://example.com/r", headers: { Authorization: "reply-secret" } },
    });
    expect([json.session.tools[0].headers, json.reply.headers]).toEqual([
      { "X-Key": "[hidden]" },
      { Authorization: "[hidden]" },
    ]);
    expect(text).not.toMatch(/tool-secret|reply-secret/);
  });

  it("is changed member by member; null takes back, and the whole is checked", async () => {
    const { json } = await create({
      prompt: "{{payload.a}}",
      session_key: "k:{{payload.a}}",
      debounce_seconds: 10,
      reply: { url: "https://example.com/r", headers: { Authorization: "kept" } },
    });
    const path = `/v1/triggers/${json.id}`;
    const changed = await call("PATCH", path, { enabled: false, prompt: null, on_busy: "join" });
    expect([changed.json.enabled, changed.json.prompt, changed.json.on_busy, changed.json.session_key]).toEqual([
      false,
      null,
      "join",
      "k:{{payload.a}}",
    ]);
    const [row] = await api.db.sql(
      "select config->'reply'->'headers'->>'Authorization' as kept from triggers where id = $1",
      [json.id],
    );
    expect(row?.kept).toBe("kept");
    expect(failure(await call("PATCH", path, { session_key: null }))).toEqual({
      status: 400,
      code: "invalid_request",
      param: "debounce_seconds",
    });
    expect(failure(await call("PATCH", path, { verification: null })).status).toBe(400);
    expect(failure(await call("PATCH", path, { type: "cron" })).param).toBe("type");
  });

  it("makes no sessions of a model that nobody serves here", async () => {
    expect(failure(await create({ session: { model: "openai/qwen" } }))).toEqual({
      status: 400,
      code: "invalid_request",
      param: "session.model",
    });
  });

  it("is deleted with its log", async () => {
    const { json } = await create({});
    expect((await call("DELETE", `/v1/triggers/${json.id}`)).json).toEqual({
      id: json.id,
      type: "trigger",
      deleted: true,
    });
    expect(failure(await call("GET", `/v1/triggers/${json.id}`))).toEqual({ status: 404, code: "not_found" });
    expect((await api.call("POST", `/hooks/${json.id}`, { json: {} })).status).toBe(404);
  });
});

describe("what is wrong with a trigger is said", () => {
  it.each<[object, string]>([
    [{ prompt: "{{#open}}" }, "prompt"],
    [{ prompt: "```\n{{payload.a}}\n```" }, "prompt"],
    [{ session_key: "{{> part}}" }, "session_key"],
    [{ filters: [{ path: "action", equals: "x" }] }, "filters[0].path"],
    [{ filters: [{ path: "payload.a" }] }, "filters[0]"],
    [{ filters: [{ path: "payload.a", equals: 1, prefix: "x" }] }, "filters[0]"],
    [{ verification: { scheme: "pgp" } }, "verification.scheme"],
    [{ verification: { scheme: "github", header: "X-Sig" } }, "verification.header"],
    [{ verification: { scheme: "slack" } }, "secret"],
    [{ verification: { scheme: "standard" }, secret: "not base64!" }, "secret"],
    [{ secret: "short" }, "secret"],
    [{ debounce_seconds: 5 }, "debounce_seconds"],
    [{ reply: { url: "https://{{payload.host}}/" } }, "reply.url"],
    [{ reply: { url: "https://127.0.0.1/" } }, "reply.url"],
    [{ ack: { url: "https://10.1.2.3/" } }, "ack.url"],
    [{ reply: { url: "{{payload.url}}", headers: { A: "b" } } }, "reply.headers"],
    [{ reply: { url: "https://example.com/", headers: { A: "[hidden]" } } }, "reply.headers.A"],
    [{ response: { status: 500 } }, "response.status"],
    [{ session: { key: "x" } }, "session.key"],
    [
      {
        session: {
          tools: [
            { type: "http", name: "t", description: "d", input_schema: { type: "object" }, url: "https://10.0.0.1/" },
          ],
        },
      },
      "session.tools[0].url",
    ],
    [{ budget: { max_usd: 0 } }, "budget.max_usd"],
    [{ type: "cron", verification: undefined, prompt: "x" }, "schedule"],
    [{ type: "cron", verification: undefined, prompt: "x", schedule: { cron: "* * * * * *" } }, "schedule.cron"],
    [
      { type: "cron", verification: undefined, prompt: "x", schedule: { cron: "0 9 * * *", time_zone: "Mars/Base" } },
      "schedule.time_zone",
    ],
    [{ type: "cron", verification: undefined, schedule: { cron: "0 9 * * *" } }, "prompt"],
  ])("%j", async (json, param) => {
    expect(failure(await create(json))).toEqual({ status: 400, code: "invalid_request", param });
  });
});

describe("secrets", () => {
  it("are rotated with overlap, and only shown when made", async () => {
    const { json } = await create({});
    const rotated = await call("POST", `/v1/triggers/${json.id}/secrets`, { overlap_seconds: 3_600 });
    expect([rotated.status, rotated.json.secrets.length, rotated.json.secrets[0].expires_at]).toEqual([201, 2, null]);
    expect(rotated.json.secrets[1].expires_at).not.toBeNull();
    expect(rotated.json.secret).not.toBe(json.secret);
    const given = await call("POST", `/v1/triggers/${json.id}/secrets`, { secret: "given by the sender" });
    expect([given.json.secret, given.json.secrets.length]).toEqual([null, 3]);
    // The oldest keeps the earlier end.
    expect(given.json.secrets[2].expires_at).toBe(rotated.json.secrets[1].expires_at);
  });
});
