/** The public door of triggers: who is believed, what is refused and how, and that nothing is stored then but the delivery's row. */
import { createHmac } from "node:crypto";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Answer, failure, type Harness, harness, type TestTenant } from "./harness.ts";

let api: Harness;
let tenant: TestTenant;

beforeAll(async () => {
  api = await harness({ kind: "postgres" });
  tenant = await api.tenant();
});

beforeEach(() => {
  api.sent.length = 0;
});

const SECRET = "It's a Secret to Everybody";

interface Trigger {
  readonly id: string;
}

const create = async (json: object): Promise<Trigger> => {
  const answer = await api.call("POST", "/v1/triggers", {
    key: tenant.key,
    json: { type: "webhook", verification: { scheme: "github" }, secret: SECRET, ...json },
  });
  if (answer.status !== 201) throw new Error(answer.text);
  return answer.json;
};

/** The rows of a trigger's deliveries, oldest first: everything that the door stores. */
const rows = (trigger: Trigger) =>
  api.db.sql(
    "select id, status, reason, payload, event_id, session_key, headers from deliveries where trigger_id = $1 order by id",
    [trigger.id],
  );

const post = (trigger: Trigger, body: BodyInit, headers: Readonly<Record<string, string>>): Promise<Answer> =>
  api.call("POST", `/hooks/${trigger.id}`, { body, headers: { "Content-Type": "application/json", ...headers } });

