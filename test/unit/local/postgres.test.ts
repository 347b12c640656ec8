import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { expect, test, vi } from "vitest";
import { DirectoryInUseError, lockDirectory } from "../../../src/local/directory-lock.ts";
import { createPgliteBackend } from "../../../src/local/pglite-backend.ts";
import { startPostgres } from "../../../src/local/postgres.ts";

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return (await client.query("SELECT 1")).rowCount === 1;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

test("a server runs until it is stopped, and leaves no files", async () => {
  const server = await startPostgres({ durable: true, maxConnections: 10 });
  const client = new pg.Client({ connectionString: server.urlOf("postgres") });
  client.on("error", () => undefined);
  await client.connect();
  const names = ["data_directory", "fsync", "max_connections", "listen_addresses", "TimeZone"];
  const shown = await client.query("SELECT current_setting(name) AS value FROM unnest($1::text[]) AS name", [names]);
  const [directory, ...rest] = shown.rows.map((row: { value: string }) => row.value);
  expect(rest).toEqual(["on", "10", "127.0.0.1", "UTC"]);
  // Stops although a client is connected.
  await server.stop();
  expect([await answers(server.urlOf("postgres")), existsSync(String(directory))]).toEqual([false, false]);
});

test("a server does not outlive a process that is killed", async () => {
  const dir = await mkdtemp(join(tmpdir(), "hango-orphan-"));
  try {
    const script = join(dir, "start.ts");
    const module = join(import.meta.dirname, "../../../src/local/postgres.ts");
    await writeFile(
      script,
      `import { startPostgres } from ${JSON.stringify(module)};
       const server = await startPostgres({ durable: false, maxConnections: 10 });
       console.log(server.urlOf("postgres"));
       setInterval(() => undefined, 1000);`,
    );
    const child = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
    const url = String((await once(child.stdout, "data"))[0]).trim();
    expect(await answers(url)).toBe(true);
    child.kill("SIGKILL");
    await vi.waitFor(async () => expect(await answers(url)).toBe(false), { timeout: 10_000 });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

test("PGlite keeps its data in a directory, byte for byte (V9), and lets nobody else in meanwhile", async () => {
  const dir = await mkdtemp(join(tmpdir(), "hango-pglite-"));
  try {
    const first = await createPgliteBackend({ dataDir: join(dir, "db") });
    await first.query({ query: "CREATE TABLE kept (doc json)", params: [] });
    await first.query({ query: "INSERT INTO kept VALUES ($1)", params: ['{"1":1.0}'] });
    await expect(createPgliteBackend({ dataDir: join(dir, "db") })).rejects.toThrow(DirectoryInUseError);
    await first.close();
    expect(await readFile(join(dir, "db", "PG_VERSION"), "utf8")).toBe("18\n");
    const second = await createPgliteBackend({ dataDir: join(dir, "db") });
    expect((await second.query({ query: "SELECT doc FROM kept", params: [] })).rows).toEqual([['{"1":1.0}']]);
    await second.close();
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}, 90_000);

test("a directory is free again after its process was killed", async () => {
  const dir = await mkdtemp(join(tmpdir(), "hango-lock-test-"));
  try {
    const module = join(import.meta.dirname, "../../../src/local/directory-lock.ts");
    const script = join(dir, "hold.ts");
    await writeFile(
      script,
      `import { lockDirectory } from ${JSON.stringify(module)};
       await lockDirectory(${JSON.stringify(dir)});
       console.log("held");
       setInterval(() => undefined, 1000);`,
    );
    const child = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout, "data");
    await expect(lockDirectory(dir)).rejects.toThrow(DirectoryInUseError);
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    const unlock = await lockDirectory(dir);
    await unlock();
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
