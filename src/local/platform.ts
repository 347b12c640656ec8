/**
 * The whole platform on one machine (architecture section 5): a database behind Neon's protocol, the Worker in workerd with R2 and
 * queues, and a simulator of the Messages API and of chat completions where no real one is configured.
 */
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Backend } from "./backend.ts";
import { buildWorker } from "./build.ts";
import { type LocalCollector, startLocalCollector } from "./collector/collector.ts";
import { isNeonHost, parseConnectionString } from "./connection-string.ts";
import { lockDirectory } from "./directory-lock.ts";
import { MIGRATIONS_DIR, migrate, migrateUrl, readMigrations } from "./migrate.ts";
import { type Credentials, startNeonEndpoint } from "./neon-endpoint.ts";
import { createPgliteBackend } from "./pglite-backend.ts";
import { createPostgresBackend } from "./postgres-backend.ts";
import { randomSecret } from "./secret.ts";
import { workerEnvironment } from "./settings.ts";
import { type Simulator, startSimulator } from "./simulator/server.ts";
import { startWorkerHost, type WorkerHost } from "./worker-host.ts";

const PROJECT = join(import.meta.dirname, "..", "..");

export interface PlatformOptions {
  readonly port: number;
  readonly dataDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether traces and metrics are kept and shown here where no collector is configured. Benches and demos are measured without. */
  readonly showsTelemetry?: boolean;
  /** Takes a line that the Worker logged. */
  readonly onLog: (line: string) => void;
  /** Told what is being done, for a person who waits. */
  readonly onProgress: (what: string) => void;
}

export interface Platform {
  readonly url: string;
  /** A key of a tenant, with every scope: whoever runs the platform may do all that its documentation shows. */
  readonly apiKey: string;
  /** The page of the last traces; undefined where they are not kept here. */
  readonly tracesUrl: string | undefined;
  /** Undefined where a real provider is configured. */
  readonly simulator: Simulator | undefined;
  /** When the cron triggers fire, as cron expressions in UTC. */
  readonly crons: readonly string[];
  /** What a cron trigger does, done now. */
  tick(cron?: string): Promise<void>;
  /** Ends everything that was started. May be called more than once. */
  close(): Promise<void>;
}

type Undo = () => Promise<void>;

/** What is undone at the end, newest first. */
const undoer = () => {
  const undos: Undo[] = [];
  let done: Promise<void> | undefined;
  const undoAll = async (): Promise<void> => {
    for (const undo of undos.reverse()) await undo();
  };
  return {
    add: (undo: Undo) => void undos.push(undo),
    run: (): Promise<void> => {
      done ??= undoAll();
      return done;
    },
  };
};

interface Database {
  readonly variables: Readonly<Record<string, string>>;
  readonly undo: Undo;
}

const behindEndpoint = async (backend: Backend, credentials: Credentials): Promise<Database> => {
  const endpoint = await startNeonEndpoint({ backend, credentials });
  return {
    variables: { DATABASE_URL: endpoint.connectionString, HANGO_DB_FETCH_ENDPOINT: endpoint.url },
    undo: async () => {
      await endpoint.close();
      await backend.close();
    },
  };
};

const startDatabase = async (options: PlatformOptions): Promise<Database> => {
  const migrations = await readMigrations(MIGRATIONS_DIR);
  const given = options.env.DATABASE_URL;
  if (given !== undefined && given !== "") {
    const url = parseConnectionString(given);
    options.onProgress("migrating the database of DATABASE_URL");
    await migrateUrl(given, migrations);
    // A Neon database answers its own protocol; any other PostgreSQL is put behind ours.
    if (isNeonHost(url.hostname)) return { variables: { DATABASE_URL: given }, undo: async () => undefined };
    const credentials = {
      user: decodeURIComponent(url.username),
      password: decodeURIComponent(url.password),
      database: decodeURIComponent(url.pathname.slice(1)),
    };
    return behindEndpoint(createPostgresBackend({ connectionString: given }), credentials);
  }
  options.onProgress("opening the embedded database");
  const backend = await createPgliteBackend({ dataDir: join(options.dataDir, "postgres") });
  await backend.session((session) => migrate(session, migrations));
  return behindEndpoint(backend, { user: "hango", password: randomSecret(24), database: "hango" });
};

interface Kept {
  readonly adminKey: string;
  readonly apiKey: string | null;
}

