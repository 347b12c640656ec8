/** What a replay comes to: a line of figures for each session, totals, and whether all is well. */
import type { Driven } from "./drive.ts";
import type { ReplayedSession } from "./session.ts";

/** How often a session must have been compacted. */
export const LEAST_COMPACTIONS = 3;

export interface SessionFigures {
  readonly session: string;
  readonly messages: number;
  readonly turns: number;
  readonly window_tokens: number;
  /** Model calls: those of turns and those that wrote summaries. */
  readonly provider_calls: number;
  readonly summary_calls: number;
  readonly count_calls: number;
  /** Summaries that replaced messages. */
  readonly compactions: number;
  /** Changes of the view that were recorded. */
  readonly revisions: number;
  /** How often the beginning of the prompt changed between two calls. */
  readonly prefix_breaks: number;
  readonly rejected_requests: number;
  readonly failed_runs: number;
  /** Means of the request's size before and after a compaction, in tokens, estimated. */
  readonly tokens_before: number;
  readonly tokens_after: number;
  /** Tokens read from the cache, as a part of all input tokens; 0 to 1. */
  readonly cache_share: number;
  /** What is wrong, a line each. */
  readonly problems: readonly string[];
  /** What is to be known of it. */
  readonly notes: readonly string[];
}

const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : Math.round(values.reduce((sum, value) => sum + value, 0) / values.length);

export type Judged = Pick<ReplayedSession, "name" | "windowTokens" | "times" | "driven">;

/** Adds up what was seen of a session. */
export const figuresOf = ({ name, windowTokens, times, driven }: Judged): SessionFigures => {
  const { requests, turns, failures, differences, revisions } = driven;
  const changes = turns.flatMap((turn) => turn.changes);
  const compactions = changes.filter(({ generation }) => generation !== null);
  const few = compactions.length < LEAST_COMPACTIONS && failures.length === 0;
  return {
    session: name,
    messages: driven.messages,
    turns: turns.length,
    window_tokens: windowTokens,
    provider_calls: requests.turnCalls + requests.summaryCalls,
    summary_calls: requests.summaryCalls,
    count_calls: requests.countCalls,
    compactions: compactions.length,
    revisions,
    prefix_breaks: requests.prefixBreaks,
    rejected_requests: requests.rejected.length,
    failed_runs: failures.length,
    tokens_before: mean(compactions.map(({ tokensBefore }) => tokensBefore)),
    tokens_after: mean(compactions.map(({ tokensAfter }) => tokensAfter)),
    cache_share: driven.inputTokens === 0 ? 0 : driven.cacheReadTokens / driven.inputTokens,
    problems: [
      ...requests.rejected,
      ...failures,
      ...differences,
      ...(few ? [`compacted ${compactions.length} times instead of ${LEAST_COMPACTIONS} or more`] : []),
      // Between two calls without a recorded revision the earlier prompt is a prefix of the later one (V2).
      ...(requests.prefixBreaks > revisions
        ? [`the prompt's beginning changed ${requests.prefixBreaks} times with ${revisions} revisions`]
        : []),
    ],
    notes: times === 1 ? [] : [`replayed ${times} times in a row, since it is small`],
  };
};

/** All sessions as one. Sizes are means over the sessions, the cache's share is of all their tokens. */
export const totalsOf = (
  figures: readonly SessionFigures[],
  driven: readonly Pick<Driven, "inputTokens" | "cacheReadTokens">[],
): SessionFigures => {
  const sum = (read: (one: SessionFigures) => number): number => figures.reduce((total, one) => total + read(one), 0);
  const compacted = figures.filter(({ compactions }) => compactions > 0);
  const input = driven.reduce((total, one) => total + one.inputTokens, 0);
  const read = driven.reduce((total, one) => total + one.cacheReadTokens, 0);
  return {
    session: `${figures.length} sessions`,
    messages: sum((one) => one.messages),
    turns: sum((one) => one.turns),
    window_tokens: mean(figures.map((one) => one.window_tokens)),
    provider_calls: sum((one) => one.provider_calls),
    summary_calls: sum((one) => one.summary_calls),
    count_calls: sum((one) => one.count_calls),
    compactions: sum((one) => one.compactions),
    revisions: sum((one) => one.revisions),
    prefix_breaks: sum((one) => one.prefix_breaks),
    rejected_requests: sum((one) => one.rejected_requests),
    failed_runs: sum((one) => one.failed_runs),
    tokens_before: mean(compacted.map((one) => one.tokens_before)),
    tokens_after: mean(compacted.map((one) => one.tokens_after)),
    cache_share: input === 0 ? 0 : read / input,
    problems: figures.flatMap((one) => one.problems),
    notes: figures.flatMap((one) => one.notes),
  };
};

const grouped = (value: number): string => value.toLocaleString("en-US");

type Column = readonly [name: string, read: (one: SessionFigures) => string];

const COLUMNS: readonly Column[] = [
  ["session", (one) => one.session],
  ["messages", (one) => grouped(one.messages)],
  ["turns", (one) => grouped(one.turns)],
  ["window", (one) => grouped(one.window_tokens)],
  ["calls", (one) => grouped(one.provider_calls)],
  ["compactions", (one) => grouped(one.compactions)],
  ["revisions", (one) => grouped(one.revisions)],
  ["rejected", (one) => grouped(one.rejected_requests)],
  ["failed", (one) => grouped(one.failed_runs)],
  ["before", (one) => grouped(one.tokens_before)],
  ["after", (one) => grouped(one.tokens_after)],
  ["cache", (one) => `${(one.cache_share * 100).toFixed(1)} %`],
];

const FOOTNOTE = `\
window, before, after: tokens; before and after are means over the compactions, estimated. calls: model calls of turns and of
summaries. rejected: requests that the simulated Messages API refused. failed: runs. cache: share of the input that was read from it.`;

/** The table with which a replay ends. */
export const renderTable = (figures: readonly SessionFigures[], totals: SessionFigures): string => {
  const rows = [...figures, totals].map((one) => COLUMNS.map(([, read]) => read(one)));
  const head = COLUMNS.map(([name]) => name);
  const widths = head.map((name, at) => Math.max(name.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join("  ");
  const rule = "-".repeat(widths.reduce((sum, width) => sum + width + 2, -2));
  const body = rows.slice(0, -1).map(line);
  return [line(head), rule, ...body, rule, line(rows.at(-1) ?? []), FOOTNOTE].join("\n");
};
