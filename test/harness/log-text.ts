/** Marks by which messages are told apart wherever they turn up, and what a request shows of them. */
import { END_MARK } from "../../src/context/handoff.ts";

export const markOf = (name: string): string => `(mark ${name})`;

const MARK = /\(mark ([a-z0-9]+)\)/g;

export const marksIn = (text: string): readonly string[] => [...text.matchAll(MARK)].map(([, name]) => String(name));

export interface Block {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly tool_use_id?: string;
}

export interface Message {
  readonly role: string;
  readonly content: readonly Block[];
}

/** What a request shows, told apart. */
export interface Shown {
  readonly handoffs: number;
  /** Whether the handoff is the first message. */
  readonly handoffFirst: boolean;
  /** What stands behind the end mark of the handoff: a restated ask. */
  readonly restated: string;
  /** How often each mark, call and result stands outside of the handoff. */
  readonly counts: ReadonlyMap<string, number>;
  /** Texts of the user's messages, whole. */
  readonly userTexts: ReadonlySet<string>;
  /** Each message as text, cache marks left out. */
  readonly texts: readonly string[];
}

const isHandoff = ({ role, content }: Message): boolean =>
  role === "user" && content.some(({ type, text }) => type === "text" && text?.includes(END_MARK) === true);

const CACHE_MARK = /,"cache_control":\{[^}]*\}/g;

export const shownBy = (body: Readonly<Record<string, unknown>>): Shown => {
  const messages = body.messages as readonly Message[];
  const counts = new Map<string, number>();
  const userTexts = new Set<string>();
  const count = (name: string): void => {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  };
  let handoffs = 0;
  let restated = "";
  for (const message of messages) {
    if (isHandoff(message)) {
      handoffs += 1;
      const text = message.content.map((block) => block.text ?? "").join("\n");
      restated += text.slice(text.lastIndexOf(END_MARK) + END_MARK.length);
      continue;
    }
    for (const block of message.content) {
      if (block.type === "text" && block.text !== undefined) {
        for (const mark of marksIn(block.text)) count(mark);
        if (message.role === "user") userTexts.add(block.text);
      }
      if (block.type === "tool_use") count(`call ${block.id}`);
      if (block.type === "tool_result") count(`result ${block.tool_use_id}`);
    }
  }
  const first = messages[0];
  return {
    handoffs,
    handoffFirst: first !== undefined && isHandoff(first),
    restated,
    counts,
    userTexts,
    texts: messages.map((message) => JSON.stringify(message).replace(CACHE_MARK, "")),
  };
};

export interface Range {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

/** Reads a set of ranges as PostgreSQL writes it. */
export const rangesOf = (text: string): readonly Range[] =>
  [...text.matchAll(/\[(\d+),(\d+)\)/g)].map(([, from, to]) => ({ from: Number(from), to: Number(to) }));

export const holds = (ranges: readonly Range[], seq: number): boolean =>
  ranges.some(({ from, to }) => from <= seq && seq < to);
