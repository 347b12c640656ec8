import { beforeAll, describe, expect, it } from "vitest";
import { failure, type Harness, harness, type TestTenant } from "./harness.ts";

let api: Harness;
let tenant: TestTenant;

beforeAll(async () => {
  api = await harness();
  tenant = await api.tenant();
});

const newSession = async (key = tenant.key) =>
  (await api.call("POST", "/v1/sessions", { key, json: {} })).json.id as string;

const append = async (
  session: string,
  seq: number,
  content: string,
  bytes = content.length,
  media: readonly string[] = [],
) => {
  await api.db.sql(
    "insert into messages (session_id, seq, id, role, origin, content, media, tokens, bytes, run_id) values ($1, $2, $3, $4, $4, $5::json, $6::text[], 1, $7, null)",
    [
      session,
      seq,
      `msg_${session}_${seq}`,
      seq % 2 === 1 ? "user" : "assistant",
      content,
      `{${media.join(",")}}`,
      bytes,
    ],
  );
};

const list = (session: string, query = "") =>
  api.call("GET", `/v1/sessions/${session}/messages${query}`, { key: tenant.key });
const seqs = (json: { data: { seq: number }[] }) => json.data.map(({ seq }) => seq);

describe("GET /v1/sessions/{id}/messages", () => {
  it("splices content in byte for byte (V9)", async () => {
    const session = await newSession();
    const content =
      '[ {"type":"tool_use","id":"toolu_1","name":"f","input":{"2":1.0,"1":9007199254740993,"a":1,"a":2,"z":"\\u0000 \\ud83d\\ude00 🐙"}} ,\n{"type":"thinking","thinking":"","signature":"s/+="}]';
    await append(session, 1, '[{"type":"text","text":"hi"}]');
    await append(session, 2, content);
    const { status, text, json } = await list(session, "?order=asc");
    expect([status, text.includes(`"content":${content},"run_id"`), api.roundTrips()]).toEqual([200, true, 2]);
    expect(json.data[0]).toEqual({
      id: `msg_${session}_1`,
      type: "message",
      session_id: session,
      seq: 1,
      role: "user",
      origin: "user",
      content: [{ type: "text", text: "hi" }],
      run_id: null,
      rewound: false,
      created_at: expect.any(String),
    });
  });

  it("leaves out what was undone, unless it is asked for: then it is marked (R3)", async () => {
    const session = await newSession();
    for (let seq = 1; seq <= 5; seq++) await append(session, seq, '[{"type":"text","text":"x"}]');
    await api.db.sql("update session_heads set rewound = '{[2,4)}' where session_id = $1", [session]);
    expect(seqs((await list(session, "?limit=2&order=asc")).json)).toEqual([1, 4]);
    const { json } = await list(session, "?include_rewound=true&order=asc");
    expect(json.data.map(({ seq, rewound }: Record<string, unknown>) => [seq, rewound])).toEqual(
      [1, 2, 3, 4, 5].map((seq) => [seq, seq === 2 || seq === 3]),
    );
  });

  it("lists newest first, page by page", async () => {
    const session = await newSession();
    for (let seq = 1; seq <= 5; seq++) await append(session, seq, '[{"type":"text","text":"x"}]');
    const first = await list(session, "?limit=2");
    const second = await list(session, `?limit=2&page=${first.json.next_page}`);
    const third = await list(session, `?limit=2&page=${second.json.next_page}`);
    expect([first, second, third].map(({ json }) => seqs(json))).toEqual([[5, 4], [3, 2], [1]]);
    expect(third.json.next_page).toBeNull();
    expect(seqs((await list(session, "?order=asc&limit=5")).json)).toEqual([1, 2, 3, 4, 5]);
  });

  it("ends a page after 8 MB, and goes on from there", async () => {
    const session = await newSession();
    const sizes = [5_000_000, 5_000_000, 9_000_000, 100];
    for (const [index, bytes] of sizes.entries())
      await append(session, index + 1, '[{"type":"text","text":"x"}]', bytes);
    const pages: number[][] = [];
    let page: string | null = null;
    do {
      const { json }: { json: { data: { seq: number }[]; next_page: string | null } } = await list(
        session,
        `?order=asc${page === null ? "" : `&page=${page}`}`,
      );
      pages.push(seqs(json));
      page = json.next_page;
    } while (page !== null);
    expect(pages).toEqual([[1, 2], [3], [4]]);
  });

  it("shows media as references, or puts them back byte for byte (V10)", async () => {
    const session = await newSession();
    const hash = "a".repeat(64);
    const stored = `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"hango:media/sha256-${hash}"}}]`;
    await append(session, 1, stored, 100, [hash]);
    await api.bucket.put(`tenants/${tenant.id}/sessions/${session}/media/${hash}`, "iVBORw0KGgo\\/");
    expect((await list(session)).text).toContain(`"content":${stored}`);
    expect((await list(session, "?include_media=true")).text).toContain(
      '"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo\\/"}}]',
    );
  });

  it("answers an empty log with an empty list", async () => {
    expect((await list(await newSession())).json).toEqual({ data: [], next_page: null });
  });

  it.each(["?include_media=yes", "?include_rewound=yes", "?limit=101", `?page=${btoa('["messages","desc","1"]')}`])(
    "refuses %s",
    async (query) => {
      expect(failure(await list(await newSession(), query))).toMatchObject({ status: 400, code: "invalid_request" });
    },
  );

  it("shows nothing of another session", async () => {
    const [one, two] = [await newSession(), await newSession()];
    await append(one, 1, '[{"type":"text","text":"one"}]');
    expect((await list(two)).json.data).toEqual([]);
  });
});

