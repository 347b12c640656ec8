/** Forks as a resource: their answers, the copying of their objects, and the order of a copy and its original's erasure. */
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { copyFiles } from "../../src/turns/copy-files.ts";
import { eraseObjects } from "../../src/turns/erase.ts";
import { maintain } from "../../src/turns/maintenance.ts";
import type { CopyFiles, EraseObjects } from "../../src/turns/queue.ts";
import { turnTasks } from "../../src/turns/tasks.ts";
import { failure, type Harness, harness, type TestTenant } from "../worker/api/harness.ts";

let api: Harness;
let tenant: TestTenant;

beforeAll(async () => {
  api = await harness();
  tenant = await api.tenant();
});
beforeEach(() => {
  api.sent.length = 0;
});

const post = (path: string, json: unknown = {}, headers: Record<string, string> = {}) =>
  api.call("POST", path, { key: tenant.key, json, headers });
const fork = (id: string, json: unknown = {}, headers: Record<string, string> = {}) =>
  post(`/v1/sessions/${id}/fork`, json, headers);
const get = (path: string) => api.call("GET", path, { key: tenant.key });

/** A session with three turns. */
const made = async (fields: object = {}): Promise<string> => {
  const { json } = await post("/v1/sessions", fields);
  const messages = ["one", "two", "three"].flatMap((name) => [
    { role: "user", content: `ask ${name}` },
    { role: "assistant", content: `answer ${name}` },
  ]);
  expect((await post(`/v1/sessions/${json.id}/import`, { messages })).status).toBe(200);
  return json.id;
};

const keysOf = async (id: string): Promise<readonly string[]> => {
  const root = `tenants/${tenant.id}/sessions/${id}`;
  const keys: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await api.bucket.list({ prefix: `${root}/`, ...(cursor === undefined ? {} : { cursor }) });
    keys.push(...page.objects.map(({ key }) => key.slice(root.length)));
    if (!page.truncated) return keys;
    cursor = page.cursor;
  }
};

/** Objects by the dozen, as a session that has worked for long has them. */
const fill = async (id: string, count: number): Promise<void> => {
  const root = `tenants/${tenant.id}/sessions/${id}`;
  for (let at = 0; at < count; at += 50) {
    await Promise.all(
      Array.from({ length: Math.min(50, count - at) }, (_, n) =>
        api.bucket.put(`${root}/files/f${String(at + n).padStart(4, "0")}.md`, `file ${at + n}`),
      ),
    );
  }
};

const sentOf = <T extends "copy_files" | "erase_objects">(type: T) =>
  api.sent.filter((message): message is CopyFiles & EraseObjects & { type: T } => message.type === type);
const statusOf = async (id: string): Promise<string> => (await get(`/v1/sessions/${id}`)).json.status;

/** Delivers what the queue holds until it is empty. */
const deliver = async (): Promise<number> => {
  for (let delivered = 0; ; delivered++) {
    const message = api.sent.shift();
    if (message === undefined) return delivered;
    if (message.type === "copy_files") await copyFiles(api.deps, message);
    else if (message.type === "erase_objects") await eraseObjects(api.deps, message);
  }
};

describe("a fork", () => {
  it("has the settings of its original, but for what is asked for", async () => {
    const id = await made({ key: "original", user: "u1", title: "t", system: "s", metadata: { a: "1" }, max_steps: 7 });
    const plain = await fork(id);
    expect(plain.json).toMatchObject({
      key: null,
      user: "u1",
      title: "t",
      system: "s",
      metadata: { a: "1" },
      max_steps: 7,
      forked_from: id,
      forked_at_seq: 6,
      status: "idle",
    });
    const other = await fork("key:original", { key: "other", user: null, title: "x", metadata: {}, at_seq: 2 });
    expect(other.json).toMatchObject({ key: "other", user: null, title: "x", metadata: {}, forked_at_seq: 2 });
    expect((await get("/v1/sessions/key:other/messages")).json.data).toHaveLength(2);
  });

  it.each([
    [
      { at_seq: 3 },
      { status: 400, code: "invalid_request", param: "at_seq" },
      "the nearest after which one does: 2 and 4",
    ],
    [{ at_seq: 1 }, { status: 400, code: "invalid_request", param: "at_seq" }, "the nearest after which one does: 2"],
    [{ at_seq: 7 }, { status: 400, code: "invalid_request", param: "at_seq" }, "the last message is 6"],
    [{ at_seq: 0 }, { status: 400, code: "invalid_request", param: "at_seq" }, ""],
    [{ model: "x" }, { status: 400, code: "invalid_request" }, "model"],
  ])("at %j is refused with what would be right", async (body, wanted, words) => {
    const answer = await fork(await made(), body);
    expect(failure(answer)).toMatchObject(wanted);
    expect(answer.json.error.message).toContain(words);
  });

  it("takes no key that another session has", async () => {
    await made({ key: "taken" });
    const id = await made();
    expect(failure(await fork(id, { key: "taken" }))).toEqual({ status: 409, code: "key_conflict", param: "key" });
    const [row] = await api.db.sql("select count(*)::int as n from sessions where forked_from = $1", [id]);
    expect(row?.n).toBe(0);
  });

  it("is made once for equal requests with one key", async () => {
    const id = await made();
    const key = { "Idempotency-Key": `fork-${id}` };
    const answers = await Promise.all([1, 2, 3].map(() => fork(id, {}, key)));
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1);
    const again = await fork(id, {}, key);
    expect([again.json.id, again.headers.get("Idempotent-Replayed")]).toEqual([answers[0]?.json.id, "true"]);
    expect(failure(await fork(id, { at_seq: 2 }, key)).code).toBe("idempotency_mismatch");
    await api.call("DELETE", `/v1/sessions/${again.json.id}`, { key: tenant.key });
    expect(failure(await fork(id, {}, key))).toEqual({ status: 404, code: "not_found" });
  });

  it("waits for a run of the original", async () => {
    const id = await made();
    await api.hold(id);
    expect(failure(await fork(id))).toEqual({ status: 409, code: "session_busy" });
  });

  it("of a fork, with nothing in it, and of one with few files is complete at once", async () => {
    const empty = (await post("/v1/sessions")).json.id;
    const first = (await fork(empty)).json;
    await fill(first.id, 3);
    const second = (await fork(first.id)).json;
    expect([first.status, first.forked_at_seq, second.status]).toEqual(["idle", 0, "idle"]);
    expect(await keysOf(second.id)).toEqual(await keysOf(first.id));
    expect(api.sent).toEqual([]);
  });
});