const UNVERIFIED = "The delivery could not be verified. The trigger's deliveries, which its owner can read, say why.";
const sign = (body: string, secret = SECRET) => `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;

let count = 0;
/** What GitHub would post. */
const github = (trigger: Trigger, payload: unknown, headers: Readonly<Record<string, string>> = {}) => {
  const body = typeof payload === "string" ? payload : JSON.stringify(payload);
  count += 1;
  return post(trigger, body, {
    "X-GitHub-Event": "issues",
    "X-GitHub-Delivery": `delivery-${count}`,
    "X-Hub-Signature-256": sign(body),
    ...headers,
  });
};

const nowSeconds = async (): Promise<number> => {
  const [row] = await api.db.sql("select floor(extract(epoch from hango_now()))::int as now");
  return Number(row?.now);
};

describe("a delivery that is believed", () => {
  it("is stored before it is answered, in two round trips, and handed to the queue", async () => {
    const trigger = await create({ session_key: "gh:{{payload.n}}" });
    const answer = await github(
      trigger,
      { n: 7 },
      { "X-GitHub-Delivery": "72d3162e", Authorization: "Bearer of something" },
    );
    expect([answer.status, answer.json, api.roundTrips()]).toEqual([
      202,
      { delivery_id: expect.stringMatching(/^dlv_/), status: "accepted" },
      2,
    ]);
    expect(await rows(trigger)).toEqual([
      {
        id: answer.json.delivery_id,
        status: "waiting",
        reason: null,
        payload: '{"n":7}',
        event_id: "72d3162e",
        session_key: "gh:7",
        headers: expect.objectContaining({ "x-github-event": "issues", "x-github-delivery": "72d3162e" }),
      },
    ]);
    expect(JSON.stringify(await rows(trigger))).not.toMatch(/sha256=|of something/);
    expect(api.sent).toEqual([
      { v: 1, type: "trigger_delivery", tenantId: tenant.id, deliveryId: answer.json.delivery_id },
    ]);
  });

  it("that comes again is answered with the first one's id, and makes no second run", async () => {
    const trigger = await create({});
    const first = await github(trigger, { a: 1 }, { "X-GitHub-Delivery": "same" });
    api.sent.length = 0;
    const second = await github(trigger, { a: 1 }, { "X-GitHub-Delivery": "same" });
    expect([second.status, second.json, api.sent]).toEqual([
      202,
      { delivery_id: first.json.delivery_id, status: "duplicate" },
      [],
    ]);
    const stored = await rows(trigger);
    expect(stored.map(({ status, payload }) => [status, payload])).toEqual([
      ["waiting", '{"a":1}'],
      ["duplicate", null],
    ]);
  });

  it("is stored once however many copies of it come at the same time", async () => {
    const trigger = await create({});
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => github(trigger, { a: 1 }, { "X-GitHub-Delivery": "race" })),
    );
    expect(new Set(answers.map(({ json }) => json.delivery_id)).size).toBe(1);
    expect((await rows(trigger)).filter(({ status }) => status === "waiting")).toHaveLength(1);
    expect(api.sent).toHaveLength(1);
  });

  it("is answered with what the trigger says", async () => {
    const trigger = await create({ response: { status: 200, body: '{"ok":true}' } });
    const answer = await github(trigger, { a: 1 });
    expect([answer.status, answer.text, answer.headers.get("Content-Type")]).toEqual([
      200,
      '{"ok":true}',
      "application/json",
    ]);
    const empty = await create({ response: { status: 204 } });
    const none = await github(empty, { a: 1 });
    expect([none.status, none.text]).toEqual([204, ""]);
  });

  it("may be a form with a payload, as GitHub can post it", async () => {
    const trigger = await create({});
    const body = `payload=${encodeURIComponent('{"a":1}')}`;
    const answer = await github(trigger, body, { "Content-Type": "application/x-www-form-urlencoded" });
    expect([answer.status, (await rows(trigger))[0]?.payload]).toEqual([202, '{"a":1}']);
  });

  it("with a key that its template cannot make has failed, and says so", async () => {
    const trigger = await create({ session_key: "{{payload.missing}}" });
    const answer = await github(trigger, { a: 1 });
    expect([answer.json.status, (await rows(trigger))[0]?.reason, api.sent]).toEqual([
      "failed",
      "session_key_invalid",
      [],
    ]);
  });

  it("is ignored when a filter does not hold, or it is the agent's own", async () => {
    const trigger = await create({
      filters: [
        { path: "headers.x-github-event", equals: "issues" },
        { path: "payload.action", in: ["opened"] },
      ],
    });
    const states = [
      await github(trigger, { action: "opened", sender: { login: "octocat", type: "User" } }),
      await github(trigger, { action: "closed" }),
      await github(trigger, { action: "opened" }, { "X-GitHub-Event": "push" }),
      await github(trigger, { action: "opened", sender: { login: "agent[bot]", type: "Bot" } }),
    ].map(({ status, json }) => [status, json.status]);
    expect(states).toEqual([
      [202, "accepted"],
      [202, "ignored"],
      [202, "ignored"],
      [202, "ignored"],
    ]);
    expect((await rows(trigger)).map(({ reason }) => reason)).toEqual([null, "filtered", "filtered", "own_event"]);
    expect(api.sent).toHaveLength(1);
  });
});

describe("what is refused leaves nothing but a row without a payload", () => {
  const refused = async (trigger: Trigger, answer: Answer, status: number, code: string, reason: string) => {
    expect([answer.status, answer.json.error.code]).toEqual([status, code]);
    const stored = await rows(trigger);
    expect(stored.map((row) => [row.status, row.reason, row.payload, row.session_key, row.event_id])).toEqual([
      ["refused", reason, null, null, null],
    ]);
    expect(api.sent).toEqual([]);
    const [{ sessions, runs } = {}] = await api.db.sql(
      "select (select count(*) from sessions where tenant_id = $1)::int as sessions, (select count(*) from runs where tenant_id = $1)::int as runs",
      [tenant.id],
    );
    expect([sessions, runs]).toEqual([0, 0]);
  };

  it("a wrong signature: 401, and not told why", async () => {
    const trigger = await create({});
    const answer = await github(trigger, { a: 1 }, { "X-Hub-Signature-256": sign("other") });
    await refused(trigger, answer, 401, "webhook_unverified", "signature_wrong");
    expect(answer.json.error.message).toBe(UNVERIFIED);
  });

  it("no signature: the same answer", async () => {
    const trigger = await create({});
    const answer = await post(trigger, "{}", {});
    await refused(trigger, answer, 401, "webhook_unverified", "signature_missing");
    expect(answer.json.error.message).toBe(UNVERIFIED);
  });

  it("a stale time: 401", async () => {
    const trigger = await create({ verification: { scheme: "slack" } });
    const at = (await nowSeconds()) - 301;
    const signature = `v0=${createHmac("sha256", SECRET).update(`v0:${at}:{}`).digest("hex")}`;
    const answer = await post(trigger, "{}", {
      "X-Slack-Request-Timestamp": String(at),
      "X-Slack-Signature": signature,
    });
    await refused(trigger, answer, 401, "webhook_unverified", "timestamp_stale");
  });

  it("a body of more than 1 MB: 413, before it is hashed", async () => {
    const trigger = await create({});
    const body = JSON.stringify({ a: "x".repeat(1_048_576) });
    await refused(trigger, await github(trigger, body), 413, "payload_too_large", "too_large");
  });

  it("a body of more than 1 MB that does not say so: 413", async () => {
    const trigger = await create({});
    let sent = 0;
    const endless = new ReadableStream({
      pull: (controller) => {
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    const answer = await api.app.request(`https://hango.test/hooks/${trigger.id}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: endless,
      duplex: "half",
    } as RequestInit);
    const json = await answer.json();
    const whole = { status: answer.status, headers: answer.headers, text: "", bytes: new Uint8Array(), json };
    await refused(trigger, whole, 413, "payload_too_large", "too_large");
    expect(sent).toBeLessThan(1_500_000);
  });

  it.each(["text/plain", "text/json", "application/xml", "multipart/form-data; boundary=x"])(
    "the content type %s: 415",
    async (type) => {
      const trigger = await create({});
      await refused(
        trigger,
        await github(trigger, { a: 1 }, { "Content-Type": type }),
        415,
        "unsupported_media_type",
        "wrong_content_type",
      );
    },
  );

  it("a form, where the sender has none: 415", async () => {
    const trigger = await create({ verification: { scheme: "stripe" } });
    const answer = await post(trigger, "a=b", { "Content-Type": "application/x-www-form-urlencoded" });
    await refused(trigger, answer, 415, "unsupported_media_type", "wrong_content_type");
  });

  it.each<[string, string, string, string]>([
    ["huge nesting", `${"[".repeat(10_000)}${"]".repeat(10_000)}`, "too_deep", "is nested deeper than 64 levels"],
    ["huge nesting that never closes", '{"a":'.repeat(100_000), "too_deep", "is nested deeper than 64 levels"],
    ["very many values", `[${"0,".repeat(200_000)}0]`, "too_many_values", "has more than 100,000 values"],
    ["no JSON", "{not json", "not_json", "is not valid JSON"],
    ["nothing", "", "empty", "is empty; expected JSON"],
  ])("%s: 400, although it is signed, and told what it is", async (_, body, reason, message) => {
    const trigger = await create({});
    const answer = await github(trigger, body);
    await refused(trigger, answer, 400, "invalid_request", reason);
    expect(answer.json.error.message).toBe(`body: ${message}`);
  });

  it("bytes that are no text: 400, although they are signed", async () => {
    const trigger = await create({});
    const bytes = new Uint8Array([0x7b, 0xff, 0xfe, 0x7d]);
    const signature = `sha256=${createHmac("sha256", SECRET).update(bytes).digest("hex")}`;
    await refused(
      trigger,
      await post(trigger, bytes, { "X-Hub-Signature-256": signature }),
      400,
      "invalid_request",
      "not_utf8",
    );
  });
});

