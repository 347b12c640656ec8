import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { r2FileSystem } from "../../../src/files/r2.ts";
import { buildWorker } from "../../../src/local/build.ts";
import { startWorkerHost, type WorkerHost } from "../../../src/local/worker-host.ts";
import { type MessageId, newId, type SessionId, seq, type TenantId } from "../../../src/protocol/ids.ts";
import { lookForImport, nextPlace, storeImport } from "../../../src/store/import.ts";
import { newRow } from "../../../src/turns/rows.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";
import { pagesOf, recordedSessions, sampleSessions } from "../../support/sessions.ts";
import { connectTo } from "../../support/store.ts";
import { at } from "../../unit/files/contract.ts";

let database: TestDatabase;
let host: WorkerHost;
let bucket: R2Bucket;
const folder = mkdtempSync(join(tmpdir(), "hango-export-"));

interface Tenant {
  readonly id: TenantId;
  /** A key with these scopes. */
  key(scopes: string): Promise<string>;
}

const makeTenant = async (): Promise<Tenant> => {
  const id = newId("tnt");
  await database.sql("insert into tenants (id, name) values ($1, 'test')", [id]);
  return {
    id,
    key: async (scopes) => {
      const secret = `hango_${newId("key")}`;
      await database.sql(
        "insert into api_keys (id, tenant_id, hash, prefix, scopes) values ($1, $2, $3, 'hango_', $4)",
        [newId("key"), id, createHash("sha256").update(secret).digest("hex"), `{${scopes}}`],
      );
      return secret;
    },
  };
};

let tenant: Tenant;
let apiKey: string;

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
  const { path } = await buildWorker();
  host = await startWorkerHost({
    scriptPath: path,
    configPath: join(import.meta.dirname, "../../../wrangler.toml"),
    port: 0,
    variables: {
      DATABASE_URL: database.connectionString,
      HANGO_DB_FETCH_ENDPOINT: database.url,
      HANGO_ADMIN_KEY: "admin-key-of-the-import-tests-0123456789",
      ANTHROPIC_API_KEY: "unused",
    },
    onLog: () => undefined,
  });
  bucket = (await host.miniflare.getR2Bucket("FILES")) as unknown as R2Bucket;
  tenant = await makeTenant();
  apiKey = await tenant.key("read,write,content");
}, 120_000);

afterAll(async () => {
  await host?.close();
  await database?.close();
  rmSync(folder, { recursive: true });
});

type Json = Readonly<Record<string, unknown>>;

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
}

const request = (method: string, path: string, init: RequestInit = {}, key = apiKey): Promise<Response> =>
  fetch(`${host.url}${path}`, {
    ...init,
    method,
    // A kept connection may be closed by the other side just when the next request is sent on it.
    headers: {
      Authorization: `Bearer ${key}`,
      "Content-Type": "application/json",
      Connection: "close",
      ...init.headers,
    },
  });

const answerOf = async (response: Response): Promise<Answer> => ({
  status: response.status,
  headers: response.headers,
  body: (await response.json()) as Json,
});

const createSession = async (): Promise<SessionId> => {
  const { status, body } = await answerOf(
    await request("POST", "/v1/sessions", { body: '{"model":"claude-sonnet-5-5"}' }),
  );
  expect(status, JSON.stringify(body)).toBe(201);
  return String(body.id) as SessionId;
};

const importPage = async (session: string, body: string, headers: Record<string, string> = {}): Promise<Answer> =>
  answerOf(await request("POST", `/v1/sessions/${session}/import`, { body, headers }));

const page = (...messages: readonly unknown[]): string => JSON.stringify({ messages });
const user = (words = "hi") => ({ role: "user", content: words });
const assistant = (words = "ok") => ({ role: "assistant", content: words });
const calls = (...ids: readonly string[]) => ({
  role: "assistant",
  content: ids.map((id) => ({ type: "tool_use", id, name: "f", input: {} })),
});
const results = (...ids: readonly string[]) => ({
  role: "user",
  content: ids.map((id) => ({ type: "tool_result", tool_use_id: id, content: "x" })),
});

