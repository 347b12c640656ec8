import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  activeMs,
  buildWorker,
  measureWorker,
  overLimits,
  SIZE_LIMIT_BYTES,
  STARTUP_LIMIT_MS,
} from "../../../src/local/build.ts";

let root: string;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hango-build-"));
  await mkdir(join(root, "src/local"), { recursive: true });
  await writeFile(
    join(root, "wrangler.toml"),
    'name = "probe"\nmain = "src/worker.ts"\ncompatibility_date = "2026-10-01"\n',
  );
  await writeSource("one");
});

afterAll(() => rm(root, { recursive: true, force: true }));

const writeSource = (answer: string) =>
  writeFile(join(root, "src/worker.ts"), `export default { fetch: (): Response => new Response("${answer}") };\n`);

describe("the build", () => {
  test("bundles once, also when two ask at the same time, and leaves nothing half-made", async () => {
    const path = join(root, "dist/worker.js");
    const first = await Promise.all([buildWorker({ root }), buildWorker({ root })]);
    expect(first).toEqual([
      { path, built: true },
      { path, built: true },
    ]);
    expect(await buildWorker({ root })).toEqual({ path, built: false });
    expect((await readdir(join(root, "dist"))).sort()).toEqual([
      "worker.bundle",
      "worker.hash",
      "worker.js",
      "worker.js.map",
    ]);
    expect(await readFile(path, "utf8")).toContain('"one"');
  });

  test("bundles again when a source changed, and not for the local platform", async () => {
    await buildWorker({ root });
    await writeFile(join(root, "src/local/main.ts"), "changed");
    expect((await buildWorker({ root })).built).toBe(false);
    await writeSource("two");
    expect((await buildWorker({ root })).built).toBe(true);
    expect(await readFile(join(root, "dist/worker.js"), "utf8")).toContain('"two"');
  });

  test("bundles again when the list of migrations changed, which the Worker compares with its database's", async () => {
    await mkdir(join(root, "drizzle/meta"), { recursive: true });
    await writeFile(join(root, "drizzle/meta/_journal.json"), '{"entries": []}');
    await buildWorker({ root });
    await writeFile(join(root, "drizzle/meta/_journal.json"), '{"entries": [{}]}');
    expect((await buildWorker({ root })).built).toBe(true);
    expect((await buildWorker({ root })).built).toBe(false);
  });

  test("says what does not build, and keeps the last good bundle", async () => {
    await writeSource("three");
    await buildWorker({ root });
    await writeFile(join(root, "src/worker.ts"), 'export { nothing as default } from "./missing.ts";\n');
    await expect(buildWorker({ root })).rejects.toThrow("missing.ts");
    expect(await readFile(join(root, "dist/worker.js"), "utf8")).toContain('"three"');
  });

  test("measures size and start-up CPU", async () => {
    await writeSource("four");
    await buildWorker({ root });
    const measures = await measureWorker(root);
    expect(measures.gzippedBytes).toBeGreaterThan(0);
    expect(measures.gzippedBytes).toBeLessThan(measures.sizeBytes + 100);
    expect(overLimits(measures)).toEqual([]);
  });
});

describe("the limits", () => {
  test("are held at their edge and broken one beyond it", () => {
    const sizeBytes = 0;
    expect(overLimits({ sizeBytes, gzippedBytes: SIZE_LIMIT_BYTES, startupMs: STARTUP_LIMIT_MS })).toEqual([]);
    expect(overLimits({ sizeBytes, gzippedBytes: SIZE_LIMIT_BYTES + 1, startupMs: STARTUP_LIMIT_MS + 1 })).toEqual([
      "the bundle has 1048577 bytes gzipped, allowed are 1048576",
      "start-up takes 401.0 ms of CPU, allowed are 400",
    ]);
  });

  test("count everything but waiting as CPU time", () => {
    const node = (id: number, functionName: string) => ({ id, callFrame: { functionName } });
    const nodes = [node(1, "(root)"), node(2, "(idle)"), node(3, "work"), node(4, "(garbage collector)")];
    expect(activeMs({ nodes, samples: [2, 3, 2, 4], timeDeltas: [1000, 2500, 4000, 500] })).toBe(3);
  });
});
