/** `npm run deploy -- --dry-run` as a process: the real build, a real database and the real wrangler, which uploads nothing. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { testDatabase } from "../../support/database.ts";

const run = async (args: readonly string[], env: Readonly<Record<string, string>>) => {
  const child = spawn(process.execPath, ["src/local/deploy.ts", ...args], {
    cwd: join(import.meta.dirname, "../../.."),
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      CI: "true",
      WRANGLER_SEND_METRICS: "false",
      WRANGLER_HIDE_BANNER: "true",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return { out, err, code };
};

test("a dry run shows what is pending and what would be uploaded, and changes nothing", async () => {
  const database = await testDatabase({ kind: "postgres", empty: true });
  try {
    const { out, err, code } = await run(["--dry-run", "--tag", "try"], { DATABASE_URL: database.connectionString });
    expect([code, err]).toEqual([0, expect.not.stringContaining("ERROR")]);
    expect(out).toMatch(/^migrations {2}\d+ pending, 0 applied$/m);
    expect(out).toMatch(/^ {12}0010_guards$/m);
    expect(out).toMatch(/Total Upload: .* gzip/);
    expect(out).toContain("env.FILES (hango-files)");
    expect(out.trimEnd().split("\n").at(-1)).toBe("Nothing was changed: this was --dry-run.");
    expect(await database.sql("select 1 from pg_namespace where nspname = 'drizzle'")).toEqual([]);
  } finally {
    await database.close();
  }
});

test("what wrangler refuses ends with its exit code", async () => {
  const database = await testDatabase({ kind: "postgres" });
  try {
    const { out, code } = await run(["--dry-run", "--no-such-argument"], { DATABASE_URL: database.connectionString });
    expect(code).toBe(1);
    expect(out).toContain("wrangler refused. Nothing was changed: this was --dry-run.");
  } finally {
    await database.close();
  }
});

test("says how it is called", async () => {
  const { out, code } = await run(["--help"], {});
  expect(code).toBe(0);
  expect(out).toContain("npm run deploy -- [--dry-run] [--yes]");
});