const download = async (session: string): Promise<string> => {
  const response = await request("GET", `/v1/sessions/${session}/export`);
  expect([response.status, response.headers.get("Content-Type")]).toEqual([200, "application/x-tar"]);
  const path = join(folder, `${session}.tar`);
  writeFileSync(path, new Uint8Array(await response.arrayBuffer()));
  return path;
};

const tar = (...args: readonly string[]): string =>
  execFileSync("tar", args, {
    encoding: "utf8",
    maxBuffer: 64_000_000,
    env: { LC_ALL: "C.UTF-8", PATH: process.env.PATH },
  });

const exportedLines = async (session: string): Promise<readonly string[]> =>
  tar("-xOf", await download(session), "messages.jsonl")
    .split("\n")
    .slice(0, -1);

const LINE =
  /^\{"seq":(\d+),"id":"(msg_[0-9A-Z]{26})","role":"(user|assistant)","origin":"(\w+)","created_at":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)","content":(.*)\}$/s;

/** Seq, role, origin and the exact content of a line. */
const readLine = (text: string): readonly [number, string, string, string] => {
  const [, number, , role, origin, , content] = LINE.exec(text) ?? [];
  if (role === undefined || origin === undefined || content === undefined)
    throw new Error(`odd line: ${text.slice(0, 200)}`);
  return [Number(number), role, origin, content];
};

const exportedRows = async (session: string) => (await exportedLines(session)).map(readLine);
const exportedContents = async (session: string) => (await exportedRows(session)).map(([, , , content]) => content);

const countRows = async (session: string): Promise<number> =>
  Number((await database.sql("select count(*)::int as n from messages where session_id = $1", [session]))[0]?.n);

const head = async (session: string) =>
  (
    await database.sql(
      "select next_seq::int, open_batch_seq::int, thinking_floor::int from session_heads where session_id = $1",
      [session],
    )
  )[0];

