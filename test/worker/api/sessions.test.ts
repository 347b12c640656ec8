import { beforeAll, describe, expect, it } from "vitest";
import { newSessionOf } from "../../../src/api/session-schema.ts";
import { newId, type TenantId } from "../../../src/protocol/ids.ts";
import { createSession } from "../../../src/store/sessions.ts";
import { eraseObjects } from "../../../src/turns/erase.ts";
import { maintain } from "../../../src/turns/maintenance.ts";
import { turnTasks } from "../../../src/turns/tasks.ts";
import { ADMIN_KEY, failure, type Harness, harness, type TestTenant } from "./harness.ts";

let api: Harness;
let tenant: TestTenant;
let other: TestTenant;

beforeAll(async () => {
  api = await harness();
  tenant = await api.tenant();
  other = await api.tenant();
});

const create = (json: unknown, headers: Readonly<Record<string, string>> = {}) =>
  api.call("POST", "/v1/sessions", { key: tenant.key, json, headers });
const get = (id: string, key = tenant.key) => api.call("GET", `/v1/sessions/${id}`, { key });

const httpTool = {
  type: "http",
  name: "search",
  description: "Searches.",
  input_schema: { type: "object", properties: { q: { type: "string" } } },
  url: "https://example.com/search",
};

describe("POST /v1/sessions", () => {
  it("makes a session with defaults, in two round trips", async () => {
    const { status, json } = await create({});
    expect([status, json, api.roundTrips()]).toEqual([
      201,
      {
        id: expect.stringMatching(/^ses_[0-9A-Z]{26}$/),
        type: "session",
        key: null,
        user: null,
        title: null,
        model: "claude-sonnet-5-5",
        system: null,
        tools: [],
        max_steps: null,
        max_tokens: null,
        thinking: null,
        budget: null,
        context: null,
        metadata: {},
        status: "idle",
        usage: {
          turns: 0,
          input_tokens: 0,
          output_tokens: 0,
          cache_read_input_tokens: 0,
          cache_creation_input_tokens: 0,
          cost_usd: 0,
          last_input_tokens: 0,
        },
        last_run_id: null,
        forked_from: null,
        forked_at_seq: null,
        parent: null,
        subagents: null,
        rewound: [],
        created_at: expect.any(String),
        updated_at: expect.any(String),
        created: true,
      },
      2,
    ]);
  });

  it("needs no body", async () => {
    expect((await api.call("POST", "/v1/sessions", { key: tenant.key })).status).toBe(201);
  });

  it("keeps every setting and never shows the value of a header", async () => {
    const settings = {
      key: "all settings",
      user: "user-1",
      title: "A title",
      model: "claude-opus-5",
      system: "Be kind. 🐙",
      max_steps: 7,
      max_tokens: 2_000,
      thinking: { type: "adaptive" },
      context: {
        trigger_frac: 0.5,
        keep_frac: 0.2,
        tool_arg_max_tokens: 100,
        summarizer_model: "claude-haiku-5-5",
        max_input_tokens: 50_000,
        min_tail_user_messages: 2,
      },
      metadata: { team: "billing" },
    };
    const search = { type: "web_search_20260101", name: "web_search", max_uses: 3 };
    const { json } = await create({ ...settings, tools: [{ ...httpTool, headers: { "X-Secret": "s3cret" } }, search] });
    const shown = { ...settings, tools: [{ ...httpTool, headers: { "X-Secret": "[hidden]" } }, search] };
    expect(json).toMatchObject(shown);
    const read = await get("key:all%20settings");
    expect([read.json, read.text.includes("s3cret")]).toEqual([expect.objectContaining(shown), false]);
    expect((await api.db.sql("select tools from sessions where id = $1", [json.id]))[0]).toMatchObject({
      tools: [{ headers: { "X-Secret": "s3cret" } }, {}],
    });
  });

  it("answers an existing key with the session and created: false, whatever the order of members", async () => {
    const first = await create({ key: "twice", metadata: { a: "1", b: "2" }, title: "t" });
    const second = await create({ title: "t", metadata: { b: "2", a: "1" }, key: "twice" });
    expect([first.status, first.json.created, second.status, second.json]).toEqual([
      201,
      true,
      200,
      { ...first.json, created: false },
    ]);
  });

  it("refuses an existing key with other settings", async () => {
    await create({ key: "conflict", system: "one" });
    expect(failure(await create({ key: "conflict", system: "two" }))).toEqual({
      status: 409,
      code: "key_conflict",
      param: "key",
    });
  });

  it("keeps the keys of tenants apart", async () => {
    const mine = await create({ key: "same name" });
    const theirs = await api.call("POST", "/v1/sessions", {
      key: other.key,
      json: { key: "same name", title: "other" },
    });
    expect([theirs.status, theirs.json.id === mine.json.id]).toEqual([201, false]);
  });

  it.each<[string, unknown, string]>([
    ["an unknown field", { modle: "x" }, "modle"],
    ["an unknown field", { colour: "red" }, "colour"],
    ["a wrong type", { system: 1 }, "system"],
    ["an empty key", { key: "" }, "key"],
    ["NUL", { title: "a\u0000b" }, "title"],
    ["too many steps", { max_steps: 101 }, "max_steps"],
    ["a model with a space", { model: "a b" }, "model"],
    ["a model that nobody serves here", { model: "openai/qwen" }, "model"],
    [
      "a summariser that nobody serves here",
      { context: { summarizer_model: "openai/qwen" } },
      "context.summarizer_model",
    ],
    ["an alternation that is no truth (R8)", { context: { strict_alternation: "yes" } }, "context.strict_alternation"],
    ["a thinking budget", { thinking: { type: "enabled", budget_tokens: 1 } }, "thinking.type"],
    ["a share of everything (E7)", { context: { trigger_frac: 1 } }, "context.trigger_frac"],
    ["a share of nothing (E7)", { context: { keep_frac: 0 } }, "context.keep_frac"],
    ["a truth for a share (E7)", { context: { keep_frac: true } }, "context.keep_frac"],
    ["half a token (E7)", { context: { tool_arg_max_tokens: 100.5 } }, "context.tool_arg_max_tokens"],
    ["a truth for a window (E7)", { context: { max_input_tokens: true } }, "context.max_input_tokens"],
    ["a context setting that is none", { context: { trigger: 0.5 } }, "context.trigger"],
    ["metadata that is no text", { metadata: { a: 1 } }, "metadata.a"],
    [
      "too much metadata",
      { metadata: Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`k${n}`, ""])) },
      "metadata",
    ],
    ["a tool of an unknown type", { tools: [{ type: "bash_20250101", name: "bash" }] }, "tools[0].type"],
    ["a tool without a URL", { tools: [httpTool, { ...httpTool, name: "b", url: undefined }] }, "tools[1].url"],
    ["a tool with an unknown field", { tools: [{ ...httpTool, uri: "x" }] }, "tools[0].uri"],
    ["a tool with a bad name", { tools: [{ ...httpTool, name: "a b" }] }, "tools[0].name"],
    ["a tool with one of hango's names", { tools: [{ ...httpTool, name: "read_file" }] }, "tools[0].name"],
    ["two tools of one name", { tools: [httpTool, httpTool] }, "tools[1].name"],
    [
      "a schema that is no object's",
      { tools: [{ ...httpTool, input_schema: { type: "array" } }] },
      "tools[0].input_schema.type",
    ],
    [
      "NUL deep in a schema",
      { tools: [{ ...httpTool, input_schema: { type: "object", x: ["\u0000"] } }] },
      "tools[0].input_schema",
    ],
    ["a line break in a header", { tools: [{ ...httpTool, headers: { a: "b\r\nc: d" } }] }, "tools[0].headers.a"],
    ["a hidden value sent back", { tools: [{ ...httpTool, headers: { a: "[hidden]" } }] }, "tools[0].headers"],
    ["http", { tools: [{ ...httpTool, url: "http://example.com/" }] }, "tools[0].url"],
    ["a private address", { tools: [{ ...httpTool, url: "https://[::ffff:10.0.0.1]/" }] }, "tools[0].url"],
    ["201 tools", { tools: Array.from({ length: 201 }, (_, n) => ({ ...httpTool, name: `t${n}` })) }, "tools"],
  ])("refuses %s and says where", async (_, json, param) => {
    expect(failure(await create(json))).toEqual({ status: 400, code: "invalid_request", param });
  });

  it("names the kinds of tools, each once, where the kind is unknown", async () => {
    const { json } = await create({ tools: [{ type: "bash_20250101", name: "bash" }] });
    expect(json.error.message).toBe(
      'tools[0].type: expected "http", "custom" (or no type), "web_search_...", "web_fetch_..." or "code_execution_..."',
    );
  });

  it("says how a model could be served, also where a session is changed", async () => {
    const words =
      'model: "openai/qwen" is served over chat completions, which this deployment has no address of: name another model, or have HANGO_OPENAI_BASE_URL or OPENAI_API_KEY set (docs/providers.md)';
    expect((await create({ model: "openai/qwen" })).json.error.message).toBe(words);
    const { json } = await create({});
    const changed = await api.call("PATCH", `/v1/sessions/${json.id}`, {
      key: tenant.key,
      json: { model: "openai/qwen" },
    });
    expect([changed.status, changed.json.error.message]).toEqual([400, words]);
  });

  it("says what was expected", async () => {
    const { json } = await create({ max_steps: "many", tools: [{ type: "http", name: "x" }] });
    expect(json.error).toEqual({
      type: "invalid_request_error",
      code: "invalid_request",
      message:
        "tools[0].description: is missing; expected string; tools[0].input_schema: is missing; expected object; tools[0].url: is missing; expected string; max_steps: expected number, received string",
      param: "tools[0].description",
      retryable: false,
    });
  });
});