describe("a flood of refused deliveries", () => {
  it("fills no table: sixty of a minute are recorded, and what is believed is stored all the same", async () => {
    const trigger = await create({});
    for (let n = 0; n < 65; n++) await post(trigger, "{}", {});
    expect(await rows(trigger)).toHaveLength(60);
    expect((await github(trigger, { a: 1 })).status).toBe(202);
    await api.db.advanceClock(61);
    await post(trigger, "{}", {});
    expect((await rows(trigger)).map(({ status }) => status).slice(-2)).toEqual(["waiting", "refused"]);
  });
});

describe("an address that leads nowhere", () => {
  it("is a 404, and the same for an unknown, a disabled and a cron trigger, and a suspended tenant", async () => {
    const disabled = await create({ enabled: false });
    const cron = await api.call("POST", "/v1/triggers", {
      key: tenant.key,
      json: { type: "cron", prompt: "x", schedule: { cron: "0 9 * * *" } },
    });
    const suspended = await api.tenant();
    const theirs = await api.call("POST", "/v1/triggers", {
      key: suspended.key,
      json: { type: "webhook", verification: { scheme: "github" }, secret: SECRET },
    });
    await api.db.sql("update tenants set status = 'suspended' where id = $1", [suspended.id]);
    const ids = [disabled.id, cron.json.id, theirs.json.id, `trg_${"Z".repeat(26)}`, "x", "%00"];
    for (const id of ids) {
      const answer = await github({ id }, { a: 1 });
      expect([id, answer.status, answer.json.error.message]).toEqual([id, 404, "There is no such trigger."]);
    }
    expect(await rows(disabled)).toEqual([]);
  });

  it("takes no other method", async () => {
    const trigger = await create({});
    expect(failure(await api.call("GET", `/hooks/${trigger.id}`)).status).toBe(405);
  });
});

