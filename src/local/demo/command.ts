/** The demo as a command: its arguments, what it starts and ends, what it says, and its exit code. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { ConfigError } from "../../config.ts";
import { DirectoryInUseError } from "../directory-lock.ts";
import { MigrationError } from "../migrate.ts";
import { type Platform, startPlatform } from "../platform.ts";
import { parseSettings } from "../settings.ts";
import { createClient, DemoApiError } from "./client.ts";
import { runLong } from "./long.ts";
import { type Plan, planReplay } from "./plan.ts";
import { parseRecording, type Recording, RecordingError } from "./recording.ts";
import { type Replay, replay } from "./replay.ts";
import { createProgress, renderTable } from "./report.ts";
import { startToolServer } from "./tool-server.ts";

/** The recording that is replayed unless another is given. */
export const DEFAULT_RECORDING = join(import.meta.dirname, "../../../test/fixtures/demo/tau2-airline-task22.jsonl");

const USAGE = `Usage: npm run demo -- [--json] [FILE.jsonl]
       npm run demo -- --long [--window TOKENS] [--svg FILE] [--json] [FILE.jsonl]

Replays a recorded session through hango, turn by turn, over HTTP: the recorded answers come from a simulated Messages API,
the recorded tool results from a local tool server. Ends with what it cost.

  FILE.jsonl  another recording: a meta line, then one message a line
  --json      the figures as one line of JSON on standard output
  --long      replays a long session in a window so small that it is compacted several times, and shows its size turn by turn;
              without a file, a chain of recordings
  --window    the size of that window, in tokens; else it is chosen by the session's size
  --svg FILE  writes the chart to a file`;

/** Most differences that are shown. */
const MAX_SHOWN = 20;
/** Lines of the Worker's log that are shown when something broke. */
const LOG_LINES = 20;

export interface DemoOptions {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Takes the result. */
  readonly out: (text: string) => void;
  /** Takes what is said on the way. */
  readonly say: (text: string) => void;
  /** Whether `say` writes to a terminal. */
  readonly isTty: boolean;
  /** Ends the demo early. */
  readonly signal: AbortSignal;
  /** ms, monotonic. */
  readonly now: () => number;
  /** Told of a temporary directory that is made, for a process that ends without waiting. */
  readonly onTemporaryDirectory?: (path: string) => void;
}

type Undo = () => Promise<void>;

const readArguments = (args: readonly string[]) => {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: {
      json: { type: "boolean", default: false },
      long: { type: "boolean", default: false },
      window: { type: "string" },
      svg: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
    allowPositionals: true,
  });
  const { window, svg, long } = values;
  if (positionals.length > 1) throw new TypeError("one recording at a time");
  if (!long && (window !== undefined || svg !== undefined)) throw new TypeError("--window and --svg go with --long");
  if (window !== undefined && !/^[1-9][0-9]{3,8}$/.test(window))
    throw new TypeError("--window takes 1000 tokens or more");
  return { ...values, window: window === undefined ? undefined : Number(window), file: positionals[0] };
};

const readRecording = async (path: string): Promise<Recording> => {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    throw new RecordingError(`it cannot be read: ${error instanceof Error ? error.message : "unknown"}`);
  }
  return parseRecording(text);
};

/** Set for a real deployment perhaps: the recorded answers are the simulator's, and no other database is written to. */
const NOT_USED = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "DATABASE_URL"];

const demoEnvironment = (env: DemoOptions["env"], dataDir: string): DemoOptions["env"] => ({
  ...env,
  PORT: env.PORT || "0",
  HANGO_DATA_DIR: dataDir,
  HANGO_ALLOW_PRIVATE_URLS: "true",
  ...Object.fromEntries(NOT_USED.map((name) => [name, undefined])),
});

/** A data directory of the caller's is kept, one of the demo's own is not. */
const dataDirectory = async (options: DemoOptions, undos: Undo[]): Promise<string> => {
  const given = options.env.HANGO_DATA_DIR;
  if (given !== undefined && given !== "") return given;
  const made = await mkdtemp(join(tmpdir(), "hango-demo-"));
  options.onTemporaryDirectory?.(made);
  undos.push(() => rm(made, { recursive: true, force: true }));
  return made;
};

interface Started {
  readonly platform: Platform;
  readonly keepsSession: boolean;
}

const start = async (options: DemoOptions, undos: Undo[], onLog: (line: string) => void): Promise<Started> => {
  const dataDir = await dataDirectory(options, undos);
  const env = demoEnvironment(options.env, dataDir);
  const platform = await startPlatform({
    ...parseSettings(env),
    env,
    onLog,
    onProgress: (what) => options.say(`hango: ${what} ...\n`),
  });
  undos.push(platform.close);
  options.signal.throwIfAborted();
  return { platform, keepsSession: dataDir === options.env.HANGO_DATA_DIR };
};