describe("Idempotency-Key", () => {
  it("answers the same request with the first result, marked as replayed", async () => {
    const first = await create({ title: "once" }, { "Idempotency-Key": "idem-1" });
    const second = await create({ title: "once" }, { "Idempotency-Key": "idem-1" });
    expect([
      second.status,
      second.json,
      first.headers.get("Idempotent-Replayed"),
      second.headers.get("Idempotent-Replayed"),
    ]).toEqual([201, first.json, null, "true"]);
  });

  it("replays what a create found, too", async () => {
    const made = await create({ key: "found" });
    const first = await create({ key: "found" }, { "Idempotency-Key": "idem-found" });
    const second = await create({ key: "found" }, { "Idempotency-Key": "idem-found" });
    const found = { ...made.json, created: false };
    expect([first.status, first.json, second.status, second.json]).toEqual([200, found, 200, found]);
    expect(second.headers.get("Idempotent-Replayed")).toBe("true");
  });

  it("refuses another request with the same key", async () => {
    await create({ title: "a" }, { "Idempotency-Key": "idem-2" });
    expect(failure(await create({ title: "b" }, { "Idempotency-Key": "idem-2" }))).toEqual({
      status: 409,
      code: "idempotency_mismatch",
      param: "Idempotency-Key",
    });
  });

  it("belongs to its tenant", async () => {
    const mine = await create({}, { "Idempotency-Key": "idem-3" });
    const theirs = await api.call("POST", "/v1/sessions", {
      key: other.key,
      json: {},
      headers: { "Idempotency-Key": "idem-3" },
    });
    expect([theirs.status, theirs.json.id === mine.json.id]).toEqual([201, false]);
  });

  it.each(["", " ", "ä", "x".repeat(256)])("refuses %j", async (key) => {
    expect(failure(await create({}, { "Idempotency-Key": key === "ä" ? "\u00e4" : key }))).toMatchObject({
      status: 400,
      param: "Idempotency-Key",
    });
  });

  it("does not outlive an erasure: the session is not made again", async () => {
    const { json } = await create({ title: "gone" }, { "Idempotency-Key": "idem-gone" });
    await api.call("DELETE", `/v1/sessions/${json.id}`, { key: tenant.key });
    expect(failure(await create({ title: "gone" }, { "Idempotency-Key": "idem-gone" }))).toEqual({
      status: 404,
      code: "not_found",
    });
  });

  it("makes one session when the answer to the batch was lost and it is sent again", async () => {
    const id = newId("ses");
    const tenantId = tenant.id as TenantId;
    const session = await newSessionOf(id, tenantId, { title: "lost" }, "m");
    const claim = { owner: tenant.id, key: "idem-lost", requestHash: "hash", resourceId: id };
    const before = api.db.requests();
    api.db.dropNextAnswer();
    expect(await createSession(api.deps.db, session, claim)).toMatchObject({
      kind: "session",
      created: true,
      replayed: false,
    });
    expect(api.db.requests() - before).toBe(2);
    expect(await api.db.sql("select id from sessions where title = 'lost'")).toEqual([{ id }]);
  });
});