describe("handshakes", () => {
  it("of Slack: the challenge comes back, once it is known who asks", async () => {
    const trigger = await create({ verification: { scheme: "slack" } });
    const body =
      '{"type":"url_verification","token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}';
    const at = await nowSeconds();
    const signature = `v0=${createHmac("sha256", SECRET).update(`v0:${at}:${body}`).digest("hex")}`;
    const headers = { "X-Slack-Request-Timestamp": String(at), "X-Slack-Signature": signature };
    const answer = await post(trigger, body, headers);
    expect([answer.status, answer.json]).toEqual([
      200,
      { challenge: "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P" },
    ]);
    expect((await post(trigger, body, { ...headers, "X-Slack-Signature": `v0=${"0".repeat(64)}` })).status).toBe(401);
    expect((await rows(trigger)).map(({ status, reason }) => [status, reason])).toEqual([
      ["ignored", "handshake"],
      ["refused", "signature_wrong"],
    ]);
  });

  it("of GitHub: a ping is answered and makes no turn", async () => {
    const trigger = await create({});
    const answer = await github(
      trigger,
      { zen: "Keep it logically awesome.", hook_id: 1 },
      { "X-GitHub-Event": "ping" },
    );
    expect([answer.status, answer.json.status, api.sent]).toEqual([200, "handshake", []]);
  });

  it("an event of Slack is answered with an empty 200", async () => {
    const trigger = await create({ verification: { scheme: "slack" } });
    const body = JSON.stringify({
      type: "event_callback",
      event_id: "Ev08MFMKH6",
      event: { type: "app_mention", user: "U1", text: "hi" },
    });
    const at = await nowSeconds();
    const signature = `v0=${createHmac("sha256", SECRET).update(`v0:${at}:${body}`).digest("hex")}`;
    const answer = await post(trigger, body, {
      "X-Slack-Request-Timestamp": String(at),
      "X-Slack-Signature": signature,
    });
    expect([answer.status, answer.text, (await rows(trigger))[0]?.event_id]).toEqual([200, "", "Ev08MFMKH6"]);
  });
});

describe("secrets", () => {
  it("overlap: the old one is taken until its time is over, by the database's clock", async () => {
    const trigger = await create({});
    await api.call("POST", `/v1/triggers/${trigger.id}/secrets`, {
      key: tenant.key,
      json: { secret: "the new secret", overlap_seconds: 3_600 },
    });
    const signedWith = async (secret: string) => {
      const body = JSON.stringify({ n: ++count });
      return (await github(trigger, body, { "X-Hub-Signature-256": sign(body, secret) })).status;
    };
    expect([await signedWith(SECRET), await signedWith("the new secret")]).toEqual([202, 202]);
    await api.db.advanceClock(3_601);
    expect([await signedWith(SECRET), await signedWith("the new secret")]).toEqual([401, 202]);
  });
});

