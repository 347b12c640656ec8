/** The built Worker in workerd on this machine, with the bindings that `wrangler.toml` declares. */
import { readFile } from "node:fs/promises";
import {
  convertV4MiniflareOptions,
  Miniflare,
  type RemoteProxyConnectionString,
  Response,
  type V4MiniflareOptions,
} from "miniflare";
import type { AnswerPage } from "./collector/pages.ts";
import { createLocalQueue, QUEUE_DOOR, type QueueSettings, type SentMessage } from "./queue.ts";

export interface WorkerHostOptions {
  /** The bundle; see `buildWorker`. */
  readonly scriptPath: string;
  readonly configPath: string;
  /** What `configPath` declares, where it was read before: reading it takes longer than the start. */
  readonly declared?: Declared;
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
  /** Asked before the queue takes messages; it does not when this rejects. */
  readonly beforeSend?: () => Promise<void>;
  /** Where the buckets' protocol is spoken instead: several Workers on one bucket. */
  readonly bucketUrl?: string;
  /** Answers what is asked for below `/_local`, which then never reaches the Worker. */
  readonly answerPage?: AnswerPage;
  /** Takes a line that the Worker logged. */
  readonly onLog: (line: string) => void;
}

export interface WorkerHost {
  readonly url: string;
  readonly miniflare: Miniflare;
  /** When the cron triggers fire, as cron expressions in UTC. */
  readonly crons: readonly string[];
  /** Runs what a cron trigger runs; the first one, if none is named. */
  tick(cron?: string): Promise<void>;
  /** Delivers at once what waits in the queue for a later time. */
  hurryQueue(): void;
  /** Ends workerd. */
  close(): Promise<void>;
}

type ScriptOptions = Extract<V4MiniflareOptions, { scriptPath: string }>;
type DeclaredWorker = Pick<
  ScriptOptions,
  "compatibilityDate" | "compatibilityFlags" | "r2Buckets" | "queueProducers" | "queueConsumers" | "ratelimits"
>;

/** The part of a Worker's configuration that this platform takes over. */
export interface Declared {
  readonly worker: DeclaredWorker;
  readonly crons: readonly string[];
}

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
export const readDeclared = async (configPath: string): Promise<Declared> => {
  process.env.WRANGLER_LOG = "none";
  process.env.WRANGLER_SEND_METRICS = "false";
  const { unstable_getMiniflareWorkerOptions, unstable_readConfig } = await import("wrangler");
  const { workerOptions } = unstable_getMiniflareWorkerOptions(configPath);
  // Of the rest, some options are for bundling, and Miniflare refuses them.
  const worker = Object.fromEntries(
    Object.entries(workerOptions).filter(([name]) => NAMES.includes(name)),
  ) as DeclaredWorker;
  return { worker, crons: unstable_readConfig({ config: configPath }).triggers.crons ?? [] };
};

type ConsumerOptions = Exclude<DeclaredWorker["queueConsumers"], readonly string[] | undefined>;

const queuesOf = (consumers: DeclaredWorker["queueConsumers"]): Readonly<Record<string, QueueSettings>> =>
  Object.fromEntries(
    Object.entries((consumers ?? {}) as ConsumerOptions).map(([name, { maxRetries, deadLetterQueue }]) => [
      name,
      { maxRetries: maxRetries ?? 3, deadLetterQueue },
    ]),
  );

/** The buckets as declared, behind an address of another process. */
const bucketsAt = (buckets: DeclaredWorker["r2Buckets"], url: string): NonNullable<DeclaredWorker["r2Buckets"]> => {
  const names = Array.isArray(buckets) ? buckets : Object.keys(buckets ?? {});
  return Object.fromEntries(
    names.map((name) => [name, { id: name, remoteProxyConnectionString: new URL(url) as RemoteProxyConnectionString }]),
  );
};

const PAGES_DOOR = `export default { fetch: (request, env) => env.PAGES.fetch(request) };`;

/** A Worker beside the real one, with a route of its own: requests to the real one travel as they do without it. */
const pagesWorker = (answerPage: AnswerPage, compatibilityDate: string | undefined) => ({
  name: "local-pages",
  routes: ["*/_local/*"],
  ...(compatibilityDate === undefined ? {} : { compatibilityDate }),
  modules: [{ type: "ESModule" as const, path: "pages-door.js", contents: PAGES_DOOR }],
  serviceBindings: {
    PAGES: async (request: { method: string; url: string; headers: { get(name: string): string | null } }) => {
      const host = request.headers.get("host") ?? undefined;
      const { status, headers, body } = await answerPage({ method: request.method, url: new URL(request.url), host });
      return new Response(body, { status, headers: { ...headers } });
    },
  },
});

/** Starts the Worker. Rejects when it does not come up. */
export const startWorkerHost = async (options: WorkerHostOptions): Promise<WorkerHost> => {
  const {
    worker: { queueProducers, queueConsumers, ...worker },
    crons,
  } = options.declared ?? (await readDeclared(options.configPath));
  const [binding, producer] = Object.entries(queueProducers ?? {})[0] ?? ["QUEUE", ""];
  const name = typeof producer === "string" ? producer : producer.queueName;
  const queue = createLocalQueue({
    queues: options.consumesQueues === false ? {} : queuesOf(queueConsumers),
    deliver: async (to, message) => {
      const worker = await miniflare.getWorker("hango");
      const said = await worker.queue(to, [message]);
      const retried = said.retryMessages.find(({ msgId }) => msgId === message.id);
      if (retried !== undefined) return { delaySeconds: retried.delaySeconds ?? 0 };
      const failed = said.outcome !== "ok" || said.retryBatch.retry;
      return failed ? { delaySeconds: said.retryBatch.delaySeconds ?? 0 } : undefined;
    },
  });
  const miniflare = new Miniflare({
    ...convertV4MiniflareOptions({
      workers: [
        {
          ...worker,
          ...(options.bucketUrl === undefined ? {} : { r2Buckets: bucketsAt(worker.r2Buckets, options.bucketUrl) }),
          name: "hango",
          // Given as text: a script outside the working directory would not be found.
          modules: [{ type: "ESModule", path: "worker.js", contents: await readFile(options.scriptPath, "utf8") }],
          bindings: { ...options.variables },
          serviceBindings: { [binding]: "queue-door" },
        },
        {
          name: "queue-door",
          ...(worker.compatibilityDate === undefined ? {} : { compatibilityDate: worker.compatibilityDate }),
          modules: [{ type: "ESModule", path: "queue-door.js", contents: QUEUE_DOOR }],
          serviceBindings: {
            SENT: async (request: { json(): Promise<unknown> }) => {
              await options.beforeSend?.();
              queue.send(name, (await request.json()) as readonly SentMessage[]);
              return new Response();
            },
          },
        },
        ...(options.answerPage === undefined ? [] : [pagesWorker(options.answerPage, worker.compatibilityDate)]),
      ],
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
    crons,
    tick: async (cron = crons[0]) => {
      const fetcher = await miniflare.getWorker("hango");
      await fetcher.scheduled(cron === undefined ? {} : { cron });
    },
    hurryQueue: queue.hurry,
    close: async () => {
      queue.close();
      await miniflare.dispose();
    },
  };
};
