/** Triggers end to end: a sender posts, the queue runs the turn, the sender gets its reply. The guide's examples, as they stand there. */
import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Call, callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";

interface Received {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

let platform: TestPlatform;
let call: Call;
let server: Server;
let replies: string;
let next: PromiseWithResolvers<Received>;

beforeAll(async () => {
  platform = await startTestPlatform();
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    next.resolve({ path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.end("ok");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  replies = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}, 120_000);
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await platform.close();
});
beforeEach(async () => {
  next = Promise.withResolvers();
  platform.simulator.reset();
  call = callerOf(platform.url, await makeTenant(platform.database));
});

const hex = (secret: string, text: string) => createHmac("sha256", secret).update(text).digest("hex");

const post = (url: string, body: string, headers: Readonly<Record<string, string>>) =>
  fetch(url, {
    method: "POST",
    body,
    headers: { "Content-Type": "application/json", Connection: "close", ...headers },
  });

describe("a GitHub issue", () => {
  const secret = "It's a Secret to Everybody";
  const body = JSON.stringify({
    action: "opened",
    issue: { number: 7, title: "It breaks", body: "Steps:\n```\nnpm start\n```" },
    repository: { full_name: "octo/hello" },
    sender: { login: "octocat", type: "User" },
  });
  const headers = {
    "X-GitHub-Event": "issues",
    "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    "X-Hub-Signature-256": `sha256=${hex(secret, body)}`,
  };

  it("becomes a turn, and the comment is posted with what the run said; a redelivery makes no second one", async () => {
    platform.simulator.enqueue({ reply: { content: "Thanks, a bug." } });
    const made = await call("POST", "/v1/triggers", {
      type: "webhook",
      name: "triage",
      verification: { scheme: "github" },
      secret,
      session: { system: "You triage issues." },
      session_key: "github:{{payload.repository.full_name}}#{{payload.issue.number}}",
      prompt: "Issue {{payload.issue.number}} was opened: {{payload.issue.title}} {{payload.issue.body}}",
      filters: [{ path: "payload.action", equals: "opened" }],
      reply: {
        url: `${replies}/repos/{{payload.repository.full_name}}/issues/{{payload.issue.number}}/comments`,
        headers: { Authorization: "Bearer ghp_x" },
        body: { body: "{{run.output_text}}" },
      },
    });
    expect(made.status).toBe(201);
    const started = performance.now();
    const answer = await post(made.body.url, body, headers);
    const took = performance.now() - started;
    const { delivery_id: id } = (await answer.json()) as { delivery_id: string };
    expect([answer.status, took < 1_000]).toEqual([202, true]);
    const reply = await next.promise;
    expect([reply.path, reply.body, reply.headers.authorization]).toEqual([
      "/repos/octo/hello/issues/7/comments",
      '{"body":"Thanks, a bug."}',
      "Bearer ghp_x",
    ]);
    const again = await post(made.body.url, body, headers);
    expect(await again.json()).toEqual({ delivery_id: id, status: "duplicate" });
    const session = encodeURIComponent("key:github:octo/hello#7");
    const log = await call("GET", `/v1/sessions/${session}/messages?order=asc`);
    expect(log.body.data.map((row: { origin: string }) => row.origin)).toEqual(["event", "assistant"]);
    expect(log.body.data[0].content[0].text).toContain("````\nSteps:\n```\nnpm start\n```\n````");
    const delivery = await call("GET", `/v1/triggers/${made.body.id}/deliveries/${id}`);
    expect([delivery.body.status, delivery.body.run_status]).toEqual(["completed", "completed"]);
    expect(platform.logs.join("\n")).not.toMatch(/ghp_x|Secret to Everybody|It breaks/);
  });
});

describe("a Slack mention", () => {
  it("is answered within a second although the model takes its time, and replied to in its thread", async () => {
    platform.simulator.enqueue({ hold: "slow", reply: { content: "At your service." } });
    const secret = "8f742231b10e8888abcd99yyyzzz85a5";
    const made = await call("POST", "/v1/triggers", {
      type: "webhook",
      verification: { scheme: "slack" },
      secret,
      session_key: "slack:{{payload.team_id}}:{{payload.event.channel}}:{{payload.event.ts}}",
      prompt: "{{payload.event.user}} says: {{payload.event.text}}",
      reply: {
        url: `${replies}/api/chat.postMessage`,
        headers: { Authorization: "Bearer xoxb-1" },
        body: { channel: "{{payload.event.channel}}", thread_ts: "{{payload.event.ts}}", text: "{{run.output_text}}" },
      },
    });
    const body = JSON.stringify({
      type: "event_callback",
      team_id: "T1",
      event_id: "Ev1",
      event: { type: "app_mention", user: "U1", channel: "C1", ts: "1700000000.000100", text: "<@B1> hello" },
    });
    const at = String(Math.floor(Date.now() / 1000));
    const started = performance.now();
    const answer = await post(made.body.url, body, {
      "X-Slack-Request-Timestamp": at,
      "X-Slack-Signature": `v0=${hex(secret, `v0:${at}:${body}`)}`,
    });
    expect([answer.status, await answer.text(), performance.now() - started < 1_000]).toEqual([200, "", true]);
    await platform.simulator.reached("slow");
    platform.simulator.release("slow");
    const reply = await next.promise;
    expect(JSON.parse(reply.body)).toEqual({ channel: "C1", thread_ts: "1700000000.000100", text: "At your service." });
  });
});

describe("the built Worker", () => {
  it.each(["standard", "github", "slack", "stripe", "linear", "hmac", "bearer"])(
    "verifies what a sender of %s signs, and refuses what it does not",
    async (scheme) => {
      const made = await call("POST", "/v1/triggers", {
        type: "webhook",
        verification: { scheme },
        // Believed, stored, and no turn: the other tests have the simulator for themselves.
        filters: [{ path: "payload.never", exists: true }],
        ...(scheme === "slack" || scheme === "stripe" ? { secret: "given by the sender" } : {}),
      });
      const sample = await call("POST", `/v1/triggers/${made.body.id}/test`, {});
      expect([sample.status, sample.body.status]).toEqual([200, "ignored"]);
      const refused = await post(made.body.url, "{}", {});
      expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
        401,
        "webhook_unverified",
      ]);
      const log = await call("GET", `/v1/triggers/${made.body.id}/deliveries?status=refused`);
      expect(log.body.data).toHaveLength(1);
    },
  );
});

describe("a cron trigger", () => {
  it("makes its turn when the clock's door finds it due", async () => {
    platform.simulator.enqueue({ reply: { content: "All is well." } });
    const made = await call("POST", "/v1/triggers", {
      type: "cron",
      prompt: "Report what happened since {{payload.scheduled_at}}.",
      schedule: { cron: "0 9 * * *", time_zone: "Europe/Berlin" },
      session_key: "daily report",
      reply: { url: `${replies}/report` },
    });
    expect(made.status).toBe(201);
    await platform.database.advanceClock(86_400);
    await platform.host.tick();
    const reply = await next.promise;
    expect([reply.path, JSON.parse(reply.body)]).toEqual([
      "/report",
      expect.objectContaining({ status: "completed", output_text: "All is well." }),
    ]);
  });
});
