/** The doctor of the built Worker: what it finds with everything in order, and with each part broken; and the command that asks it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { builtMigrations } from "../../src/turns/doctor/examine.ts";
import {
  ADMIN_KEY,
  makeTenant,
  startAnotherWorker,
  startTestPlatform,
  type TestPlatform,
} from "../support/platform.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";

let platform: TestPlatform;
let collector: Receiver;
const exported: { path: string | undefined; token: unknown; body: string }[] = [];
beforeAll(async () => {
  collector = await startReceiver(({ url, headers }, body, response) => {
    exported.push({ path: url, token: headers["x-token"], body });
    response.writeHead(200).end("{}");
  });
  platform = await startTestPlatform({
    chat: true,
    variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_HEADERS: "x-token=hunter2" },
  });
}, 120_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});

interface Check {
  readonly name: string;
  readonly status: string;
  readonly detail: string;
  readonly duration_ms: number;
}

const ask = async (url = platform.url, key = ADMIN_KEY) => {
  const response = await fetch(`${url}/v1/doctor`, {
    headers: { Authorization: `Bearer ${key}`, Connection: "close" },
  });
  const body = (await response.json()) as { status: string; checks: readonly Check[]; error?: { code: string } };
  return { status: response.status, body, words: JSON.stringify(body) };
};
const detailOf = (checks: readonly Check[], name: string) => {
  const { status, detail } = checks.find((check) => check.name === name) ?? {};
  return `${status}: ${detail}`;
};

describe("GET /v1/doctor", () => {
  it("checks everything from the inside, in the order of the documentation", async () => {
    const requests = platform.simulator.requests.length;
    const { status, body } = await ask();
    expect([status, body.status]).toEqual([200, "ok"]);
    expect(body.checks.map(({ name, status }) => [name, status])).toEqual(
      ["configuration", "database", "migrations", "r2", "queue", "provider", "chat", "otlp"].map((name) => [
        name,
        "ok",
      ]),
    );
    expect(detailOf(body.checks, "configuration")).toContain("HANGO_ALLOW_PRIVATE_URLS is true");
    expect(detailOf(body.checks, "database")).toMatch(/^ok: PostgreSQL 18\.\d+\S*, answers in \d+ ms$/);
    expect(detailOf(body.checks, "migrations")).toBe(
      `ok: ${builtMigrations.length} applied, newest ${builtMigrations.at(-1)?.tag}`,
    );
    expect(detailOf(body.checks, "provider")).toContain('knows "claude-sonnet-5-5"');
    // No model was called: nothing but descriptions was asked for.
    expect(
      platform.simulator.requests
        .slice(requests)
        .map(({ method, path }) => `${method} ${path}`)
        .toSorted(),
    ).toEqual(["GET /v1/models", "GET /v1/models/claude-sonnet-5-5"]);
    expect(exported.filter(({ body }) => body === '{"resourceSpans":[]}')).toEqual([
      { path: "/v1/traces", token: "hunter2", body: '{"resourceSpans":[]}' },
    ]);
  });

  it("leaves nothing in the bucket, and its message is done and acknowledged", async () => {
    await ask();
    const bucket = await platform.host.miniflare.getR2Bucket("FILES");
    expect((await bucket.list({ prefix: "doctor/" })).objects).toEqual([]);
    // The consumer's span of the message: it was processed, and did not fail.
    const processed = () =>
      exported.filter(({ path, body }) => path === "/v1/traces" && body.includes('"stringValue":"ping"'));
    await vi.waitFor(() => expect(processed().length).toBeGreaterThan(0), { timeout: 20_000 });
    expect(processed().some(({ body }) => body.includes("error.type"))).toBe(false);
    expect(platform.logs.filter((line) => line.includes("queue message"))).toEqual([]);
  });

  it("tells a tenant's key nothing", async () => {
    const tenant = await makeTenant(platform.database);
    const { status, body } = await ask(platform.url, tenant.key);
    expect([status, body.error?.code, body.checks]).toEqual([403, "forbidden", undefined]);
    expect((await ask(platform.url, "wrong")).status).toBe(401);
  });

  it("names what fails, without secrets, and checks the rest", async () => {
    const gone = await startReceiver(() => undefined);
    gone.close();
    const broken = await startAnotherWorker(platform, {
      ANTHROPIC_API_KEY: "hunter3",
      HANGO_DEFAULT_MODEL: "no-such-model",
      HANGO_OPENAI_BASE_URL: `${gone.url}/v1`,
      OTEL_EXPORTER_OTLP_ENDPOINT: gone.url,
      OTEL_EXPORTER_OTLP_HEADERS: "x-token=hunter2",
    });
    try {
      const { status, body, words } = await ask(broken.url);
      expect([status, body.status]).toEqual([200, "failed"]);
      expect(detailOf(body.checks, "provider")).toContain('knows no model "no-such-model"');
      expect(detailOf(body.checks, "chat")).toContain(`failed: chat completions at ${gone.url}/v1: cannot be reached`);
      expect(detailOf(body.checks, "otlp")).toContain(`failed: the collector at ${gone.url} cannot be reached`);
      expect(detailOf(body.checks, "database")).toMatch(/^ok: /);
      expect(words).not.toMatch(/hunter/);
    } finally {
      await broken.close();
    }
  });

  it("finds a database that is behind the build, and one that is ahead", async () => {
    const newest = builtMigrations.at(-1);
    const move = (from: number, to: number) =>
      platform.database.sql("update drizzle.__drizzle_migrations set created_at = $2 where created_at = $1", [
        from,
        to,
      ]);
    await move(newest?.when ?? 0, 4_000_000_000_000);
    const { body } = await ask();
    await move(4_000_000_000_000, newest?.when ?? 0);
    expect(detailOf(body.checks, "migrations")).toContain(`failed: 1 pending (${newest?.tag})`);
    expect(detailOf(body.checks, "migrations")).toContain("1 that this version does not know");
  });
});

describe("npm run doctor -- URL", () => {
  const doctor = async (url: string, adminKey: string) => {
    const child = spawn(process.execPath, ["src/local/doctor.ts", url], {
      cwd: join(import.meta.dirname, "../.."),
      env: { PATH: process.env.PATH, HOME: process.env.HOME, HANGO_ADMIN_KEY: adminKey },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [out, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
    return { lines: out.trimEnd().split("\n"), code };
  };

  it("shows what the Worker found, a line each, and ends with 0", async () => {
    const { lines, code } = await doctor(`${platform.url}/`, ADMIN_KEY);
    expect(lines).toHaveLength(8);
    expect(lines[3]).toMatch(/^ok {4}r2 {13}put, got and deleted a small object in \d+ ms$/);
    expect(lines[4]).toBe("ok    queue          took a message; that it is delivered is not proven by this");
    expect(code).toBe(0);
  }, 60_000);

  it("ends with 1 where the key is not the operator's", async () => {
    const { lines, code } = await doctor(platform.url, "another-key-0123456789abcdef");
    expect(lines).toEqual([
      `FAIL  worker         ${platform.url} refused the key (401): set HANGO_ADMIN_KEY to the one that the Worker was given`,
    ]);
    expect(code).toBe(1);
  }, 60_000);
});