interface Used {
  readonly day: string;
  readonly model: string;
  readonly user?: string;
  readonly session?: string;
  readonly cost?: number;
}

let records = 0;
const use = async (owner: TestTenant, { day, model, user, session = "ses_1", cost }: Used) => {
  await api.db.sql(
    "insert into usage_records (id, tenant_id, session_id, user_id, purpose, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd, created_at) values ($1, $2, $3, $4, 'turn', $5, 1, 2, 3, 4, $6, $7)",
    [`usg_${++records}`, owner.id, session, user ?? null, model, cost ?? null, day],
  );
};

describe("GET /v1/usage", () => {
  const read = (owner: TestTenant, query: string) => api.call("GET", `/v1/usage?${query}`, { key: owner.key });
  const row = (day: string, calls: number, cost: number | null, group: object = {}) => ({
    type: "usage",
    day,
    ...group,
    calls,
    input_tokens: calls,
    output_tokens: 2 * calls,
    cache_read_input_tokens: 3 * calls,
    cache_creation_input_tokens: 4 * calls,
    cost_usd: cost,
  });

  it("sums by UTC day, both ends included", async () => {
    const owner = await api.tenant();
    await use(owner, { day: "2026-10-01T23:59:59.999Z", model: "a", cost: 0.25 });
    await use(owner, { day: "2026-10-02T00:00:00Z", model: "a", cost: 0.5 });
    await use(owner, { day: "2026-10-02T23:59:59Z", model: "b" });
    await use(owner, { day: "2026-10-03T00:00:00Z", model: "b" });
    const { status, json } = await read(owner, "from=2026-10-02&to=2026-10-03");
    expect([status, json, api.roundTrips()]).toEqual([
      200,
      { data: [row("2026-10-03", 1, null), row("2026-10-02", 2, 0.5)], next_page: null },
      2,
    ]);
  });

  it("groups by model, user, session, purpose and key, page by page in a stable order", async () => {
    const owner = await api.tenant();
    for (const model of ["B", "a", "c"]) await use(owner, { day: "2026-10-02T10:00:00Z", model, user: "u'1" });
    await use(owner, { day: "2026-10-02T10:00:00Z", model: "a" });
    await use(owner, { day: "2026-10-01T10:00:00Z", model: "a", session: "ses_2" });
    const data: unknown[] = [];
    let page: string | null = null;
    do {
      const { json }: { json: { data: unknown[]; next_page: string | null } } = await read(
        owner,
        `from=2026-10-01&to=2026-10-02&group_by=model,user&limit=2&order=asc${page === null ? "" : `&page=${page}`}`,
      );
      data.push(...json.data);
      page = json.next_page;
    } while (page !== null);
    expect(data).toEqual([
      row("2026-10-01", 1, null, { model: "a", user: null }),
      row("2026-10-02", 1, null, { model: "B", user: "u'1" }),
      row("2026-10-02", 1, null, { model: "a", user: null }),
      row("2026-10-02", 1, null, { model: "a", user: "u'1" }),
      row("2026-10-02", 1, null, { model: "c", user: "u'1" }),
    ]);
    const { json } = await read(owner, "from=2026-10-01&to=2026-10-01&group_by=session,purpose,key");
    expect(json.data).toEqual([row("2026-10-01", 1, null, { session: "ses_2", purpose: "turn", key: null })]);
  });

  it("shows the last 30 days unless told otherwise, and of this tenant only", async () => {
    const owner = await api.tenant();
    const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
    await use(owner, { day: daysAgo(0), model: "a" });
    await use(owner, { day: daysAgo(40), model: "a" });
    await use(tenant, { day: daysAgo(0), model: "a" });
    expect((await read(owner, "")).json.data).toEqual([row(daysAgo(0).slice(0, 10), 1, null)]);
  });

  it.each([
    ["from=2026-13-01", "from"],
    ["from=0000-01-01", "from"],
    ["from=2026-10-02&to=2026-10-01", "from"],
    ["from=2020-01-01&to=2026-10-01", "from"],
    ["group_by=tenant", "group_by"],
    ["group_by=model,model", "group_by"],
    ["group_by=", "group_by"],
    ["page=x", "page"],
    ["by=model", "by"],
  ])("refuses ?%s", async (query, param) => {
    expect(failure(await read(tenant, query))).toEqual({ status: 400, code: "invalid_request", param });
  });

  it("refuses a cursor of other groups", async () => {
    const owner = await api.tenant();
    for (const model of ["a", "b"]) await use(owner, { day: "2026-10-02T10:00:00Z", model });
    const { json } = await read(owner, "from=2026-10-02&to=2026-10-02&group_by=model&limit=1");
    expect(failure(await read(owner, `group_by=user&page=${json.next_page}`))).toMatchObject({
      status: 400,
      param: "page",
    });
  });
});
