/** Builds logs row by row: `log().user("...").tools("a", "b").answered().assistant("...").rows`. */
import { type MessageId, type RunId, type Seq, seq } from "../../src/protocol/ids.ts";
import type { LogRow, Origin } from "../../src/protocol/messages.ts";

export interface LogOptions {
  /** As if every row had been imported. */
  readonly imported?: boolean;
  /** The seq of the first row; 1 unless given. */
  readonly from?: number;
  /** Tokens of a row; a third of its characters unless given. */
  readonly tokensOf?: (content: string) => number;
}

export interface ResultOf {
  readonly id: string;
  readonly text?: string;
  readonly isError?: boolean;
  readonly blocks?: readonly unknown[];
}

export interface LogBuilder {
  readonly rows: readonly LogRow[];
  /** Calls of the newest answer that no row has answered. */
  readonly open: readonly string[];
  user(text: string): LogBuilder;
  event(text: string): LogBuilder;
  injected(text: string): LogBuilder;
  assistant(text: string): LogBuilder;
  thinking(thought: string, text: string): LogBuilder;
  /** An answer with these calls, each of `read_file`, open until `answered`. */
  tools(...ids: readonly string[]): LogBuilder;
  /** Answers the open calls in one row, or the first `count` of them. */
  answered(text?: string, count?: number): LogBuilder;
  results(...results: readonly ResultOf[]): LogBuilder;
  /** `rounds` times an answer with one call, and its result. */
  loop(rounds: number, prefix?: string, text?: string): LogBuilder;
  /** `count` times a question and its answer. */
  chat(count: number, question?: (nth: number) => string, answer?: (nth: number) => string): LogBuilder;
  /** Any row: blocks as values, or the content as text. */
  row(origin: Origin, content: readonly unknown[] | string, calls?: readonly string[]): LogBuilder;
  /** Leaves a gap of so many seqs. */
  skip(count: number): LogBuilder;
  at(index: number): Seq;
}

const textBlock = (text: string) => ({ type: "text", text });

export const toolUse = (id: string) => ({
  type: "tool_use",
  id,
  name: "read_file",
  input: { file_path: `/src/${id}.ts` },
});

export const toolResult = ({ id, text = "ok", isError, blocks }: ResultOf) => ({
  type: "tool_result",
  tool_use_id: id,
  content: blocks ?? text,
  ...(isError === true ? { is_error: true } : {}),
});

export const log = (options: LogOptions = {}): LogBuilder => {
  const rows: LogRow[] = [];
  let next = options.from ?? 1;
  let open: readonly string[] = [];
  const tokensOf = options.tokensOf ?? ((content: string) => Math.ceil(content.length / 3));

  const builder: LogBuilder = {
    rows,
    get open() {
      return open;
    },
    row: (origin, value, calls = []) => {
      const content = typeof value === "string" ? value : JSON.stringify(value);
      const at = seq(next++);
      rows.push({
        id: `msg_${at}` as MessageId,
        seq: at,
        role: origin === "assistant" ? "assistant" : "user",
        origin,
        content,
        media: [],
        calls,
        tokens: tokensOf(content),
        bytes: content.length,
        runId: options.imported === true ? null : ("run_1" as RunId),
      });
      open = calls;
      return builder;
    },
    user: (text) => builder.row("user", [textBlock(text)]),
    event: (text) => builder.row("event", [textBlock(text)]),
    injected: (text) => builder.row("injected", [textBlock(text)]),
    assistant: (text) => builder.row("assistant", [textBlock(text)]),
    thinking: (thought, text) =>
      builder.row("assistant", [{ type: "thinking", thinking: thought, signature: "sig" }, textBlock(text)]),
    tools: (...ids) => builder.row("assistant", ids.map(toolUse), ids),
    answered: (text, count) => {
      const left = open;
      const answered = left.slice(0, count ?? left.length);
      builder.results(...answered.map((id) => ({ id, ...(text === undefined ? {} : { text }) })));
      open = left.slice(answered.length);
      return builder;
    },
    results: (...results) => builder.row("tool", results.map(toolResult)),
    loop: (rounds, prefix = "c", text) => {
      for (let nth = 0; nth < rounds; nth++) builder.tools(`${prefix}${nth}`).answered(text);
      return builder;
    },
    chat: (count, question = (nth) => `q ${nth}`, answer = (nth) => `r ${nth}`) => {
      for (let nth = 0; nth < count; nth++) builder.user(question(nth)).assistant(answer(nth));
      return builder;
    },
    skip: (count) => {
      next += count;
      return builder;
    },
    at: (index) => {
      const row = rows.at(index);
      if (row === undefined) throw new RangeError(`no row ${index}`);
      return row.seq;
    },
  };
  return builder;
};
