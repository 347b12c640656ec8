/** What the person who runs the demo sees: a line for each turn, and the table at the end. */
import type { TurnEnd } from "./client.ts";
import type { Figures, Spread } from "./figures.ts";

const grouped = (value: number): string => value.toLocaleString("en-US");
const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;
const spread = ({ p50, p95 }: Spread): string => `${p50} / ${p95} ms`;

const FOOTNOTE = `\
(1) Time of a turn not spent waiting for the model: opening the turn and loading its log, building requests, tool calls, and writing
    each step to the database. The one round trip that closes the turn comes after the count.
(2) Without the time in which a call was at the demo's tool server; the way there and back still counts.`;

/** The table with which the demo ends. */
export const renderTable = (figures: Figures): string => {
  const rows: readonly (readonly [string, string])[] = [
    ["turns", grouped(figures.turns)],
    ["messages in the log", grouped(figures.messages)],
    ["provider calls", grouped(figures.provider_calls)],
    ["tool calls", grouped(figures.tool_calls)],
    ["input tokens", grouped(figures.input_tokens)],
    ["output tokens", grouped(figures.output_tokens)],
    ["cache share of the input", `${(figures.cache_share * 100).toFixed(1)} %`],
    [
      "database round trips",
      `${grouped(figures.db_round_trips)} (${figures.db_round_trips_per_turn.toFixed(1)} a turn)`,
    ],
    ["own overhead a turn, p50 / p95 (1)", spread(figures.overhead_ms)],
    ["the same without tools (2)", spread(figures.overhead_without_tools_ms)],
    ["own overhead a model call, p50 / p95", spread(figures.overhead_per_call_ms)],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const right = Math.max(...rows.map(([, value]) => value.length));
  const line = "-".repeat(width + right + 2);
  return [line, ...rows.map(([name, value]) => `${name.padEnd(width)}  ${value.padStart(right)}`), line, FOOTNOTE].join(
    "\n",
  );
};

export interface ProgressOptions {
  readonly write: (text: string) => void;
  /** Whether a line may be written over. */
  readonly isTty: boolean;
  readonly turns: number;
  /** ms, monotonic. */
  readonly now: () => number;
}

export interface Progress {
  readonly begin: (turn: number) => void;
  /** The model has answered. */
  readonly answered: () => void;
  readonly end: (result: TurnEnd) => void;
  /** Leaves the line under way, so that something else can be said. */
  readonly stop: () => void;
}

/** A line for each turn. On a terminal the line of the turn under way counts up. */
export const createProgress = ({ write, isTty, turns, now }: ProgressOptions): Progress => {
  let turn = 0;
  let calls = 0;
  let startedMs = 0;
  let open = false;
  const head = (): string =>
    `turn ${String(turn).padStart(String(turns).length)}/${turns}  ${seconds(now() - startedMs).padStart(7)}  ${String(calls).padStart(3)} ${calls === 1 ? "call " : "calls"}`;
  const live = (): void => {
    if (!isTty) return;
    write(`\r\x1b[2K${head()}`);
    open = true;
  };
  return {
    begin: (number) => {
      turn = number;
      calls = 0;
      startedMs = now();
      live();
    },
    answered: () => {
      calls += 1;
      live();
    },
    end: ({ steps, usage }) => {
      calls = steps;
      const input = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
      write(`${isTty ? "\r\x1b[2K" : ""}${head()}  ${grouped(input)} tokens in, ${grouped(usage.output_tokens)} out\n`);
      open = false;
    },
    stop: () => {
      if (open) write("\n");
      open = false;
    },
  };
};
