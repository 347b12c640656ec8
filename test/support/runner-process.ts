/** `npm start` without npm: the runner, with the real Worker in workerd as its child, in a process group of its own, to be killed for real. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Runner {
  readonly url: string;
  readonly child: ChildProcess;
}

/** Runners over one database, one bucket and one provider: what one has left, the next one finds. */
export interface Runners {
  /** Starts one and waits until it listens. */
  start(): Promise<Runner>;
  /** Kills what is left, and removes the bucket. */
  close(): Promise<void>;
}

/** SIGKILL to the runner and to workerd: no handler runs, nothing is said to the database. */
export const kill = async (child: ChildProcess): Promise<void> => {
  const gone = new Promise((resolve) => child.once("exit", resolve));
  if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  await gone;
};

/** @param env further variables of the Worker */
export const runners = (
  { databaseUrl, providerUrl }: { readonly databaseUrl: string; readonly providerUrl: string },
  env: Readonly<Record<string, string>> = {},
): Runners => {
  const folder = mkdtempSync(join(tmpdir(), "hango-runner-"));
  const children: ChildProcess[] = [];
  return {
    start: async () => {
      const child = spawn(process.execPath, ["src/local/main.ts", "--json"], {
        cwd: join(import.meta.dirname, "../.."),
        detached: true,
        stdio: ["ignore", "pipe", "ignore"],
        env: {
          PATH: process.env.PATH,
          HOME: process.env.HOME,
          PORT: "0",
          HANGO_DATA_DIR: folder,
          DATABASE_URL: databaseUrl,
          ANTHROPIC_API_KEY: "simulator",
          ANTHROPIC_BASE_URL: providerUrl,
          ...env,
        },
      });
      children.push(child);
      const line = await new Promise<string>((resolve, reject) => {
        let out = "";
        child.stdout?.on("data", (chunk) => {
          out += chunk;
          if (out.includes("\n")) resolve(out.slice(0, out.indexOf("\n")));
        });
        child.once("exit", (code) => reject(new Error(`the runner ended with ${code}`)));
      });
      return { url: String(JSON.parse(line).url), child };
    },
    close: async () => {
      for (const child of children) if (child.exitCode === null && child.signalCode === null) await kill(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
};
