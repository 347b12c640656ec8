/** The replay as a command: its arguments, what it starts and ends, what it says, and its exit code. */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { ConfigError } from "../../config.ts";
import { RecordingError } from "../demo/recording.ts";
import { createCatalogue } from "../simulator/catalogue.ts";
import { type Collected, collect, defaultFolders } from "./collect.ts";
import { type ReplayPlatform, startReplayPlatform } from "./platform.ts";
import { figuresOf, renderTable, totalsOf } from "./result.ts";
import { DEFAULT_FAMILY, type PlannedSession, planSession, type ReplayedSession, replaySession } from "./session.ts";

const USAGE = `Usage: npm run replay -- [--json] [--jobs N] [--max-kb N] [--only TEXT] [--model FAMILY] [DIR ...]

Replays every recorded session of the folders through hango, turn by turn, over HTTP, each in a window so small that it has to be
compacted several times. Sessions with fewer than 40 messages are chained into one; one that is too small for that is replayed several
times in a row. Ends with a table, and with 1 when a request was refused, a run failed, a log differs from its recording, or a session
was compacted less than three times.

  DIR             folders of recordings (*.jsonl); else ../shared/data/sessions, or the sample of test/fixtures
  --json          the figures as one line of JSON on standard output
  --jobs N        sessions at a time (default 3)
  --max-kb N      pass larger files over
  --only TEXT     only sessions whose name contains this
  --model FAMILY  the model (default ${DEFAULT_FAMILY})`;

const DEFAULT_JOBS = 3;
/** Problems that are shown of a session. */
const MAX_SHOWN = 5;
/** A long session says where it is once in so many turns. */
const SHOWN_TURNS = 100;
/** Lines of the Worker's log that are shown when something broke. */
const LOG_LINES = 20;

export interface ReplayCommandOptions {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Takes the result. */
  readonly out: (text: string) => void;
  /** Takes what is said on the way. */
  readonly say: (text: string) => void;
  /** Ends the replay early. */
  readonly signal: AbortSignal;
  /** ms, monotonic. */
  readonly now: () => number;
  /** Told of a temporary directory that is made, for a process that ends without waiting. */
  readonly onTemporaryDirectory?: (path: string) => void;
}

const positive = (given: string | undefined, name: string, otherwise: number): number => {
  if (given === undefined) return otherwise;
  if (!/^[1-9][0-9]{0,8}$/.test(given)) throw new TypeError(`--${name} takes a positive whole number`);
  return Number(given);
};

const readArguments = (args: readonly string[]) => {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: {
      json: { type: "boolean", default: false },
      jobs: { type: "string" },
      "max-kb": { type: "string" },
      only: { type: "string", default: "" },
      model: { type: "string", default: DEFAULT_FAMILY },
      help: { type: "boolean", short: "h", default: false },
    },
    allowPositionals: true,
  });
  if (
    !createCatalogue()
      .list()
      .some(({ id }) => id === values.model)
  )
    throw new TypeError(`the simulator has no model ${values.model}`);
  return {
    ...values,
    jobs: positive(values.jobs, "jobs", DEFAULT_JOBS),
    maxBytes: 1_024 * positive(values["max-kb"], "max-kb", 1_000_000),
    folders: positionals,
  };
};

type Given = ReturnType<typeof readArguments>;

/** Runs the work with so many at a time; results in the order of the items. */
const pool = async <T, R>(items: readonly T[], jobs: number, work: (item: T, index: number) => Promise<R>) => {
  const results = new Map<number, R>();
  const waiting = [...items.entries()];
  const worker = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
      results.set(next[0], await work(next[1], next[0]));
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  return [...results].sort(([a], [b]) => a - b).map(([, result]) => result);
};

