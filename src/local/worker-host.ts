/** The built Worker in workerd on this machine, with the bindings that `wrangler.toml` declares. */
import { dirname } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";

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

/**
 * Reads the Worker's options from `wrangler.toml`. Wrangler is loaded late and told to be quiet: it would otherwise warn about secrets
 * that are handed to the Worker here, and ask the network for its own updates.
 */
const declared = async (configPath: string) => {
  process.env.WRANGLER_LOG = "none";
  process.env.WRANGLER_SEND_METRICS = "false";
  const { unstable_getMiniflareWorkerOptions } = await import("wrangler");
  return unstable_getMiniflareWorkerOptions(configPath).workerOptions;
};

/** Starts the Worker. Rejects when it does not come up. */
export const startWorkerHost = async (options: WorkerHostOptions): Promise<WorkerHost> => {
  const { bindings: _, ...worker } = await declared(options.configPath);
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      ...worker,
      rootPath: dirname(options.scriptPath),
      modules: true,
      modulesRoot: dirname(options.scriptPath),
      scriptPath: options.scriptPath,
      bindings: { ...options.variables },
      host: "127.0.0.1",
      port: options.port,
      ...(options.persistDir === undefined ? {} : { defaultPersistRoot: options.persistDir }),
      handleStructuredLogs: ({ message }) => options.onLog(message),
    }),
  );
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