/** Secrets made here outlive a restart; the file is readable by its owner only. */
const keptSecrets = (dataDir: string) => {
  const path = join(dataDir, "credentials.json");
  return {
    read: async (): Promise<Kept> => {
      try {
        return JSON.parse(await readFile(path, "utf8"));
      } catch {
        return { adminKey: randomSecret(32), apiKey: null };
      }
    },
    write: async (kept: Kept): Promise<void> => {
      await writeFile(`${path}.new`, JSON.stringify(kept), { mode: 0o600 });
      await chmod(`${path}.new`, 0o600);
      await rename(`${path}.new`, path);
    },
  };
};

const post = async (url: string, key: string, body: object): Promise<Readonly<Record<string, unknown>>> => {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${new URL(url).pathname} answered ${response.status}: ${await response.text()}`);
  return response.json() as Promise<Readonly<Record<string, unknown>>>;
};

const works = async (url: string, key: string): Promise<boolean> =>
  (await fetch(`${url}/v1/sessions?limit=1`, { headers: { Authorization: `Bearer ${key}` } })).ok;

/** The key that a person is given, made through the API as an operator would; the one of the last start, if it still works. */
const apiKeyFor = async (url: string, { adminKey, apiKey }: Kept): Promise<string> => {
  if (apiKey !== null && (await works(url, apiKey))) return apiKey;
  const tenant = await post(`${url}/v1/tenants`, adminKey, { name: "local" });
  const key = await post(`${url}/v1/keys`, adminKey, {
    tenant_id: tenant.id,
    name: "npm start",
    scopes: ["read", "write", "content", "admin"],
  });
  return String(key.secret);
};

/** Whether a real server speaks chat completions: it is then no business of the simulator. */
const hasChat = (env: PlatformOptions["env"]): boolean =>
  (env.HANGO_OPENAI_BASE_URL ?? "") !== "" || (env.OPENAI_API_KEY ?? "") !== "";

/** Undefined where it is not wanted, or where spans and metrics go to another collector. */
const startCollector = async ({ env, showsTelemetry }: PlatformOptions): Promise<LocalCollector | undefined> =>
  showsTelemetry !== true || (env.OTEL_EXPORTER_OTLP_ENDPOINT ?? "") !== ""
    ? undefined
    : startLocalCollector(Intl.DateTimeFormat().resolvedOptions().timeZone);

/**
 * Starts everything and waits until it answers.
 * @throws DirectoryInUseError, ConfigError, MigrationError, or what the failing part says; what had been started is ended first
 */
export const startPlatform = async (options: PlatformOptions): Promise<Platform> => {
  const undo = undoer();
  try {
    await mkdir(options.dataDir, { recursive: true });
    undo.add(await lockDirectory(options.dataDir));
    options.onProgress("building the Worker");
    const { path: scriptPath } = await buildWorker();
    const database = await startDatabase(options);
    undo.add(database.undo);
    const real = (options.env.ANTHROPIC_API_KEY ?? "") !== "";
    const simulator = real ? undefined : await startSimulator();
    if (simulator !== undefined) undo.add(simulator.close);
    const collector = await startCollector(options);
    if (collector !== undefined) undo.add(collector.close);

    const secrets = keptSecrets(options.dataDir);
    const kept = await secrets.read();
    const adminKey = options.env.HANGO_ADMIN_KEY || kept.adminKey;
    options.onProgress("starting the Worker");
    const host: WorkerHost = await startWorkerHost({
      scriptPath,
      configPath: join(PROJECT, "wrangler.toml"),
      variables: {
        ...(simulator === undefined ? {} : { ANTHROPIC_API_KEY: "simulator", ANTHROPIC_BASE_URL: simulator.url }),
        ...(simulator === undefined || hasChat(options.env) ? {} : { HANGO_OPENAI_BASE_URL: `${simulator.url}/v1` }),
        ...workerEnvironment(options.env),
        ...(simulator === undefined ? {} : { ANTHROPIC_BASE_URL: simulator.url }),
        ...(collector === undefined ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint }),
        ...database.variables,
        HANGO_ADMIN_KEY: adminKey,
      },
      port: options.port,
      persistDir: join(options.dataDir, "platform"),
      ...(collector === undefined ? {} : { answerPage: collector.answerPage }),
      onLog: options.onLog,
    });
    undo.add(host.close);
    const apiKey = await apiKeyFor(host.url, { ...kept, adminKey });
    await secrets.write({ adminKey: kept.adminKey, apiKey });
    const tracesUrl = collector === undefined ? undefined : `${host.url}/_local/traces`;
    return { url: host.url, apiKey, tracesUrl, simulator, crons: host.crons, tick: host.tick, close: undo.run };
  } catch (error) {
    await undo.run();
    throw error;
  }
};
