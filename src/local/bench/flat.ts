/**
 * What one more turn costs at several lengths of the log, with the built Worker on a real PostgreSQL: rows and bytes read, CPU, own time,
 * heap. A turn's cost must depend on what the model sees, never on what the session has been through.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { clipContent } from "../../context/clip.ts";
import { defaultEstimator, estimateRow } from "../../context/estimate-request.ts";
import { DEFAULT_CLIP_TOKENS } from "../../context/view-state.ts";
import { newId } from "../../protocol/ids.ts";
import type { LogRow, NewRow } from "../../protocol/messages.ts";
import type { Backend, QueryResult } from "../backend.ts";
import { buildWorker } from "../build.ts";
import { MIGRATIONS_DIR, migrateUrl, readMigrations } from "../migrate.ts";
import { startNeonEndpoint } from "../neon-endpoint.ts";
import { startPostgres } from "../postgres.ts";
import { createPostgresBackend } from "../postgres-backend.ts";
import { type Simulator, startSimulator } from "../simulator/server.ts";
import { startWorkerHost } from "../worker-host.ts";
import { restore, type StoredState, sectionsOver, storeLog, storeTemplate, tailOf, template } from "./flat-log.ts";
import { brokenBounds, costTable, FLAT_BOUNDS, type TurnCost, type TurnKind } from "./flat-table.ts";
import { type IsolateMeter, openMeter } from "./isolate-meter.ts";

/**
 * V8 collects garbage only when it has to, so without a limit its heap tells nothing of what is needed. What is left of the bound is for
 * buffers outside of the heap.
 */
const HEAP_LIMIT_MIB = 64;
const PROJECT = join(import.meta.dirname, "../../..");
const LENGTHS = [1_000, FLAT_BOUNDS.absolute.messages, 10_000, 100_000];
const MODEL = "claude-sonnet-5-5";
const MOST_WINDOW_TOKENS = 200_000;
/** The shortest log must be longer than what a turn reads at most (V7), or the others would read more than it. */
const SHORTEST_WINDOWS = 2.2;
/** What a compaction leaves of this window, about (C1). */
const KEPT_WINDOWS = 0.25;
/** What the next compaction begins at, with the handoff (E7); clipped as such a session already is. */
const COMPACTING_WINDOWS = 0.95;
/** Messages at the end that nothing is clipped of. */
const UNCLIPPED = 20;
const SUMMARY_CHARS = 8_000;
/** Of each kind, at each length. The first are not counted: V8 compiles meanwhile, and the heap is read. */
const ROUNDS: Readonly<Record<TurnKind, { readonly unmeasured: number; readonly measured: number }>> = {
  plain: { unmeasured: 10, measured: 21 },
  compacting: { unmeasured: 2, measured: 7 },
  "after import": { unmeasured: 2, measured: 5 },
};

const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
};

/** Counts what a database answers: rows, and bytes of their values; and the time that it takes, with PostgreSQL's own driver. */
const counted = (backend: Backend) => {
  const count = { rows: 0, bytes: 0, databaseMs: 0 };
  const seen = (result: QueryResult): void => {
    count.rows += result.rows.length;
    for (const row of result.rows)
      for (const value of row) count.bytes += value === null ? 0 : Buffer.byteLength(value);
  };
  const counting: Backend = {
    ...backend,
    query: async (query) => {
      const startedMs = performance.now();
      const result = await backend.query(query);
      count.databaseMs += performance.now() - startedMs;
      seen(result);
      return result;
    },
    transaction: async (queries, options) => {
      const startedMs = performance.now();
      const results = await backend.transaction(queries, options);
      count.databaseMs += performance.now() - startedMs;
      results.forEach(seen);
      return results;
    },
  };
  return { backend: counting, count };
};

interface Bench {
  readonly client: pg.Client;
  readonly simulator: Simulator;
  readonly meter: IsolateMeter;
  readonly count: { rows: number; bytes: number; databaseMs: number };
  readonly url: string;
  readonly tenantId: string;
  readonly key: string;
  readonly windowTokens: number;
}