const introduction = (recording: Recording, plan: Plan, env: DemoOptions["env"]): string => {
  const unused = NOT_USED.filter((name) => (env[name] ?? "") !== "");
  const calls = plan.turns.reduce((sum, turn) => sum + turn.script.length, 0);
  const results = plan.turns.reduce((sum, turn) => sum + turn.results.length, 0);
  return [
    `Replaying ${recording.id} (${recording.licence}, ${recording.copyright}): ${plan.turns.length} turns, ${calls} model calls, ${results} tool calls`,
    ...plan.notes.map((note) => `  note: ${note}`),
    ...unused.map((name) => `  note: ${name} is set, but not used`),
    "",
  ].join("\n");
};

const replayAll = async (options: DemoOptions, plan: Plan, { platform }: Started, undos: Undo[]): Promise<Replay> => {
  const { simulator } = platform;
  if (simulator === undefined) throw new Error("the demo needs the simulator");
  const tools = await startToolServer({
    calls: plan.turns.flatMap(({ results }) => results.map((one) => ({ ...one, name: plan.nameOf(one.name) }))),
    now: options.now,
  });
  undos.push(tools.close);
  const client = createClient({ url: platform.url, apiKey: platform.apiKey, signal: options.signal });
  const progress = createProgress({
    write: options.say,
    isTty: options.isTty,
    turns: plan.turns.length,
    now: options.now,
  });
  return replay({ plan, client, simulator, tools, progress });
};

/** @returns the exit code */
const conclude = (options: DemoOptions, { figures, differences, offloaded }: Replay, json: boolean): number => {
  if (json) options.out(`${JSON.stringify({ ...figures, differences: differences.length })}\n`);
  else options.out(`\n${renderTable(figures)}\n\n`);
  if (offloaded > 0)
    options.say(
      `${offloaded} large tool result${offloaded === 1 ? " is" : "s are"} kept in files, with the recorded text.\n`,
    );
  if (differences.length === 0) {
    options.say("The log equals the recording, tool inputs byte for byte.\n");
    return 0;
  }
  options.say(`The replay differs from the recording in ${differences.length} places:\n`);
  for (const line of differences.slice(0, MAX_SHOWN)) options.say(`- ${line}\n`);
  if (differences.length > MAX_SHOWN) options.say(`- and ${differences.length - MAX_SHOWN} more\n`);
  return 1;
};

/** What the person at the terminal can act on; undefined for a fault of ours. */
const knownProblem = (error: unknown, file: string): string | undefined => {
  if (error instanceof RecordingError) return `${file} cannot be replayed: ${error.message}`;
  const known = [ConfigError, DirectoryInUseError, MigrationError, DemoApiError];
  return error instanceof Error && known.some((kind) => error instanceof kind) ? error.message : undefined;
};

/**
 * Runs the demo to its end and ends everything it started.
 * @returns the exit code: 0 when the log equals the recording, 1 when it does not or something failed, 2 for wrong arguments, 130 when aborted
 */
export const runDemo = async (options: DemoOptions): Promise<number> => {
  let given: ReturnType<typeof readArguments>;
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
  // npm runs scripts in the project's directory; the person may be elsewhere.
  const placed = (file: string): string => resolve(options.env.INIT_CWD ?? "", file);
  const path = given.file === undefined ? DEFAULT_RECORDING : placed(given.file);
  const undos: Undo[] = [];
  const log: string[] = [];
  const onLog = (line: string): void => void (log.push(line) > LOG_LINES && log.shift());
  try {
    if (given.long) {
      return await runLong({
        path: given.file === undefined ? undefined : path,
        windowTokens: given.window,
        svg: given.svg === undefined ? undefined : placed(given.svg),
        json: given.json,
        env: options.env,
        out: options.out,
        say: options.say,
        signal: options.signal,
        now: options.now,
        onTemporaryDirectory: options.onTemporaryDirectory,
        onLog,
      });
    }
    const recording = await readRecording(path);
    const plan = planReplay(recording);
    options.say(introduction(recording, plan, options.env));
    const started = await start(options, undos, onLog);
    const result = await replayAll(options, plan, started, undos);
    if (started.keepsSession) options.say(`The session ${result.sessionId} stays in ${options.env.HANGO_DATA_DIR}.\n`);
    return conclude(options, result, given.json);
  } catch (error) {
    if (options.signal.aborted) return 130;
    const problem = knownProblem(error, path);
    options.say(`${problem ?? (error instanceof Error ? (error.stack ?? error.message) : String(error))}\n`);
    if (!(error instanceof RecordingError)) for (const line of log) options.say(`worker: ${line}\n`);
    return 1;
  } finally {
    for (const undo of undos.reverse()) await undo();
  }
};
