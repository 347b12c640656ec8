/** Two Workers on one database, one bucket, one provider and one set of tools, with a line before each that the faults own. */
import { join } from "node:path";
import { buildWorker } from "../../src/local/build.ts";
import { type Simulator, startSimulator } from "../../src/local/simulator/server.ts";
import { readDeclared } from "../../src/local/worker-host.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { ADMIN_KEY } from "../support/platform.ts";
import { createFaults, type Faults } from "./faults.ts";
import {
  bucketFails,
  bucketLabel,
  providerFails,
  providerLabel,
  queueLabel,
  serviceFails,
  sqlLabel,
  toolLabel,
} from "./labels.ts";
import { startLine } from "./line.ts";
import { startSharedBucket } from "./shared-bucket.ts";
import { startTools, type Tools } from "./tools.ts";
import { startWorkerProcess, type WorkerProcess } from "./worker-process.ts";

export type WorkerName = "a" | "b";

export interface Lane {
  readonly database: TestDatabase;
  readonly simulator: Simulator;
  readonly faults: Faults;
  readonly tools: Tools;
  /** Where the tools are called, through the line. */
  readonly toolsUrl: string;
  /** A Worker that runs: after a kill, the one that took its place. */
  worker(name: WorkerName): Promise<WorkerProcess>;
  /** SIGKILL; its successor starts at once. Resolves when it is dead. */
  kill(name: WorkerName): Promise<void>;
  close(): Promise<void>;
}

export interface LaneOptions {
  readonly variables?: Readonly<Record<string, string>>;
  /** What the tools answer, by path. */
  readonly answers?: Readonly<Record<string, string>>;
}

const ROOT = join(import.meta.dirname, "../..");

export const startLane = async ({ variables = {}, answers = {} }: LaneOptions = {}): Promise<Lane> => {
  const faults = createFaults();
  const configPath = join(ROOT, "wrangler.toml");
  const [{ path }, declared, database, simulator, bucket, tools] = await Promise.all([
    buildWorker(),
    readDeclared(configPath),
    testDatabase({ kind: "postgres" }),
    startSimulator(),
    startSharedBucket(),
    startTools(answers),
  ]);
  const toolLine = await startLine({
    worker: "a",
    kind: "tool",
    upstream: tools.url,
    faults,
    label: toolLabel,
    refuse: serviceFails,
  });
  const lines = [toolLine];

  const start = async (name: WorkerName): Promise<() => Promise<WorkerProcess>> => {
    const line = { worker: name, faults };
    const [sql, r2, provider, queue] = await Promise.all([
      startLine({ ...line, kind: "sql", upstream: database.url, label: sqlLabel }),
      startLine({ ...line, kind: "r2", upstream: bucket.url, label: bucketLabel, refuse: bucketFails }),
      startLine({ ...line, kind: "provider", upstream: simulator.url, label: providerLabel, refuse: providerFails }),
      startLine({ ...line, kind: "queue", upstream: tools.url, label: queueLabel, refuse: serviceFails }),
    ]);
    lines.push(sql, r2, provider, queue);
    return () =>
      startWorkerProcess({
        scriptPath: path,
        configPath,
        declared,
        bucketUrl: r2.url,
        queueUrl: queue.url,
        variables: {
          DATABASE_URL: database.connectionString,
          HANGO_DB_FETCH_ENDPOINT: `${sql.url}sql`,
          ANTHROPIC_API_KEY: "simulator",
          ANTHROPIC_BASE_URL: provider.url,
          HANGO_ADMIN_KEY: ADMIN_KEY,
          HANGO_ALLOW_PRIVATE_URLS: "true",
          ...variables,
        },
      });
  };
  const starts = { a: await start("a"), b: await start("b") };
  const running = { a: starts.a(), b: starts.b() };
  await Promise.all([running.a, running.b]);

  return {
    database,
    simulator,
    faults,
    tools,
    toolsUrl: toolLine.url,
    worker: (name) => running[name],
    kill: async (name) => {
      const victim = await running[name];
      await victim.kill();
      running[name] = starts[name]();
      // Whoever asks for it next is told if it does not come up.
      running[name].catch(() => undefined);
    },
    close: async () => {
      for (const worker of [running.a, running.b]) await (await worker).kill();
      for (const line of lines) line.close();
      tools.close();
      await bucket.close();
      await simulator.close();
      await database.close();
    },
  };
};
