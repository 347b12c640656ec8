/** `npm run doctor` as a process, and what its parts say. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { readEnvironment } from "../../../src/local/doctor/environment.ts";
import { lineOf } from "../../../src/local/doctor/report.ts";
import { addressProblem, examineThere } from "../../../src/local/doctor/there.ts";
import { type Simulator, startSimulator } from "../../../src/local/simulator/server.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";

const ADMIN_KEY = "operator-key-for-these-tests";

/** The command with an environment of its own: its lines and its exit code. */
const doctor = async (args: readonly string[], env: Readonly<Record<string, string>>) => {
  const child = spawn(process.execPath, ["src/local/doctor.ts", ...args], {
    cwd: join(import.meta.dirname, "../../.."),
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return { lines: out.split("\n").filter((line) => line !== ""), err, code };
};

/** Status and name, for lines whose words are tested elsewhere. */
const short = (lines: readonly string[]) => lines.map((line) => line.split(/\s+/, 2).join(" "));

let database: TestDatabase;
let simulator: Simulator;
beforeAll(async () => {
  [database, simulator] = await Promise.all([testDatabase({ kind: "postgres" }), startSimulator()]);
});
afterAll(async () => {
  await simulator.close();
  await database.close();
});

describe("npm run doctor", () => {
  it("checks what the environment configures, a line each, and ends with 0", async () => {
    const collector = await startReceiver((_, __, response) => response.writeHead(200).end());
    const { lines, code } = await doctor([], {
      DATABASE_URL: database.connectionString,
      ANTHROPIC_API_KEY: "any",
      ANTHROPIC_BASE_URL: simulator.url,
      HANGO_OPENAI_BASE_URL: `${simulator.url}/v1`,
      HANGO_ADMIN_KEY: ADMIN_KEY,
      HANGO_DATA_DIR: "elsewhere",
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    });
    collector.close();
    expect(lines[0]).toBe("ok    configuration  every variable is as it should be");
    expect(lines[1]).toMatch(/^ok {4}database {7}PostgreSQL 18\.\d+\S*, answers in \d+ ms$/);
    expect(short(lines)).toEqual([
      "ok configuration",
      "ok database",
      "ok migrations",
      "skip r2",
      "skip queue",
      "ok provider",
      "ok chat",
      "ok otlp",
    ]);
    expect(lines[3]).toContain("npm run doctor -- https://");
    expect(code).toBe(0);
  });

  it("names every problem of the configuration, checks the rest, and ends with 1", async () => {
    const { lines, code } = await doctor([], {
      DATABASE_URL: "mysql://hango:hunter2@localhost/x",
      ANTHROPIC_API_KEY: "any",
      ANTHROPIC_BASE_URL: simulator.url,
      HANGO_ADMIN_KEY: ADMIN_KEY,
      HANGO_MAX_STPES: "5",
      HANGO_DEFAULT_MODEL: "openai/qwen3-8b",
    });
    expect(lines.slice(0, 3)).toEqual([
      "FAIL  configuration  DATABASE_URL: got (hidden); allowed: a postgres:// URL with a host and a database",
      "FAIL  configuration  HANGO_MAX_STPES: unknown; the closest known variable is HANGO_MAX_STEPS",
      'FAIL  configuration  HANGO_DEFAULT_MODEL: "openai/qwen3-8b" is served over chat completions; set HANGO_OPENAI_BASE_URL, or OPENAI_API_KEY for OpenAI itself',
    ]);
    expect(short(lines).slice(3)).toEqual([
      "skip database",
      "skip migrations",
      "skip r2",
      "skip queue",
      "ok provider",
      "skip otlp",
    ]);
    expect(lines.join("\n")).not.toContain("hunter2");
    expect(code).toBe(1);
  });

  it("ends with 1 for a single check that failed", async () => {
    const { lines, code } = await doctor([], {
      DATABASE_URL: database.connectionString.replace(/:[^:@]*@/, ":hunter2@"),
      ANTHROPIC_API_KEY: "any",
      ANTHROPIC_BASE_URL: simulator.url,
      HANGO_ADMIN_KEY: ADMIN_KEY,
    });
    expect(lines[1]).toBe("FAIL  database       refused the user or password (28P01): set DATABASE_URL anew");
    expect(code).toBe(1);
  });

  it("says how it is called when it is called wrongly, and asks nobody", async () => {
    for (const args of [["--help"], ["https://a.example", "https://b.example"]]) {
      const { lines, err, code } = await doctor(args, {});
      expect([lines, code]).toEqual([[], 2]);
      expect(err).toContain("npm run doctor -- https://hango.example.com");
    }
  });

  it("asks no Worker without the operator's key", async () => {
    const { lines, code } = await doctor(["https://hango.example.com"], {});
    expect(lines).toEqual(["FAIL  worker         HANGO_ADMIN_KEY is not set: the Worker tells this only its operator"]);
    expect(code).toBe(1);
  });
});

describe("the environment", () => {
  it("is read as the Worker reads it, but for what is the runner's own", () => {
    const { config, problems, has } = readEnvironment({
      DATABASE_URL: "postgres://a@b/c",
      ANTHROPIC_API_KEY: "k",
      HANGO_ADMIN_KEY: ADMIN_KEY,
      HANGO_MAX_STEPS: "7",
      PORT: "80000",
      EDITOR: "ed",
    });
    expect([config.maxSteps, problems, has("DATABASE_URL"), has("OPENAI_API_KEY")]).toEqual([7, [], true, false]);
  });

  it("has as many problems as there are, and a configuration all the same", () => {
    const { config, problems, has } = readEnvironment({ HANGO_MAX_STEPS: "none", ANTHROPIC_API_KEY: "a b" });
    expect(problems.map((problem) => problem.slice(0, problem.indexOf(":"))).toSorted()).toEqual([
      "ANTHROPIC_API_KEY",
      "DATABASE_URL",
      "HANGO_ADMIN_KEY",
      "HANGO_MAX_STEPS",
    ]);
    expect([config.maxSteps, has("ANTHROPIC_API_KEY"), has("HANGO_MAX_STEPS")]).toEqual([50, false, false]);
  });
});

describe("the address of a Worker", () => {
  it.each([
    ["https://hango.example.com", undefined],
    ["http://127.0.0.1:8787", undefined],
    ["http://hango.example.com", "is not encrypted, and the operator's key would go there: use https://"],
    ["hango.example.com", "is no address: give one like https://hango.example.com"],
    ["ftp://hango.example.com", "is no address: give one like https://hango.example.com"],
    ["https://me:x@hango.example.com", "holds a user or password: the key goes into HANGO_ADMIN_KEY"],
  ])("%s", (typed, problem) => {
    expect(addressProblem(typed)).toBe(problem);
  });
});

describe("a Worker that does not tell", () => {
  let server: Receiver;
  let status: number;
  let body: string;
  const asked: { path: string | undefined; key: string | undefined }[] = [];
  beforeAll(async () => {
    server = await startReceiver(({ url, headers }, _, response) => {
      asked.push({ path: url, key: headers.authorization });
      response.writeHead(status, { location: "https://elsewhere.example" }).end(body);
    });
  });
  afterAll(() => server.close());
  beforeEach(() => {
    status = 200;
    body = "{}";
  });
  const there = (over: Partial<Parameters<typeof examineThere>[0]> = {}) =>
    examineThere({ url: server.url, adminKey: ADMIN_KEY, fetch, timeoutMs: 10_000, ...over });

  it.each([
    [401, "refused the key (401): set HANGO_ADMIN_KEY to the one that the Worker was given"],
    [403, "wants the operator's key (403): set HANGO_ADMIN_KEY, not a tenant's key"],
    [404, "has no /v1/doctor (404): is hango there, and of this version?"],
    [302, "redirects (302): give the address that it redirects to"],
    [500, "failed (500): where its configuration is wrong, `wrangler tail` shows a line that names each problem"],
    [200, "answered with something else than a doctor's findings: is hango there?"],
  ])("and answers %i is a failed check of its own", async (code, words) => {
    status = code;
    expect((await there()).map(lineOf)).toEqual([`FAIL  worker         ${server.url} ${words}`]);
    expect(asked.at(-1)).toEqual({ path: "/v1/doctor", key: `Bearer ${ADMIN_KEY}` });
  });

  it("and answers no JSON is none", async () => {
    body = "<html>";
    expect((await there())[0]?.detail).toContain("answered with something else");
  });

  it("and is late, or not there, is told apart", async () => {
    const silent = await startReceiver(() => undefined);
    expect((await there({ url: silent.url, timeoutMs: 50 }))[0]?.detail).toBe(
      `${silent.url} did not answer within 0.05 s`,
    );
    silent.close();
    expect((await there({ url: silent.url }))[0]?.detail).toBe(`${silent.url} cannot be reached (ECONNREFUSED)`);
  });

  it("and answers with control characters does not reach the terminal with them", async () => {
    body = JSON.stringify({ checks: [{ name: "r2", status: "ok", detail: "a\u001b[2Jb\nok    c" }] });
    expect((await there()).map(lineOf)).toEqual(["ok    r2             a [2Jb ok    c"]);
  });
});
