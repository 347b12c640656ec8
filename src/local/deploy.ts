/** `npm run deploy`: migrates the database at DATABASE_URL, then deploys the Worker with wrangler. docs/operations.md has every step. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { buildWorker, measureWorker, overLimits } from "./build.ts";
import { type DeployOptions, deploy } from "./deploy/run.ts";
import { MIGRATIONS_DIR, readMigrations } from "./migrate.ts";

const PROJECT = join(import.meta.dirname, "../..");
const WRANGLER = join(PROJECT, "node_modules/.bin/wrangler");

const USAGE = `npm run deploy -- [--dry-run] [--yes] [arguments of wrangler deploy]

Migrates the database at DATABASE_URL (its direct host), then deploys the Worker.
--dry-run  changes nothing: shows what is pending, and what wrangler would upload
--yes      goes on without asking where a migration drops or renames what the Worker that runs now may use
Anything else is wrangler's: npm run deploy -- --env staging`;

const readOptions = (args: readonly string[]): DeployOptions => {
  const own = new Set(["--dry-run", "--yes"]);
  return {
    dryRun: args.includes("--dry-run"),
    yes: args.includes("--yes"),
    wranglerArgs: args.filter((arg) => !own.has(arg)),
  };
};

const wrangler = (args: readonly string[]): Promise<number> => {
  const child = spawn(process.execPath, [WRANGLER, ...args], { cwd: PROJECT, stdio: "inherit" });
  return new Promise((done) => {
    child.on("error", () => done(127));
    child.on("exit", (code) => done(code ?? 1));
  });
};

const confirm = async (question: string): Promise<boolean | undefined> => {
  if (!process.stdin.isTTY) return undefined;
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return (await terminal.question(question)).trim().toLowerCase() === "yes";
  } finally {
    terminal.close();
  }
};

const args = process.argv.slice(2);
if (args.includes("--help")) console.log(USAGE);
else
  process.exitCode = await deploy(readOptions(args), {
    databaseUrl: process.env.DATABASE_URL,
    readMigrations: () => readMigrations(MIGRATIONS_DIR),
    build: async () => {
      await buildWorker();
      return overLimits(await measureWorker());
    },
    wrangler,
    confirm,
    say: (line) => console.log(line),
  });