describe("a session that is imported and exported", () => {
  it.each(recordedSessions().map((session) => [session.name, session] as const))(
    "has the same bytes in every message: %s (V9)",
    async (_, recorded) => {
      const session = await createSession();
      let imported = 0;
      for (const body of pagesOf(recorded)) {
        const answer = await importPage(session, body);
        expect(answer.status, JSON.stringify(answer.body)).toBe(200);
        imported += Number(answer.body.imported);
        expect(answer.body).toMatchObject({ last_seq: imported, injected: [], repaired: 0 });
        // A page may end between a call and its result; nothing else is open in these sessions.
        const open = answer.body.unanswered_calls as readonly { readonly seq: number }[];
        expect(open.filter((call) => call.seq !== imported || imported === recorded.messages.length)).toEqual([]);
      }
      const rows = await exportedRows(session);
      expect(rows.map(([number, role]) => [number, role])).toEqual(
        recorded.messages.map((message, index) => [index + 1, message.role]),
      );
      expect(rows.map(([, , , content]) => content)).toEqual(recorded.messages.map((message) => message.content));
      expect(imported).toBe(recorded.messages.length);
    },
  );

  it("keeps media over 64 KB in R2 and gives them back (V10)", async () => {
    const session = await createSession();
    const recorded = sampleSessions().find(({ name }) => name === "wire-image-after-result");
    await importPage(session, `{"messages":[${recorded?.messages.map(({ line }) => line).join(",")}]}`);
    const rows = await database.sql(
      "select seq::int, origin, octet_length(content::text) < bytes as smaller, bytes, cardinality(media) as media from messages where session_id = $1 and media <> '{}'",
      [session],
    );
    const bytes = new TextEncoder().encode(recorded?.messages[2]?.content).byteLength;
    expect(rows).toEqual([{ seq: 3, origin: "tool", smaller: true, bytes, media: 1 }]);
    expect((await bucket.list({ prefix: `tenants/${tenant.id}/sessions/${session}/media/` })).objects).toHaveLength(1);
  });

  it("keeps every form that JSON allows but line breaks between tokens (V9)", async () => {
    const session = await createSession();
    const given = [
      '[ {"type" : "text",\t"text":"\\u0041\\/\\ud83d\\ude00 é \\u0000"} ]',
      '[{"input":{"b":1.0,"2":1e5,"1":12345678901234567890,"b":2},"name":"f","id":"a","type":"tool_use"}]',
      '[\r\n {"type":"tool_result",\n"tool_use_id":"a"}]',
    ];
    const [first, second, third] = given;
    const body = `{"messages":[{"role":"user","content":${first}},{"content":${second},"role":"assistant","id":"x"},{"role":"user","content":${third}}]}`;
    expect((await importPage(session, body)).status).toBe(200);
    const stored = await database.sql(
      "select content::text as content from messages where session_id = $1 order by seq",
      [session],
    );
    expect(stored.map(({ content }) => content)).toEqual(given);
    expect(await exportedContents(session)).toEqual([first, second, third?.replace(/[\r\n]/g, " ")]);
  });

  it("answers what was stored, with repaired messages and other systems' handoffs counted (C3)", async () => {
    const session = await createSession();
    const handoff = "This session is being continued from a previous conversation that ran out of context.";
    const body = `{"messages":[{"role":"user","content":"${handoff}"},{"role":"assistant","content":"a\\ud800"},{"role":"user","content":"b"},${JSON.stringify(calls("x", "y"))},${JSON.stringify(results("y"))}]}`;
    expect(await importPage(session, body)).toMatchObject({
      status: 200,
      body: {
        type: "import",
        session_id: session,
        imported: 5,
        first_seq: 1,
        last_seq: 5,
        unanswered_calls: [{ seq: 4, id: "x", name: "f" }],
        injected: [1],
        repaired: 1,
      },
    });
    expect((await exportedRows(session)).map(([, role, origin]) => [role, origin])).toEqual([
      ["user", "injected"],
      ["assistant", "assistant"],
      ["user", "user"],
      ["assistant", "assistant"],
      ["user", "tool"],
    ]);
    expect((await exportedContents(session))[1]).toBe('[{"type":"text","text":"a\\ufffd"}]');
  });

  it("takes chat completions, results joined", async () => {
    const session = await createSession();
    const body = JSON.stringify({
      format: "chat_completions",
      messages: [
        { role: "user", content: "weather?" },
        {
          role: "assistant",
          content: null,
          tool_calls: ["a.1", "b"].map((id) => ({
            id,
            type: "function",
            function: { name: "w", arguments: '{ "x":1.0}' },
          })),
        },
        { role: "tool", tool_call_id: "b", content: "rain" },
        { role: "tool", tool_call_id: "a.1", content: "sun" },
        { role: "assistant", content: "Mixed." },
      ],
    });
    expect(await importPage(session, body)).toMatchObject({ status: 200, body: { imported: 4, unanswered_calls: [] } });
    const [, asked, answered] = await exportedContents(session);
    const id = /"id":"(a_1_[0-9a-f]{8})"/.exec(asked ?? "")?.[1];
    expect([asked, answered]).toEqual([
      `[{"type":"tool_use","id":"${id}","name":"w","input":{ "x":1.0}},{"type":"tool_use","id":"b","name":"w","input":{ "x":1.0}}]`,
      `[{"type":"tool_result","tool_use_id":"b","content":"rain"},{"type":"tool_result","tool_use_id":"${id}","content":"sun"}]`,
    ]);
  });
});