describe("GET /v1/sessions", () => {
  it("lists newest first, page by page, and backwards", async () => {
    const { key } = await api.tenant();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push((await api.call("POST", "/v1/sessions", { key, json: {} })).json.id);
    const pages: string[][] = [];
    let page: string | null = null;
    do {
      const query: string = page === null ? "" : `&page=${page}`;
      const { json } = await api.call("GET", `/v1/sessions?limit=2${query}`, { key });
      pages.push(json.data.map(({ id }: { id: string }) => id));
      page = json.next_page;
    } while (page !== null);
    const sorted = ids.toSorted().reverse();
    expect(pages).toEqual([sorted.slice(0, 2), sorted.slice(2, 4), sorted.slice(4)]);
    const ascending = await api.call("GET", "/v1/sessions?order=asc", { key });
    expect(ascending.json.data.map(({ id }: { id: string }) => id)).toEqual(ids.toSorted());
  });

  it("filters by user, key, status, metadata and time of change", async () => {
    const owner = await api.tenant();
    const { key } = owner;
    const make = async (json: unknown) => (await api.call("POST", "/v1/sessions", { key, json })).json;
    const first = await make({ key: "a", user: "u1", metadata: { env: "prod", team: "x" } });
    await api.db.advanceClock(60);
    const second = await make({ key: "b", user: "u2", metadata: { env: "prod" } });
    await api.hold(second.id);
    const found = async (query: string) =>
      (await api.call("GET", `/v1/sessions?${query}`, { key })).json.data.map(
        (session: { key: string }) => session.key,
      );
    expect({
      user: await found("user=u1"),
      key: await found("key=b"),
      running: await found("status=running"),
      idle: await found("status=idle"),
      both: await found("metadata[env]=prod&order=asc"),
      one: await found("metadata[env]=prod&metadata[team]=x"),
      none: await found("metadata[env]=test"),
      updated: await found(`updated_after=${encodeURIComponent(first.updated_at)}`),
    }).toEqual({
      user: ["a"],
      key: ["b"],
      running: ["b"],
      idle: ["a"],
      both: ["a", "b"],
      one: ["a"],
      none: [],
      updated: ["b"],
    });
    await api.db.advanceClock(91);
    expect(await found("status=running")).toEqual([]);
  });

  it.each([
    ["limit=0", "limit"],
    ["limit=101", "limit"],
    ["limit=x", "limit"],
    ["order=up", "order"],
    ["status=gone", "status"],
    ["updated_after=yesterday", "updated_after"],
    ["updated_after=0000-01-01T00:00:00Z", "updated_after"],
    ["user=%00", "user"],
    ["metadata[a%00]=b", "metadata[a\u0000]"],
    ["metadta[a]=b", "metadta[a]"],
    ["page=AAAA", "page"],
    ["page=", "page"],
    [`page=${btoa('["keys","desc","key_1"]')}`, "page"],
    [`page=${btoa('["sessions","asc","ses_1"]')}`, "page"],
    [`page=${btoa('["sessions","desc","\' or 1=1"]')}`, "page"],
  ])("refuses ?%s", async (query, param) => {
    const answer = await api.call("GET", `/v1/sessions?${query}`, { key: tenant.key });
    expect(failure(answer)).toMatchObject({ status: 400, code: "invalid_request" });
    expect(answer.json.error.param.replaceAll(/^\["|"\]$/g, "").replaceAll("\\u0000", "\u0000")).toBe(param);
  });

  it("shows nothing of other tenants", async () => {
    const { json } = await api.call("GET", "/v1/sessions?limit=100", { key: (await api.tenant()).key });
    expect(json).toEqual({ data: [], next_page: null });
  });
});