const replayAll = async (
  options: ReplayCommandOptions,
  given: Given,
  sessions: readonly PlannedSession[],
  platform: ReplayPlatform,
): Promise<readonly ReplayedSession[]> => {
  // The largest first: the last one to end is then a short one.
  const order = sessions.toSorted((a, b) => b.plan.turns.length - a.plan.turns.length);
  const done = await pool(order, given.jobs, async (planned, index) => {
    const startedMs = options.now();
    const result = await replaySession({
      planned,
      platform,
      number: index,
      now: options.now,
      onTurn: ({ turn }) => {
        if (turn % SHOWN_TURNS === 0) options.say(`       ${planned.name}: turn ${turn}\n`);
      },
    });
    options.signal.throwIfAborted();
    const { turns, failures } = result.driven;
    const compactions = turns.flatMap(({ changes }) => changes).filter(({ generation }) => generation !== null);
    options.say(
      `${failures.length === 0 ? "ok    " : "FAILED"} ${planned.name}: ${turns.length} turns, ${compactions.length} compactions, ${((options.now() - startedMs) / 1_000).toFixed(1)} s\n`,
    );
    return result;
  });
  return done.toSorted((a, b) => a.name.localeCompare(b.name));
};

/** @returns the exit code */
const conclude = (options: ReplayCommandOptions, given: Given, done: readonly ReplayedSession[]): number => {
  const figures = done.map(figuresOf);
  const totals = totalsOf(
    figures,
    done.map(({ driven }) => driven),
  );
  if (given.json) options.out(`${JSON.stringify({ sessions: figures, totals })}\n`);
  else options.out(`\n${renderTable(figures, totals)}\n\n`);
  for (const { session, problems, notes } of figures) {
    for (const note of notes) options.say(`note: ${session}: ${note}\n`);
    for (const problem of problems.slice(0, MAX_SHOWN)) options.say(`${session}: ${problem}\n`);
    if (problems.length > MAX_SHOWN) options.say(`${session}: and ${problems.length - MAX_SHOWN} more\n`);
  }
  return totals.problems.length === 0 ? 0 : 1;
};

const read = async (given: Given, env: ReplayCommandOptions["env"]): Promise<Collected> => {
  // npm runs scripts in the project's directory; the person may be elsewhere.
  const folders = given.folders.map((folder) => resolve(env["INIT_CWD"] ?? "", folder));
  const collected = await collect(folders.length === 0 ? defaultFolders() : folders, given.maxBytes);
  return { ...collected, sources: collected.sources.filter(({ name }) => name.includes(given.only)) };
};

/**
 * Runs the replay to its end and ends everything it started.
 * @returns the exit code: 0 when all held, 1 when something did not, 2 for wrong arguments, 130 when aborted
 */
export const runReplay = async (options: ReplayCommandOptions): Promise<number> => {
  let given: Given;
  try {
    given = readArguments(options.args);
  } catch (error) {
    options.say(`${error instanceof Error ? error.message : "wrong arguments"}\n\n${USAGE}\n`);
    return 2;
  }
  if (given.help) {
    options.out(`${USAGE}\n`);
    return 0;
  }
  const log: string[] = [];
  let platform: ReplayPlatform | undefined;
  try {
    const { sources, tooLarge } = await read(given, options.env);
    if (sources.length === 0) throw new RecordingError("there is no recording to replay");
    const planned = sources.map((source) => planSession(source, given.model));
    for (const name of tooLarge) options.say(`passed over because of its size: ${name}\n`);
    platform = await startReplayPlatform({
      env: options.env,
      onLog: (line) => void (log.push(line) > LOG_LINES && log.shift()),
      onProgress: (what) => options.say(`hango: ${what} ...\n`),
      signal: options.signal,
      onTemporaryDirectory: options.onTemporaryDirectory,
    });
    options.signal.throwIfAborted();
    return conclude(options, given, await replayAll(options, given, planned, platform));
  } catch (error) {
    if (options.signal.aborted) return 130;
    const known = error instanceof RecordingError || error instanceof ConfigError;
    options.say(
      `${error instanceof Error ? (known ? error.message : (error.stack ?? error.message)) : String(error)}\n`,
    );
    if (!known) for (const line of log) options.say(`worker: ${line}\n`);
    return 1;
  } finally {
    await platform?.close();
  }
};
