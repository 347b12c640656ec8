/** Bundles the Worker as production does, and holds the bundle to its limits. Tests and `npm start` run the same file. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { gzipSync } from "node:zlib";

const PROJECT = join(import.meta.dirname, "../..");
const WRANGLER = join(PROJECT, "node_modules/.bin/wrangler");

/** 1 MiB gzipped: what a cold start has to fetch and compile stays small (architecture, section 6). */
export const SIZE_LIMIT_BYTES = 1024 * 1024;
/** 400 ms of CPU for the global scope, under the platform's limit of 1 s (architecture, section 6). */
export const STARTUP_LIMIT_MS = 400;

/** wrangler would ask its registry for updates and send metrics; a build needs no network. */
const quietly = (logDir: string) => ({
  ...process.env,
  CI: "true",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_LOG_PATH: logDir,
});

export interface BuildOptions {
  /** The folder with `wrangler.toml` and `src/worker.ts`; hango's own by default. */
  readonly root?: string;
}

export interface Build {
  /** Absolute path of the bundled module. */
  readonly path: string;
  /** False when what was there was already made from these sources. */
  readonly built: boolean;
}

/** Runs wrangler to its end. @throws Error with what it printed when it fails */
const wrangler = async (args: readonly string[], root: string, logDir: string): Promise<string> => {
  const child = spawn(process.execPath, [WRANGLER, ...args], {
    cwd: root,
    env: quietly(logDir),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output += data.toString()));
  const code = await new Promise<number | null>((done, fail) => {
    child.on("error", fail);
    child.on("close", done);
  });
  if (code !== 0) throw new Error(`wrangler ${args[0]} failed:\n${output.trim()}`);
  return output;
};

/** The list of migrations, which the Worker compares with those of its database. */
const JOURNAL = join("drizzle", "meta", "_journal.json");

/** Everything that the bundle is made from: the sources but the local platform, the migrations' list, the settings, the locked dependencies. */
const sourcesOf = async (root: string): Promise<readonly string[]> => {
  const entries = await readdir(join(root, "src"), { recursive: true, withFileTypes: true });
  const sources = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((path) => !path.startsWith(join("src", "local") + sep));
  return [...sources, JOURNAL, "wrangler.toml", "package-lock.json", "tsconfig.json"].sort();
};

const fingerprint = async (root: string): Promise<string> => {
  const hash = createHash("sha256");
  for (const path of await sourcesOf(root)) {
    const content = await readFile(join(root, path)).catch(() => undefined);
    if (content !== undefined) hash.update(`${path}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
};

/**
 * Bundles `src/worker.ts` to `dist/worker.js`, unless that was already made from the same sources. Processes may do this at the
 * same time: each builds aside and moves its result into place.
 * @throws Error with the bundler's message when the sources do not build
 */
export const buildWorker = async (options: BuildOptions = {}): Promise<Build> => {
  const root = options.root ?? PROJECT;
  const dist = join(root, "dist");
  const path = join(dist, "worker.js");
  const stamp = join(dist, "worker.hash");
  const wanted = await fingerprint(root);
  const [found] = await Promise.all([readFile(stamp, "utf8"), readFile(path)]).catch(() => [undefined]);
  if (found === wanted) return { path, built: false };
  await mkdir(dist, { recursive: true });
  const aside = await mkdtemp(join(dist, ".building-"));
  try {
    const outputs = ["--outdir", aside, "--outfile", join(aside, "worker.bundle")];
    await wrangler(
      ["deploy", "--config", join(root, "wrangler.toml"), "--dry-run", "--minify", ...outputs],
      root,
      aside,
    );
    for (const name of ["worker.js.map", "worker.bundle", "worker.js"])
      await rename(join(aside, name), join(dist, name));
    await writeFile(join(aside, "worker.hash"), wanted);
    await rename(join(aside, "worker.hash"), stamp);
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
  return { path, built: true };
};

interface CpuProfile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: { readonly functionName: string } }[];
  readonly samples: readonly number[];
  /** Microseconds before each sample. */
  readonly timeDeltas: readonly number[];
}

/** CPU time of a profile, in ms: everything but waiting. */
export const activeMs = (profile: CpuProfile): number => {
  const idle = new Set(profile.nodes.filter((node) => node.callFrame.functionName === "(idle)").map((node) => node.id));
  return (
    profile.samples.reduce((sum, node, index) => sum + (idle.has(node) ? 0 : (profile.timeDeltas[index] ?? 0)), 0) /
    1000
  );
};

export interface Measures {
  readonly sizeBytes: number;
  readonly gzippedBytes: number;
  readonly startupMs: number;
}

/** Other work on the machine stretches a profile and never shortens one, so the least of a few is the nearest to the truth. */
const PROFILES = 3;

const profileStartup = async (root: string, aside: string): Promise<number> => {
  const profile = join(aside, "startup.cpuprofile");
  const bundle = join(root, "dist/worker.bundle");
  const args = ["--worker", bundle, "--config", join(root, "wrangler.toml"), "--outfile", profile];
  await wrangler(["check", "startup", ...args], root, aside);
  return activeMs(JSON.parse(await readFile(profile, "utf8")) as CpuProfile);
};

/** Measures what `buildWorker` made: its size, and the CPU time of its global scope in workerd on this machine. */
export const measureWorker = async (root: string = PROJECT): Promise<Measures> => {
  const code = await readFile(join(root, "dist/worker.js"));
  const aside = await mkdtemp(join(root, "dist/.measuring-"));
  try {
    let startupMs = Number.POSITIVE_INFINITY;
    for (let i = 0; i < PROFILES; i++) startupMs = Math.min(startupMs, await profileStartup(root, aside));
    return { sizeBytes: code.length, gzippedBytes: gzipSync(code, { level: 9 }).length, startupMs };
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
};

/** What of the measures is over its limit, in words. Empty when nothing is. */
export const overLimits = ({ gzippedBytes, startupMs }: Measures): readonly string[] => [
  ...(gzippedBytes > SIZE_LIMIT_BYTES
    ? [`the bundle has ${gzippedBytes} bytes gzipped, allowed are ${SIZE_LIMIT_BYTES}`]
    : []),
  ...(startupMs > STARTUP_LIMIT_MS
    ? [`start-up takes ${startupMs.toFixed(1)} ms of CPU, allowed are ${STARTUP_LIMIT_MS}`]
    : []),
];

const main = async (): Promise<void> => {
  const { path, built } = await buildWorker();
  const measures = await measureWorker();
  const kib = (bytes: number) => `${bytes} bytes (${(bytes / 1024).toFixed(1)} KiB)`;
  console.log(`${relative(process.cwd(), path)}${built ? "" : " (up to date)"}`);
  console.log(`size      ${kib(measures.sizeBytes)}`);
  console.log(`gzipped   ${kib(measures.gzippedBytes)}, at most ${kib(SIZE_LIMIT_BYTES)}`);
  console.log(`start-up  ${measures.startupMs.toFixed(1)} ms of CPU, at most ${STARTUP_LIMIT_MS} ms`);
  const problems = overLimits(measures);
  if (problems.length > 0) throw new Error(problems.join("\n"));
};

if (import.meta.main) {
  await main().catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  });
}