type Undo = () => Promise<void>;

const start = async (undos: Undo[], windowTokens: number): Promise<Bench> => {
  const { path: scriptPath } = await buildWorker();
  const server = await startPostgres({ durable: false, maxConnections: 30 });
  undos.push(server.stop);
  const url = server.urlOf("postgres");
  await migrateUrl(url, await readMigrations(MIGRATIONS_DIR));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  undos.push(() => client.end());
  const backend = createPostgresBackend({ connectionString: url });
  undos.push(backend.close);
  const { backend: counting, count } = counted(backend);
  const credentials = { user: server.user, password: server.password, database: "postgres" };
  const endpoint = await startNeonEndpoint({ backend: counting, credentials });
  undos.push(endpoint.close);
  const simulator = await startSimulator({ models: { [MODEL]: { maxInputTokens: windowTokens } } });
  undos.push(simulator.close);
  const adminKey = newId("key");
  const dir = await mkdtemp(join(tmpdir(), "hango-bench-"));
  undos.push(() => rm(dir, { recursive: true, force: true }));
  process.env.MINIFLARE_WORKERD_V8_FLAGS = `--max-heap-size=${HEAP_LIMIT_MIB}`;
  const host = await startWorkerHost({
    scriptPath,
    configPath: join(PROJECT, "wrangler.toml"),
    variables: {
      DATABASE_URL: endpoint.connectionString,
      HANGO_DB_FETCH_ENDPOINT: endpoint.url,
      ANTHROPIC_API_KEY: "simulator",
      ANTHROPIC_BASE_URL: simulator.url,
      HANGO_ADMIN_KEY: adminKey,
    },
    port: 0,
    inspectable: true,
    // What an import leaves to the background would be measured with the turns that come after.
    consumesQueues: false,
    persistDir: dir,
    onLog: (line) => {
      if (/"level":"(error|fatal)"/.test(line)) process.stderr.write(`${line}\n`);
    },
  });
  undos.push(host.close);
  const meter = await openMeter(host.miniflare);
  undos.push(async () => meter.close());
  const post = async (path: string, body: object): Promise<Readonly<Record<string, string>>> => {
    const headers = { Authorization: `Bearer ${adminKey}`, "Content-Type": "application/json" };
    const response = await fetch(host.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return response.json();
  };
  const { id: tenantId = "" } = await post("/v1/tenants", { name: "bench" });
  const { secret: key = "" } = await post("/v1/keys", {
    tenant_id: tenantId,
    name: "bench",
    scopes: ["read", "write", "content"],
  });
  return { client, simulator, meter, count, url: host.url, tenantId, key, windowTokens };
};

const makeSession = async ({ client, tenantId, windowTokens }: Bench): Promise<string> => {
  const id = newId("ses");
  const settings = JSON.stringify({ max_tokens: 4_000, context: { max_input_tokens: windowTokens } });
  await client.query(
    "insert into sessions (id, tenant_id, model, settings, created_with) values ($1, $2, $3, $4, 'bench')",
    [id, tenantId, MODEL, settings],
  );
  await client.query("insert into session_heads (session_id) values ($1)", [id]);
  return id;
};

/** Tokens of a row for the model, about. */
const sizeOf = (rows: readonly (LogRow | NewRow)[]): number =>
  defaultEstimator.scale(MODEL) * rows.reduce((sum, { tokens }) => sum + tokens, 0);

const asIs = ({ tokens }: LogRow): number => tokens;
const clipped = ({ content, role }: LogRow): number =>
  estimateRow(clipContent(content, role, DEFAULT_CLIP_TOKENS, defaultEstimator.text));

/** Where a slice at the end of a log begins: with a user's message, and at least of this size. */
const sliceFrom = (tail: readonly LogRow[], tokens: number, sizeOfRow: (row: LogRow) => number): number => {
  let size = 0;
  for (const row of tail.toReversed()) {
    size += defaultEstimator.scale(MODEL) * sizeOfRow(row);
    if (size >= tokens && row.origin === "user") return row.seq;
  }
  throw new Error("The log is too short for the slice.");
};

interface Subject extends StoredState {
  readonly kind: TurnKind;
}

const subjectsOf = async (bench: Bench, rows: readonly NewRow[]): Promise<readonly Subject[]> => {
  const { client, windowTokens } = bench;
  const shortest = Math.min(...LENGTHS);
  const subjects: Subject[] = [];
  for (const messages of LENGTHS) {
    const own = await makeSession(bench);
    await storeLog(client, own, messages, "run_before");
    const imported = await makeSession(bench);
    await storeLog(client, imported, messages, null);
    const tail = tailOf(rows, messages, shortest);
    const viewFrom = (windows: number, isClipped: boolean): StoredState["view"] => {
      const keptFrom = sliceFrom(tail, windows * windowTokens, isClipped ? clipped : asIs);
      const covered = tail.filter((row) => row.seq < keptFrom);
      const summary = covered
        .map(({ content }) => content)
        .join(" ")
        .replace(/[^a-z ]+/gi, " ")
        .slice(0, SUMMARY_CHARS);
      return {
        keptFrom,
        clippedBefore: isClipped ? messages - UNCLIPPED : keptFrom,
        summary,
        sections: sectionsOver(covered, windowTokens),
      };
    };
    subjects.push(
      { kind: "plain", sessionId: own, messages, view: viewFrom(KEPT_WINDOWS, false) },
      { kind: "compacting", sessionId: own, messages, view: viewFrom(COMPACTING_WINDOWS, true) },
      { kind: "after import", sessionId: imported, messages, view: null },
    );
  }
  await client.query("vacuum analyze");
  return subjects;
};

type Sample = Omit<TurnCost, "kind" | "messages" | "peakHeapBytes">;

const turn = async ({ simulator, url, key }: Bench, { sessionId }: Subject): Promise<void> => {
  simulator.enqueue({
    match: { purpose: "turn" },
    reply: { content: "It is done: the report is written and checked." },
  });
  const response = await fetch(`${url}/v1/sessions/${sessionId}/turns`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", Connection: "close" },
    body: JSON.stringify({ input: "Thank you. Please finish the report now, and tell me when it is done." }),
  });
  const body = await response.text();
  if (!response.ok || !body.includes('"completed"')) throw new Error(`a turn answered ${response.status}: ${body}`);
};

