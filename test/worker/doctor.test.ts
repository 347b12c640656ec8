/** The doctor, from both sides: over the API of the built Worker, and as the command that a person runs. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkFromHere } from "../../src/local/doctor/from-here.ts";
import { checkFromInside, NoReport } from "../../src/local/doctor/from-inside.ts";
import { lineOf } from "../../src/local/doctor/report.ts";
import { type Collector, startCollector } from "../support/collector.ts";
import { ADMIN_KEY, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { startReceiver } from "../support/receiver.ts";

let platform: TestPlatform;
let collector: Collector;

beforeAll(async () => {
  collector = await startCollector();
  platform = await startTestPlatform({ variables: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
}, 120_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});

const examine = (key: string) =>
  fetch(`${platform.url}/v1/doctor`, { method: "POST", headers: { Authorization: `Bearer ${key}` } });

describe("POST /v1/doctor", () => {
  it("tells the operator of everything that the Worker is bound to", async () => {
    const response = await examine(ADMIN_KEY);
    const body = (await response.json()) as { checks: { name: string; status: string; detail: string }[] };
    expect(body).toMatchObject({ type: "doctor_report", status: "ok" });
    expect(body.checks.map(({ name, status }) => [name, status])).toEqual([
      ["configuration", "ok"],
      ["database", "ok"],
      ["migrations", "ok"],
      ["files", "ok"],
      ["queue", "ok"],
      ["provider", "ok"],
      ["chat", "skipped"],
      ["telemetry", "ok"],
    ]);
    // Nothing is left in the bucket, and no address has its password.
    const bucket = await platform.host.miniflare.getR2Bucket("FILES");
    expect((await bucket.list({ prefix: "doctor/" })).objects).toEqual([]);
    expect(JSON.stringify(body)).not.toMatch(/postgres(ql)?:|hango_|simulator/);
  });

  it("tells nobody else", async () => {
    const tenant = await makeTenant(platform.database);
    expect([(await examine(tenant.key)).status, (await examine("wrong")).status]).toEqual([403, 401]);
  });
});

interface Run {
  readonly code: number;
  readonly lines: readonly string[];
  readonly errors: string;
}

const doctor = async (args: readonly string[], env: Readonly<Record<string, string>>): Promise<Run> => {
  const child = spawn(process.execPath, ["src/local/doctor.ts", ...args], {
    cwd: join(import.meta.dirname, "../.."),
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exit = once(child, "exit");
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await exit;
  return { code, lines: out.trim().split("\n"), errors };
};

const names = ({ lines }: Run) => lines.slice(0, -1).map((line) => line.split(/\s+/, 2).join(" "));

describe("npm run doctor", () => {
  it("prints a line for each check of a running hango, and ends with 0", async () => {
    const run = await doctor([platform.url], { HANGO_ADMIN_KEY: ADMIN_KEY });
    expect([run.code, run.errors]).toEqual([0, ""]);
    expect(names(run)).toEqual([
      "ok configuration",
      "ok database",
      "ok migrations",
      "ok files",
      "ok queue",
      "ok provider",
      "skip chat",
      "ok telemetry",
    ]);
    expect(run.lines.at(-1)).toBe("Everything that could be checked works.");
  });

  it.each([
    ["no key", ["https://hango.invalid"], "HANGO_ADMIN_KEY is not set"],
    ["an option", ["--help"], "Usage: npm run doctor"],
  ])("with %s ends with 2 and says what is wrong", async (_, args, words) => {
    const run = await doctor(args, {});
    expect([run.code, run.errors.includes(words) ? words : run.errors]).toEqual([2, words]);
  });

  it("without an address checks the environment from here, and skips what only the Worker reaches", async () => {
    const run = await doctor([], {
      DATABASE_URL: platform.database.connectionString,
      ANTHROPIC_API_KEY: "simulator",
      ANTHROPIC_BASE_URL: platform.simulator.url,
      HANGO_ADMIN_KEY: ADMIN_KEY,
    });
    expect([run.code, run.errors]).toEqual([0, ""]);
    expect(names(run)).toEqual([
      "ok configuration",
      "ok database",
      "ok migrations",
      "skip files",
      "skip queue",
      "ok provider",
      "skip chat",
      "skip telemetry",
    ]);
  });
});

describe("asking a running hango", () => {
  const asked = (url: string, adminKey = ADMIN_KEY) =>
    checkFromInside({ url, adminKey, fetch, timeoutMs: 10_000 }).catch((error: unknown) => error);

  it("says why no report could be had: a wrong key, nobody there, no address, another server", async () => {
    const other = await startReceiver((_request, _body, response) => void response.end("hello"));
    const away = await startReceiver((_request, _body, response) => void response.writeHead(404).end());
    try {
      const cases: readonly (readonly [unknown, string])[] = [
        [await asked(platform.url, "x".repeat(24)), "answered 401: HANGO_ADMIN_KEY is not the operator's key"],
        [await asked("http://127.0.0.1:9"), "nothing answers at http://127.0.0.1:9"],
        [await asked("hango"), '"hango" is no address'],
        [await asked(other.url), "is no report"],
        [await asked(away.url), "answered 404: there is no doctor at this address"],
      ];
      for (const [error, words] of cases) {
        expect(error).toBeInstanceOf(NoReport);
        expect(String(error)).toContain(words);
      }
    } finally {
      other.close();
      away.close();
    }
  });
});

describe("looking from here", () => {
  const looked = async (env: Readonly<Record<string, string>>) =>
    (await checkFromHere({ env, fetch, now: () => performance.now() })).map(lineOf);

  it("names each problem of the environment, without its values", async () => {
    const lines = await looked({ HANGO_ADMIN_KEY: "short-secret", HANGO_MAX_STEPS: "many", HANGO_MAX_STEP: "1" });
    const problems = lines.filter((line) => line.startsWith("FAIL  configuration"));
    for (const words of ["DATABASE_URL: ", "ANTHROPIC_API_KEY: ", "HANGO_ADMIN_KEY: ", "STEPS: ", "STEP: unknown"])
      expect(
        problems.filter((line) => line.includes(words)),
        words,
      ).toHaveLength(1);
    expect(problems).toHaveLength(5);
    expect(lines.filter((line) => line.includes("skip  provider"))).toEqual([
      "skip  provider       the configuration is wrong",
    ]);
    expect(lines.join("\n")).not.toContain("short-secret");
  });

  it("says in words what the database refuses", async () => {
    const wrong = new URL(platform.database.connectionString);
    wrong.pathname = "/no_such_database";
    const lines = await looked({
      DATABASE_URL: wrong.href,
      ANTHROPIC_API_KEY: "simulator",
      ANTHROPIC_BASE_URL: platform.simulator.url,
      HANGO_ADMIN_KEY: ADMIN_KEY,
    });
    expect(lines.find((line) => line.includes(" database "))).toMatch(
      /^FAIL {2}database .*there is no database of the name in DATABASE_URL/,
    );
  });
});