describe("GET /v1/sessions/{id}", () => {
  it("reads by id and by key, and shows a run by its lease until it expires", async () => {
    const { json } = await create({ key: "a/b?c#d %25 ü" });
    await api.hold(json.id);
    const byKey = await get(`key:${encodeURIComponent("a/b?c#d %25 ü")}`);
    expect([byKey.json.id, byKey.json.status]).toEqual([json.id, "running"]);
    await api.db.advanceClock(91);
    expect((await get(json.id)).json.status).toBe("idle");
  });

  it.each([
    "ses_01",
    "ses_00000000000000000000000000",
    "key:none",
    "key:",
    "key:%00",
    "run_1",
    "%00",
    "..%2f..",
    "ses_'--",
  ])("answers 404 for %s", async (id) => {
    expect(failure(await get(id))).toEqual({ status: 404, code: "not_found" });
  });
});

describe("a setting that is false or something larger", () => {
  it.each([
    [{ subagents: 5 }, "subagents: expected false, or a list (array) of subagents"],
    [{ subagents: true }, "subagents: expected false, or a list (array) of subagents"],
    [{ subagents: [{ name: "a" }] }, "subagents[0].description: is missing; expected string"],
    [
      { context: { micro_compaction: true } },
      "context.micro_compaction: expected false, or an object such as {} that says how it is on",
    ],
    [
      { context: { micro_compaction: { every_n_turns: 0 } } },
      "context.micro_compaction.every_n_turns: Too small: expected number to be >=1",
    ],
  ])("given as %j is refused with all that it may be, at creation and in a change", async (json, message) => {
    const { json: session } = await create({});
    for (const [method, path] of [
      ["POST", "/v1/sessions"],
      ["PATCH", `/v1/sessions/${session.id}`],
    ] as const) {
      const answer = await api.call(method, path, { key: tenant.key, json });
      expect([answer.status, answer.json.error.message]).toEqual([400, message]);
    }
  });
});