/** What a turn did must be what its kind says, or something else was measured. */
const checkDone = async ({ client }: Bench, { kind, sessionId, messages, view }: Subject): Promise<void> => {
  const { rows } = await client.query(
    `select (select count(*)::int from compactions where session_id = $1) as generations,
       (select string_agg(reason, ', ' order by revision) from view_revisions where session_id = $1) as reasons,
       (select string_agg(type || ' ' || left(data::text, 500), ', ' order by n) from run_events
         where session_id = $1 and type like 'context%') as events`,
    [sessionId],
  );
  const { generations, reasons, events } = rows[0];
  const made = generations - (view === null ? 0 : 1);
  if (made === (kind === "plain" ? 0 : 1)) return;
  throw new Error(
    `${kind}, ${messages} messages: ${made} compactions were made; revisions: ${reasons}; events: ${events}`,
  );
};

const sample = async (bench: Bench, subject: Subject): Promise<Sample> => {
  const { client, meter, count } = bench;
  await restore(client, subject);
  await meter.quiet();
  Object.assign(count, { rows: 0, bytes: 0, databaseMs: 0 });
  const beforeMs = meter.cpuMs();
  await turn(bench, subject);
  await meter.quiet();
  const cpuMs = meter.cpuMs() - beforeMs;
  const { rows, bytes, databaseMs } = count;
  await checkDone(bench, subject);
  const { rows: runs } = await client.query(
    "select db_round_trips, overhead_ms from runs where session_id = $1 order by created_at desc limit 1",
    [subject.sessionId],
  );
  return { rows, bytes, cpuMs, databaseMs, roundTrips: runs[0].db_round_trips, overheadMs: runs[0].overhead_ms };
};