describe("the files of a large fork", () => {
  it("are copied by the queue, share by share; until then no turn gets in, and then everything is there", async () => {
    const id = await made();
    await fill(id, 330);
    const copy = (await fork(id)).json.id;
    expect(await statusOf(copy)).toBe("running");
    expect(failure(await post(`/v1/sessions/${copy}/turns`, { input: "hi" }))).toEqual({
      status: 409,
      code: "session_busy",
    });
    expect(failure(await fork(copy))).toEqual({ status: 409, code: "session_busy" });
    await api.db.advanceClock(86_400);
    expect(failure(await post(`/v1/sessions/${copy}/turns`, { input: "hi" })).code).toBe("session_busy");
    expect(await deliver()).toBe(2);
    expect(await statusOf(copy)).toBe("idle");
    expect(await keysOf(copy)).toEqual(await keysOf(id));
    expect((await get(`/v1/sessions/${copy}/files/f0329.md`)).text).toBe("file 329");
  }, 60_000);

  it("are given up when the fork is erased meanwhile: nothing of it is left", async () => {
    const id = await made();
    await fill(id, 60);
    const copy = (await fork(id)).json.id;
    expect((await api.call("DELETE", `/v1/sessions/${copy}`, { key: tenant.key })).status).toBe(200);
    await deliver();
    expect([await keysOf(copy), (await keysOf(id)).length]).toEqual([[], 60]);
  });

  it("go on where they were cut off, and a message that comes twice changes nothing", async () => {
    const id = await made();
    await fill(id, 120);
    const copy = (await fork(id)).json.id;
    const [message] = sentOf("copy_files");
    if (message === undefined) throw new Error("no message");
    let puts = 0;
    const failing = Object.create(api.bucket, {
      put: {
        value: (...args: Parameters<R2Bucket["put"]>) =>
          ++puts > 60 ? Promise.reject(new Error("R2 is down")) : api.bucket.put(...args),
      },
      list: { value: (...args: Parameters<R2Bucket["list"]>) => api.bucket.list(...args) },
      get: { value: (key: string) => api.bucket.get(key) },
    }) as R2Bucket;
    await expect(copyFiles({ ...api.deps, bucket: failing }, message)).rejects.toThrow("R2 is down");
    expect(await statusOf(copy)).toBe("running");
    await Promise.all([copyFiles(api.deps, message), copyFiles(api.deps, message)]);
    await copyFiles(api.deps, message);
    expect([await statusOf(copy), await keysOf(copy)]).toEqual(["idle", await keysOf(id)]);
  });

  it("are sent again by the clock when their message was lost", async () => {
    const id = await made();
    await fill(id, 60);
    const copy = (await fork(id)).json.id;
    api.sent.length = 0;
    await api.db.advanceClock(61);
    await maintain(api.deps, turnTasks);
    expect(sentOf("copy_files")).toContainEqual({ v: 1, type: "copy_files", tenantId: tenant.id, sessionId: copy });
    await deliver();
    expect(await statusOf(copy)).toBe("idle");
  });

  it("are all there when the original is erased before they are copied: its objects wait", async () => {
    const id = await made();
    await fill(id, 60);
    const before = await keysOf(id);
    const copy = (await fork(id)).json.id;
    const [message] = sentOf("copy_files");
    expect((await api.call("DELETE", `/v1/sessions/${id}`, { key: tenant.key })).status).toBe(200);
    const [erase] = sentOf("erase_objects");
    if (message === undefined || erase === undefined) throw new Error("no message");
    api.sent.length = 0;
    await eraseObjects(api.deps, erase);
    expect(await keysOf(id)).toEqual(before);
    await copyFiles(api.deps, message);
    expect(await keysOf(copy)).toEqual(before);
    expect(sentOf("erase_objects")).toEqual([erase]);
    await deliver();
    expect([await keysOf(id), await keysOf(copy)]).toEqual([[], before]);
    expect((await get(`/v1/sessions/${copy}/messages`)).json.data).toHaveLength(6);
  });

  it("of an original that is erased afterwards stay", async () => {
    const id = await made();
    await fill(id, 30);
    const copy = (await fork(id)).json.id;
    await deliver();
    await api.call("DELETE", `/v1/sessions/${id}`, { key: tenant.key });
    await deliver();
    expect([(await keysOf(id)).length, (await keysOf(copy)).length]).toEqual([0, 30]);
    expect(failure(await fork(id))).toEqual({ status: 404, code: "not_found" });
  });

  it("that were written to the fork meanwhile are not overwritten", async () => {
    const id = await made();
    await fill(id, 60);
    const copy = (await fork(id)).json.id;
    await api.call("PUT", `/v1/sessions/${copy}/files/f0059.md`, { key: tenant.key, body: "mine" });
    await deliver();
    expect((await get(`/v1/sessions/${copy}/files/f0059.md`)).text).toBe("mine");
  });
});
