/** The built Worker in workerd on this machine, with the bindings that `wrangler.toml` declares. */
import { readFile } from "node:fs/promises";
import { convertV4MiniflareOptions, Miniflare, type V4MiniflareOptions } from "miniflare";

export interface WorkerHostOptions {
  /** The bundle; see `buildWorker`. */
  readonly scriptPath: string;
  readonly configPath: string;
  /** Variables and secrets. */
  readonly variables: Readonly<Record<string, string>>;
  /** Port on 127.0.0.1; 0 for a free one. */
  readonly port: number;
  /** Where R2 and queues keep their data; in memory when absent. */
  readonly persistDir?: string;
  /** Whether profilers may attach, at Miniflare's inspector URL. */
  readonly inspectable?: boolean;
  /** False to drop what is sent to queues: the work of requests alone. */
  readonly consumesQueues?: boolean;
  /** Takes a line that the Worker logged. */
  readonly onLog: (line: string) => void;
}

export interface WorkerHost {
  readonly url: string;
  readonly miniflare: Miniflare;
  /** Runs what the cron trigger runs. */
  tick(): Promise<void>;
  /** Ends workerd. */
  close(): Promise<void>;
}

type ScriptOptions = Extract<V4MiniflareOptions, { scriptPath: string }>;
type Declared = Pick<
  ScriptOptions,
  "compatibilityDate" | "compatibilityFlags" | "r2Buckets" | "queueProducers" | "queueConsumers" | "ratelimits"
>;

const NAMES = [
  "compatibilityDate",
  "compatibilityFlags",
  "r2Buckets",
  "queueProducers",
  "queueConsumers",
  "ratelimits",
];

/**
 * Reads what the Worker is given from `wrangler.toml`. Wrangler is loaded late and told to be quiet: it would otherwise warn about secrets
 * that are handed to the Worker here, and ask the network for its own updates.
 */
const declared = async (configPath: string): Promise<Declared> => {
  process.env.WRANGLER_LOG = "none";
  process.env.WRANGLER_SEND_METRICS = "false";
  const { unstable_getMiniflareWorkerOptions } = await import("wrangler");
  const { workerOptions } = unstable_getMiniflareWorkerOptions(configPath);
  // Of the rest, some options are for bundling, and Miniflare refuses them.
  return Object.fromEntries(Object.entries(workerOptions).filter(([name]) => NAMES.includes(name))) as Declared;
};

/** Starts the Worker. Rejects when it does not come up. */
export const startWorkerHost = async (options: WorkerHostOptions): Promise<WorkerHost> => {
  const worker = await declared(options.configPath);
  const miniflare = new Miniflare({
    ...convertV4MiniflareOptions({
      ...worker,
      ...(options.consumesQueues === false ? { queueConsumers: {} } : {}),
      // Given as text: a script outside the working directory would not be found.
      modules: [{ type: "ESModule", path: "worker.js", contents: await readFile(options.scriptPath, "utf8") }],
      bindings: { ...options.variables },
      host: "127.0.0.1",
      port: options.port,
      ...(options.inspectable === true ? { inspectorPort: 0 } : {}),
      handleStructuredLogs: ({ message }) => options.onLog(message),
    }),
    // The option of version 4 is lost in the conversion.
    ...(options.persistDir === undefined ? {} : { resourcePersistencePath: options.persistDir }),
  });
  const url = await miniflare.ready;
  return {
    url: url.origin,
    miniflare,
    tick: async () => {
      const fetcher = await miniflare.getWorker();
      await fetcher.scheduled({ cron: "*/5 * * * *" });
    },
    close: () => miniflare.dispose(),
  };
};