const medians = (samples: readonly Sample[]): Sample => {
  const of = (value: (sample: Sample) => number): number => median(samples.map(value));
  return {
    rows: of(({ rows }) => rows),
    bytes: of(({ bytes }) => bytes),
    roundTrips: of(({ roundTrips }) => roundTrips),
    cpuMs: of(({ cpuMs }) => cpuMs),
    databaseMs: of(({ databaseMs }) => databaseMs),
    // Other work on the machine stretches a time and never shortens it, so the least of them is the nearest to the truth.
    overheadMs: Math.min(...samples.map(({ overheadMs }) => overheadMs)),
  };
};

/** Lengths take turns, so that what changes on the machine meanwhile changes all of them. */
const measureKind = async (
  bench: Bench,
  subjects: readonly Subject[],
  kind: TurnKind,
): Promise<readonly TurnCost[]> => {
  const own = subjects
    .filter((subject) => subject.kind === kind)
    .map((subject) => ({ subject, samples: [] as Sample[], heap: 0 }));
  const { unmeasured, measured } = ROUNDS[kind];
  for (let round = 0; round < unmeasured; round++) {
    for (const each of own) {
      await restore(bench.client, each.subject);
      each.heap = Math.max(each.heap, await bench.meter.peakHeapBytes(() => turn(bench, each.subject)));
    }
  }
  for (let round = 0; round < measured; round++)
    for (const each of own) each.samples.push(await sample(bench, each.subject));
  return own.map(({ subject: { messages }, samples, heap }) => ({
    kind,
    messages,
    ...medians(samples),
    peakHeapBytes: heap,
  }));
};

const print = (text: string): void => void process.stdout.write(`${text}\n`);

const say = (text: string): void => void process.stderr.write(`bench: ${text}\n`);

const measure = async (bench: Bench, rows: readonly NewRow[]): Promise<boolean> => {
  say(`writing logs of ${LENGTHS.join(", ")} messages`);
  const subjects = await subjectsOf(bench, rows);
  const costs: TurnCost[] = [];
  for (const kind of Object.keys(ROUNDS) as TurnKind[]) {
    say(`measuring turns: ${kind}`);
    costs.push(...(await measureKind(bench, subjects, kind)));
    if (process.env.HANGO_BENCH_PROFILE === "1") {
      const longest = subjects.findLast((subject) => subject.kind === kind);
      if (longest === undefined) continue;
      await restore(bench.client, longest);
      print(`\nCPU of one turn, ${kind}\n${(await bench.meter.profile(() => turn(bench, longest))).join("\n")}`);
    }
  }
  print(
    `\nOne more turn, by the length of the log (window ${bench.windowTokens} tokens; medians, of the own time the least; heap: the most that V8 held, limited to ${HEAP_LIMIT_MIB} MiB, and buffers)\n`,
  );
  print(costTable(costs));
  const broken = brokenBounds(costs);
  print(broken.length === 0 ? "\nAll bounds hold." : `\nBroken:\n${broken.join("\n")}`);
  return broken.length === 0;
};

/** Measures and prints. Takes a few minutes. @returns whether all bounds of `flat-table.ts` hold */
export const benchFlat = async (): Promise<boolean> => {
  const rows = template();
  const shortestTokens = sizeOf(tailOf(rows, Math.min(...LENGTHS), Math.min(...LENGTHS)));
  const windowTokens = Math.min(MOST_WINDOW_TOKENS, Math.floor(shortestTokens / SHORTEST_WINDOWS));
  const undos: Undo[] = [];
  try {
    const bench = await start(undos, windowTokens);
    await storeTemplate(bench.client, rows);
    return await measure(bench, rows);
  } finally {
    for (const undo of undos.toReversed()) await undo();
  }
};
