/**
 * What telemetry costs a turn, by the state of its collector: the same turn on Workers that differ in nothing else, in turns, so that what changes on
 * the machine meanwhile changes all of them.
 */
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, relative, sep } from "node:path";
import { newId } from "../../protocol/ids.ts";
import { buildWorker } from "../build.ts";
import { MIGRATIONS_DIR, migrateUrl, readMigrations } from "../migrate.ts";
import { startNeonEndpoint } from "../neon-endpoint.ts";
import { startPostgres } from "../postgres.ts";
import { createPostgresBackend } from "../postgres-backend.ts";
import { type Simulator, startSimulator } from "../simulator/server.ts";
import { type Declared, readDeclared, startWorkerHost } from "../worker-host.ts";
import { type IsolateMeter, openMeter } from "./isolate-meter.ts";
import { brokenBounds, type Cost, type Costs, costTable, KINDS, type Kind, typical } from "./telemetry-table.ts";

const PROJECT = join(import.meta.dirname, "../../..");

/** The first are not counted: V8 compiles meanwhile, and exports to the collector that never answers begin to time out. */
const UNMEASURED_ROUNDS = 15;
const MEASURED_ROUNDS = 60;

/** What the parts of `src/telemetry` that emit are replaced with in the build without telemetry. */
const WITHOUT: Readonly<Record<string, string>> = {
  "worker.ts": "export const instrumentWorker = (doors) => doors;",
  "otel.ts": `import { noopTracer } from "./tracer.ts";
    export const otelTracer = noopTracer;
    export const activeTraceIds = () => undefined;
    export const nameRequest = () => undefined;`,
  "metrics.ts": `import { noopMeter } from "./meter.ts";
    export const otelMeter = noopMeter;`,
};

type Undo = () => Promise<void>;

/** Builds the Worker with nothing in it that emits. @returns the path of the bundle, which is gone after the undo */
const buildWithout = async (undos: Undo[]): Promise<string> => {
  const root = await mkdtemp(join(tmpdir(), "hango-bench-"));
  undos.push(() => rm(root, { recursive: true, force: true }));
  const src = join(PROJECT, "src");
  await mkdir(join(root, "src"));
  await cp(src, join(root, "src"), {
    recursive: true,
    filter: (path) => relative(src, path).split(sep)[0] !== "local",
  });
  for (const name of ["wrangler.toml", "package.json", "tsconfig.json"])
    await cp(join(PROJECT, name), join(root, name));
  await symlink(join(PROJECT, "node_modules"), join(root, "node_modules"));
  for (const [name, text] of Object.entries(WITHOUT)) await writeFile(join(root, "src/telemetry", name), text);
  return (await buildWorker({ root })).path;
};

