/** Words that nobody else says, with a secret beside them, for every place where content can be. */
import type { Block, Recording } from "../../src/local/demo/recording.ts";
import { PLANTED } from "./secrets.ts";

/** Any planted word. */
export const MARKER = /qz(mark|MARK)\d+/i;

export interface Plants {
  /** All that was said so far. */
  readonly said: readonly string[];
  /** A word on its own, for places that take few characters. */
  word(): string;
  /** A sentence with a word, a secret and enough else to be known by any slice of it. */
  say(place: string): string;
  /** A recording with a sentence in every text, argument and result. */
  recording(recording: Recording): Recording;
}

type Value = Readonly<Record<string, unknown>>;

const blockOf = (value: Value): Block => ({ type: String(value.type), value, text: JSON.stringify(value) });

export const startPlanting = (): Plants => {
  const said: string[] = [];
  let serial = 0;
  const word = (): string => {
    serial += 1;
    return `qzmark${serial}`;
  };
  const say = (place: string): string => {
    const { text } = PLANTED[serial % PLANTED.length] ?? { text: "" };
    const sentence = `${word()} stands in the ${place}, the ${serial}th that was written down: ${text}`;
    said.push(sentence);
    return sentence;
  };
  const changed = (block: Block): Block => {
    const { type, value } = block;
    if (type === "text") return blockOf({ ...value, text: `${String(value.text)}\n${say("message")}` });
    if (type === "tool_use")
      return blockOf({ ...value, input: { ...(value.input as Value), note: say("tool's argument") } });
    if (type === "tool_result" && typeof value.content === "string")
      return blockOf({ ...value, content: `${value.content}\n${say("tool's result")}` });
    return block;
  };
  return {
    said,
    word,
    say,
    recording: (recording) => ({
      ...recording,
      system: `${recording.system}\n${say("system prompt")}`,
      messages: recording.messages.map(({ role, blocks }) => ({ role, blocks: blocks.map(changed) })),
    }),
  };
};
