/** `npm run deploy -- --dry-run` as a process: the real build, a real database and the real wrangler, which uploads nothing. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { testDatabase } from "../../support/database.ts";

/** What of wrangler's reading is compared. */
interface Read {
  readonly r2_buckets: readonly { readonly binding: string; readonly bucket_name?: string }[];
  readonly queues: {
    readonly producers?: readonly { readonly binding: string; readonly queue: string }[];
    readonly consumers?: readonly {
      readonly queue: string;
      readonly dead_letter_queue?: string;
      readonly max_batch_size?: number;
      readonly max_retries?: number;
    }[];
  };
  readonly ratelimits: readonly { readonly name: string; readonly namespace_id: string; readonly simple: object }[];
  readonly secrets?: object;
  readonly limits?: object;
  readonly triggers: object;
}

const ROOT = join(import.meta.dirname, "../../..");

const run = async (args: readonly string[], env: Readonly<Record<string, string>>) => {
  const child = spawn(process.execPath, ["src/local/deploy.ts", ...args], {
    cwd: ROOT,
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

test("the environment that docs/operations.md shows has bindings of its own, and shares none", async () => {
  const { unstable_readConfig } = await import("wrangler");
  const guide = await readFile(join(ROOT, "docs/operations.md"), "utf8");
  const [, block] = /^```toml\n([\s\S]*?)^```$/m.exec(guide) ?? [];
  const dir = await mkdtemp(join(tmpdir(), "hango-staging-"));
  try {
    const config = join(dir, "wrangler.toml");
    await writeFile(config, `${await readFile(join(ROOT, "wrangler.toml"), "utf8")}\n${block}`);
    const production: Read = unstable_readConfig({ config });
    const staging: Read = unstable_readConfig({ config, env: "staging" });
    const names = ({ r2_buckets, queues, ratelimits }: Read) => [
      ...r2_buckets.map(({ bucket_name }) => bucket_name),
      ...(queues.producers ?? []).map(({ queue }) => queue),
      ...(queues.consumers ?? []).map(({ queue, dead_letter_queue }) => [queue, dead_letter_queue]),
      ...ratelimits.map(({ namespace_id }) => namespace_id),
    ];
    expect(names(staging)).toEqual([
      "hango-files-staging",
      "hango-work-staging",
      ["hango-work-staging", "hango-dead-staging"],
      ["hango-dead-staging", undefined],
      "1002",
    ]);
    expect(names(production).flat()).not.toEqual(expect.arrayContaining(names(staging).flat()));
    // The same bindings, limits and clock as in production; what is not inherited was said again.
    const shape = ({ r2_buckets, queues, ratelimits, secrets, limits, triggers }: Read) => ({
      files: r2_buckets.map(({ binding }) => binding),
      producers: queues.producers?.map(({ binding }) => binding),
      consumers: queues.consumers?.map(({ max_batch_size, max_retries }) => [max_batch_size, max_retries]),
      limited: ratelimits.map(({ name, simple }) => [name, simple]),
      secrets,
      limits,
      triggers,
    });
    expect(shape(staging)).toEqual(shape(production));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