/** @param answer what every export gets; nothing when it does not answer */
const startCollector = async (undos: Undo[], answer: (response: ServerResponse) => void): Promise<string> => {
  const server = createServer((request, response) => {
    request.on("error", () => response.destroy()).resume();
    request.on("end", () => answer(response));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  undos.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

interface Shared {
  readonly variables: Readonly<Record<string, string>>;
  readonly declared: Declared;
  readonly simulator: Simulator;
  readonly adminKey: string;
}

const startShared = async (undos: Undo[]): Promise<Shared> => {
  const server = await startPostgres({ durable: false, maxConnections: 30 });
  undos.push(server.stop);
  const url = server.urlOf("postgres");
  await migrateUrl(url, await readMigrations(MIGRATIONS_DIR));
  const backend = createPostgresBackend({ connectionString: url });
  undos.push(backend.close);
  const credentials = { user: server.user, password: server.password, database: "postgres" };
  const endpoint = await startNeonEndpoint({ backend, credentials });
  undos.push(endpoint.close);
  const simulator = await startSimulator();
  undos.push(simulator.close);
  const adminKey = newId("key");
  return {
    simulator,
    adminKey,
    declared: await readDeclared(join(PROJECT, "wrangler.toml")),
    variables: {
      DATABASE_URL: endpoint.connectionString,
      HANGO_DB_FETCH_ENDPOINT: endpoint.url,
      ANTHROPIC_API_KEY: "simulator",
      ANTHROPIC_BASE_URL: simulator.url,
      HANGO_ADMIN_KEY: adminKey,
      // What it says of each failed export is no part of what is compared.
      HANGO_LOG_LEVEL: "error",
    },
  };
};

interface Subject {
  readonly kind: Kind;
  readonly url: string;
  readonly meter: IsolateMeter;
  readonly key: string;
  readonly sessionId: string;
}

const post = async (url: string, key: string, body: object): Promise<Readonly<Record<string, unknown>>> => {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json", Connection: "close" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${new URL(url).pathname} answered ${response.status}: ${text}`);
  return JSON.parse(text);
};

const startSubject = async (
  undos: Undo[],
  { variables, declared, adminKey }: Shared,
  { kind, scriptPath, collector }: { readonly kind: Kind; readonly scriptPath: string; readonly collector?: string },
): Promise<Subject> => {
  const host = await startWorkerHost({
    scriptPath,
    configPath: join(PROJECT, "wrangler.toml"),
    declared,
    variables: { ...variables, ...(collector === undefined ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: collector }) },
    port: 0,
    inspectable: true,
    consumesQueues: false,
    onLog: (line) => {
      if (/"level":"(error|fatal)"/.test(line)) process.stderr.write(`${line}\n`);
    },
  });
  undos.push(host.close);
  const meter = await openMeter(host.miniflare);
  undos.push(async () => meter.close());
  const { id: tenantId } = await post(`${host.url}/v1/tenants`, adminKey, { name: "bench" });
  const scopes = ["read", "write", "content"];
  const { secret } = await post(`${host.url}/v1/keys`, adminKey, { tenant_id: tenantId, name: "bench", scopes });
  const key = String(secret);
  const { id } = await post(`${host.url}/v1/sessions`, key, { system: "You are careful." });
  return { kind, url: host.url, meter, key, sessionId: String(id) };
};

const startSubjects = async (undos: Undo[], shared: Shared): Promise<readonly Subject[]> => {
  const { path } = await buildWorker();
  const without = await buildWithout(undos);
  const collectors: Partial<Record<Kind, string>> = {
    "healthy collector": await startCollector(undos, (response) => response.end("{}")),
    "collector answers 500": await startCollector(undos, (response) => response.writeHead(500).end("{}")),
    "collector never answers": await startCollector(undos, () => undefined),
  };
  const subjects: Subject[] = [];
  for (const kind of KINDS) {
    const collector = collectors[kind];
    const scriptPath = kind === "without telemetry" ? without : path;
    const settings = { kind, scriptPath, ...(collector === undefined ? {} : { collector }) };
    subjects.push(await startSubject(undos, shared, settings));
  }
  return subjects;
};

/** @returns the times of the turn, in ms */
const turn = async (simulator: Simulator, { url, key, sessionId }: Subject): Promise<Omit<Cost, "cpuMs">> => {
  simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "It is done." } });
  const startedMs = performance.now();
  const run = await post(`${url}/v1/sessions/${sessionId}/turns`, key, { input: "Please go on." });
  const latencyMs = performance.now() - startedMs;
  if (run.status !== "completed") throw new Error(`a turn ended as ${String(run.status)}`);
  return { latencyMs, overheadMs: Number(run.overhead_ms) };
};

const measure = async (simulator: Simulator, subjects: readonly Subject[]): Promise<Costs> => {
  const all = subjects.map((subject) => ({ subject, samples: [] as Cost[] }));
  for (let round = 0; round < UNMEASURED_ROUNDS + MEASURED_ROUNDS; round++) {
    // Each goes first as often as every other.
    const first = round % all.length;
    for (const { subject, samples } of [...all.slice(first), ...all.slice(0, first)]) {
      const { meter } = subject;
      const beforeMs = meter.cpuMs();
      const times = await turn(simulator, subject);
      await meter.quiet();
      if (round >= UNMEASURED_ROUNDS) samples.push({ ...times, cpuMs: meter.cpuMs() - beforeMs });
    }
  }
  const costOf = (kind: Kind): Cost => {
    const samples = all.filter(({ subject }) => subject.kind === kind).flatMap((each) => each.samples);
    return {
      overheadMs: typical(samples.map(({ overheadMs }) => overheadMs)),
      latencyMs: typical(samples.map(({ latencyMs }) => latencyMs)),
      cpuMs: typical(samples.map(({ cpuMs }) => cpuMs)),
    };
  };
  return Object.fromEntries(KINDS.map((kind) => [kind, costOf(kind)])) as Record<Kind, Cost>;
};

const print = (text: string): void => void process.stdout.write(`${text}\n`);
const say = (text: string): void => void process.stderr.write(`bench: ${text}\n`);

/** Measures and prints. Takes one to two minutes on two cores. @returns whether all bounds of `telemetry-table.ts` hold */
export const benchTelemetry = async (): Promise<boolean> => {
  const undos: Undo[] = [];
  try {
    say("starting a Worker for each state of the collector");
    const shared = await startShared(undos);
    const subjects = await startSubjects(undos, shared);
    say(`${UNMEASURED_ROUNDS + MEASURED_ROUNDS} turns on each, in turns`);
    const costs = await measure(shared.simulator, subjects);
    print(
      `\nOne turn, by the state of telemetry's collector (means of the middle half of ${MEASURED_ROUNDS}; ratios to the first line)\n`,
    );
    print(costTable(costs));
    const broken = brokenBounds(costs);
    print(broken.length === 0 ? "\nAll bounds hold." : `\nBroken:\n${broken.join("\n")}`);
    return broken.length === 0;
  } finally {
    for (const undo of undos.toReversed()) await undo();
  }
};