describe("the sample sender", () => {
  it.each(["standard", "github", "slack", "stripe", "linear", "hmac", "bearer"])(
    "makes a delivery of %s that its own door takes",
    async (scheme) => {
      const secret = scheme === "standard" ? "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" : "0123456789abcdef";
      const trigger = await create({ verification: { scheme }, secret });
      const answer = await api.call("POST", `/v1/triggers/${trigger.id}/test`, { key: tenant.key, json: {} });
      expect([answer.status, answer.json.status, answer.json.answer.status]).toEqual([
        200,
        "accepted",
        scheme === "slack" ? 200 : 202,
      ]);
      const [row] = await rows(trigger);
      expect([row?.status, row?.id, String(row?.payload).length > 20, row?.event_id === null]).toEqual([
        "waiting",
        answer.json.delivery_id,
        true,
        false,
      ]);
      expect(api.sent).toHaveLength(1);
    },
  );

  it("takes a payload and headers of one's own", async () => {
    const trigger = await create({ filters: [{ path: "headers.x-github-event", equals: "push" }] });
    const test = (json: object) => api.call("POST", `/v1/triggers/${trigger.id}/test`, { key: tenant.key, json });
    expect((await test({})).json.status).toBe("ignored");
    expect((await test({ payload: { a: 1 }, headers: { "X-GitHub-Event": "push" } })).json.status).toBe("accepted");
  });
});

describe("the log of deliveries", () => {
  it("lists them without payloads, reads one with it, and takes one through again", async () => {
    const trigger = await create({ filters: [{ path: "payload.a", equals: 1 }], session_key: "s:{{payload.a}}" });
    const ids = [await github(trigger, { a: 1 }), await github(trigger, { a: 2 })].map(({ json }) => json.delivery_id);
    const path = `/v1/triggers/${trigger.id}/deliveries`;
    const listed = await api.call("GET", path, { key: tenant.key });
    expect(listed.json.data.map((each: { id: string; status: string }) => [each.id, each.status])).toEqual([
      [ids[1], "ignored"],
      [ids[0], "waiting"],
    ]);
    expect(listed.text).not.toContain("payload");
    const filtered = await api.call("GET", `${path}?status=ignored&limit=1`, { key: tenant.key });
    expect([filtered.json.data.length, filtered.json.next_page]).toEqual([1, null]);
    const read = await api.call("GET", `${path}/${ids[1]}`, { key: tenant.key });
    expect([read.json.payload, read.json.reason]).toEqual(['{"a":2}', "filtered"]);
    api.sent.length = 0;
    const again = await api.call("POST", `${path}/${ids[1]}/redeliver`, { key: tenant.key });
    expect([again.status, api.sent.length]).toEqual([202, 1]);
    const redelivered = await api.call("GET", `${path}/${again.json.delivery_id}`, { key: tenant.key });
    expect([
      redelivered.json.status,
      redelivered.json.session_key,
      redelivered.json.headers["hango-redelivery-of"],
    ]).toEqual(["waiting", "s:2", ids[1]]);
  });

  it("of a refused one there is nothing to take through again", async () => {
    const trigger = await create({});
    await post(trigger, "{}", {});
    const [row] = await rows(trigger);
    const answer = await api.call("POST", `/v1/triggers/${trigger.id}/deliveries/${row?.id}/redeliver`, {
      key: tenant.key,
    });
    expect(failure(answer)).toEqual({ status: 400, code: "invalid_request", param: "delivery" });
  });
});

describe("the rate limit", () => {
  it("counts by trigger, before the database is asked", async () => {
    const keys: string[] = [];
    const limited = await harness({
      kind: "pglite",
      env: { RATE_LIMITER: { limit: async ({ key }: { key: string }) => ({ success: keys.push(key) <= 1 }) } },
    });
    const id = `trg_${"A".repeat(26)}`;
    const [first, second] = [
      await limited.call("POST", `/hooks/${id}`, { json: {} }),
      await limited.call("POST", `/hooks/${id}`, { json: {} }),
    ];
    expect([first.status, second.status, second.headers.get("Retry-After"), limited.roundTrips(), keys[1]]).toEqual([
      404,
      429,
      "60",
      0,
      `hook:${id}`,
    ]);
  });
});