describe("pages", () => {
  it("reserve the seq after open calls, and results of the next page go there (M7, C3)", async () => {
    const session = await createSession();
    expect((await importPage(session, page(user(), calls("a", "b")))).body.unanswered_calls).toEqual([
      { seq: 2, id: "a", name: "f" },
      { seq: 2, id: "b", name: "f" },
    ]);
    expect(await head(session)).toEqual({ next_seq: 4, open_batch_seq: 2, thinking_floor: 4 });
    expect((await importPage(session, page(results("a", "b")))).body).toMatchObject({
      first_seq: 3,
      last_seq: 3,
      unanswered_calls: [],
    });
    expect(await head(session)).toEqual({ next_seq: 4, open_batch_seq: null, thinking_floor: 4 });
    expect((await importPage(session, page(assistant(), user()))).body).toMatchObject({ first_seq: 4, last_seq: 5 });
    expect(await head(session)).toEqual({ next_seq: 6, open_batch_seq: null, thinking_floor: 6 });
  });

  it("leave no gap where the user talked over open calls", async () => {
    const session = await createSession();
    await importPage(session, page(user(), calls("a")));
    expect((await importPage(session, page(user("never mind"), assistant()))).body).toMatchObject({
      first_seq: 3,
      last_seq: 4,
    });
    expect((await exportedRows(session)).map(([number]) => number)).toEqual([1, 2, 3, 4]);
  });

  it("are checked against earlier ones: an id is used once in a session", async () => {
    const session = await createSession();
    await importPage(session, page(user(), calls("a"), results("a"), assistant()));
    expect(await importPage(session, page(user(), calls("a")))).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request", param: "messages[1].content[0].id" } },
    });
    expect(await countRows(session)).toBe(4);
  });

  it("of 4 MB, in thousands of small messages, take three round trips with authentication", async () => {
    const session = await createSession();
    const pair = `${JSON.stringify(user("x".repeat(150)))},${JSON.stringify(assistant("y".repeat(150)))},`;
    const pairs = Math.floor((4 * 1024 * 1024 - 20) / pair.length);
    const body = `{"messages":[${pair.repeat(pairs).slice(0, -1)}]}`;
    const before = database.requests();
    expect(await importPage(session, body)).toMatchObject({ status: 200, body: { imported: pairs * 2 } });
    expect(database.requests() - before).toBe(3);
    expect(await exportedLines(session)).toHaveLength(pairs * 2);
  });

  it("over 4 MB are refused", async () => {
    const session = await createSession();
    expect(await importPage(session, page(user("x".repeat(4 * 1024 * 1024))))).toMatchObject({ status: 413 });
  });

  it.each<readonly [string, string, string]>([
    ["no JSON", "{", "body"],
    ["no object", "[]", "body"],
    ["no messages", "{}", "messages"],
    ["an empty page", page(), "messages"],
    ["an unknown field", '{"messages":[{"role":"user","content":"a"}],"mode":1}', "mode"],
    ["an unknown format", '{"format":"yaml","messages":[]}', "format"],
    ["no message", page(7), "messages[0]"],
    ["a system message", page({ role: "system", content: "x" }), "messages[0].role"],
    ["an assistant first", page(assistant()), "messages[0].role"],
    ["an assistant twice", page(user(), assistant(), assistant()), "messages[2].role"],
    ["no content", page({ role: "user" }), "messages[0].content"],
    ["an empty content", page({ role: "user", content: [] }), "messages[0].content"],
    ["a blank text", page(user("  ")), "messages[0].content"],
    [
      "a blank text block",
      page({ role: "user", content: [{ type: "text", text: "" }] }),
      "messages[0].content[0].text",
    ],
    [
      "an unknown block",
      page(user(), { role: "assistant", content: [{ type: "audio" }] }),
      "messages[1].content[0].type",
    ],
    [
      "thinking by a user",
      page({ role: "user", content: [{ type: "thinking", thinking: "x" }] }),
      "messages[0].content[0].type",
    ],
    [
      "an image without a source",
      page({ role: "user", content: [{ type: "image" }] }),
      "messages[0].content[0].source",
    ],
    ["a result without a call", page(user(), assistant(), results("a")), "messages[2].content[0].tool_use_id"],
    ["a result too late", page(user(), calls("a"), user(), results("a")), "messages[3].content[0].tool_use_id"],
    ["a call answered twice", page(user(), calls("a"), results("a", "a")), "messages[2].content[1].tool_use_id"],
    [
      "a result after a text",
      page(user(), calls("a"), { role: "user", content: [{ type: "text", text: "x" }, ...results("a").content] }),
      "messages[2].content[1].type",
    ],
    ["an id twice", page(user(), calls("a"), results("a"), calls("a")), "messages[3].content[0].id"],
    ["an odd id", page(user(), calls("a b")), "messages[1].content[0].id"],
    [
      "an odd tool name",
      page(user(), { role: "assistant", content: [{ type: "tool_use", id: "a", name: "", input: {} }] }),
      "messages[1].content[0].name",
    ],
    [
      "an input that is no object",
      page(user(), { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: [] }] }),
      "messages[1].content[0].input",
    ],
    ["nesting without end", `{"messages":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, "body"],
    [
      "a system message of chat completions",
      '{"format":"chat_completions","messages":[{"role":"developer","content":"x"}]}',
      "messages[0].role",
    ],
  ])("are refused whole, with the place, for %s", async (_, body, param) => {
    const session = await createSession();
    const answer = await importPage(session, body);
    expect(answer).toMatchObject({ status: 400, body: { error: { type: "invalid_request_error", param } } });
    expect(await countRows(session)).toBe(0);
  });

  it("are refused without a JSON content type", async () => {
    const session = await createSession();
    const answer = await importPage(session, page(user()), { "Content-Type": "text/plain" });
    expect([answer.status >= 400 && answer.status < 500, await countRows(session)]).toEqual([true, 0]);
  });
});

describe("imports that meet", () => {
  it("with one idempotency key store once and answer alike", async () => {
    const session = await createSession();
    const once = await importPage(session, page(user(), assistant()), { "Idempotency-Key": `k-${session}` });
    const again = await importPage(session, page(user(), assistant()), { "Idempotency-Key": `k-${session}` });
    expect([once.status, once.headers.get("Idempotent-Replayed")]).toEqual([200, null]);
    expect([again.status, again.headers.get("Idempotent-Replayed"), again.body]).toEqual([200, "true", once.body]);
    expect(await countRows(session)).toBe(2);
  });

  it("with one idempotency key at once store once and answer alike", async () => {
    const session = await createSession();
    const answers = await Promise.all(
      Array.from({ length: 8 }, () =>
        importPage(session, page(user(), assistant()), { "Idempotency-Key": `k-${session}` }),
      ),
    );
    expect(new Set(answers.map(({ status, body }) => `${status} ${JSON.stringify(body)}`)).size).toBe(1);
    expect([answers[0]?.status, await countRows(session)]).toEqual([200, 2]);
  });

  it("with the key of another page are refused, and a page that failed gives its key back", async () => {
    const session = await createSession();
    const headers = { "Idempotency-Key": `k-${session}` };
    expect((await importPage(session, page(assistant()), headers)).status).toBe(400);
    expect((await importPage(session, page(user()), headers)).status).toBe(200);
    expect(await importPage(session, page(user("other")), headers)).toMatchObject({
      status: 409,
      body: { error: { code: "idempotency_mismatch" } },
    });
  });

  it("without one store what was checked, or nothing (M2)", async () => {
    const session = await createSession();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) => importPage(session, page(user(`${index}`)))),
    );
    const stored = answers.filter(({ status }) => status === 200);
    expect(
      answers.filter(({ status }) => status !== 200).every(({ body }) => JSON.stringify(body).includes("session_busy")),
    ).toBe(true);
    expect(stored.map(({ body }) => body.first_seq).sort()).toEqual(stored.map((_, index) => index + 1));
    expect(await countRows(session)).toBe(stored.length);
  });

  it("store nothing twice when the database's answer was lost (M3)", async () => {
    const session = await createSession();
    const db = connectTo(database);
    const look = await lookForImport(db, tenant.id, { id: session }, [], null);
    if (look.state === undefined) throw new Error("no session");
    const id: MessageId = newId("msg");
    const row = newRow({ id, origin: "user", content: '[{"type":"text","text":"x"}]', runId: null });
    const claim = { owner: tenant.id, key: `k-${session}`, requestHash: "h", resourceId: id };
    const first = {
      tenantId: tenant.id,
      state: look.state,
      rows: [{ row, seq: nextPlace(look.state) }],
      claim,
      response: "{}",
    };
    database.dropNextAnswer();
    expect(await storeImport(db, first)).toEqual({ kind: "stored" });
    expect([await countRows(session), await head(session)]).toEqual([
      1,
      { next_seq: 2, open_batch_seq: null, thinking_floor: 2 },
    ]);

    const late = { ...row, id: newId("msg") };
    const lateClaim = { ...claim, key: `late-${session}`, resourceId: late.id };
    const overtaken = { ...first, rows: [{ row: late, seq: seq(1) }], claim: lateClaim };
    expect(await storeImport(db, overtaken)).toEqual({ kind: "overtaken" });
    const left = await database.sql("select key from idempotency_keys where key like $1", [`%${session}`]);
    expect([await countRows(session), left]).toEqual([1, [{ key: `k-${session}` }]]);
  });

  it("a turn are refused: the session has had one, or has one now", async () => {
    const had = await createSession();
    await database.sql(
      "insert into runs (id, tenant_id, session_id, status, trigger, model) values ($1, $2, $3, 'completed', 'api', 'm')",
      [newId("run"), tenant.id, had],
    );
    const has = await createSession();
    await database.sql(
      "update session_heads set lease_holder = 'run_x', lease_expires_at = hango_now() + interval '1 minute' where session_id = $1",
      [has],
    );
    for (const session of [had, has]) {
      expect(await importPage(session, page(user()))).toMatchObject({
        status: 409,
        body: {
          error: {
            code: "import_not_allowed",
            message: "A session that has had a turn cannot be imported into; fork it or create a new one.",
          },
        },
      });
    }
  });
});

describe("access", () => {
  it("is by scope and tenant, also by the session's key", async () => {
    const session = await createSession();
    await database.sql("update sessions set key = 'mine' where id = $1", [session]);
    const other = await (await makeTenant()).key("read,write,content");
    const status = async (method: string, path: string, key: string) =>
      (await request(method, path, method === "POST" ? { body: page(user()) } : {}, key)).status;
    expect([
      await status("POST", `/v1/sessions/${session}/import`, await tenant.key("read,content")),
      await status("GET", `/v1/sessions/${session}/export`, await tenant.key("read,write")),
      await status("POST", `/v1/sessions/${session}/import`, other),
      await status("GET", `/v1/sessions/${session}/export`, other),
      await status("POST", "/v1/sessions/key:mine/import", other),
      await status("GET", "/v1/sessions/key:mine/export", other),
      await countRows(session),
      await status("POST", "/v1/sessions/key:mine/import", await tenant.key("write")),
      await status("GET", "/v1/sessions/key:mine/export", await tenant.key("content")),
    ]).toEqual([403, 403, 404, 404, 404, 404, 0, 200, 200]);
  });
});

describe("an export", () => {
  const root = (session: string) => `tenants/${tenant.id}/sessions/${session}`;

  it("holds the session as the API shows it, the log and the files", async () => {
    const session = await createSession();
    await importPage(session, page(user(), assistant()));
    const files = r2FileSystem(bucket, root(session), async () => undefined);
    await files.write(at("/notes.md"), "hello\n");
    await files.write(at("/empty"), "");
    await files.write(at(`/日记/${"long name ".repeat(20)}.txt`), "é");
    const big = new Uint8Array(9 * 1024 * 1024).map((_, index) => index % 251);
    await files.write(at("/big.bin"), big);
    await files.append(at("/conversation_history/s.md"), "one\n", { first: 1, last: 2 });
    await files.append(at("/conversation_history/s.md"), "two\n", { first: 3, last: 4 });
    const path = await download(session);
    const names = tar("--quoting-style=literal", "-tf", path).split("\n").slice(0, -1);
    expect(names).toEqual([
      "session.json",
      "messages.jsonl",
      "compactions.jsonl",
      "files/big.bin",
      "files/conversation_history/s.md",
      "files/empty",
      "files/notes.md",
      `files/日记/${"long name ".repeat(20)}.txt`,
    ]);
    const shown = (await answerOf(await request("GET", `/v1/sessions/${session}`))).body;
    expect(JSON.parse(tar("-xOf", path, "session.json"))).toEqual(shown);
    expect(tar("-xOf", path, "files/conversation_history/s.md")).toBe("one\ntwo\n");
    execFileSync("tar", ["-xf", path, "-C", folder, "files/big.bin"]);
    expect(Buffer.compare(readFileSync(join(folder, "files/big.bin")), big)).toBe(0);
  });

  it("of an empty session is whole", async () => {
    const session = await createSession();
    expect(
      tar("-tf", await download(session))
        .split("\n")
        .slice(0, -1),
    ).toEqual(["session.json", "messages.jsonl", "compactions.jsonl"]);
    expect(await exportedLines(session)).toEqual([]);
  });

  it("breaks off instead of ending cleanly when a part of it is missing", async () => {
    const session = await createSession();
    const recorded = sampleSessions().find(({ name }) => name === "wire-image-after-result");
    await importPage(session, `{"messages":[${recorded?.messages.map(({ line }) => line).join(",")}]}`);
    for (const { key } of (await bucket.list({ prefix: `${root(session)}/media/` })).objects) await bucket.delete(key);
    const response = await request("GET", `/v1/sessions/${session}/export`);
    await expect(response.arrayBuffer()).rejects.toThrow();
  });
});
