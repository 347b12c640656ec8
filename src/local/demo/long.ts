/** `npm run demo -- --long`: a session that outgrows a small window several times, its context size turn by turn, and what it came to. */
import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { chain, replayable } from "../replay/chain.ts";
import { type Source, sampleFolders } from "../replay/collect.ts";
import type { TurnSeen } from "../replay/drive.ts";
import { startReplayPlatform } from "../replay/platform.ts";
import { figuresOf, type SessionFigures } from "../replay/result.ts";
import { DEFAULT_FAMILY, planSession, type ReplayedSession, replaySession } from "../replay/session.ts";
import { type ChartInput, svgChart, terminalChart } from "./chart.ts";
import { parseRecording, type Recording } from "./recording.ts";

/** Recordings of the sample, chained as often as it takes to fill the window several times. */
const CHAIN = ["tau2-airline-task22", "tau-airline-t9-r2", "memorybank-cn-user1"];
const TIMES = 3;
const CHAIN_WINDOW_TOKENS = 28_000;

const grouped = (value: number): string => value.toLocaleString("en-US");

export interface LongOptions {
  /** A recording instead of the chain. */
  readonly path: string | undefined;
  readonly windowTokens: number | undefined;
  /** Where the chart is written as SVG. */
  readonly svg: string | undefined;
  readonly json: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: (text: string) => void;
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
  readonly now: () => number;
  readonly onTemporaryDirectory?: ((path: string) => void) | undefined;
  readonly onLog: (line: string) => void;
}

const read = async (path: string): Promise<Recording> => replayable(parseRecording(await readFile(path, "utf8")));

const inSample = async (name: string): Promise<Recording> => {
  for (const folder of sampleFolders) {
    const found = await read(join(folder, `${name}.jsonl`)).catch(() => undefined);
    if (found !== undefined) return found;
  }
  throw new Error(`the sample has no ${name}`);
};

const sourceOf = async (path: string | undefined): Promise<Source> => {
  if (path !== undefined) return { name: basename(path, ".jsonl"), recording: await read(path) };
  const parts = await Promise.all(CHAIN.map(inSample));
  const name = `${CHAIN.length} recordings in turn, ${TIMES} times`;
  return { name, recording: chain(name, Array.from({ length: TIMES }, () => parts).flat()) };
};

/** A line for each turn: its size, and what was done about it. */
export const turnLine = ({ turn, calls, contextTokens, changes }: TurnSeen): string => {
  const done = changes.map(({ steps, tokensBefore, tokensAfter, evicted }) => {
    const what = steps.join(" + ");
    const covered = evicted === 0 ? "" : `, ${evicted} messages covered`;
    return `  ${what}: ${grouped(tokensBefore)} to ${grouped(tokensAfter)} tokens${covered}`;
  });
  const head = `turn ${String(turn).padStart(3)}  ${String(calls).padStart(2)} ${calls === 1 ? "call " : "calls"}  ${grouped(contextTokens).padStart(7)} tokens`;
  return `${head}${done.join(";")}\n`;
};

/** What the chart shows of a replay. */
const chartOf = ({ name, windowTokens, driven: { triggerTokens, turns } }: ReplayedSession): ChartInput => ({
  title: `Context size per turn, in tokens: ${name}`,
  windowTokens,
  triggerTokens,
  turns: turns.map(({ turn, contextTokens, changes }) => ({
    turn,
    contextTokens,
    compactions: changes
      .filter(({ generation }) => generation !== null)
      .map(({ tokensBefore, tokensAfter }) => ({ before: tokensBefore, after: tokensAfter })),
  })),
});

/** The table with which the long demo ends. */
export const longTable = (figures: SessionFigures): string => {
  const rows: readonly (readonly [string, string])[] = [
    ["window, in tokens", grouped(figures.window_tokens)],
    ["turns", grouped(figures.turns)],
    ["messages in the log", grouped(figures.messages)],
    ["model calls of turns", grouped(figures.provider_calls - figures.summary_calls)],
    ["model calls for summaries", grouped(figures.summary_calls)],
    ["compactions", grouped(figures.compactions)],
    ["changes of the view in all", grouped(figures.revisions)],
    ["tokens before a compaction, mean", grouped(figures.tokens_before)],
    ["tokens after it, mean", grouped(figures.tokens_after)],
    ["requests refused", grouped(figures.rejected_requests)],
    ["runs failed", grouped(figures.failed_runs)],
    ["cache share of the input", `${(figures.cache_share * 100).toFixed(1)} %`],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const right = Math.max(...rows.map(([, value]) => value.length));
  const line = "-".repeat(width + right + 2);
  return [line, ...rows.map(([name, value]) => `${name.padEnd(width)}  ${value.padStart(right)}`), line].join("\n");
};

const conclude = async (options: LongOptions, session: ReplayedSession): Promise<number> => {
  const figures = figuresOf(session);
  const chart = chartOf(session);
  if (options.json) {
    options.out(`${JSON.stringify({ ...figures, per_turn: chart.turns })}\n`);
  } else {
    options.out(`\n${terminalChart(chart)}\n\n${longTable(figures)}\n\n`);
  }
  if (options.svg !== undefined) {
    await writeFile(options.svg, svgChart(chart));
    options.say(`The chart is in ${options.svg}.\n`);
  }
  for (const problem of [...figures.notes, ...figures.problems]) options.say(`- ${problem}\n`);
  if (figures.problems.length === 0) options.say("The log equals the recording; nothing of it was changed.\n");
  return figures.problems.length === 0 ? 0 : 1;
};

/**
 * Runs the long demo on a platform of its own.
 * @returns the exit code: 0 when nothing was refused, nothing failed, and the log equals the recording
 * @throws RecordingError for what cannot be replayed
 */
export const runLong = async (options: LongOptions): Promise<number> => {
  const source = await sourceOf(options.path);
  const planned = planSession(
    source,
    DEFAULT_FAMILY,
    options.windowTokens ?? (options.path === undefined ? CHAIN_WINDOW_TOKENS : undefined),
  );
  const platform = await startReplayPlatform({
    env: options.env,
    onLog: options.onLog,
    onProgress: (what) => options.say(`hango: ${what} ...\n`),
    signal: options.signal,
    onTemporaryDirectory: options.onTemporaryDirectory,
  });
  try {
    options.signal.throwIfAborted();
    options.say(
      `Replaying ${source.name}: ${planned.plan.turns.length} turns in a window of ${grouped(planned.windowTokens)} tokens\n`,
    );
    const session = await replaySession({
      planned,
      platform,
      number: 0,
      now: options.now,
      onTurn: (turn) => options.say(turnLine(turn)),
    });
    return await conclude(options, session);
  } finally {
    await platform.close();
  }
};
