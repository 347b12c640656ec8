/** A database and everything beside it that the Workers of one lane share: the queue, the bucket, the clock. Its sessions are run one after the other. */
import { readFileSync } from "node:fs";
import { type Config, parseConfig } from "../../src/config.ts";
import { answerSql } from "../../src/local/neon-endpoint.ts";
import type { NewId } from "../../src/protocol/ids.ts";
import type { QueueMessage } from "../../src/turns/queue.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { memoryBucket } from "./bucket.ts";
import { preparedBackend } from "./prepared-backend.ts";
import { createWorker, type Worker, type WorkerOptions, type WorkerWorld } from "./worker.ts";

/** Where Workers think that their database is; which one it is, their connection string says. */
const SQL_URL = "http://sql.harness/sql";
export const MODEL_URL = "http://model.harness";
export const TOOLS_URL = "http://tools.harness/tool";

/** A message of the queue on its way. */
export interface Queued {
  readonly id: string;
  readonly body: QueueMessage;
  attempts: number;
}

export interface Lane {
  /** Told of every request to the provider and to the endpoints of tools. */
  answers: WorkerWorld["fetchOutside"];
  /** Whether the bucket refuses writes. */
  bucketFails: () => boolean;
  /** Ids begin again, and follow from the shape alone. */
  beginShape(index: number): void;
  readonly queue: Queued[];
  readonly newId: NewId;
  /** The next number in the order of everything that can be seen. */
  order(): number;
  nowMs(): number;
  /** Lets time pass, by the database's clock, by the Workers', and for their timers. */
  advance(seconds: number): Promise<void>;
  worker(options?: WorkerOptions): Worker;
  /** Workers that are at work or frozen; those that ended are let go with `forget`. */
  forget(worker: Worker): void;
  /** One statement beside the Workers, at the lane's time. */
  sql(query: string, params?: readonly (string | number | boolean | null)[]): Promise<Record<string, unknown>[]>;
  /** Processor time that the database took for this lane, in ms; 0 where the system does not say. */
  databaseMs(): number;
  close(): Promise<void>;
}

/** Processor time of a process of this machine, in ms. */
const processorMs = (pid: number): number => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return 0;
  }
};

/** Every Worker by its name, for the requests that only name it. */
const workers = new Map<
  string,
  { readonly worker: Worker; readonly sql: (headers: Headers, body: string) => Promise<Response> }
>();

let routed = false;

/** Sends what Workers ask of their database there, each request as a call of its Worker. Once in a process. */
const route = (): void => {
  if (routed) return;
  routed = true;
  const real = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    if (input !== SQL_URL) return real(input, init);
    const headers = new Headers(init?.headers);
    const connection = new URL(headers.get("neon-connection-string") ?? "");
    const found = workers.get(connection.searchParams.get("application_name") ?? "");
    if (found === undefined) throw new Error("a request of a Worker that nobody knows");
    return found.worker.call(() => found.sql(headers, String(init?.body)));
  };
};

const configOf = (database: TestDatabase, bucket: R2Bucket): Config =>
  parseConfig({
    DATABASE_URL: database.connectionString,
    HANGO_DB_FETCH_ENDPOINT: SQL_URL,
    HANGO_DB_TIMEOUT_MS: "60000",
    ANTHROPIC_API_KEY: "sk-harness",
    ANTHROPIC_BASE_URL: MODEL_URL,
    HANGO_PROVIDER_MAX_RETRIES: "0",
    HANGO_ADMIN_KEY: "an-admin-key-of-the-harness",
    HANGO_ALLOW_PRIVATE_URLS: "true",
    HANGO_MAX_STEPS: "12",
    FILES: bucket,
    QUEUE: { send: async () => undefined, sendBatch: async () => undefined },
  });

let lanes = 0;

/** Starts a lane on a database of its own. */
export const startLane = async (): Promise<Lane> => {
  route();
  const database = await testDatabase({ kind: "postgres" });
  const url = new URL(database.connectionString);
  let offsetMs = 0;
  const backend = preparedBackend(database.connectionString, () => `${offsetMs / 1000} seconds`);
  const credentials = { user: url.username, password: url.password, database: url.pathname.slice(1) };
  const sql = async (headers: Headers, body: string): Promise<Response> => {
    const answer = await answerSql({ backend, credentials }, Object.fromEntries(headers), body);
    return new Response(answer.body, { status: answer.status, headers: { "content-type": "application/json" } });
  };
  const nowMs = (): number => Date.now() + offsetMs;
  const bucket = memoryBucket(nowMs, () => started.bucketFails());
  const config = configOf(database, bucket);
  const lane = ++lanes;
  const own = new Set<Worker>();
  const queue: Queued[] = [];
  let ids = 0;
  let shapes = 0;
  let shape = "000000";
  let made = 0;
  let seen = 0;
  const world: WorkerWorld = {
    config,
    databaseUrl: database.connectionString,
    bucket,
    newId: (prefix) =>
      `${prefix}_${String(shapes).padStart(6, "0")}${shape}${String(++ids).padStart(14, "0")}` as never,
    nowMs,
    order: () => ++seen,
    send: (body) => queue.push({ id: `${queue.length}`, body, attempts: 1 }),
    fetchOutside: (worker, to, init) => started.answers(worker, to, init),
  };
  const started: Lane = {
    bucketFails: () => false,
    beginShape: (index) => {
      shapes += 1;
      shape = String(index).padStart(6, "0");
      ids = 0;
      queue.length = 0;
    },
    answers: () => Promise.reject(new Error("nobody answers")),
    queue,
    newId: world.newId,
    order: world.order,
    nowMs,
    advance: async (seconds) => {
      offsetMs += Math.round(seconds * 1000);
      for (const worker of own) worker.tick();
    },
    worker: (options) => {
      const name = `lane${lane}-worker${++made}`;
      const worker = createWorker(name, world, options);
      own.add(worker);
      workers.set(name, { worker, sql });
      return worker;
    },
    forget: (worker) => {
      own.delete(worker);
      workers.delete(worker.name);
    },
    sql: async (query, params = []) => {
      const texts = params.map((param) => (param === null ? null : String(param)));
      const { fields, rows } = await backend.query({ query, params: texts });
      return rows.map((row) => Object.fromEntries(fields.map(({ name }, column) => [name, row[column] ?? null])));
    },
    databaseMs: () => backend.pids().reduce((sum, pid) => sum + processorMs(pid), 0),
    close: async () => {
      await backend.close();
      await database.close();
    },
  };
  return started;
};