describe("PATCH /v1/sessions/{id}", () => {
  const change = (id: string, json: unknown, key = tenant.key) =>
    api.call("PATCH", `/v1/sessions/${id}`, { key, json });

  it("changes what is given, also while a run is on", async () => {
    const { json } = await create({
      title: "before",
      metadata: { keep: "1", drop: "2" },
      max_steps: 3,
      max_tokens: 100,
    });
    await api.hold(json.id);
    const { created: _, ...session } = json;
    await api.db.advanceClock(1);
    const { status, json: changed } = await change(json.id, {
      model: "claude-opus-5",
      system: "New.",
      user: "u",
      tools: [httpTool],
      max_steps: null,
      thinking: { type: "disabled" },
      context: { keep_frac: 0.3 },
      metadata: { drop: null, add: "3" },
    });
    expect([status, changed]).toEqual([
      200,
      {
        ...session,
        model: "claude-opus-5",
        system: "New.",
        user: "u",
        tools: [httpTool],
        max_steps: null,
        max_tokens: 100,
        thinking: { type: "disabled" },
        context: { keep_frac: 0.3 },
        metadata: { keep: "1", add: "3" },
        status: "running",
        updated_at: expect.any(String),
      },
    ]);
    expect(changed.updated_at > session.updated_at).toBe(true);
    expect((await change(json.id, { title: null, system: null, user: null, tools: [] })).json).toMatchObject({
      title: null,
      system: null,
      user: null,
      tools: [],
      model: "claude-opus-5",
    });
  });

  it("does not touch what the key was created with", async () => {
    const { json } = await create({ key: "patched", title: "one" });
    await change(json.id, { title: "two" });
    expect((await create({ key: "patched", title: "one" })).json).toMatchObject({
      id: json.id,
      title: "two",
      created: false,
    });
  });

  it.each<[unknown, string]>([
    [{ key: "new" }, "key"],
    [{ status: "idle" }, "status"],
    [{ model: null }, "model"],
    [{ metadata: { a: { b: 1 } } }, "metadata.a"],
    [{ tools: [{ ...httpTool, url: "https://127.0.0.1/" }] }, "tools[0].url"],
    [[], "body"],
    [null, "body"],
  ])("refuses %j", async (json, param) => {
    const { json: session } = await create({});
    expect(failure(await change(session.id, json))).toEqual({ status: 400, code: "invalid_request", param });
  });

  it("never lets metadata grow beyond its limit", async () => {
    const entries = (prefix: string, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`${prefix}${n}`, "x"]));
    const { json } = await create({ metadata: entries("a", 30) });
    expect(failure(await change(json.id, { metadata: entries("b", 3) }))).toEqual({
      status: 400,
      code: "invalid_request",
      param: "metadata",
    });
    expect((await get(json.id)).json.metadata).toEqual(entries("a", 30));
    expect((await change(json.id, { metadata: { ...entries("b", 3), a0: null } })).status).toBe(200);
  });

  it("does not change another tenant's session", async () => {
    const { json } = await create({ title: "mine" });
    expect(failure(await change(json.id, { title: "theirs" }, other.key))).toEqual({ status: 404, code: "not_found" });
    expect((await get(json.id)).json.title).toBe("mine");
  });
});

