/** A Prometheus of this machine's own, from Debian's package, on loopback and a free port, that scrapes one address every second. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, vi } from "vitest";
import { stringify } from "yaml";
import { ensureDebianPackage, prometheus, thisMachine } from "../../src/local/debian-packages.ts";

const ROOT = join(import.meta.dirname, "../..");

/**
 * Paths of `prometheus` and `promtool`; as root, the package is installed where it is missing.
 * @throws MissingProgramError where it is missing and cannot be installed: what needs it is not skipped
 */
export const ensurePrometheus = (): { readonly server: string; readonly tool: string } => {
  const server = ensureDebianPackage(prometheus, thisMachine);
  return { server, tool: join(dirname(server), "promtool") };
};

/** Runs promtool in the project's folder. @returns how it ended and all that it said */
export const promtool = (
  tool: string,
  ...args: readonly string[]
): Promise<{ readonly ok: boolean; readonly said: string }> =>
  new Promise((resolve) => {
    execFile(tool, args, { cwd: ROOT }, (error, stdout, stderr) =>
      resolve({ ok: error === null, said: stdout + stderr }),
    );
  });

const freePort = async (): Promise<number> => {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === "string") throw new Error("a TCP server has a port");
  return address.port;
};

export interface PrometheusServer {
  /** @param path below `/api/v1` @returns `data` of the answer @throws Error with Prometheus's words where it refuses */
  get(path: string, parameters?: Readonly<Record<string, string>>): Promise<unknown>;
  close(): Promise<void>;
}

const started = async (child: ChildProcess, url: string): Promise<void> => {
  const log: string[] = [];
  child.stderr?.on("data", (chunk: Buffer) => log.push(chunk.toString()));
  await vi.waitFor(
    async () => {
      expect(child.exitCode, log.join("")).toBeNull();
      expect((await fetch(`${url}/-/ready`)).status).toBe(200);
    },
    { timeout: 20_000 },
  );
};

/**
 * @param target `host:port` that answers a scrape at `/metrics`; its own `job` and `instance` are kept, as behind a Collector
 * @param ruleFile path of alert rules, evaluated every second
 */
export const startPrometheus = async (program: string, target: string, ruleFile: string): Promise<PrometheusServer> => {
  const folder = await mkdtemp(join(tmpdir(), "hango-prometheus-"));
  const config = join(folder, "prometheus.yml");
  await writeFile(
    config,
    stringify({
      global: { scrape_interval: "1s", evaluation_interval: "1s" },
      rule_files: [ruleFile],
      scrape_configs: [{ job_name: "collector", honor_labels: true, static_configs: [{ targets: [target] }] }],
    }),
  );
  const address = `127.0.0.1:${await freePort()}`;
  const url = `http://${address}`;
  const child = spawn(
    program,
    [`--config.file=${config}`, `--storage.tsdb.path=${join(folder, "data")}`, `--web.listen-address=${address}`],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  const close = async (): Promise<void> => {
    if (child.exitCode === null && child.pid !== undefined) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await started(child, url);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    get: async (path, parameters = {}) => {
      const response = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(parameters)}`);
      const { status, data, error } = (await response.json()) as { status: string; data?: unknown; error?: string };
      if (status !== "success") throw new Error(`${path} ${JSON.stringify(parameters)}: ${error}`);
      return data;
    },
    close,
  };
};