describe("DELETE /v1/sessions/{id}", () => {
  const remove = (id: string, key = tenant.key) => api.call("DELETE", `/v1/sessions/${id}`, { key });

  const filled = async () => {
    const { json } = await create({ user: "someone" });
    const id: string = json.id;
    await api.db.sql(
      "insert into messages (session_id, seq, id, role, origin, content, tokens, bytes) values ($1, 1, $2, 'user', 'user', '[]', 1, 2)",
      [id, `msg_${id}`],
    );
    await api.db.sql(
      "insert into runs (id, tenant_id, session_id, status, trigger, model) values ($1, $2, $3, 'completed', 'api', 'm')",
      [`run_${id}`, tenant.id, id],
    );
    await api.db.sql(
      "insert into run_events (session_id, n, run_id, type, data) values ($1, 1, $2, 'run.started', '{}')",
      [id, `run_${id}`],
    );
    await api.db.sql(
      "insert into inputs (id, session_id, origin, content, tokens, bytes) values ($1, $2, 'user', '[]', 1, 2)",
      [`inp_${id}`, id],
    );
    await api.db.sql(
      "insert into usage_records (id, tenant_id, session_id, run_id, user_id, purpose, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens) values ($1, $2, $3, $4, 'someone', 'turn', 'm', 1, 2, 3, 4)",
      [`usg_${id}`, tenant.id, id, `run_${id}`],
    );
    await api.call("PUT", `/v1/sessions/${id}/files/notes.md`, { key: tenant.key, body: "secret" });
    return id;
  };

  const rowsOf = async (id: string) =>
    Object.fromEntries(
      await Promise.all(
        ["messages", "runs", "run_events", "inputs", "session_heads", "usage_records"].map(async (table) => [
          table,
          Number((await api.db.sql(`select count(*) as n from ${table} where session_id = $1`, [id]))[0]?.n),
        ]),
      ),
    );

  it("erases the rows of a small session at once, keeps the bill without names, and leaves the objects to the queue", async () => {
    const id = await filled();
    const neighbour = await filled();
    const { status, json } = await remove(id);
    expect([status, json, api.roundTrips()]).toEqual([200, { id, type: "session", deleted: true }, 2]);
    expect([await rowsOf(id), await rowsOf(neighbour)]).toEqual([
      { messages: 0, runs: 0, run_events: 0, inputs: 0, session_heads: 0, usage_records: 0 },
      { messages: 1, runs: 1, run_events: 1, inputs: 1, session_heads: 1, usage_records: 1 },
    ]);
    expect(
      await api.db.sql("select session_id, run_id, user_id, output_tokens from usage_records where id = $1", [
        `usg_${id}`,
      ]),
    ).toEqual([{ session_id: "erased", run_id: null, user_id: null, output_tokens: 2 }]);
    expect(failure(await get(id))).toEqual({ status: 404, code: "not_found" });
    expect(api.sent.at(-1)).toEqual({ v: 1, type: "erase_objects", tenantId: tenant.id, sessionId: id });

    const keys = async (session: string) =>
      (await api.bucket.list({ prefix: `tenants/${tenant.id}/sessions/${session}/` })).objects.length;
    const message = api.sent.at(-1);
    if (message?.type !== "erase_objects") throw new Error("nothing was sent");
    expect([await keys(id), await keys(neighbour)]).toEqual([1, 1]);
    await eraseObjects(api.deps, message);
    await eraseObjects(api.deps, message);
    expect([await keys(id), await keys(neighbour)]).toEqual([0, 1]);
  });

  it("may be repeated", async () => {
    const id = await filled();
    expect([(await remove(id)).status, (await remove(id)).status]).toEqual([200, 200]);
  });

  it("works by key", async () => {
    await create({ key: "to erase" });
    expect([(await remove("key:to%20erase")).status, (await remove("key:to%20erase")).status]).toEqual([200, 404]);
  });

  it("does not erase another tenant's session", async () => {
    const id = await filled();
    expect([failure(await remove(id, other.key)), (await rowsOf(id)).messages]).toEqual([
      { status: 404, code: "not_found" },
      1,
    ]);
  });

  it("does not delete the objects of a session that was not erased", async () => {
    const id = await filled();
    await eraseObjects(api.deps, { v: 1, type: "erase_objects", tenantId: tenant.id as never, sessionId: id as never });
    expect((await api.call("GET", `/v1/sessions/${id}/files/notes.md`, { key: tenant.key })).text).toBe("secret");
  });
});

describe("the cron door", () => {
  it("forgets idempotency keys after 24 hours", async () => {
    const { json } = await create({ title: "kept" }, { "Idempotency-Key": "idem-old" });
    await api.db.sql(
      "insert into runs (id, tenant_id, session_id, status, trigger, model, idempotency_key) values ('run_old', $1, $2, 'completed', 'api', 'm', 'turn-key')",
      [tenant.id, json.id],
    );
    await maintain(api.deps, turnTasks);
    const kept = async () => [
      (await api.db.sql("select key from idempotency_keys where key = 'idem-old'")).length,
      (await api.db.sql("select idempotency_key from runs where id = 'run_old'"))[0]?.idempotency_key,
    ];
    expect(await kept()).toEqual([1, "turn-key"]);
    await api.db.advanceClock(86_401);
    await maintain(api.deps, turnTasks);
    expect(await kept()).toEqual([0, null]);
    expect((await create({ title: "kept" }, { "Idempotency-Key": "idem-old" })).json.id).not.toBe(json.id);
  });
});

describe("the operator's key", () => {
  it("has no tenant, and says what to do", async () => {
    const answer = await api.call("GET", "/v1/sessions", { key: ADMIN_KEY });
    expect([failure(answer), answer.json.error.message]).toEqual([
      { status: 403, code: "forbidden" },
      "The operator's key belongs to no tenant. Make a key with POST /v1/keys (with `tenant_id`) and use that one.",
    ]);
  });
});
